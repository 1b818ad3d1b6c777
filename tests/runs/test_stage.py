"""Several files of a run change at once: whatever ends a process, the run is the old one or becomes the new one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from recprism.cmb.jobs.search import begin_search, interrupted_search, search
from recprism.errors import InputError, StorageError
from recprism.runs.config import DiversifyConfig, RunConfig
from recprism.runs.listing import list_runs
from recprism.runs.parts.stage import RESULT, SEARCH, TRAINING, stages
from recprism.runs.run import Run
from recprism.runs.status import run_status


class Killed(BaseException):
    """Stands for a signal: nothing in the package handles it."""


def contents(folder: Path) -> dict[str, bytes]:
    """All files of a run by their names; stages and the lock are not part of it."""
    files = (file for file in folder.rglob("*") if file.is_file() and file.name != ".lock")
    names = {file.relative_to(folder).as_posix(): file.read_bytes() for file in files}
    return {name: text for name, text in names.items() if not name.startswith((RESULT, SEARCH, TRAINING))}


@pytest.fixture
def run(tmp_path: Path) -> Run:
    run = Run.create(tmp_path / "run", RunConfig())
    for name in ("a.txt", "b.txt", "c.txt"):
        (run.path / name).write_text(f"old {name}", encoding="utf-8")
    run.event("before")
    return run


def changed(run: Run, work: str = RESULT) -> Run:
    """A copy of the run with one file replaced, one deleted and one added, and an event."""
    staged = run.staged(work)
    for name in ("a.txt", "new.txt"):
        (staged.folder / name).unlink(missing_ok=True)  # as a rename would: the old bytes belong to the run
        (staged.folder / name).write_text(f"new {name}", encoding="utf-8")
    (staged.folder / "b.txt").unlink(missing_ok=True)
    staged.event("after")
    return staged


def test_a_copy_changes_nothing_before_it_is_committed(run: Run) -> None:
    before = contents(run.path)
    staged = changed(run)
    assert contents(run.path) == before
    assert [event["event"] for event in run.events()] == ["before"]
    assert [event["event"] for event in staged.events()] == ["before", "after"]
    staged.commit()
    now = contents(run.path)
    assert set(now) == {*before, "new.txt"} - {"b.txt"}
    assert (now["a.txt"], now["c.txt"], now["config.toml"]) == (b"new a.txt", b"old c.txt", before["config.toml"])
    assert [event["event"] for event in run.events()] == ["before", "after"]
    assert not stages(run.path)


def test_a_copy_that_is_discarded_leaves_the_run_byte_for_byte(run: Run) -> None:
    before = contents(run.path)
    with pytest.raises(InputError), changed(run).discarded_on_failure():
        raise InputError("refused")
    assert contents(run.path) == before
    assert not stages(run.path)


@pytest.mark.parametrize("failure", [KeyboardInterrupt, PermissionError])
def test_a_failure_among_the_moves_loses_nothing(
    run: Run, monkeypatch: pytest.MonkeyPatch, failure: type[BaseException]
) -> None:
    """The copy holds what has not moved, so it must not be discarded."""
    staged, real, moves = changed(run), Path.replace, []

    def fail(path: Path, target: Path) -> Path:
        if path.parent == staged.folder and not path.name.endswith(".part"):
            moves.append(path.name)
            if len(moves) == 2:
                raise failure
        return real(path, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", fail)
        with pytest.raises((failure, StorageError)), staged.discarded_on_failure():
            staged.commit()
    assert len(moves) == 2
    found = contents(Run.open(run.path).path)
    assert (found["a.txt"], found["new.txt"]) == (b"new a.txt", b"new new.txt")
    assert "b.txt" not in found
    assert [event["event"] for event in run.events()] == ["before", "after"]


@pytest.mark.parametrize("work", [RESULT, TRAINING])
def test_a_process_that_is_killed_while_it_commits_is_completed_by_the_next_that_opens_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, work: str
) -> None:
    """Before every operation on the file system in turn."""

    def made(name: str) -> Run:
        run = Run.create(tmp_path / name, RunConfig())
        (run.path / "a.txt").write_text("old", encoding="utf-8")
        (run.path / "b.txt").write_text("old", encoding="utf-8")
        (run.path / "events.jsonl").write_text('{"event": "before"}\n', encoding="utf-8")
        staged = run.staged(work)
        for file in ("config.toml", "a.txt", "new.txt"):
            (staged.folder / file).unlink(missing_ok=True)
            (staged.folder / file).write_bytes((run.path / "config.toml").read_bytes() + f"# new {file}\n".encode())
        (staged.folder / "b.txt").unlink(missing_ok=True)
        (staged.folder / "events.jsonl").write_text('{"event": "after"}\n', encoding="utf-8")
        return staged

    done: list[str] = []

    def counted(real: Callable[..., object], last: int) -> Callable[..., object]:
        def operate(path: Path, *args: object, **more: object) -> object:
            if path.name != ".lock":  # the system frees the lock of a killed process
                if len(done) == last:
                    raise Killed
                done.append(path.name)
            return real(path, *args, **more)

        return operate

    whole = made("whole")
    before = contents(whole.path)
    whole.commit()
    after = contents(whole.path)
    assert after != before
    seen = set()
    for number in range(1000):
        staged = made(f"run{number}")
        done.clear()
        with monkeypatch.context() as patched:
            for name in ("replace", "unlink", "rmdir"):
                real = getattr(Path, name)

                patched.setattr(Path, name, counted(real, number))
            try:
                staged.commit()
                break
            except Killed:
                pass
        Run.open(staged.path)
        found = contents(staged.path)
        assert found in (before, after), f"in between after {number} operations"
        seen.add(found == after)
    assert seen == {False, True}
    assert number > 8


def test_the_copy_of_an_interrupted_search_is_found_again(trained_run: Callable[..., Run]) -> None:
    run = trained_run()
    with pytest.raises(InputError, match="nothing was interrupted in this run"):
        interrupted_search(run)
    before = contents(run.path)

    def stop(_step: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        search(begin_search(run, DiversifyConfig(settings={"iterations": 4})), stop)
    assert contents(run.path) == before
    assert run_status(run).done == 1
    assert [row.state for row in list_runs(run.path)] == ["searching"]
    with pytest.raises(InputError, match="has an unfinished search for a result; continue it with"):
        begin_search(run, DiversifyConfig(settings={"iterations": 4}))
    search(interrupted_search(run))
    assert run.is_diversified()
    assert [row.state for row in list_runs(run.path)] == ["diversified"]
    assert not stages(run.path)


def test_a_search_does_not_continue_on_another_model(trained_run: Callable[..., Run]) -> None:
    run, other = trained_run(2, 8), trained_run(3, 16)

    def stop(_step: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        search(begin_search(run, DiversifyConfig(settings={"iterations": 4})), stop)
    run.save_factors(other.factors())
    with pytest.raises(InputError, match="its model has changed since the search began"):
        interrupted_search(run)


def test_a_search_that_fails_at_once_leaves_no_copy(trained_run: Callable[..., Run]) -> None:
    run = trained_run()
    before = contents(run.path)
    with pytest.raises(InputError):
        search(begin_search(run, DiversifyConfig(settings={"iterations": 4, "k": 100_000})))
    assert contents(run.path) == before
    assert not stages(run.path)


def test_files_that_were_linked_are_never_written_in_place(trained_run: Callable[..., Run]) -> None:
    """The copy shares its files with the run: a writer that opened one would change the run."""
    run = trained_run()
    search(begin_search(run, DiversifyConfig(settings={"iterations": 2})))
    before = contents(run.path)
    staged = begin_search(run, DiversifyConfig(settings={"iterations": 3}), overwrite=True)

    def compare(_step: object) -> None:
        assert contents(run.path) == before

    search(staged, compare)
    assert contents(run.path) != before
