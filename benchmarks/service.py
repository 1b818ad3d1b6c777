"""The service under an open load: ``recprism serve`` in its own process, clients in another one, on this machine.

200 candidates of 3,000 items, 20 categories, k = 10, reasons of all items (none with ``--no-reasons``), a history of 50
items, and the log of served lists is written. Arrivals are random (Poisson) and fixed beforehand, and latency counts
from the intended arrival, so a service that falls behind shows it. A short load before the measurement warms everything
up.

python benchmarks/service.py --rate 300 --connections 200 --seconds 120
python benchmarks/service.py --rate 300 --connections 200 --seconds 120 --no-reasons
python benchmarks/service.py --rate 300 --connections 200 --seconds 60 --kill
python benchmarks/service.py --rate 300 --connections 200 --seconds 600 --governor
python benchmarks/service.py --rate 300 --connections 200 --seconds 60 --governor --workers 2

With ``--kill`` the service is killed (SIGKILL) in the middle and started again by a supervisor. Clients repeat requests
that were lost, and every request must be answered. A request whose answer was lost on its way is served again; the log
then has several rows with its id.

With ``--workers N`` other processes make the lists; memory is that of all processes.

With ``--governor`` the service also draws one of four prices for each request, and a governor takes a step every five
seconds, in a process of its own: it reads the whole log and the outcomes of all requests, and tests each price. That
process does not count in the memory, because it ends with the step.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import numpy as np
import polars as pl

from harness import Claim, parser, report
from recprism.runs.event_log import read_events
from requests import DIM, N_ITEMS, plain, requests_of, rule_of

CANDIDATES, K = 200, 10
WORKER = b"recprism.service._workers"
NAME, WARM = "measured", 5.0  # of requests; seconds of load before the measurement
PLAN = """
prices = [0, 0.1, 0.2, 0.3]
share = "10%"
outcomes = "{outcomes}"
window = 0.0001
every = 5
[budgets]
clicks = "2%"
"""
LOAD = Path(__file__).with_name("service_load.py")


class Supervisor:
    """Starts the service again whenever it ends."""

    def __init__(self, folder: Path, more: list[str]) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.folder, self.more, self.starts, self._ending = folder, more, 0, False
        self.process = self._start()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        self.wait()

    def _start(self) -> subprocess.Popen[bytes]:
        self.starts += 1
        words = [str(self.folder / "rule"), "--port", str(self.port), "--log", str(self.folder / "log"), *self.more]
        env = os.environ | {"RECPRISM_LOG_KEY": "k" * 32}
        with (self.folder / "err").open("ab") as err:
            return subprocess.Popen([sys.executable, "-m", "recprism", "serve", *words], stderr=err, env=env)

    def _watch(self) -> None:
        while not self._ending:
            self.process.wait()
            if not self._ending:
                self.process = self._start()

    def wait(self) -> None:
        """Wait until the service is ready."""
        while True:
            try:
                with urlopen(f"http://127.0.0.1:{self.port}/ready"):
                    return
            except (URLError, OSError):
                time.sleep(0.1)

    def memory(self) -> float:
        """MiB that are resident, with those of workers; NaN while it starts again. A step of a governor ends soon."""
        pid, total = self.process.pid, 0.0
        try:
            children = " ".join(it.read_text(encoding="ascii") for it in Path(f"/proc/{pid}/task").glob("*/children"))
            workers = [it for it in children.split() if WORKER in Path(f"/proc/{it}/cmdline").read_bytes()]
            for one in (pid, *workers):
                text = Path(f"/proc/{one}/status").read_text(encoding="utf-8")
                total += int(re.findall(r"VmRSS:\s+(\d+)", text)[0]) / 1024
        except (OSError, IndexError):
            return float("nan")
        return total

    def end(self) -> int:
        """End the service gracefully; returns its exit code."""
        self._ending = True
        self.process.terminate()
        return self.process.wait()


def start_load(asked: dict[str, Any]) -> subprocess.Popen[str]:
    found = subprocess.Popen([sys.executable, str(LOAD)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert found.stdin is not None
    found.stdin.write(json.dumps(asked))
    found.stdin.close()
    found.stdin = None
    return found


def measure(service: Supervisor, asked: dict[str, Any], *, kill: bool) -> tuple[dict[str, Any], list[float]]:
    """Return what became of the requests, and the memory at the start, in the middle and at the end."""
    start_load({**asked, "seconds": WARM, "name": "warm"}).communicate()
    memory = [service.memory()]
    load = start_load(asked)
    time.sleep(asked["seconds"] / 2)
    memory.append(service.memory())
    if kill:
        service.process.send_signal(signal.SIGKILL)
    out, _ = load.communicate()
    memory.append(service.memory())
    return json.loads(out), memory


def claims_of(found: dict[str, Any], memory: list[float], logged: pl.Series, *, kill: bool, code: int) -> list[Claim]:
    """Return the claims; ``logged`` has the id of each row of the log."""
    rows = logged.n_unique()
    errors = sum(count for status, count in found["statuses"].items() if status != "200")
    claims = [
        Claim("requests answered", found["answered"], found["requests"], "higher"),
        Claim("p50, ms", round(found["p50"], 2), None),
        Claim("p99, ms", round(found["p99"], 2), None if kill else 50.0),
        Claim("p99.9, ms", round(found["p999"], 2), None),
        Claim("slowest, ms", round(found["max"], 1), None),
        Claim("lost attempts that were repeated" if kill else "errors", errors, None if kill else 0),
        Claim("exit code after SIGTERM", code, 0),
        Claim("rows of the log that repeat a request", len(logged) - rows, None if kill else 0),
    ]
    if kill:
        claims.append(
            Claim("lists missing in the log: those in the buffer at the kill", found["requests"] - rows, None)
        )
        return claims
    claims.append(Claim("lists missing in the log", found["requests"] - rows, 0))
    for when, value in zip(("start", "middle", "end"), memory, strict=True):
        claims.append(Claim(f"resident memory at the {when}, MiB", round(value, 1), None))
    claims.append(Claim("growth from the middle to the end, %", round(100 * (memory[2] / memory[1] - 1), 2), 2.0))
    return claims


def governed(folder: Path, requests: int) -> list[str]:
    """Write the plan of a governor and the outcomes of all requests; returns the options of the service."""
    clicks = np.random.default_rng(1).random(requests) < 0.3
    table = pl.DataFrame({"request": [f"{NAME}-{at}" for at in range(requests)], "clicks": clicks.astype(float)})
    table.write_parquet(folder / "outcomes.parquet")
    plan = folder / "governor.toml"
    plan.write_text(PLAN.format(outcomes=folder / "outcomes.parquet"), encoding="utf-8")
    return ["--log-users", "--governor", str(plan)]


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--rate", type=float, default=300.0, help="requests per second")
    options.add_argument("--connections", type=int, default=200)
    options.add_argument("--seconds", type=float, default=600.0)
    options.add_argument("--kill", action="store_true", help="kill the service in the middle and start it again")
    options.add_argument("--no-reasons", action="store_true", help="ask for lists alone")
    options.add_argument("--governor", action="store_true", help="draw prices, and test them every five seconds")
    options.add_argument("--workers", type=int, default=0, help="processes that make the lists")
    chosen = options.parse_args()
    generator = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rule_of(generator, CANDIDATES, K).write(folder / "rule")
        vectors = generator.normal(size=(N_ITEMS, DIM)).astype(np.float32)
        asked_for = {"reasons": False} if chosen.no_reasons else {}
        requests = requests_of(generator, vectors, 500, CANDIDATES)
        lines = [json.dumps(plain(it) | asked_for) for it in requests]
        (folder / "requests").write_text("\n".join(lines), encoding="utf-8")
        more = governed(folder, int(chosen.rate * chosen.seconds)) if chosen.governor else []
        service = Supervisor(folder, [*more, "--workers", str(chosen.workers)])
        asked = {
            "name": NAME,
            "port": service.port,
            "rate": chosen.rate,
            "connections": chosen.connections,
            "seconds": chosen.seconds,
            "requests": str(folder / "requests"),
            "retry": chosen.kill,
        }
        found, memory = measure(service, asked, kill=chosen.kill)
        code = service.end()
        logged = pl.read_parquet(folder / "log" / "*.parquet", columns=["request"])["request"]
        steps = read_events(folder / "log" / "governor.jsonl")[1:]
    measured = logged.filter(logged.str.starts_with(NAME))
    claims = claims_of(found, memory, measured, kill=chosen.kill, code=code)
    if chosen.governor:
        claims.append(Claim("steps of the governor", len(steps), None))
        claims.append(Claim("clusters in its last step", steps[-1]["evidence"][0]["clusters"], None))
    details = {**found, "starts": service.starts, "memory_mib": memory, "body_bytes": len(lines[0])}
    report(claims, as_json=chosen.json, packages=("fastapi", "uvicorn", "orjson"), details=details)


if __name__ == "__main__":
    main()
