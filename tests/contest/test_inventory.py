"""Everything in the paper has a test: inventory.toml says which, and is checked here."""

from __future__ import annotations

import ast
import os
import re
import tomllib
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from recprism.cmb.settings import POLICY_SETTINGS, PRESETS
from recprism.cmb.tables import paper_table

ROOT = Path(__file__).parents[2]
INVENTORY: dict[str, dict[str, Any]] = tomllib.loads((Path(__file__).parent / "inventory.toml").read_text("utf-8"))
ENTRIES = {
    f"{kind} {name}": entry for kind, named in INVENTORY.items() if kind != "row" for name, entry in named.items()
} | {f"row {table} {name}": entry for table, named in INVENTORY["row"].items() for name, entry in named.items()}
ENVIRONMENT = re.compile(r"\\begin\{(equation|align|table|figure|algorithm)(\*?)\}(.*?)\\end\{\1\2\}", re.DOTALL)
COMMENT = re.compile(r"(?<!\\)%.*")
LABEL = re.compile(r"\\label\{(.+?)\}")


@cache
def functions_of(file: Path) -> frozenset[str]:
    """Tests of a file, as pytest calls them: a function, or a class and its method."""
    found = []
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            found.append(node.name)
        elif isinstance(node, ast.ClassDef):
            found += [f"{node.name}::{it.name}" for it in node.body if isinstance(it, ast.FunctionDef)]
    return frozenset(found)


def problem_of(test: str) -> str | None:
    """What is wrong with the name of a test, if anything."""
    place, _, function = test.partition("::")
    if not (ROOT / place).is_file():
        return f"{place} does not exist"
    is_test = function.rpartition("::")[2].startswith("test_")
    return None if is_test and function in functions_of(ROOT / place) else f"{place} has no test {function!r}"


@pytest.mark.parametrize("name", ENTRIES)
def test_an_entry_names_tests_that_exist(name: str) -> None:
    tests = ENTRIES[name].get("tests")
    assert tests, "no test runs it"
    assert [problem for test in tests if (problem := problem_of(test))] == []


def test_a_test_that_does_not_exist_is_found() -> None:
    own = "tests/contest/test_inventory.py"
    assert problem_of(f"{own}::test_a_test_that_does_not_exist_is_found") is None
    assert problem_of("tests/contest/test_gone.py::test_it") == "tests/contest/test_gone.py does not exist"
    assert problem_of(f"{own}::test_gone") == f"{own} has no test 'test_gone'"
    assert problem_of(f"{own}::problem_of") == f"{own} has no test 'problem_of'"
    assert problem_of(own) == f"{own} has no test ''"


def test_every_row_of_the_result_tables_has_an_entry() -> None:
    theirs: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for table, method, dataset in paper_table().select("table", "method", "dataset").iter_rows():
        theirs[table, method].add(dataset)
    ours = {
        (table, method): set(entry["datasets"])
        for table, named in INVENTORY["row"].items()
        if table != "explanations"  # a table of words, not of numbers
        for method, entry in named.items()
    }
    assert ours == theirs


def test_every_policy_and_preset_has_an_entry() -> None:
    assert INVENTORY["policy"].keys() == POLICY_SETTINGS.keys()
    assert INVENTORY["preset"].keys() == PRESETS.keys()


# -- the source of the paper -------------------------------------------------------------------------------------------


def contents(source: str) -> dict[str, set[str]]:
    """Kind -> the labels in the source; an equation without a label is called by its number."""
    found: dict[str, set[str]] = {kind: set() for kind in ("equation", "algorithm", "table", "figure")}
    numbered = unnumbered = 0
    for kind, _, body in ENVIRONMENT.findall(COMMENT.sub("", source)):
        labels = LABEL.findall(body)
        if kind not in ("equation", "align"):
            assert labels, f"a {kind} without a label: {body[:80]}"
            found[kind].update(labels)
        elif kind == "equation" and r"\nonumber" in body:
            unnumbered += 1
            found["equation"].add(f"equation without a number {unnumbered}")
        else:
            numbered += 1  # of an align, all lines but one have no number
            found["equation"].update(labels or [f"equation {numbered}"])
    return found


def test_labels_and_numbers_are_read_from_the_source() -> None:
    source = r"""
        \section{A}\label{sec:a} % \begin{figure}\label{gone}\end{figure}
        \begin{equation} x \end{equation}
        \begin{equation} y \nonumber \end{equation}
        \begin{align} a \nonumber\\ b \label{two} \end{align}
        \begin{equation} z \end{equation}
        \begin{table*} 5\% \label{t} \end{table*}
        \begin{figure} \subcaptionbox{A\label{f1}} \label{f} \end{figure}
        \begin{algorithm} \label{a} \end{algorithm}
    """
    assert contents(source) == {
        "equation": {"equation 1", "equation without a number 1", "two", "equation 3"},
        "algorithm": {"a"},
        "table": {"t"},
        "figure": {"f", "f1"},
    }


def test_everything_in_the_source_of_the_paper_has_an_entry() -> None:
    for kind, labels in contents(paper_source()).items():
        assert INVENTORY[kind].keys() == labels


def paper_source() -> str:
    """The source next to the checkout, or next to the data sets; it is not part of the repository."""
    shared = [ROOT.parent / "shared", Path(os.environ.get("RECPRISM_DATA") or "nowhere").parent]
    files = [folder / "paper" / "cmb.tex" for folder in shared]
    file = next((file for file in files if file.is_file()), None)
    if file is None:
        pytest.skip("the source of the paper is not here: its labels are not compared")
    return file.read_text(encoding="utf-8")
