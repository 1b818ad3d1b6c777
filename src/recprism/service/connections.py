"""The server's connections: a request must arrive whole within a time, and the number of connections is limited.

uvicorn has no such limits: it waits for the rest of a request for ever, and its ``limit_concurrency`` refuses a
connection only once the headers are complete.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import ClassVar

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from recprism.service.limits import DEFAULT, Allowed, address


def server(
    app: ASGIApp,
    allowed: Allowed = DEFAULT,
    *,
    kind: type[uvicorn.Server] = uvicorn.Server,
    patience: int = 2,
    idle: int = 5,
) -> uvicorn.Server:
    """Return a server of an application whose connections are limited.

    Args:
        app: The application.
        allowed: Limits on connections.
        kind: The class of the server.
        patience: Seconds that requests in flight have to finish when the server ends.
        idle: Seconds after which a connection without a request is closed.
    """

    class Limited(Connection):
        limits = allowed
        open: ClassVar[Counter[str]] = Counter()

    config = uvicorn.Config(
        app,
        http=Limited,
        ws="none",
        proxy_headers=False,  # see ``limits.address``
        log_level="error",  # a warning for every odd request would fill the terminal
        access_log=False,
        timeout_graceful_shutdown=patience,
        timeout_keep_alive=idle,
    )
    return kind(config)


class Connection(HttpToolsProtocol):
    """A connection that ends if a request takes too long to arrive: its first line, its headers and its body."""

    limits: ClassVar[Allowed]
    open: ClassVar[Counter[str]]  # connections of each address
    _deadline: asyncio.TimerHandle | None = None
    _who = ""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._who = address({"client": self.client})
        self.open[self._who] += 1
        self._expect()
        if self.open.total() > self.limits.connections or self.open[self._who] > self.limits.per_address:
            self._end(b"503 Service Unavailable", b"too many connections are open; try again later")

    def connection_lost(self, exc: Exception | None) -> None:
        self.open[self._who] -= 1
        if not self.open[self._who]:
            del self.open[self._who]
        self._arrived()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if self.cycle is None or self.cycle.response_complete:  # else odd bytes after a request that is being answered
            self._expect()
        super().data_received(data)

    def on_message_begin(self) -> None:
        self._expect()  # the end of one request and the beginning of the next may come together
        super().on_message_begin()

    def on_message_complete(self) -> None:
        self._arrived()
        super().on_message_complete()

    def _expect(self) -> None:
        """Start the time of a request, unless it is running."""
        if self._deadline is None:
            end = (b"408 Request Timeout", b"the request did not arrive in time")
            self._deadline = self.loop.call_later(self.limits.seconds, self._end, *end)

    def _arrived(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _end(self, status: bytes, sentence: bytes) -> None:
        if self.transport.is_closing():
            return
        if self.cycle is None or not self.cycle.response_started or self.cycle.response_complete:
            headers = b"content-type: text/plain\r\ncontent-length: %d\r\nconnection: close" % len(sentence)
            self.transport.write(b"HTTP/1.1 " + status + b"\r\n" + headers + b"\r\n\r\n" + sentence)
        self.transport.close()
