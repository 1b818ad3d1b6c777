"""A full disk and missing permissions: one sentence, exit code 1, nothing half-written."""

from __future__ import annotations

import errno
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from permissions import rights
from safetensors.numpy import save_file

from recprism.budget.question import BudgetQuestion
from recprism.common.files import atomic_folder, atomic_path, readable, storable
from recprism.errors import InputError, StorageError
from recprism.report.collect import happened
from recprism.runs.parts.questions import note_question
from recprism.runs.run import Run
from recprism.runs.status import run_status

WRITERS = {
    "text": lambda path: path.write_text("x" * 100_000, encoding="utf-8"),
    "safetensors": lambda path: save_file({"a": np.zeros(50_000, np.float32)}, path),
    "parquet": lambda path: pl.DataFrame({"a": np.random.default_rng(0).random(50_000)}).write_parquet(path),
    "csv": lambda path: pl.DataFrame({"a": np.random.default_rng(0).random(50_000)}).write_csv(path),
    "numpy": lambda path: np.savez(path.open("wb"), a=np.zeros(50_000)),
}


@pytest.fixture
def small_files() -> Iterator[None]:
    """No file may become larger than 8 kB here: the system answers as a full disk does."""
    before, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, handler)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")
@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.usefixtures("small_files")
def test_every_writer_that_runs_out_of_space_says_so(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"a.{kind}"
    with (
        pytest.raises(StorageError, match=rf"a\.{kind}: no space left on the disk; free some"),
        atomic_path(path) as it,
    ):
        WRITERS[kind](it)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(StorageError, match="no space left"), atomic_folder(tmp_path / "folder") as folder:
        WRITERS[kind](folder / "a")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")
@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_rights_are_those_of_any_new_file_and_the_umask_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mask: int
) -> None:
    def touched(_: int) -> int:
        raise AssertionError("the umask is that of all threads")

    before = os.umask(mask)
    try:
        with monkeypatch.context() as patched:
            patched.setattr(os, "umask", touched)
            for kind, write in WRITERS.items():
                with atomic_path(tmp_path / kind) as it:
                    write(it)
                assert (tmp_path / kind).stat().st_mode & 0o777 == 0o666 & ~mask, kind
            with atomic_folder(tmp_path / "folder") as folder:
                (folder / "a").touch()
            assert (tmp_path / "folder").stat().st_mode & 0o777 == 0o777 & ~mask
    finally:
        os.umask(before)
    assert not list(tmp_path.glob(".*"))


def test_other_errors_pass(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), atomic_path(tmp_path / "a"):
        raise ZeroDivisionError
    with pytest.raises(FileNotFoundError), storable(tmp_path):
        raise FileNotFoundError(errno.ENOENT, "missing")


def test_a_line_that_was_cut_short_does_not_take_the_next_one_with_it(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.event("one")
    with (tmp_path / "events.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"time": 1, "event": "tw')
    run.event("three")
    run.event("four")
    assert [event["event"] for event in run.events()] == ["one", "three", "four"]


@pytest.mark.parametrize(
    "line",
    [
        '{"event": "two"}',
        '{"time": "yesterday", "event": "two"}',
        '{"time": NaN, "event": "two"}',
        '{"time": 1e300, "event": "two"}',
        '{"time": -1e18, "event": "two"}',
        '{"time": null, "event": "two"}',
        '{"time": 1}',
        '{"time": 1, "event": ["two"]}',
        '{"time": 1, "event": "epoch"}',
        '{"time": 1, "event": "epoch", "done": "some", "total": 5}',
        '{"time": 1, "event": "step", "done": 1, "total": [5]}',
        '{"time": 1, "event": "labels asked", "part": "validation"}',
        '{"time": 1, "event": "labels asked", "part": "validation", "questions": 3, "confidence": "high"}',
    ],
)
def test_a_line_that_was_edited_stops_no_command(
    line: str, trained_run: Callable[..., Run], call: Callable[..., int]
) -> None:
    run = trained_run()
    run.event("trained")
    with (run.path / "events.jsonl").open("a", encoding="utf-8") as file:
        file.write(line + "\n")
    assert [event["event"] for event in run.events(without=["labels asked"])] == ["trained"]
    assert call("runs", run.path.parent) == 0
    assert run_status(run).doing == "nothing"
    assert happened(run)[0][1] == "trained"
    assert note_question(run, run.problem(), BudgetQuestion.of("ilad", {}, part="validation")) is None, (
        "nothing valid was asked before"
    )


def test_forbidden_is_not_damaged(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="secret: permission denied"), readable(tmp_path, "damaged", "make it anew"):
        raise PermissionError(errno.EACCES, "denied", "secret")
    with pytest.raises(InputError, match="damaged"), readable(tmp_path, "damaged", "make it anew"):
        raise ValueError("no header")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody with fewer rights")
def test_somebody_without_rights_is_told(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from recprism.common.files import write_text\n"
        "from recprism.errors import StorageError\n"
        "import os; os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "try: write_text(Path(sys.argv[1]) / 'a', 'x')\n"
        "except StorageError as error: print(error)\n"
    )
    tmp_path.chmod(0o755)
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, capture_output=True, text=True)
    assert "a: permission denied; change the permissions" in done.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("factors.safetensors", ("evaluate", "--bootstrap", "0")),
        ("delta.safetensors", ("evaluate", "--bootstrap", "0")),
        ("events.jsonl", ("search", "--set", "iterations=2", "--overwrite")),
    ],
)
def test_a_file_without_rights_is_named_and_nothing_is_lost(
    searched_run: Callable[..., Run], name: str, words: tuple[str, ...]
) -> None:
    """permissions.py has every file and more commands."""
    before = rights()
    if before is None:
        pytest.skip("permissions do not count for this user, and setpriv is not to be had")
    run = searched_run(iterations=2)
    run.event("made")
    kept = (run.path / "delta.safetensors").read_bytes()
    (run.path / name).chmod(0o444 if name == "events.jsonl" else 0)
    command = [*before, sys.executable, "-m", "recprism", words[0], str(run.path), *words[1:]]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    (run.path / name).chmod(0o644)
    assert done.returncode == 1
    assert f"{run.path / name}: permission denied; change the permissions" in done.stderr
    assert "Traceback" not in done.stderr
    assert (run.path / "delta.safetensors").read_bytes() == kept
