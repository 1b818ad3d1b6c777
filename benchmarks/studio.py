"""The studio under load: fifty clients, each asking for a random user's lists at a random budget, one after the other.

``--clients 200 --seconds 300`` is the long run: nothing but answers, and memory that does not grow.

Server and clients share the machine. The floor is the same load on a small file: what the web framework takes anyway.
The run is one that ``recprism train --data ml-1m`` made.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import urlopen

import numpy as np

from harness import Claim, parser, report
from recprism.runs.run import Run
from recprism.runs.stored_path import stored_path

GOAL = "subtopic_coverage"


async def one_client(port: int, ask: Callable[[], str], until: float, taken: list[float], wrong: list[str]) -> None:
    """Ask, wait for the whole answer, ask again, over one connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while time.perf_counter() < until:
        started = time.perf_counter()
        writer.write(f"GET {ask()} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = re.search(r"content-length: (\d+)", head, re.IGNORECASE)
        await reader.readexactly(int(length.group(1)) if length else 0)
        taken.append(time.perf_counter() - started)
        if " 200 " not in head.partition("\r\n")[0]:
            wrong.append(head)
    writer.close()
    await writer.wait_closed()


def load(port: int, ask: Callable[[], str], clients: int, seconds: float) -> tuple[np.ndarray, list[str]]:
    """Seconds of every request of all clients together, and the answers that were not 200."""
    taken: list[float] = []
    wrong: list[str] = []

    async def all_clients() -> None:
        until = time.perf_counter() + seconds
        await asyncio.gather(*(one_client(port, ask, until, taken, wrong) for _ in range(clients)))

    asyncio.run(all_clients())
    return np.array(taken), wrong


def serve(run: Path) -> tuple[subprocess.Popen[str], int]:
    command = [sys.executable, "-m", "recprism", "studio", str(run), "--port", "0"]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert server.stderr is not None
    for line in server.stderr:
        found = re.search(r"http://\S+", line)
        if found:
            return server, urlsplit(found.group()).port or 0
    raise SystemExit("the server ended without a link")


def memory_of(process: int) -> float:
    """MiB that are resident."""
    text = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    return int(re.search(r"VmRSS:\s+(\d+)", text).group(1)) / 1024  # type: ignore[union-attr]


def wait_until_ready(port: int, name: str) -> None:
    while True:
        with urlopen(f"http://127.0.0.1:{port}/api/runs/{name}") as answer:
            state = json.load(answer)
        if state["phase"] == "broken":
            raise SystemExit(state["message"])
        if state["phase"] == "ready":
            return
        time.sleep(0.5)


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--run", type=Path, required=True, help="a trained run")
    options.add_argument("--clients", type=int, default=50)
    options.add_argument("--seconds", type=float, default=10.0)
    given = options.parse_args()
    run = Run.open(given.run)
    users = run.factors().user_ids.tolist()
    stored_path(run, GOAL)
    server, port = serve(given.run)
    name = given.run.resolve().name
    try:
        wait_until_ready(port, name)

        def any_lists() -> str:
            budget = random.uniform(0, 0.1)
            return f"/api/runs/{name}/lists?user={random.choice(users)}&goal={GOAL}&budget={budget:.4f}"

        load(port, any_lists, given.clients, 10.0)  # warm
        floor, _ = load(port, lambda: "/static/icon.svg", given.clients, 10.0)
        before = memory_of(server.pid)
        taken, wrong = load(port, any_lists, given.clients, given.seconds)
        after = memory_of(server.pid)
    finally:
        server.terminate()
        server.wait()
    p50, p99 = (1000 * float(np.quantile(taken, at)) for at in (0.5, 0.99))
    who = f"{given.clients} clients, {given.seconds:.0f} s, random users and budgets, {len(users):,} users"
    report(
        [
            Claim(f"p99 of {who} (ms)", p99, 100 if given.clients <= 50 else None),
            Claim("p50 (ms)", p50, None),
            Claim("answers a second", len(taken) / given.seconds, None, "higher"),
            Claim("answers that were not 200", len(wrong), 0),
            Claim("memory of the server before (MiB)", before, None),
            Claim("and after, over that", after / before, 1.05),
            Claim("p99 of a small file, the same load (ms)", 1000 * float(np.quantile(floor, 0.99)), None),
            Claim("p50 of lists over p50 of the file", float(np.median(taken) / np.median(floor)), None),
        ],
        as_json=given.json,
    )


if __name__ == "__main__":
    main()
