"""Where the bytes come from: a plain file, a gzip file, a folder or a zip archive, all read the same way."""

from __future__ import annotations

import gzip
import io
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from recprism.errors import InputError


@dataclass(frozen=True)
class Source:
    """Files below one folder, or inside one zip archive; a member is found by its bare name, at any depth."""

    path: Path

    @property
    def _is_zip(self) -> bool:
        return self.path.is_file()

    def names(self) -> list[str]:
        """Bare names of all members."""
        return sorted({PurePosixPath(member).name for member in self._members()})

    def has(self, name: str) -> bool:
        return name in self.names()

    def where(self, name: str) -> str:
        """How to call a member in an error message."""
        return f"{self.path}!{name}" if self._is_zip else str(self.path / self._locate(name))

    def read(self, name: str) -> bytes:
        """The whole member; a name ending in .gz is unpacked."""
        if not self._is_zip:
            return read_bytes(self.path / self._locate(name))
        with self._open_zip() as archive:
            try:
                content = archive.read(self._locate(name))
            except (zipfile.BadZipFile, zlib.error, EOFError) as broken:
                raise InputError(f"{self.where(name)}: damaged archive ({broken}); get the file again") from None
        return _gunzip(io.BytesIO(content), self.where(name)) if name.endswith(".gz") else content

    def _members(self) -> list[str]:
        if not self._is_zip:
            return sorted(str(path.relative_to(self.path)) for path in self.path.rglob("*") if path.is_file())
        with self._open_zip() as archive:
            return [info.filename for info in archive.infolist() if not info.is_dir()]

    def _locate(self, name: str) -> str:
        found = [member for member in self._members() if PurePosixPath(member).name == name]
        if not found:
            raise InputError(f"{self.path}: holds no {name}; it is not the data set's original archive or folder")
        return min(found, key=len)

    def _open_zip(self) -> zipfile.ZipFile:
        try:
            return zipfile.ZipFile(self.path)
        except zipfile.BadZipFile:
            raise InputError(f"{self.path}: not a zip archive, or cut short; get the file again") from None


def read_bytes(path: Path) -> bytes:
    """A plain or gzip file, whole."""
    try:
        with path.open("rb") as file:
            return _gunzip(file, str(path)) if path.suffix == ".gz" else file.read()
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; check the name and the folder") from None
    except IsADirectoryError:
        raise InputError(f"{path}: is a folder; name a file in it") from None
    except PermissionError:
        raise InputError(f"{path}: may not be read; check its permissions") from None


def numbered_lines(content: bytes, where: str) -> Iterator[tuple[int, str]]:
    """Non-empty lines with their row numbers, from 1."""
    for row, line in enumerate(content.split(b"\n"), start=1):
        if line.strip():
            yield row, _decode(line, row, where)


def _decode(line: bytes, row: int, where: str) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError:
        raise InputError(f"{where}, row {row}: not UTF-8 text; convert the file (iconv -t utf-8)") from None


def _gunzip(file: BinaryIO, where: str) -> bytes:
    try:
        with gzip.GzipFile(fileobj=file) as unpacked:
            return unpacked.read()
    except (EOFError, gzip.BadGzipFile, zlib.error) as broken:
        raise InputError(f"{where}: gzip file is cut short or damaged ({broken}); get the file again") from None
