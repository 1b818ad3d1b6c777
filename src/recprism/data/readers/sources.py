"""Bytes of plain, gzip or zstd files, of folders and of zip archives."""

from __future__ import annotations

import gzip
import io
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from recprism.errors import InputError

GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


@dataclass(frozen=True)
class Source:
    """Files below a folder or in a zip archive; a member is found by its file name, at any depth."""

    path: Path

    @property
    def _is_zip(self) -> bool:
        return self.path.is_file()

    def names(self) -> list[str]:
        """List the file names of all members."""
        return sorted({PurePosixPath(member).name for member in self._members()})

    def has(self, name: str) -> bool:
        return name in self.names()

    def where(self, name: str) -> str:
        """Name a member for an error message."""
        return f"{self.path}!{name}" if self._is_zip else str(self.path / self._locate(name))

    def read(self, name: str) -> bytes:
        """Return a whole member, decompressed if it is a gzip or zstd file."""
        if not self._is_zip:
            return read_bytes(self.path / self._locate(name))
        with self._open_zip() as archive:
            try:
                content = archive.read(self._locate(name))
            except (zipfile.BadZipFile, zlib.error, EOFError) as broken:
                raise InputError(f"{self.where(name)}: damaged archive ({broken}); get the file again") from None
        return unpacked(content, self.where(name))

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
    """Return a whole file, decompressed if its first bytes are those of gzip or zstd, whatever its name."""
    try:
        return unpacked(path.read_bytes(), str(path))
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; check the name and the folder") from None
    except IsADirectoryError:
        raise InputError(f"{path}: is a folder; name a file in it") from None
    except PermissionError:
        raise InputError(f"{path}: may not be read; check its permissions") from None


def numbered_lines(content: bytes, where: str) -> Iterator[tuple[int, str]]:
    """Yield non-empty lines with their row numbers, from 1."""
    for row, line in enumerate(content.split(b"\n"), start=1):
        if line.strip():
            yield row, _decode(line, row, where)


def _decode(line: bytes, row: int, where: str) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError:
        raise InputError(f"{where}, row {row}: not UTF-8 text; convert the file (iconv -t utf-8)") from None


def unpacked(content: bytes, where: str) -> bytes:
    """Decompress gzip or zstd, recognised by the first bytes; anything else is returned as it is."""
    if content.startswith(GZIP):
        return _gunzip(content, where)
    return _unzstd(content, where) if content.startswith(ZSTD) else content


def _gunzip(content: bytes, where: str) -> bytes:
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
            return file.read()
    except (EOFError, gzip.BadGzipFile, zlib.error) as broken:
        raise InputError(f"{where}: gzip file is cut short or damaged ({broken}); get the file again") from None


def _unzstd(content: bytes, where: str) -> bytes:
    """Decompress with the CSV reader of polars, as one column of lines: Python before 3.14 has no zstd."""
    import polars as pl

    try:
        lines = pl.read_csv(content, has_header=False, separator="\x00", quote_char=None, infer_schema=False)
    except (pl.exceptions.PolarsError, OSError) as broken:
        raise InputError(
            f"{where}: zstd file is cut short, damaged or not of text ({broken}); get the file again"
        ) from None
    return "\n".join(line or "" for line in lines.to_series(0).to_list()).encode()
