"""Atomic writing of files, and error messages for files that cannot be read or written."""

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
    """Yield a temporary path next to ``path``; it is renamed to ``path`` if the block succeeds, else removed."""
    path = Path(path)
    with storable(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = _make_next_to(path, _make_file)
        rights = temporary.stat().st_mode
        try:
            yield temporary
            _sync(temporary)
            if temporary.stat().st_mode != rights:  # safetensors replaces the file by one that only its owner can read
                temporary.chmod(rights & 0o777)
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


@contextmanager
def atomic_folder(path: str | Path) -> Iterator[Path]:
    """Yield a temporary folder next to ``path``; it is renamed to ``path`` if the block succeeds, else removed.

    Raises:
        InputError: The folder exists and is not empty; nothing is overwritten.
    """
    path = Path(path)
    require_new_folder(path)
    with storable(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = _make_next_to(path, Path.mkdir)
        try:
            yield temporary
            temporary.replace(path)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise


def require_new_folder(path: Path) -> None:
    """Refuse a folder that holds anything, and a file."""
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise InputError(f"{path}: is not empty; name a new folder")


@contextmanager
def storable(where: str | Path) -> Iterator[None]:
    """Turn errors of a full disk or of missing permissions into a ``StorageError``; other errors pass.

    Libraries written in Rust raise errors of their own, with the number of the system's error in their text.
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
    """Raise an error if a file exists and may not be read (or written); some readers take it for missing."""
    if path.exists() and not os.access(path, os.W_OK if write else os.R_OK):
        raise StorageError(refusal(path, errno.EACCES))


def refusal(where: str | Path, number: int | None) -> str:
    """Say what a system error with this number means for ``where``, and what to do."""
    if number in FULL:
        return (
            f"{where}: no space left on the disk; free some or name a folder on another disk, then give the command "
            "again; `recprism resume RUN` continues a training or a search"
        )
    if number in FORBIDDEN:
        return f"{where}: permission denied; change the permissions of the file or its folder, or name another place"
    said = os.strerror(number) if number else "the system refused"
    return f"{where}: cannot be read or written ({said.lower()}); look at the disk or name another place"


def _system_error(problem: Exception) -> int | None:
    """Return the number of the system's error behind an exception, or None."""
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
    """Turn any error while a file is read into one sentence; errors of this package pass.

    Readers of other packages raise many kinds of errors on damaged files. Those written in Rust panic, which is not an
    ``Exception``. The lines that a panic prints stay visible: to hide them, the stderr of the whole process would have
    to be redirected.

    Args:
        where: The file.
        what: What is wrong with it, for the message.
        advice: What to do about it.

    Raises:
        InputError: The file is missing or damaged.
        StorageError: It may not be read.
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
        if isinstance(broken, MemoryError):  # from a damaged header, or from a file that is too large
            what = f"{what}, or larger than the memory that is free"
        raise InputError(f"{where}: {what} ({said}); {advice}") from None


def write_text(path: str | Path, text: str) -> None:
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def is_left_over(path: Path) -> bool:
    """Whether this is a temporary file of a process that was killed while it wrote."""
    return re.fullmatch(r"\..+\.[0-9a-f]{8}\.part", path.name) is not None


def _make_next_to(path: Path, make: Callable[[Path], None]) -> Path:
    """Make a new file or folder with an unused name and the usual permissions.

    ``tempfile`` gives permissions to the owner alone. To widen them later, the umask would be needed, and reading it
    means changing it for all threads.

    Raises:
        InputError: If the path is the root of a file system.
    """
    if not path.name:
        raise InputError(f"{path} is no file; name one in it")
    while True:
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
        try:
            make(temporary)
        except FileExistsError:
            continue
        return temporary


def _make_file(path: Path) -> None:
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_CLOEXEC", 0), 0o666))
