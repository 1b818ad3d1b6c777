"""CPU seconds of tests, fixtures and compiled kernels: what `make test` spends, in all of its processes.

PYTHONPATH=tools TEST_COSTS=costs NUMBA_CACHE_DIR=$(mktemp -d) python -m pytest -n 2 -p test_costs -m "not slow"
python tools/test_costs.py costs

The first line runs tests with this file as a plugin of pytest; every process writes what it measures into the folder
TEST_COSTS. The second line prints the sums and the most expensive ones. Processes that a test starts count as part of
it. What numba compiles is not part of the test or the fixture that needed it first.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from numba.core import event

KINDS = ("test", "fixture", "kernel")
SHOWN = 10


def cpu_seconds() -> float:
    """Return the CPU seconds of this process, and of its children that have ended."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


class Costs(event.Listener):
    """What is being measured: a stack of starts, so that the inner ones are taken off the outer ones."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.file = folder / f"{os.getpid()}.jsonl"
        self.stack: list[list[float]] = []

    def start(self) -> None:
        self.stack.append([cpu_seconds(), 0.0])

    def end(self, kind: str, name: str) -> None:
        start, inside = self.stack.pop()
        spent = cpu_seconds() - start
        if self.stack:
            self.stack[-1][1] += spent
        self.write(kind, name, spent - inside)

    def write(self, kind: str, name: str, seconds: float) -> None:
        with self.file.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps([kind, name, seconds]) + "\n")

    def on_start(self, event: Any) -> None:  # noqa: ARG002 - numba gives it
        self.start()

    def on_end(self, event: Any) -> None:
        function = event.data["dispatcher"].py_func
        self.end("kernel", f"{function.__module__}.{function.__name__}")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.start()
        try:
            return (yield)
        finally:
            self.end("test", item.nodeid)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Iterator[None]:
        self.start()
        try:
            return (yield)
        finally:
            self.end("fixture", f"{fixturedef.baseid}::{fixturedef.argname}")

    def pytest_collection_finish(self) -> None:
        self.write("collection", "imports and collection", cpu_seconds())


def pytest_configure(config: pytest.Config) -> None:
    if "TEST_COSTS" in os.environ:
        costs = Costs(Path(os.environ["TEST_COSTS"]).absolute())
        event.register("numba:compile", costs)
        config.pluginmanager.register(costs, "costs")


def main() -> None:
    """Print the sums of a folder, and the most expensive tests, fixtures and kernels."""
    costs: dict[str, Counter[str]] = {}
    for file in Path(sys.argv[1]).glob("*.jsonl"):
        for line in file.read_text(encoding="utf-8").splitlines():
            kind, name, seconds = json.loads(line)
            costs.setdefault(kind, Counter())[name] += seconds
    print(", ".join(f"{kind} {sum(of.values()):.0f}" for kind, of in sorted(costs.items())), "CPU seconds")
    for kind in KINDS:
        for name, seconds in costs.get(kind, Counter()).most_common(SHOWN):
            print(f"{kind:8} {seconds:7.1f}  {name}")


if __name__ == "__main__":
    main()
