"""What every benchmark of the project shares: the claim, the machine, the way of printing, and interleaved timing."""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from shutil import which
from typing import Any

import torch


@dataclass(frozen=True)
class Claim:
    """One figure against its bar. ``better`` says on which side of the bar the figure should lie."""

    claim: str
    value: float | str | None
    bar: float | str | None
    better: str = "lower"

    @property
    def holds(self) -> bool | None:
        """None where there is no bar, or where figure and bar are words."""
        if not isinstance(self.value, int | float) or not isinstance(self.bar, int | float):
            return None
        return self.value <= self.bar if self.better == "lower" else self.value >= self.bar


def machine(*packages: str) -> dict[str, Any]:
    """The machine the figures come from, in words that mean something elsewhere."""
    return {
        "cpu": _cpu_name(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        **_gpu(),
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in ("torch", "numpy", "numba", *packages)},
    }


def interleaved(tasks: Mapping[str, Callable[[], Any]], repeats: int, warmup: int = 2) -> dict[str, float]:
    """Median seconds of each task, the tasks taking turns so that a noisy neighbour disturbs all of them alike."""
    seconds: dict[str, list[float]] = {name: [] for name in tasks}
    for turn in range(warmup + repeats):
        for name, task in tasks.items():
            start = time.perf_counter()
            task()
            if turn >= warmup:
                seconds[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in seconds.items()}


def parser(description: str | None) -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    return options


def report(claims: list[Claim], *, as_json: bool, packages: tuple[str, ...] = (), details: Any = None) -> None:
    """Print the figures. The exit code is 0 whether or not a claim holds: the honest figure is the product."""
    where = machine(*packages)
    if as_json:
        rows = [{**asdict(claim), "holds": claim.holds} for claim in claims]
        print(json.dumps({"machine": where, "claims": rows, **({"details": details} if details is not None else {})}))
        return
    packaged = ", ".join(f"{name} {number}" for name, number in where["packages"].items())
    chips = ", ".join(where[name] for name in ("gpu", "cpu") if name in where)
    print(f"{chips}, {where['cores']} cores, {where['memory_gib']} GiB, Python {where['python']}, {packaged}\n")
    print("| claim | value | bar | holds |\n|---|---|---|---|")
    for claim in claims:
        verdict = {True: "yes", False: "no", None: ""}[claim.holds]
        print(f"| {claim.claim} | {_number(claim.value)} | {_number(claim.bar)} | {verdict} |")


def _number(value: float | str | None) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _gpu() -> dict[str, str]:
    return {"gpu": torch.cuda.get_device_name()} if torch.cuda.is_available() else {}


def _cpu_name() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    described = subprocess.run(["lscpu"], capture_output=True, text=True, check=False) if which("lscpu") else None
    for line in described.stdout.splitlines() if described else []:  # on ARM64 the name is not in /proc/cpuinfo
        if line.startswith("Model name"):
            return f"{line.partition(':')[2].strip()} ({platform.machine()})"
    return platform.processor()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
