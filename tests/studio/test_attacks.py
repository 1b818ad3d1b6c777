"""A studio in a process of its own, attacked over sockets: it refuses, and it answers others meanwhile."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from recprism.cli import app
from recprism.errors import InputError
from recprism.runs.config import RunConfig
from recprism.runs.run import Run

SERVE = """
import json, os, socket, sys
from pathlib import Path
from recprism.studio.app import create_app
from recprism.service.connections import server
from recprism.service.limits import Allowed

for line in sys.stdin:  # the libraries are loaded once for all servers, each of which is a process
    run, token, limits = json.loads(line)
    host = "0.0.0.0" if token else "127.0.0.1"
    listener = socket.create_server((host, 0))
    print(listener.getsockname()[1], flush=True)
    if os.fork() == 0:
        allowed = Allowed(**limits)
        server(create_app([Path(run)], host=host, token=token or None, allowed=allowed), allowed).run([listener])
        os._exit(0)
    listener.close()
"""
TOKEN = "right"
WANT = "/api/runs/run/paths/subtopic_coverage"
REACHED = 409
"""The answer of the route WANT, because the run has no model yet."""


@dataclass(frozen=True)
class Server:
    """A running studio."""

    port: int

    def ask(
        self,
        path: str = "/api/runs",
        method: str = "GET",
        *,
        client: str = "127.0.0.1",
        **headers: str,
    ) -> http.client.HTTPResponse:
        """Send one request; client: its address."""
        found = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60, source_address=(client, 0))
        with contextlib.closing(found):
            found.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
            answer = found.getresponse()
            answer.read()
        return answer

    def status(self, path: str = "/api/runs", method: str = "GET", **more: str) -> int:
        return self.ask(path, method, **more).status

    def guess(self, token: str, client: str = "127.0.0.1") -> int:
        return self.status(client=client, Authorization=f"Bearer {token}")

    def open(self, sent: bytes = b"") -> socket.socket:
        found = socket.create_connection(("127.0.0.1", self.port), timeout=60)
        found.sendall(sent)
        return found


Start = Callable[..., Server]


@pytest.fixture(scope="module")
def starter() -> Iterator[subprocess.Popen[str]]:
    """The parent of all servers, which end with it."""
    with subprocess.Popen(
        [sys.executable, "-c", SERVE],
        start_new_session=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield process
        os.killpg(process.pid, signal.SIGKILL)


@pytest.fixture
def start(starter: subprocess.Popen[str], tmp_path: Path) -> Start:
    """Start a studio of a run that is not trained."""
    Run.create(tmp_path / "run", RunConfig())

    def one(token: str = "", **allowed: float) -> Server:
        assert starter.stdin is not None
        assert starter.stdout is not None
        starter.stdin.write(json.dumps([str(tmp_path / "run"), token, allowed]) + "\n")
        starter.stdin.flush()
        return Server(int(starter.stdout.readline()))

    return one


def everything(connection: socket.socket) -> bytes:
    """Return what the server sends until it closes the connection; a reset also closes it."""
    got = b""
    with connection, contextlib.suppress(ConnectionError):
        while part := connection.recv(65536):
            got += part
    return got


# -- tokens -----------------------------------------------------------------------------------------------------------


def test_wrong_tokens_are_limited_and_others_still_get_in(start: Start) -> None:
    server = start(TOKEN, wrong_per_second=0.001, wrong_at_once=5)
    session = server.ask(f"/?token={TOKEN}").headers["set-cookie"].split(";")[0]
    assert [server.guess(TOKEN) for _ in range(20)] == [200] * 20, "only failures count"
    assert [server.guess(f"wrong {number}") for number in range(40)] == [401] * 5 + [429] * 35
    assert server.guess(TOKEN) == 429, "otherwise a guess that is right would show at any rate"
    assert server.guess(TOKEN, client="127.0.0.2") == 200, "another address has its own limit"
    assert server.status(Cookie=session) == 200, "a browser that is logged in stays so behind a shared address"
    refused = server.ask(Authorization="Bearer wrong")
    assert int(refused.headers["retry-after"]) >= 1
    assert refused.headers["content-security-policy"]


@pytest.mark.parametrize("path", ["/", "/nowhere", "/api/runs?token=wrong", "/static/studio.js", WANT])
def test_every_way_to_guess_is_limited(start: Start, path: str) -> None:
    server = start(TOKEN, wrong_per_second=0.001, wrong_at_once=3)
    assert [server.status(path) for _ in range(3)] == [401] * 3
    assert server.status(path, "POST") == 429
    assert server.status(path, Cookie="recprism-token=wrong") == 429
    assert server.status(Cookie=f"recprism-token-{server.port}={TOKEN}") in (401, 429), "the cookie is not the token"


def test_tabs_without_a_token_do_not_lock_out_the_link(start: Start) -> None:
    """Pages of a studio that has ended go on asking with the cookie of that studio."""
    server = start(TOKEN, wrong_per_second=0.001, wrong_at_once=3)
    assert [server.status(Cookie="recprism-token-1=old") for _ in range(5)] == [401] * 3 + [429] * 2
    assert server.status(f"/?token={TOKEN}") == 303


def test_a_forged_address_does_not_escape_the_limit(start: Start) -> None:
    server = start(TOKEN, wrong_per_second=0.001, wrong_at_once=2)
    guesses = [server.status(Authorization="Bearer x", X_Forwarded_For=f"10.0.0.{number}") for number in range(4)]
    assert guesses == [401, 401, 429, 429]


def test_refused_tokens_count_as_requests(start: Start) -> None:
    server = start(TOKEN, per_second=0.001, at_once=4)
    assert [server.guess("wrong") for _ in range(6)] == [401] * 4 + [429] * 2


# -- other origins ----------------------------------------------------------------------------------------------------

FOREIGN = (
    {"Origin": "http://evil.example"},
    {"Origin": "null"},
    {"Origin": "http://["},
    {"Origin": "http://127.0.0.1:1"},
    {"Sec_Fetch_Site": "cross-site"},
    {"Sec_Fetch_Site": "same-site"},
    {"Sec_Fetch_Site": "cross-site", "Origin": "http://evil.example"},
)


@pytest.mark.parametrize("token", ["", TOKEN])
def test_a_post_from_another_origin_is_refused(start: Start, token: str) -> None:
    server = start(token)
    key = {"Authorization": f"Bearer {token}"} if token else {}
    for headers in FOREIGN:
        assert server.status(WANT, "POST", **headers, **key) == 403, headers
    own = f"http://127.0.0.1:{server.port}"
    for headers in ({}, {"Origin": own}, {"Sec_Fetch_Site": "same-origin", "Origin": own}, {"Sec_Fetch_Site": "none"}):
        assert server.status(WANT, "POST", **headers, **key) == REACHED, headers
    assert server.status("/", Sec_Fetch_Site="cross-site", **key) == 200, "a link elsewhere may lead here"


# -- sizes ------------------------------------------------------------------------------------------------------------

CHUNKED = f"POST {WANT} HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n".encode()


def declared(length: int | str) -> bytes:
    return f"POST {WANT} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {length}\r\n\r\n".encode()


def test_the_limit_on_bodies_holds_for_chunks(start: Start) -> None:
    server = start(most_bytes=1000)
    small = CHUNKED.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n") + b"1\r\nx\r\n0\r\n\r\n"
    assert everything(server.open(small)).startswith(b"HTTP/1.1 409")
    connection = server.open(CHUNKED)
    with contextlib.suppress(ConnectionError):
        for _ in range(1000):  # never says that it ends
            connection.sendall(b"64\r\n" + b"x" * 100 + b"\r\n")
            time.sleep(0.001)
    assert everything(connection)[:12] in (b"HTTP/1.1 413", b""), "a reset may overtake the answer"
    once = server.open(CHUNKED + b"3e9\r\n" + b"x" * 1001 + b"\r\n")
    answer = everything(once)
    assert answer.startswith(b"HTTP/1.1 413")
    assert b"1,000 bytes" in answer


@pytest.mark.parametrize("length", [1001, 10**30, "-1", "1, 2", "ten", "0x10"])
def test_a_declared_length_that_is_too_large_or_odd_is_refused(start: Start, length: int | str) -> None:
    answer = everything(start(most_bytes=1000).open(declared(length)))
    assert answer[:12] in (b"HTTP/1.1 413", b"HTTP/1.1 400")


def test_a_length_that_is_not_true_ends_the_connection(start: Start) -> None:
    server = start(most_bytes=1000, seconds=0.5)
    assert everything(server.open(declared(500) + b"x" * 20)).startswith(b"HTTP/1.1 408"), "less than declared"
    assert b"HTTP/1.1 400" in everything(server.open(declared(5) + b"x" * 2000)), "more: the rest is no request"
    both = declared(5).replace(b"\r\n\r\n", b"\r\nTransfer-Encoding: chunked\r\n\r\n")
    assert everything(server.open(both)).startswith(b"HTTP/1.1 400")


# -- slow and many connections ----------------------------------------------------------------------------------------

HALVES = (
    b"",
    b"GET /api/runs HT",
    b"GET /api/runs HTTP/1.1\r\nHost: 127.0.0.1\r\nX-A: ",
    b"GET /api/runs HTTP/1.1\r\nHost: 127.0.0.1\r\n",
    declared(100) + b"x",
    CHUNKED + b"5\r\nab",
    b"GET /api/runs HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nGET /api/runs HTTP/1.1\r\nHost",
)


@pytest.mark.parametrize("half", HALVES, ids=range(len(HALVES)))
def test_half_a_request_times_out(start: Start, half: bytes) -> None:
    server = start(seconds=0.5)
    answer = everything(server.open(half))
    assert answer.endswith(b"in time") or answer == b"", answer
    assert server.status() == 200


def test_bytes_that_trickle_in_do_not_keep_a_connection_open(start: Start) -> None:
    """The limit is on the whole request, not on the pause between two bytes."""
    server = start(seconds=0.5)
    connection = server.open(b"GET /api/runs HTTP/1.1\r\nHost: 127.0.0.1\r\n")
    with pytest.raises(ConnectionError):
        for _ in range(6000):
            connection.sendall(b"X: y\r\n")
            time.sleep(0.01)
    connection.close()


def test_a_connection_serves_many_requests_longer_than_the_limit_for_one(start: Start) -> None:
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", start(seconds=0.3).port, timeout=60)) as client:
        client.connect()
        first = client.sock
        for _ in range(6):
            client.request("GET", "/api/runs")
            assert client.getresponse().read()
            time.sleep(0.1)
        assert client.sock is first


@pytest.mark.slow
def test_an_event_stream_outlives_the_limit_for_a_request(start: Start) -> None:
    server = start(seconds=0.3)
    stream = server.open(b"GET /api/runs/run/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    assert stream.recv(1000).startswith(b"HTTP/1.1 200")
    stream.settimeout(1.5)
    try:
        while True:
            assert stream.recv(65536) != b"", "the server closed the stream"
    except TimeoutError:
        pass
    stream.close()


@pytest.mark.slow
def test_connections_are_limited_and_free_again_afterwards(start: Start) -> None:
    server = start(connections=20, per_address=20, seconds=2)
    held = [server.open(b"GET / HTTP/1.1\r\n") for _ in range(20)]
    time.sleep(0.2)
    answer = everything(server.open(b"GET /api/runs HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"))
    assert answer.startswith(b"HTTP/1.1 503") or answer == b"", "a reset may overtake the answer"
    for one in held:
        everything(one)
    assert server.status() == 200


@pytest.mark.slow
def test_one_address_cannot_take_all_connections(start: Start) -> None:
    server = start(connections=20, per_address=5, seconds=30)
    held = [server.open(b"GET / HTTP/1.1\r\n") for _ in range(50)]
    assert server.status(client="127.0.0.2") == 200
    for one in held:
        one.close()


@pytest.mark.slow
def test_four_hundred_half_sent_requests_do_not_stay(start: Start) -> None:
    server = start(seconds=0.5)
    held = [server.open(b"GET /api/runs HTTP/1.1\r\nHost: 127.0.0.1\r\n") for _ in range(200)]
    assert server.status() == 200, "others are answered meanwhile"
    for one in held:
        everything(one)


@pytest.mark.slow
@pytest.mark.parametrize("host", ["nosuch.invalid", "a" * 70, "a..b", "²", "300.1.1.1", " ", "1.2.3.4"])
def test_a_host_that_is_not_this_machine_is_one_sentence(tmp_path: Path, host: str) -> None:
    Run.create(tmp_path / "run", RunConfig())
    with pytest.raises(InputError, match=r"cannot listen on .*:0 \(.*\); choose another|--host .*: no such name"):
        app(["studio", str(tmp_path / "run"), "--port", "0", "--host", host], standalone_mode=False)


@pytest.mark.slow
def test_the_command_starts_the_limited_server(tmp_path: Path) -> None:
    """The server of the command line refuses a POST from elsewhere and too many connections of one address."""
    Run.create(tmp_path / "run", RunConfig())
    words = [sys.executable, "-m", "recprism", "studio", str(tmp_path / "run"), "--port", "0"]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            server = Server(int(process.stderr.readline().partition("127.0.0.1:")[2].partition("/")[0]))
            assert server.status(WANT, "POST", Origin="http://evil.example") == 403
            held = [server.open() for _ in range(300)]
            assert any(everything(it) for it in held[-10:])
            for one in held:
                one.close()
        finally:
            process.kill()
