"""The examples in docstrings give what they show."""

from __future__ import annotations

import doctest
from importlib import import_module
from pathlib import Path

import pytest

import recprism

SOURCE = Path(recprism.__file__).parent
WITH_EXAMPLES = [file for file in sorted(SOURCE.rglob("*.py")) if ">>> " in file.read_text(encoding="utf-8")]


@pytest.mark.parametrize("file", WITH_EXAMPLES, ids=lambda file: str(file.relative_to(SOURCE)))
def test_examples_of_a_module(file: Path) -> None:
    parts = file.relative_to(SOURCE.parent).with_suffix("").parts
    module = import_module(".".join(part for part in parts if part != "__init__"))
    found = doctest.testmod(module)
    assert found.attempted
    assert not found.failed
