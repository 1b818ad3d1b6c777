"""One writer at a time in a run directory; readers never wait, and are told where somebody wrote meanwhile.

The lock is the kernel's (flock): it goes with the process that holds it, however that ends, so there is no stale one.
The file ``.lock`` tells who holds it; one that a killed process left behind locks nothing.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from recprism.data._files import storable
from recprism.errors import BusyError, RecprismError

if TYPE_CHECKING:
    from recprism.runs.run import Run

try:
    import fcntl
except ModuleNotFoundError:  # Windows: two writers are not kept apart there
    fcntl = None  # type: ignore[assignment]

P = ParamSpec("P")
T = TypeVar("T")
LOCK = ".lock"
_mine: set[tuple[Path, int]] = set()
"""What threads of this process hold: (run, thread)."""


@contextmanager
def held(run: str | Path) -> Iterator[None]:
    """Within the block no other process or thread writes into ``run``, which is made if need be.

    Blocks of one thread may stand inside each other.
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
        (folder / LOCK).unlink(missing_ok=True)  # still ours: whoever opened it meanwhile sees that it is gone
        os.close(handle)


def writing(work: Callable[Concatenate[Run, P], T]) -> Callable[Concatenate[Run, P], T]:
    """Work on a run, given first, that holds its lock from beginning to end."""

    @wraps(work)
    def alone(run: Run, /, *args: P.args, **kwargs: P.kwargs) -> T:
        with held(run.path):
            return work(run, *args, **kwargs)

    return alone


@contextmanager
def unchanged(run: Path, files: Sequence[Path]) -> Iterator[Callable[[], AbstractContextManager[None]]]:
    """An error at the end of the block if any of the files was written meanwhile.

    Yields how to save what was made from them: ``with saving(): ...`` holds the lock, and is refused where they are no
    longer what was read.
    """
    before = _state(files)

    def require() -> None:
        if _state(files) != before:
            raise RecprismError(
                f"{run}: another process changed this run while it was read; give the command again once it ended"
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
    """A handle of the lock file, locked."""
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
            return handle  # a file system without locks: better to work than to refuse
        if _is_still(handle, path):
            if is_ours:
                _sign(handle)
                return handle
            with storable(path):
                path.unlink()
        os.close(handle)  # it is gone: its holder removed it before we locked it, or we did, to make our own


def _opened(path: Path) -> tuple[int, bool]:
    """A handle of the lock file, made if need be, and whether we may write who holds it.

    Somebody else's may be there in a shared folder, to be read alone: enough to find out whether it is held.
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
    """Say who holds it; a full disk must not keep anybody from the lock itself."""
    try:
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"process {os.getpid()}{_command()}\n".encode(), 0)
    except OSError:
        return


def _command() -> str:
    """Which command of ours it is; nothing of other programs, whose arguments may be anybody's secret."""
    program = Path(sys.argv[0]) if len(sys.argv) > 1 else Path()
    ours = program.stem == "recprism" or (program.name == "__main__.py" and program.parent.name == "recprism")
    return f" (recprism {sys.argv[1]})" if ours else ""
