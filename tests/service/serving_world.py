"""Exports, requests, and services in processes of their own that run the real command."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from recprism.forms.rule_file import RuleFile
from recprism.service import Client

STARTER = """
import json, os, sys
import recprism.cli, recprism.service.app, recprism.service.server

for line in sys.stdin:  # the libraries are loaded once for all services, each of which is a process
    asked = json.loads(line)
    if "wait" in asked:
        _, status = os.waitpid(asked["wait"], 0)
        print(os.waitstatus_to_exitcode(status), flush=True)
        continue
    pid = os.fork()
    if pid:
        print(pid, flush=True)
        continue
    os.environ.update(asked["env"])
    err = os.open(asked["err"], os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    os.dup2(err, 2)
    sys.stdin.close()
    sys.argv = ["recprism", "serve", *asked["words"]]
    try:
        recprism.cli.main()
    except SystemExit as end:
        os._exit(end.code or 0)
    os._exit(0)
"""
ITEMS, NAMES, K = 60, ("art", "bread", "cats", "dogs", "earth", "fire"), 5


def file_of(seed: int = 0, trade_off: float = 0.4, **changes: Any) -> RuleFile:
    """A rule over sixty items with vectors and up to six categories."""
    generator = np.random.default_rng(seed)
    has = generator.random((ITEMS, len(NAMES))) < 0.3
    counts = has.sum(1)
    facts: dict[str, Any] = {
        "goals": {"subtopic_coverage": 1.0},
        "units": {"subtopic_coverage": 1 / len(NAMES)},
        "trade_off": trade_off,
        "history_weight": 0.1,
        "k": K,
        "candidates": 40,
        "constraints": {},
        "item_ids": np.array([f"i{n}" for n in range(ITEMS)]),
        "names": NAMES,
        "indptr": np.append(0, np.cumsum(counts)).astype(np.int64),
        "indices": np.nonzero(has)[1].astype(np.int32),
        "shares": np.repeat(1 / np.maximum(counts, 1), counts),
        "unit": np.zeros((1, 1)),
        "known": np.zeros(1, np.bool_),
        "item_vectors": generator.standard_normal((ITEMS, 4)).astype(np.float32),
    }
    return RuleFile(**{**facts, **changes})


def request_of(seed: int = 0, n: int = 30) -> dict[str, Any]:
    """Candidates with scores, and a history."""
    generator = np.random.default_rng(seed)
    chosen = generator.permutation(ITEMS)[:n]
    return {
        "candidates": [f"i{at}" for at in chosen],
        "scores": generator.random(n).round(6).tolist(),
        "history": [f"i{at}" for at in generator.permutation(ITEMS)[:5]],
    }


@dataclass
class Served:
    """A running service."""

    pid: int
    port: int
    err: Path
    starter: subprocess.Popen[str]

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def client(self, **options: Any) -> Client:
        return Client(self.address, **options)

    def ask(self, path: str, body: Any = None, method: str = "", **headers: str) -> tuple[int, Any, dict[str, str]]:
        """One request without repetition: status, content, headers. A body of bytes is sent as it is."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        content = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        with contextlib.closing(connection):
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method or ("GET" if body is None else "POST"), path, content, named)
            answer = connection.getresponse()
            text = answer.read().decode()
        is_json = answer.headers.get_content_type() == "application/json"
        return answer.status, json.loads(text) if is_json else text, dict(answer.headers)

    def is_ready(self) -> bool:
        with self.client(retries=0) as client:
            return client.ready()

    def kill(self, number: int = signal.SIGTERM) -> None:
        os.kill(self.pid, number)

    def wait(self) -> int:
        """Return the exit code."""
        return int(asked(self.starter, {"wait": self.pid}))


Start = Callable[..., Served]


def asked(starter: subprocess.Popen[str], what: dict[str, Any]) -> str:
    assert starter.stdin is not None
    assert starter.stdout is not None
    starter.stdin.write(json.dumps(what) + "\n")
    starter.stdin.flush()
    return starter.stdout.readline()


def wait_until(holds: Callable[[], bool], seconds: float = 300) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


def value(metrics: Any, name: str) -> float | None:
    """A figure of a service, by its name without the prefix."""
    found: float | None = metrics.registry.get_sample_value(f"recprism_{name}")
    return found


def port_in(err: Path) -> int:
    wait_until(lambda: err.exists() and "Ctrl-C" in err.read_text(encoding="utf-8"))
    (found,) = re.findall(r"http://[^:]+:(\d+)/", err.read_text(encoding="utf-8"))
    return int(found)
