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

from recprism.common.bound import hash_of
from recprism.common.files import atomic_path, is_left_over, readable, require_rights, storable, write_text
from recprism.errors import BusyError, StorageError
from recprism.runs.lock import LOCK, held

BEGAN, COMMIT, EVENTS, MERGED = ".began.json", ".commit.json", "events.jsonl", ".events.jsonl"
CHECKPOINT = ".checkpoint.safetensors"
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
        try:
            stage.mkdir()
            for name in () if empty else file_names(run):
                if name != EVENTS:  # the stage holds new events only
                    (stage / name).parent.mkdir(parents=True, exist_ok=True)
                    _link(run / name, stage / name)
            hashes = None if empty else {name: hash_of(stage / name) for name in _staged(stage)}
            write_text(stage / BEGAN, json.dumps(hashes))
        except BaseException:
            discard(stage)
            raise


def commit(run: Path, stage: Path) -> None:
    """Move the files that changed in the stage into the run, and delete those that were deleted there.

    Checkpoints stay in the stage until everything has moved: work that ended and was not moved is not lost.
    """
    began = json.loads((stage / BEGAN).read_text(encoding="utf-8"))
    names = [name for name in _staged(stage) if not name.endswith(CHECKPOINT)]
    if began is None:
        moved, gone = names, [name for name in file_names(run) if name not in names]
    else:
        moved = [name for name in names if name != EVENTS and began.get(name) != hash_of(stage / name)]
        gone = [name for name in began if name not in names]
    targets = {name: name for name in moved}
    if began is not None and (stage / EVENTS).exists():
        _join(stage / MERGED, run / EVENTS, stage / EVENTS)
        targets[MERGED] = EVENTS
    write_text(stage / COMMIT, json.dumps({"gone": gone, "moved": targets}))
    _roll_forward(run, stage)
    for other in stages(run) if began is None else ():
        discard(other)  # made for the vectors that were replaced


def is_committing(stage: Path) -> bool:
    """Whether files of the stage are being moved; only :func:`complete` may end that."""
    return (stage / COMMIT).exists()


def discard(stage: Path) -> None:
    """Delete a stage; the note goes last, so that a process that is killed here is completed like one that moves."""
    if stage.exists():
        for name in list(file_names(stage)):
            if name != COMMIT:
                (stage / name).unlink(missing_ok=True)
        (stage / COMMIT).unlink(missing_ok=True)
        shutil.rmtree(stage, ignore_errors=True)


def complete(run: Path) -> None:
    """Complete the moves of a process that was killed while it moved files; without one, nothing happens."""
    if not any(is_committing(stage) for stage in stages(run)):
        return
    with suppress(BusyError, StorageError), held(run):  # a busy process is moving them now
        for stage in stages(run):
            if is_committing(stage):
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
    return (name for name in file_names(stage) if name not in (BEGAN, COMMIT, MERGED))


def _roll_forward(run: Path, stage: Path) -> None:
    with readable(stage / COMMIT, "damaged", f"delete {stage}"), storable(run):
        note = json.loads((stage / COMMIT).read_text(encoding="utf-8"))
        for name in note["gone"]:
            (run / name).unlink(missing_ok=True)
        for name, target in note["moved"].items():
            (run / target).parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileNotFoundError):  # it was moved before the process was killed
                (stage / name).replace(run / target)
        for folder in (*run.glob("results/*/"), run / "results"):
            with suppress(OSError):  # it is not empty
                folder.rmdir()
        discard(stage)


def _link(file: Path, new: Path) -> None:
    try:
        os.link(file, new)
    except OSError:  # a file system without hard links
        shutil.copy2(file, new)


def _join(path: Path, earlier: Path, later: Path) -> None:
    """Write the lines of two logs into one; the last line of the earlier one may have been cut short."""
    first = earlier.read_bytes() if earlier.exists() else b""
    with atomic_path(path) as temporary:
        temporary.write_bytes(first + (b"" if first.endswith(b"\n") or not first else b"\n") + later.read_bytes())
