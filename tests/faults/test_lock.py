"""Two processes on one run: the second is told who is there, a killed one leaves nothing locked, readers read."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from recprism.errors import RecprismError
from recprism.report import write_report
from recprism.study.lock import LOCK, held
from recprism.study.run import Run

HOLD = """
import sys
from recprism.study.lock import held
with held(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.read()
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
            ("diversify", run.path, "--set", "iterations=2"),
            ("diversify", run.path, "--budget", "0.1"),
            ("train", "-o", run.path, "--overwrite"),
            ("train", "--resume", run.path),
        ):
            assert call(*words) == 1
            said = capsys.readouterr().err
            assert f"process {other.pid}" in said, words
            assert "wait until it has ended" in said
        assert call("evaluate", run.path, "--bootstrap", 0, "-m", "sc@5", "--json") == 0
        after = {path.name: path.read_bytes() for path in run.path.iterdir() if path.name != LOCK}
        assert {name: after[name] for name in before} == before, "the refused have changed nothing"
        other.kill()
        other.wait()
        assert (run.path / LOCK).exists(), "the killed one could not clean up"
        assert call("diversify", run.path, "--set", "iterations=2", "-m", "sc@5") == 0
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
