"""`make test` and `make test-rest` are the whole suite, each test in one of them; markers are explained."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
(REST,) = re.findall(r"^REST +:= (.+)$", MAKEFILE, re.MULTILINE)
IN_BOTH = {"gpu"}
"""Markers that do not decide which of the two commands runs a test."""


def declared() -> set[str]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return {re.split(r"[(:]", line)[0] for line in settings["tool"]["pytest"]["ini_options"]["markers"]}


def test_the_two_commands_are_complements() -> None:
    chosen = dict(re.findall(r"^(test(?:-rest)?): .*\n\t@.*\$\(PYTEST\) -m \"(.+?)\"\)$", MAKEFILE, re.MULTILINE))
    assert chosen == {"test": "not ($(REST))", "test-rest": "$(REST)"}


def test_every_marker_is_declared_chosen_and_explained() -> None:
    contributing = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    explained = set(re.findall(r"^\| `(\w+)` \|", contributing, re.MULTILINE))
    assert set(REST.split(" or ")) == declared() - IN_BOTH
    assert explained == declared()


@pytest.mark.slow
def test_folders_and_fixtures_give_markers() -> None:
    places = ["browser", "faults/test_lock.py", "test_readme.py", "models/test_paper_row.py", "test_notebooks.py"]
    command = [sys.executable, "-m", "pytest", "-q", "--collect-only", "-p", "no:cacheprovider", "-m", f"not ({REST})"]
    done = subprocess.run(
        [*command, *(f"tests/{place}" for place in places)], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert done.returncode == pytest.ExitCode.NO_TESTS_COLLECTED, done.stdout
    assert re.search(r"\d+ deselected", done.stdout)
