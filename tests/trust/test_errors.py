"""docs/errors.md says what is really said; tests/trust/errors.py has the cases and writes the page."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

spec = importlib.util.spec_from_file_location("errors_table", Path(__file__).with_name("errors.py"))
assert spec is not None
assert spec.loader is not None
errors = importlib.util.module_from_spec(spec)
sys.modules["errors_table"] = errors
spec.loader.exec_module(errors)


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> list[object]:
    folder = tmp_path_factory.mktemp("bad")
    errors.folder_of_files(folder)
    return list(errors.table(folder))


def test_the_page_is_what_is_said(rows: list[object]) -> None:
    assert errors.page(rows) == errors.PAGE.read_text(encoding="utf-8"), "run `make errors` and read what changed"


def test_every_message_is_a_sentence_with_a_code(rows: list[object]) -> None:
    assert len(rows) >= 100
    for row in rows:
        assert row.code in (None, 2), row  # type: ignore[attr-defined]
        assert len(row.message) > 12, row  # type: ignore[attr-defined]
        assert "Traceback" not in row.message, row  # type: ignore[attr-defined]


def test_every_command_is_in_the_table(rows: list[object]) -> None:
    from recprism.cli import app

    tried = {row.shown.split()[1] for row in rows if row.code is not None}  # type: ignore[attr-defined]
    commands = {command.name for command in app.registered_commands} - {"demo"}  # it takes no input
    assert commands <= tried
