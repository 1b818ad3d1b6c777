"""Limits on requests: their size, their number per second, and the wrong tokens among them."""

from __future__ import annotations

import ipaddress
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LONGEST_QUERY = 4 * 1024
ADDRESSES = 1024  # remembered
ANNOUNCING = (b"content-length", b"transfer-encoding")  # a request without these has no body


@dataclass(frozen=True)
class Allowed:
    """What a server accepts; the values are those of the studio.

    Args:
        per_second: Requests of one address: far more than fifty pages send, and far fewer than would block others.
        at_once: Requests of one address that may come at once.
        wrong_per_second: Requests of one address without the right token.
        wrong_at_once: The same, at once.
        most_bytes: Bytes of a body. No request needs more than a line.
        seconds: Time for a request to arrive whole.
        connections: Open connections; systems often allow a process 1,024 open files.
        per_address: Open connections of one address.
    """

    per_second: float = 3000.0
    at_once: float = 6000.0
    wrong_per_second: float = 1.0
    wrong_at_once: float = 30.0
    most_bytes: int = 64 * 1024
    seconds: float = 10.0
    connections: int = 512
    per_address: int = 256


DEFAULT = Allowed()


class Bucket:
    """A token bucket per address.

    Args:
        per_second: Rate at which a bucket is refilled.
        at_once: Size of a bucket.
        clock: Returns the time in seconds.
    """

    def __init__(self, per_second: float, at_once: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.per_second, self.at_once, self.clock = per_second, at_once, clock
        self._room: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, who: str) -> float:
        """Return the seconds until ``who`` may send a request; 0 accepts this one."""
        now, room = self.clock(), self._left(who)
        taken = room >= 1
        self._room.pop(who, None)
        self._room[who] = (room - 1 if taken else room, now)
        if len(self._room) > ADDRESSES:
            self._room.popitem(last=False)
        return 0.0 if taken else (1 - room) / self.per_second

    def look(self, who: str) -> float:
        """Return the same and count nothing."""
        return max(0.0, 1 - self._left(who)) / self.per_second

    def _left(self, who: str) -> float:
        now = self.clock()
        room, then = self._room.get(who, (self.at_once, now))
        return min(self.at_once, room + (now - then) * self.per_second)


class Limits:
    """Middleware that answers 413, 414 and 429 first, and reads the body.

    A body is counted as it arrives, because a chunked request does not declare its length.
    """

    def __init__(self, app: ASGIApp, allowed: Allowed) -> None:
        self.app, self.most_bytes = app, allowed.most_bytes
        self.bucket = Bucket(allowed.per_second, allowed.at_once)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        answer: ASGIApp = self._refusal(scope) or self.app
        if answer is self.app and any(name in ANNOUNCING for name, _ in scope["headers"]):
            body = await self._body(receive)
            if body["type"] == "http.disconnect":
                return
            answer = self._too_large() if len(body["body"]) > self.most_bytes else self.app
            receive = _first(body, receive)
        await answer(scope, receive, send)

    async def _body(self, receive: Receive) -> Message:
        """Return the whole body as one message, or what came until it was too large, or the end of the connection."""
        body, more = b"", True
        while more and len(body) <= self.most_bytes:
            message = await receive()
            if message["type"] == "http.disconnect":
                return message
            body, more = body + message.get("body", b""), message.get("more_body", False)
        return {"type": "http.request", "body": body, "more_body": False}

    def _refusal(self, scope: Scope) -> JSONResponse | None:
        wait = self.bucket.wait(address(scope))
        if wait:
            return too_many("too many requests from this address", wait)
        if len(scope["query_string"]) + len(scope["path"]) > LONGEST_QUERY:
            return JSONResponse({"detail": f"the address is longer than {LONGEST_QUERY:,} bytes"}, status_code=414)
        declared = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
        if not declared.isdigit() or len(declared) > 19 or int(declared) > self.most_bytes:
            return self._too_large()
        return None

    def _too_large(self) -> JSONResponse:
        # The rest of the body would be read as the next request, so the connection ends.
        sentence = f"a request may have {self.most_bytes:,} bytes"
        return JSONResponse({"detail": sentence}, status_code=413, headers={"Connection": "close"})


def _first(message: Message, receive: Receive) -> Receive:
    """Return a ``receive`` that gives a message and then what else comes."""
    waiting = [message]

    async def next_message() -> Message:
        return waiting.pop() if waiting else await receive()

    return next_message


def address(scope: Scope) -> str:
    """Return whom a limit counts: the address of the connection.

    X-Forwarded-For is not read: every client can write it, and a proxy may pass it on unchanged. All clients
    of a proxy therefore share one limit. An IPv6 client owns a whole /64 network and counts as one.
    """
    host = scope["client"][0] if scope.get("client") else ""
    if ":" not in host:
        return str(host)
    found = ipaddress.IPv6Address(host)
    return str(found.ipv4_mapped or found.packed[:8].hex())


def too_many(what: str, seconds: float) -> JSONResponse:
    wait = max(1, round(seconds))
    return JSONResponse({"detail": f"{what}; try again in {wait} s"}, 429, headers={"Retry-After": str(wait)})
