"""Downloads from a real HTTP server on this machine, which serves good and broken files."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from recprism.data.readers.fetch import downloads, fetch, size_of
from recprism.errors import InputError, RecprismError

CONTENT = bytes(range(256)) * 20_000
MD5 = hashlib.md5(CONTENT).hexdigest()


class Publisher(BaseHTTPRequestHandler):
    """/good/ serves file and checksum, /cut/ stops half way, /wrong/ publishes another checksum, /odd/ none."""

    def do_HEAD(self) -> None:
        self._announce(len(CONTENT))

    def do_GET(self) -> None:
        kind, name = self.path.strip("/").split("/")
        if kind == "gone":
            self.send_error(404)
        elif name.endswith(".md5"):
            text = {"wrong": f"{'0' * 32}  {name}", "odd": "no checksum today"}.get(
                kind, f"MD5 ({name}) = {MD5}"
            ).encode()
            self._announce(len(text))
            self.wfile.write(text)
        else:
            self._announce(len(CONTENT))
            self.wfile.write(CONTENT[: len(CONTENT) // 2] if kind == "cut" else CONTENT)

    def _announce(self, size: int) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(size))
        self.end_headers()

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def publisher() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Publisher)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_good_download(publisher: str, tmp_path: Path) -> None:
    (download,) = downloads("ml-1m", mirror=f"{publisher}/good")
    assert size_of(download) == len(CONTENT)
    seen: list[tuple[int, int | None]] = []
    fetched = fetch(download, tmp_path, lambda done, size: seen.append((done, size)))
    assert fetched.path == tmp_path / "ml-1m.zip"
    assert fetched.path.read_bytes() == CONTENT
    assert fetched.verified
    assert seen[-1] == (len(CONTENT), len(CONTENT))


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("cut", "cut"),
        ("wrong", f"checksum is {MD5}, its publisher says {'0' * 32}"),
        ("odd", "holds no MD5 checksum"),
        ("gone", "cannot be reached"),
    ],
)
def test_a_bad_download_leaves_nothing(kind: str, message: str, publisher: str, tmp_path: Path) -> None:
    (download,) = downloads("ml-1m", mirror=f"{publisher}/{kind}")
    with pytest.raises(RecprismError, match=message):
        fetch(download, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_no_server_at_all(tmp_path: Path) -> None:
    (download,) = downloads("ml-1m", mirror="http://127.0.0.1:9")
    with pytest.raises(RecprismError, match="cannot be reached"):
        fetch(download, tmp_path)


def test_a_file_without_a_published_checksum(publisher: str, tmp_path: Path) -> None:
    ratings, _ = downloads("amazon:Toys", mirror=f"{publisher}/good")
    assert ratings.file_name == "ratings_Toys.csv"
    assert not fetch(ratings, tmp_path).verified


def test_what_cannot_be_fetched() -> None:
    with pytest.raises(InputError, match="no public address"):
        downloads("amazon-cds-2014")
    with pytest.raises(InputError, match="name the category"):
        downloads("amazon")
    assert downloads("ml-10m")[0].address.startswith("https://files.grouplens.org/")
