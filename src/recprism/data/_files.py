"""Writing files so that a reader never sees half of one, and saying in one sentence why a file cannot be had."""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from recprism.errors import InputError, RecprismError, StorageError

FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
FORBIDDEN = {errno.EACCES, errno.EPERM, errno.EROFS}


@contextmanager
def atomic_path(path: str | Path) -> Iterator[Path]:
    """A temporary path beside ``path`` that takes its name when the block ends well, and vanishes when it does not."""
    path = Path(path)
    with storable(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = _made_beside(path, _make_file)
        rights = temporary.stat().st_mode
        try:
            yield temporary
            _sync(temporary)
            if temporary.stat().st_mode != rights:  # safetensors puts a file of its own in the place, for its owner
                temporary.chmod(rights & 0o777)
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


@contextmanager
def atomic_folder(path: str | Path) -> Iterator[Path]:
    """A temporary folder beside ``path`` that takes its name when the block ends well, and vanishes when it does not.

    A folder that holds something is refused: nothing is written over.
    """
    path = Path(path)
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise InputError(f"{path}: is not empty; name a new folder")
    with storable(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = _made_beside(path, Path.mkdir)
        try:
            yield temporary
            temporary.replace(path)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise


@contextmanager
def storable(where: str | Path) -> Iterator[None]:
    """A full disk or missing permissions inside become one sentence; every other error passes.

    Libraries written in Rust have errors of their own, with the number of the system's error in their text.
    """
    try:
        yield
    except RecprismError:
        raise
    except Exception as problem:
        number = _system_error(problem)
        if number in FULL | FORBIDDEN | {errno.EIO}:
            raise StorageError(refusal(where, number)) from None
        raise


def require_rights(path: Path, *, write: bool = False) -> None:
    """Refuse a file that is there and may not be read (or written); some readers take it for missing."""
    if path.exists() and not os.access(path, os.W_OK if write else os.R_OK):
        raise StorageError(refusal(path, errno.EACCES))


def refusal(where: str | Path, number: int | None) -> str:
    """What a system error with this number means for ``where``, and what to do."""
    if number in FULL:
        return (
            f"{where}: no space left on the disk; free some or name a folder on another disk, then give the command "
            "again (with --resume, where it has that)"
        )
    if number in FORBIDDEN:
        return f"{where}: permission denied; change the permissions of the file or its folder, or name another place"
    said = os.strerror(number) if number else "the system refused"
    return f"{where}: cannot be read or written ({said.lower()}); look at the disk or name another place"


def _system_error(problem: Exception) -> int | None:
    """The number of the system's error behind any exception, None where there is none."""
    if isinstance(problem, OSError) and problem.errno is not None:
        return problem.errno
    text = str(problem)
    named = re.search(r"os error (\d+)", text)
    if named:
        return int(named.group(1))
    full = "No space left" in text or re.search(r"\d+ requested and \d+ written", text)
    return errno.ENOSPC if full else None


@contextmanager
def readable(where: str | Path, what: str, advice: str) -> Iterator[None]:
    """Whatever goes wrong inside while a file is read becomes one sentence.

    Other people's readers fail in a hundred ways on damaged files, and those written in Rust with a panic, which is no
    ``Exception``. Errors of ours pass. The lines that a panic prints are not hidden: they could only be by turning away
    the process's stderr, and where Rust ends the process they are all that is said.
    """
    try:
        yield
    except RecprismError:
        raise
    except FileNotFoundError as missing:
        raise InputError(f"{missing.filename or where}: no such file; {advice}") from None
    except PermissionError as forbidden:
        raise StorageError(refusal(forbidden.filename or where, errno.EACCES)) from None
    except BaseException as broken:
        if not isinstance(broken, Exception) and type(broken).__name__ != "PanicException":
            raise
        said = (str(broken).splitlines() or [""])[0][:200] or type(broken).__name__
        if isinstance(broken, MemoryError):  # a damaged header asks for any size, and a whole file for its own
            what = f"{what}, or larger than the memory that is free"
        raise InputError(f"{where}: {what} ({said}); {advice}") from None


def write_text(path: str | Path, text: str) -> None:
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def is_left_over(path: Path) -> bool:
    """Whether this is a temporary file of a process that was killed while it wrote: nothing that anybody reads."""
    return re.fullmatch(r"\..+\.[0-9a-f]{8}\.part", path.name) is not None


def _made_beside(path: Path, make: Callable[[Path], None]) -> Path:
    """A new file or folder of a name that nobody has, with the rights that any new one gets.

    ``tempfile`` gives rights to the owner alone, and to widen them later one would have to ask for the umask, which
    can be asked for only by changing it, for all threads.
    """
    while True:
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
        try:
            make(temporary)
        except FileExistsError:
            continue
        return temporary


def _make_file(path: Path) -> None:
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_CLOEXEC", 0), 0o666))
