"""Downloads from the publisher, on explicit request only. An incomplete or wrong file is not kept."""

from __future__ import annotations

import hashlib
import re
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from pathlib import Path

from recprism.common.files import atomic_path
from recprism.data.datasets import find_named
from recprism.errors import InputError, RecprismError

CHUNK = 1 << 20
TIMEOUT = 60
Progress = Callable[[int, int | None], None]
ADDRESSES = ("https://", "http://", "file://")


@dataclass(frozen=True)
class Download:
    """One file of a data set: its address, and the address of the publisher's checksum, or None."""

    address: str
    checksum_address: str | None

    @property
    def file_name(self) -> str:
        return self.address.rsplit("/", 1)[-1]


@dataclass(frozen=True)
class Fetched:
    """A downloaded file; ``verified`` if the publisher's checksum was compared."""

    path: Path
    size: int
    verified: bool


def downloads(name: str, *, mirror: str | None = None) -> list[Download]:
    """List the files of a named set; ``mirror`` replaces the publisher's address up to the file name."""
    base, _, variant = name.partition(":")
    known = find_named(base)
    if not known.downloads:
        raise InputError(f"{base} has no public address; put its archive under --data-root or RECPRISM_DATA")
    if known.needs_variant and not variant:
        raise InputError(f"name the category to fetch, as in {base}:CDs_and_Vinyl")
    if mirror is not None and not mirror.startswith(ADDRESSES):
        raise InputError(f"the mirror {mirror!r} is no address; write one that begins with {' or '.join(ADDRESSES)}")
    named = [(address.format(variant), check) for address, check in known.downloads]
    return [Download(*(_elsewhere(part, mirror) for part in pair)) for pair in named]  # type: ignore[arg-type]


def size_of(download: Download) -> int | None:
    """Return the number of bytes that the server announces, or None."""
    with _open(urllib.request.Request(download.address, method="HEAD")) as answer:
        return _announced(answer)


def fetch(download: Download, folder: Path, progress: Progress | None = None) -> Fetched:
    """Download into ``folder``; the file gets its name only if it is complete and a published checksum agrees."""
    expected = _published_md5(download)
    target = folder / download.file_name
    digest = hashlib.md5(usedforsecurity=False)
    with atomic_path(target) as temporary, temporary.open("wb") as file, _open(download.address) as answer:
        size, received = _announced(answer), 0
        while chunk := _read(answer, download):
            file.write(chunk)
            digest.update(chunk)
            received += len(chunk)
            if progress is not None:
                progress(received, size)
        if size is not None and received != size:
            raise RecprismError(
                f"{download.address}: cut off after {received:,} of {size:,} bytes; nothing was kept, try again"
            )
        if expected is not None and digest.hexdigest() != expected:
            raise RecprismError(
                f"{download.address}: checksum is {digest.hexdigest()}, its publisher says {expected};"
                " nothing was kept, try again later"
            )
    return Fetched(target, received, expected is not None)


def _elsewhere(address: str | None, mirror: str | None) -> str | None:
    if address is None or mirror is None:
        return address
    return f"{mirror.rstrip('/')}/{address.rsplit('/', 1)[-1]}"


def _published_md5(download: Download) -> str | None:
    if download.checksum_address is None:
        return None
    with _open(download.checksum_address) as answer:
        text = answer.read(4096).decode("ascii", errors="replace")
    found = re.search(r"\b[0-9a-fA-F]{32}\b", text)
    if found is None:
        raise RecprismError(f"{download.checksum_address}: holds no MD5 checksum; nothing was fetched, try again later")
    return found[0].lower()


def _open(request: str | urllib.request.Request) -> HTTPResponse:
    address = request if isinstance(request, str) else request.full_url
    try:
        answer: HTTPResponse = urllib.request.urlopen(request, timeout=TIMEOUT)
    except (urllib.error.URLError, HTTPException, OSError) as problem:
        raise RecprismError(
            f"{address}: cannot be reached ({getattr(problem, 'reason', problem)}); check the network"
        ) from None
    return answer


def _read(answer: HTTPResponse, download: Download) -> bytes:
    try:
        return answer.read(CHUNK)
    except (HTTPException, OSError) as problem:
        raise RecprismError(
            f"{download.address}: the connection was cut ({problem}); nothing was kept, try again"
        ) from None


def _announced(answer: HTTPResponse) -> int | None:
    length = answer.headers.get("Content-Length")
    return int(length) if length is not None and length.isdigit() else None
