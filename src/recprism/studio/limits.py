"""Limits on requests: their size, and their number per second."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

MOST_BYTES = 64 * 1024  # no request needs more than a line
LONGEST_QUERY = 4 * 1024
PER_SECOND, AT_ONCE = 3000.0, 6000.0
"""Requests of one address: far more than fifty pages send, and far fewer than would block other addresses."""
ADDRESSES = 1024  # remembered


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
        now = self.clock()
        room, then = self._room.pop(who, (self.at_once, now))
        room = min(self.at_once, room + (now - then) * self.per_second)
        taken = room >= 1
        self._room[who] = (room - 1 if taken else room, now)
        if len(self._room) > ADDRESSES:
            self._room.popitem(last=False)
        return 0.0 if taken else (1 - room) / self.per_second


class Limits:
    """Middleware that answers 413, 414 and 429 first. No route reads a body."""

    def __init__(self, app: ASGIApp, per_second: float = PER_SECOND, at_once: float = AT_ONCE) -> None:
        self.app, self.bucket = app, Bucket(per_second, at_once)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        await (self._refusal(scope) or self.app)(scope, receive, send)

    def _refusal(self, scope: Scope) -> JSONResponse | None:
        wait = self.bucket.wait(scope["client"][0] if scope.get("client") else "")
        if wait:
            return too_many("too many requests from this address", wait)
        if len(scope["query_string"]) + len(scope["path"]) > LONGEST_QUERY:
            return JSONResponse({"detail": f"the address is longer than {LONGEST_QUERY:,} bytes"}, status_code=414)
        declared = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
        if not declared.isdigit() or int(declared) > MOST_BYTES:
            return JSONResponse({"detail": f"a request may have {MOST_BYTES:,} bytes"}, status_code=413)
        return None


def too_many(what: str, seconds: float) -> JSONResponse:
    wait = max(1, round(seconds))
    return JSONResponse({"detail": f"{what}; try again in {wait} s"}, 429, headers={"Retry-After": str(wait)})
