"""One writer at a time in a run directory. Readers never wait; they get an error if a process wrote meanwhile.

The kernel holds the lock (flock) and frees it when the process ends, in whatever way: no lock becomes stale. The file
``.lock`` names the process that holds it; a file that a killed process left behind locks nothing.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import wraps
from pathlib import Path
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from recprism.common.files import storable
from recprism.errors import BusyError, RecprismError

try:
    import fcntl
except ModuleNotFoundError:  # Windows: there, two writers are not kept apart
    fcntl = None  # type: ignore[assignment]


class _InFolder(Protocol):
    path: Path


P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R", bound=_InFolder)
LOCK = ".lock"
_mine: set[tuple[Path, int]] = set()
"""The locks that threads of this process hold: (run, thread)."""


@contextmanager
def held(run: str | Path) -> Iterator[None]:
    """Hold the lock of a run within the block; its folder is made if necessary.

    Blocks of one thread may be nested.

    Raises:
        BusyError: If another process or thread holds the lock.
    """
    folder = Path(run).resolve()
    mine = (folder, threading.get_ident())
    if fcntl is None or mine in _mine:
        yield
        return
    handle = _taken(folder)
    _mine.add(mine)
    try:
        yield
    finally:
        _mine.discard(mine)
        (folder / LOCK).unlink(missing_ok=True)  # before the lock is freed, so that others see it is gone
        os.close(handle)


def writing(work: Callable[Concatenate[R, P], T]) -> Callable[Concatenate[R, P], T]:
    """Decorate a function whose first argument is a run: it holds the lock from beginning to end."""

    @wraps(work)
    def alone(run: R, /, *args: P.args, **kwargs: P.kwargs) -> T:
        with held(run.path):
            return work(run, *args, **kwargs)

    return alone


@contextmanager
def unchanged(run: Path, files: Sequence[Path]) -> Iterator[Callable[[], AbstractContextManager[None]]]:
    """Raise an error at the end of the block if any of the files was written meanwhile.

    Args:
        run: The run directory.
        files: The files to watch.

    Yields:
        A function: ``with saving(): ...`` holds the lock to save what was made from the files, and is refused if they
        have changed.
    """
    before = _state(files)

    def require() -> None:
        if _state(files) != before:
            raise RecprismError(
                f"{run}: another process changed this run while it was read; run the command again when it has ended"
            )

    @contextmanager
    def saving() -> Iterator[None]:
        with held(run):
            require()
            yield

    yield saving
    require()


def _state(files: Sequence[Path]) -> list[tuple[Path, int, int]]:
    return [(it, it.stat().st_mtime_ns, it.stat().st_size) for it in files if it.exists()]


def _taken(folder: Path) -> int:
    """Return a handle of the lock file, locked."""
    path = folder / LOCK
    while True:
        with storable(path):
            folder.mkdir(parents=True, exist_ok=True)
            handle, is_ours = _opened(path)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(handle, 200).decode("utf-8", "replace").strip() or "another process"
            os.close(handle)
            raise BusyError(
                f"{folder}: {holder} is writing into this run; wait until it has ended (or end it), or name another run"
            ) from None
        except OSError:
            return handle  # a file system without locks: working is better than refusing
        if _is_still(handle, path):
            if is_ours:
                _sign(handle)
                return handle
            with storable(path):
                path.unlink()
        os.close(handle)  # the file is gone: its holder removed it before we locked it, or we did, to make our own


def _opened(path: Path) -> tuple[int, bool]:
    """Return a handle of the lock file, made if necessary, and whether we may write into it.

    In a shared folder, the file of another user may be read-only: enough to find out whether the lock is held.
    """
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666), True
    except PermissionError:
        if not path.exists():
            raise
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC), False


def _is_still(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


def _sign(handle: int) -> None:
    """Write which process holds the lock; a full disk must not prevent the lock itself."""
    try:
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"process {os.getpid()}{_command()}\n".encode(), 0)
    except OSError:
        return


def _command() -> str:
    """Return which recprism command this is; the arguments of other programs may be secret."""
    program = Path(sys.argv[0]) if len(sys.argv) > 1 else Path()
    ours = program.stem == "recprism" or (program.name == "__main__.py" and program.parent.name == "recprism")
    return f" (recprism {sys.argv[1]})" if ours else ""
