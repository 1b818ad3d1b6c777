"""Docstrings here are plain text: ``name: what it is`` on a line of its own, more of it indented below.

reStructuredText would take that for running text, so such lines become a definition list before Sphinx reads them; and
stars, bars and trailing underscores mean themselves, as in ``**settings``, ``|delta|`` and ``delta_``. Docstrings with
Google's sections (``Args:``, ``Returns:``) are read by napoleon.
"""

from __future__ import annotations

import re
from typing import Any

from sphinx.ext.napoleon import Config, GoogleDocstring

GOOGLE = re.compile(r"(Args|Returns|Raises|Attributes):$")
ENTRY = re.compile(r"^\w+(?:, \w+)*: \S")
SEVERAL = re.compile(r"; (?=\w+(?:, \w+)*: )")  # "before: one thing; after: another" on one line
LITERAL = re.compile(r"(``.*?``)")
MARKUP = re.compile(r"[*|]|(?<=\w)_(?!\w)")


def as_restructured_text(lines: list[str]) -> list[str]:
    """The same docstring with every ``name: text`` at its left edge as an entry of a definition list."""
    made: list[str] = []
    inside = False  # an entry, whose further lines are indented
    session = False  # a doctest, up to the next empty line
    for line in lines:
        session = bool(line.strip()) and (session or line.lstrip().startswith(">>>"))
        if not session and ENTRY.match(line) and (inside or not made or not made[-1].strip()):
            made += ["", *_entries(line)]
            inside = True
        elif inside and line.strip() and not line.startswith(" ") and made[-1].strip():
            made.append(f"    {_plain(line)}")
        else:
            inside = inside and (line.startswith("    ") or not line.strip())
            made.append(line if session else _plain(line))
    return made


def _entries(line: str) -> list[str]:
    made: list[str] = []
    for entry in SEVERAL.split(line):
        names, _, text = entry.partition(": ")
        made += [", ".join(f"``{name}``" for name in names.split(", ")), f"    {_plain(text)}", ""]
    return made[:-1]


def _plain(text: str) -> str:
    parts = LITERAL.split(text)
    return "".join(part if part.startswith("``") else MARKUP.sub(r"\\\g<0>", part) for part in parts)


def _process(app: Any, what: str, name: str, documented: Any, options: Any, lines: list[str]) -> None:
    if any(GOOGLE.match(line) for line in lines):
        lines[:] = GoogleDocstring(lines, Config(), app, what, name, documented, options).lines()
    else:
        lines[:] = as_restructured_text(lines)


def setup(app: Any) -> dict[str, bool]:
    app.connect("autodoc-process-docstring", _process)
    return {"parallel_read_safe": True}
