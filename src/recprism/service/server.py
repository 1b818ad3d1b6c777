"""The server of a service: signals, and an end that loses no request."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import uvicorn
from fastapi import FastAPI

from recprism.service._service import Service
from recprism.service.connections import server

PATIENCE = 30
"""Seconds that requests in flight have to finish."""
IDLE = 75
"""Seconds that a connection may be idle; callers keep theirs."""
SWITCH_SECONDS = 0.001
"""How long a slow request in a thread may keep the interpreter from the others; the usual time is 0.005 s."""


class GracefulServer(uvicorn.Server):
    """A server that ends with success on SIGTERM and SIGINT, and reloads on SIGHUP."""

    service: Service
    _end: float | None = None

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle signals; unlike uvicorn, do not raise them again at the end."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        handlers: dict[signal.Signals, Any] = {signal.SIGINT: self.handle_exit, signal.SIGTERM: self.handle_exit}
        if hasattr(signal, "SIGHUP"):
            handlers[signal.SIGHUP] = lambda *_: self.service.reload_soon()
        before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002
        """Begin to end; a second signal ends without the time to drain."""
        self.force_exit = self.should_exit and sig == signal.SIGINT
        again, self.service.stopping = self.service.stopping, True
        self._end = time.monotonic() + (0.0 if again else self.service.settings.drain)

    async def on_tick(self, counter: int) -> bool:
        if self._end is not None and time.monotonic() >= self._end:
            self.should_exit = True
        return await super().on_tick(counter)


def serve(app: FastAPI) -> uvicorn.Server:
    """Return the server of a service."""
    found = server(app, app.state.service.settings.allowed, kind=GracefulServer, patience=PATIENCE, idle=IDLE)
    assert isinstance(found, GracefulServer)
    found.service = app.state.service
    sys.setswitchinterval(SWITCH_SECONDS)
    return found
