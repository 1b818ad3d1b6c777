"""The studio under load: fifty people, each looking at random users, one question after the other.

A question is about one user (lists, reasons, why an item, what if it is removed, dials that move) or about a stored
stop of the path. People read: each client waits ``--pause`` seconds, on average, before the next question.
``--pause 0 --clients 200 --seconds 300`` is the long run: nothing but answers, and memory that does not grow.

Server and clients share the machine. The run is one that ``recprism train --data ml-1m`` and ``recprism diversify``
made.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import quote, urlsplit
from urllib.request import urlopen

import numpy as np

from harness import Claim, parser, report
from recprism.runs.run import Run

Taken = dict[str, list[float]]
"""Kind of question -> seconds of each answer."""


async def one_client(
    port: int, ask: Callable[[], tuple[str, str]], until: float, pause: float, taken: Taken, wrong: list[str]
) -> None:
    """Ask, wait for the whole answer, pause, and ask again, over a new connection after a pause."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while time.perf_counter() < until:
        if pause:
            await asyncio.sleep(random.uniform(0, 2 * pause))
        kind, path = ask()
        started = time.perf_counter()
        if pause:  # a connection that was idle for long may be closed
            writer.close()
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = re.search(r"content-length: (\d+)", head, re.IGNORECASE)
        await reader.readexactly(int(length.group(1)) if length else 0)
        taken.setdefault(kind, []).append(time.perf_counter() - started)
        if " 200 " not in head.partition("\r\n")[0]:
            wrong.append(head)
    writer.close()
    await writer.wait_closed()


def load(
    port: int, ask: Callable[[], tuple[str, str]], clients: int, seconds: float, pause: float
) -> tuple[Taken, list[str]]:
    """Return the seconds of every request of all clients together, and the answers that were not 200."""
    taken: Taken = {}
    wrong: list[str] = []

    async def all_clients() -> None:
        until = time.perf_counter() + seconds
        await asyncio.gather(*(one_client(port, ask, until, pause, taken, wrong) for _ in range(clients)))

    asyncio.run(all_clients())
    return taken, wrong


def questions(name: str, run: Run) -> Callable[[], tuple[str, str]]:
    """Return what draws a question: its kind, and the address to ask."""
    users, found = run.factors().user_ids.tolist(), run.load_result()
    items, dials = run.factors().item_ids.tolist(), () if found.rule is None else run.categories().names
    goal = quote(found.towards)

    def one() -> tuple[str, str]:
        user, item = quote(str(random.choice(users))), quote(str(random.choice(items)))
        budget = random.uniform(0, 0.1)
        possible = {
            "lists": f"user?user={user}",
            "lists at a stop": f"user?user={user}&goal={goal}&budget={budget:.4f}",
            "reasons": f"reasons?user={user}",
            "why an item": f"why?user={user}&item={item}",
            "what if": f"what-if?user={user}&item={item}",
            "stop": f"stop?goal={goal}&budget={budget:.4f}",
            "path": f"paths/{goal}",
            "search": f"search?q={str(user)[:2]}",
        }
        if dials:
            possible["dials"] = f"steer?user={user}&set={quote(random.choice(dials))}={random.uniform(-0.5, 0.5):.2f}"
        kind = random.choice(list(possible))
        return kind, f"/api/runs/{quote(name)}/{possible[kind]}"

    return one


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
    options.add_argument("--run", type=Path, required=True, help="a diversified run")
    options.add_argument("--clients", type=int, default=50)
    options.add_argument("--seconds", type=float, default=60.0)
    options.add_argument("--pause", type=float, default=4.0, help="mean seconds before a client's next question")
    given = options.parse_args()
    run = Run.open(given.run)
    server, port = serve(given.run)
    name = given.run.resolve().name
    try:
        wait_until_ready(port, name)
        ask = questions(name, run)
        load(port, ask, given.clients, min(10.0, given.seconds), given.pause)  # warm
        before = memory_of(server.pid)
        taken, wrong = load(port, ask, given.clients, given.seconds, given.pause)
        after = memory_of(server.pid)
    finally:
        server.terminate()
        server.wait()
    every = np.concatenate([np.array(it) for it in taken.values()])
    who = f"{given.clients} clients, {given.seconds:.0f} s, a question every {given.pause:g} s"
    claims = [Claim(f"p99 of all, {who} (ms)", _ms(every, 0.99), 100 if given.clients <= 50 and given.pause else None)]
    claims += [Claim(f"p99: {kind} (ms)", _ms(it, 0.99), None) for kind, it in sorted(taken.items())]
    report(
        [
            *claims,
            Claim("p50 of all (ms)", _ms(every, 0.5), None),
            *([Claim("p50: dials (ms)", _ms(taken["dials"], 0.5), 50)] if "dials" in taken else []),
            Claim("answers a second", len(every) / given.seconds, None, "higher"),
            Claim("answers that were not 200", len(wrong), 0),
            Claim("memory of the server before (MiB)", before, None),
            Claim("and after, over that", after / before, 1.05),
        ],
        as_json=given.json,
    )


def _ms(seconds: Sequence[float] | np.ndarray, quantile: float) -> float:
    return 1000 * float(np.quantile(seconds, quantile))


if __name__ == "__main__":
    main()
