"""The clients of benchmarks/service.py, in a process of their own: an open loop over raw sockets.

Arrival times are drawn beforehand. A request is sent by the next free connection, and its latency counts from the time
at which it should have arrived. Reads {"name", "port", "rate", "connections", "seconds", "requests", "retry"} from
stdin, where ``requests`` names a file with one JSON body per line; prints one JSON object.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import sys
import time
from collections import Counter, deque
from pathlib import Path
from typing import Any

import numpy as np

LOST = (ConnectionError, asyncio.IncompleteReadError, OSError)
AGAIN = 0.05  # seconds before a connection is tried again


class Load:
    """All requests of a run, and what became of them."""

    def __init__(self, asked: dict[str, Any]) -> None:
        self.name, self.port, self.retry = str(asked["name"]), int(asked["port"]), bool(asked["retry"])
        self.bodies = Path(asked["requests"]).read_bytes().splitlines()
        luck = np.random.default_rng(1)
        n = int(asked["rate"] * asked["seconds"])
        self.arrivals = np.cumsum(luck.exponential(1 / asked["rate"], n))
        self.latency, self.answered = np.full(n, np.nan), np.zeros(n, np.bool_)
        self.statuses: Counter[str] = Counter()
        self.repeated = 0
        self.waiting: deque[int] = deque()
        self.free: deque[asyncio.Event] = deque()
        self.begin, self.ended = 0.0, asyncio.Event()

    def content(self, number: int) -> bytes:
        body = self.bodies[number % len(self.bodies)]
        lines = ("POST /rerank HTTP/1.1", "Host: 127.0.0.1", f"X-Request-Id: {self.name}-{number}")
        return "\r\n".join((*lines, f"Content-Length: {len(body)}", "\r\n")).encode() + body

    def arrive(self, number: int, *, first: bool = False) -> None:
        """Put a request in the queue, and wake the connection that has been free for the longest time."""
        if first:
            self.waiting.appendleft(number)
        else:
            self.waiting.append(number)
        if self.free:
            self.free.popleft().set()

    def note(self, number: int, status: str) -> None:
        self.statuses[status] += 1
        self.answered[number] = True
        self.latency[number] = time.perf_counter() - self.begin - self.arrivals[number]
        if self.answered.all():
            self.ended.set()

    async def connection(self) -> None:
        """Send requests, one at a time; a lost connection is opened again, and its request is sent again."""
        reader: Any = None
        writer: Any = None
        while True:
            while not self.waiting:
                turn = asyncio.Event()
                self.free.append(turn)
                await turn.wait()
            number = self.waiting.popleft()
            try:
                if writer is None:
                    reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
                writer.write(self.content(number))
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
                await reader.readexactly(length)
                status = head[9:12].decode()
            except LOST as problem:
                if writer is not None:
                    writer.close()
                reader = writer = None
                status = type(problem).__name__
            if self.retry and status != "200":
                self.repeated += 1
                self.statuses[status] += 1
                self.arrive(number, first=True)
                await asyncio.sleep(AGAIN * random.uniform(0.5, 1.5))
                continue
            self.note(number, status)

    async def run(self, connections: int) -> None:
        tasks = [asyncio.ensure_future(self.connection()) for _ in range(connections)]
        await asyncio.sleep(0.1)
        self.begin = time.perf_counter()
        for number, when in enumerate(self.arrivals.tolist()):
            while (left := self.begin + when - time.perf_counter()) > 0:
                await asyncio.sleep(left)
            self.arrive(number)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.ended.wait(), 60)
        for task in tasks:
            task.cancel()


def main() -> None:
    asked = json.load(sys.stdin)
    load = Load(asked)
    asyncio.run(load.run(asked["connections"]))
    known = load.latency[load.answered] * 1e3
    quantiles = dict(
        zip(("p50", "p99", "p999", "max"), np.quantile(known, (0.5, 0.99, 0.999, 1)).tolist(), strict=True)
    )
    print(
        json.dumps(
            {
                **quantiles,
                "requests": len(load.answered),
                "answered": len(known),
                "repeated": load.repeated,
                "statuses": dict(load.statuses),
                "rate": len(known) / (load.arrivals[-1] if len(load.arrivals) else 1.0),
            }
        )
    )


if __name__ == "__main__":
    main()
