"""Two processes on one run: the second is told who is there, a killed one leaves nothing locked, readers read."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import polars as pl
import pytest
from permissions import rights
from torch import Tensor

from recprism.errors import BusyError, RecprismError
from recprism.metrics import METRICS, Context, Lists, Metric, register
from recprism.report import write_report
from recprism.runs.lock import LOCK, held
from recprism.runs.run import Run

HOLD = """
import sys
from recprism.runs.lock import held
with held(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.read()
"""
TAKE = """
import sys
from pathlib import Path
from recprism.runs.lock import LOCK, held
with held(sys.argv[1]):
    print((Path(sys.argv[1]) / LOCK).read_text(), end="")
"""


@contextmanager
def holder(run: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the run's lock until the block ends."""
    command = [sys.executable, "-c", HOLD, str(run)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_second_writer_is_told_who_is_there_and_readers_read(
    trained_run: Callable[..., Run], call: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    run = trained_run()
    before = {path.name: path.read_bytes() for path in run.path.iterdir()}
    with holder(run.path) as other:
        for words in (
            ("search", run.path, "--set", "iterations=2"),
            ("diversify", run.path, "--budget", "0.1"),
            ("train", "-o", run.path, "--overwrite"),
            ("resume", run.path),
        ):
            assert call(*words) == 1
            said = capsys.readouterr().err
            assert f"process {other.pid}" in said, words
            assert "wait until it has ended" in said
        assert call("evaluate", run.path, "--bootstrap", 20, "-m", "subtopic_coverage@5", "--json") == 0
        said = capsys.readouterr()
        assert '"metric": "subtopic_coverage"' in said.out, "figures are shown"
        assert f"not kept: {run.path}: process {other.pid} is writing" in said.err
        assert call("recommend", run.path, "--users", run.split().user_ids[0]) == 0
        assert call("recommend", run.path) == 1, "a file in the run is all that it makes"
        assert f"process {other.pid}" in capsys.readouterr().err
        after = {path.name: path.read_bytes() for path in run.path.iterdir() if path.name != LOCK}
        assert after == before, "the refused have changed nothing"
        other.kill()
        other.wait()
        assert (run.path / LOCK).exists(), "the killed one could not clean up"
        assert call("search", run.path, "--set", "iterations=2", "-m", "subtopic_coverage@5") == 0
    assert not (run.path / LOCK).exists()


def test_a_thread_may_hold_it_twice_and_no_other_thread_may(tmp_path: Path) -> None:
    refused = []

    def other() -> None:
        try:
            with held(tmp_path):
                pass
        except RecprismError as error:
            refused.append(str(error))

    with held(tmp_path), held(tmp_path):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert len(refused) == 1
    with held(tmp_path):
        other_folder = tmp_path / "another"
        with held(other_folder):
            assert (other_folder / LOCK).exists()


def test_a_page_of_two_states_is_not_written(searched_run: Callable[..., Run]) -> None:
    run = searched_run(iterations=2)

    def meanwhile(what: str, done: int, total: int) -> None:
        certificate = run.path / "certificate.json"
        if not certificate.exists():
            certificate.write_text('{"certificate": {"sentence": "of another moment"}}', encoding="utf-8")

    with pytest.raises(RecprismError, match="another process changed this run"):
        write_report(run, draws=0, on_step=meanwhile)
    assert not run.report_path.exists()


@pytest.fixture
def meddling(trained_run: Callable[..., Run]) -> Iterator[Run]:
    """A run whose vectors are replaced while the metric "meddling" is measured on it."""
    run = trained_run()
    other = trained_run(epochs=1).path / "factors.safetensors"

    def measure(lists: Lists, context: Context) -> Tensor:
        shutil.copy(other, run.path / other.name)
        return lists.lengths

    register(Metric("meddling", measure))
    yield run
    del METRICS["meddling"]


def test_figures_of_vectors_that_are_gone_are_not_kept(
    meddling: Run, call: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("evaluate", meddling.path, "--bootstrap", 20, "-m", "meddling@5") == 1
    assert "another process changed this run while it was read" in capsys.readouterr().err
    assert not (meddling.path / "metrics.parquet").exists()
    assert not (meddling.path / "CARD.md").exists()


def test_what_is_no_longer_so_is_refused_before_it_is_saved(searched_run: Callable[..., Run]) -> None:
    run = searched_run(iterations=2)
    with pytest.raises(RecprismError, match="another process changed this run"), run.unchanged() as saving:
        (run.path / "delta.safetensors").touch()
        with saving():
            run.save_recommendations(pl.DataFrame({"user_id": [1]}))
    assert not (run.path / "recommendations.parquet").exists()


def test_a_lock_names_our_commands_and_nobody_elses_arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with holder(tmp_path) as other:
        assert (tmp_path / LOCK).read_text(encoding="utf-8") == f"process {other.pid}\n"
    for program in ("recprism", "/bin/recprism", "/lib/recprism/__main__.py"):
        monkeypatch.setattr(sys, "argv", [program, "diversify", "runs/x"])
        with held(tmp_path):
            assert (tmp_path / LOCK).read_text(encoding="utf-8").endswith(" (recprism diversify)\n")


def test_a_lock_that_somebody_else_left_blocks_nobody(tmp_path: Path) -> None:
    """Of another user, who was killed: it may be read, not written."""
    without_rights = rights()
    if without_rights is None:
        pytest.skip("permissions do not count here")
    command = [*without_rights, sys.executable, "-c", TAKE, str(tmp_path)]
    (tmp_path / LOCK).write_text("process 1 (recprism train), killed", encoding="utf-8")
    (tmp_path / LOCK).chmod(0o444)
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stdout.startswith("process ") and "killed" not in done.stdout
    assert not (tmp_path / LOCK).exists()
    with holder(tmp_path) as other:
        (tmp_path / LOCK).chmod(0o444)
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        assert f"{BusyError.__name__}: {tmp_path}: process {other.pid} is writing" in done.stderr
