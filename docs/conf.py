"""How Sphinx builds these pages: `make docs`, into docs/_build."""

from __future__ import annotations

import importlib.metadata
import os
import sys
from pathlib import Path

os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"  # the reference imports the ranker, which imports Haystack
sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "recprism"
author = "The recprism authors"
project_copyright = "the recprism authors; MIT licence"
release = importlib.metadata.version("recprism")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "from_the_code", "repository_links"]
TEMPLATES = ["case_study/text.md", "frontier/text.md", "paper/text.md"]  # of pages that tools/*_docs.py write
exclude_patterns = ["_build", "_ext", *TEMPLATES]

html_theme = "furo"
html_title = f"recprism {release}"
html_show_sourcelink = False

myst_heading_anchors = 3
highlight_language = "text"  # a fence without a language is not code

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True  # Attributes: of a class are a list in its description
napoleon_use_rtype = False  # the signature shows the type
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 100

# A name that exists but has no page is plain text (from_the_code); these exist only in the source of an annotation.
IN_ANNOTATIONS = ("Kind", "Start", "pl.DataFrame", "types.Annotated", "dict[str", "collections.abc.Mapping[str")
IN_ANNOTATIONS += (
    "collections.abc.Mapping[int",
    "ArrayLike",
    "BudgetQuestion",
    "ColumnName",
    "GovernorPlan",
    "Mapping[Any",
    "Mapping[str",
    "Outcome",
    "Path",
    "RunResults",  # Result.run, for type checkers alone
    "Say",
    "Share",
    "TableReader",
)
nitpick_ignore = [("py:class", name) for name in IN_ANNOTATIONS]
nitpick_ignore_regex = [
    ("py:obj", r"typing\.(Literal|Annotated)\[.*"),  # the words of a choice, which are names of nothing
    ("py:class", r"collections\.abc\.Mapping\[~typing\.Any"),  # half of a name: Sphinx splits an alias at its comma
]
