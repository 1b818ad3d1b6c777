"""The list of mutants fits the source. tools/mutants.py runs them; CONTRIBUTING.md says when."""

from __future__ import annotations

import runpy
from pathlib import Path

ROOT = Path(__file__).parents[1]
TOOL = runpy.run_path(str(ROOT / "tools/mutants.py"))


def test_every_mutant_applies_and_its_tests_exist() -> None:
    mutants = TOOL["read_mutants"]()
    assert len(mutants) == 100
    assert len({(it.file, it.old) for it in mutants}) == 100
    TOOL["require_fitting"](mutants, ROOT)
