"""Changes several files of a run at once.

New files are made in a *stage*, a folder inside the run that starts as a copy of it (hard links) or empty. At the end a
note says which files move and which go; then they do. A process that is killed before the note has changed nothing. A
process that is killed after it is completed by the next command that opens the run.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from recprism.data._files import atomic_path, is_left_over, readable, require_rights, storable, write_text
from recprism.errors import BusyError, StorageError
from recprism.runs._lock import LOCK, held

BEGAN, COMMIT, EVENTS = ".began.json", ".commit.json", "events.jsonl"
RESULT, TRAINING, SEARCH = ".result", ".training", ".search"
"""The stages of one run, by the work that they hold; the search of a named result is in ``.search.NAME``."""


def begin(run: Path, stage: Path, *, empty: bool) -> None:
    """Make a stage; what was in it is deleted.

    Args:
        run: The run directory; the caller holds its lock.
        stage: A folder directly inside it.
        empty: Whether the stage replaces the whole run; else it starts as a copy of the run.
    """
    with storable(stage):
        require_rights(run / EVENTS, write=True)  # a move would replace a file that may not be written
        tidy(run)
        discard(stage)
        stage.mkdir()
        for name in () if empty else file_names(run):
            if name != EVENTS:  # the stage holds new events only
                (stage / name).parent.mkdir(parents=True, exist_ok=True)
                _link(run / name, stage / name)
        write_text(stage / BEGAN, json.dumps(None if empty else {name: _stat(stage / name) for name in _staged(stage)}))


def commit(run: Path, stage: Path) -> None:
    """Move the files that changed in the stage into the run, and delete those that were deleted there."""
    began = json.loads((stage / BEGAN).read_text(encoding="utf-8"))
    names = list(_staged(stage))
    if began is None:
        moved, gone = names, [name for name in file_names(run) if name not in names]
    else:
        moved = [name for name in names if name == EVENTS or began.get(name) != _stat(stage / name)]
        gone = [name for name in began if name not in names]
        if EVENTS in moved and (run / EVENTS).exists():
            _put_before(stage / EVENTS, (run / EVENTS).read_bytes())
    write_text(stage / COMMIT, json.dumps({"gone": gone, "moved": moved}))
    _roll_forward(run, stage)
    for other in stages(run) if began is None else ():
        discard(other)  # made for the vectors that were replaced


def discard(stage: Path) -> None:
    """Delete a stage; the note goes last, so that a process that is killed here is completed like one that moves."""
    if stage.exists():
        for name in list(file_names(stage)):
            if name != COMMIT:
                (stage / name).unlink()
        (stage / COMMIT).unlink(missing_ok=True)
        shutil.rmtree(stage)


def complete(run: Path) -> None:
    """Complete the moves of a process that was killed while it moved files; without one, nothing happens."""
    if not any((stage / COMMIT).exists() for stage in stages(run)):
        return
    with suppress(BusyError, StorageError), held(run):  # a busy process is moving them now
        for stage in stages(run):
            if (stage / COMMIT).exists():
                _roll_forward(run, stage)


def tidy(run: Path) -> None:
    """Delete temporary files of processes that were killed while they wrote; the caller holds the lock."""
    for file in run.iterdir():
        if is_left_over(file):
            file.unlink()


def stages(run: Path) -> list[Path]:
    """Return the stages in a run."""
    found = [run / RESULT, run / TRAINING, run / SEARCH, *sorted(run.glob(f"{SEARCH}.*"))]
    return [stage for stage in found if stage.is_dir()]


def file_names(folder: Path) -> Iterator[str]:
    """Yield the files of a run or a stage, relative to it, without the lock and files that were cut short."""
    for file in sorted((*folder.glob("*"), *folder.glob("results/*/*"))):
        if file.is_file() and file.name != LOCK and not is_left_over(file):
            yield file.relative_to(folder).as_posix()


def _staged(stage: Path) -> Iterator[str]:
    return (name for name in file_names(stage) if name not in (BEGAN, COMMIT))


def _roll_forward(run: Path, stage: Path) -> None:
    with readable(stage / COMMIT, "damaged", f"delete {stage}"), storable(run):
        note = json.loads((stage / COMMIT).read_text(encoding="utf-8"))
        for name in note["gone"]:
            (run / name).unlink(missing_ok=True)
        for name in note["moved"]:
            if (stage / name).exists():  # else it was moved before the process was killed
                (run / name).parent.mkdir(parents=True, exist_ok=True)
                (stage / name).replace(run / name)
        for folder in (*run.glob("results/*/"), run / "results"):
            with suppress(OSError):  # it is not empty
                folder.rmdir()
        discard(stage)


def _link(file: Path, new: Path) -> None:
    try:
        os.link(file, new)
    except OSError:  # a file system without hard links
        shutil.copy2(file, new)


def _stat(file: Path) -> list[int]:
    found = file.stat()
    return [found.st_ino, found.st_mtime_ns, found.st_size]


def _put_before(path: Path, earlier: bytes) -> None:
    """Put earlier lines, the last of which may have been cut short, before those of a file."""
    lines = path.read_bytes()
    with atomic_path(path) as temporary:
        temporary.write_bytes(earlier + (b"" if earlier.endswith(b"\n") or not earlier else b"\n") + lines)
