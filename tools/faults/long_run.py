"""An hour of runs in one process: does memory grow, do file handles stay open?

python tools/faults/long_run.py --minutes 60

Each round trains a small model, diversifies it twice (players; within a budget), writes the report, and asks the
studio, all in this one process through the commands themselves. After it, memory, file handles and threads are noted:
memory in use, which is what malloc has given out and not got back, and resident memory, after malloc has given back to
the system what lies free (malloc_trim). What lies free at the end of an arena it keeps: resident memory jumps up and
down by that much. The slope over rounds is that of a straight line through the rounds after a warm-up, and through
those of the second half; its interval comes from a bootstrap of blocks of residuals, as neighbouring rounds are alike.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import gc
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

MIB = 2**20
WARM_UP = 0.2
BLOCK = 8
ASKED = (
    "user?user={user}&budget=0.05",
    "reasons?user={user}",
    "search?q=1",
    "payers",
    "paths/subtopic_coverage",
    "download/lists",
)


@dataclass(frozen=True)
class Noted:
    """After one round: seconds since the start, bytes in use and resident, open file handles, threads."""

    seconds: float
    in_use: int
    memory: int
    handles: int
    threads: int


@dataclass(frozen=True)
class Slope:
    """Change in a hundred rounds, with a 95 % interval."""

    value: float
    low: float
    high: float
    rounds: int

    def sentence(self, what: str) -> str:
        sign = "no growth to be seen" if self.low <= 0 <= self.high else "grows" if self.low > 0 else "shrinks"
        return (
            f"{what}: {self.value:+.2f} per 100 rounds ({self.low:+.2f} to {self.high:+.2f}), over {self.rounds} "
            f"rounds: {sign}"
        )


def one_round(folder: Path) -> None:
    """Everything that a run goes through, in this process."""
    run = folder / "run"
    shutil.rmtree(run, ignore_errors=True)
    small = ("--data", "ml-latest-small", "--device", "cpu", "--set", "epochs=2", "--set", "dim=8")
    command("train", "-o", str(run), *small)
    command("search", str(run), "--set", "iterations=10")
    command("diversify", str(run), "--budget", "0.1", "--overwrite")
    command("report", str(run), "--draws", "0")
    ask_the_studio(run)


def command(*words: str) -> None:
    from recprism.cli import app

    with (
        Path(os.devnull).open("w", encoding="utf-8") as nowhere,
        contextlib.redirect_stdout(nowhere),
        contextlib.redirect_stderr(nowhere),
    ):
        app(words, standalone_mode=False)


def ask_the_studio(run: Path) -> None:
    """Open the run in a studio of its own, ask each kind of question, close it."""
    from fastapi.testclient import TestClient

    from recprism.studio.app import create_app

    with TestClient(create_app([run]), base_url="http://127.0.0.1") as client:
        while (state := client.get("/api/runs/run").json())["phase"] != "ready":
            if state["phase"] == "broken":
                raise SystemExit(state["message"])
            time.sleep(0.05)
        for question in ASKED:
            answer = client.get(f"/api/runs/run/{question.format(user=state['example_user'])}")
            if answer.status_code != 200:
                raise SystemExit(f"{question}: {answer.status_code} {answer.text[:200]}")


class Malloc(ctypes.Structure):
    """What glibc's mallinfo2 tells."""

    _fields_ = [(name, ctypes.c_size_t) for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd")]
    _fields_ += [(name, ctypes.c_size_t) for name in ("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")]


def in_use() -> int:
    """Bytes that malloc has given out, once it has given back to the system what it can; -1 without glibc."""
    try:
        libc = ctypes.CDLL("libc.so.6")
        libc.malloc_trim(0)
        tell = libc.mallinfo2
    except (OSError, AttributeError):
        return -1
    tell.restype = Malloc
    told = tell()
    return int(told.uordblks + told.hblkhd)


def note(started: float) -> Noted:
    gc.unfreeze()  # the studio freezes what it has opened
    gc.collect()
    status = dict(
        line.split(":", 1) for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines() if ":" in line
    )
    return Noted(
        round(time.perf_counter() - started, 1),
        in_use(),
        int(status["VmRSS"].split()[0]) * 1024,
        len(list(Path("/proc/self/fd").iterdir())),
        int(status["Threads"]),
    )


def slope(noted: NDArray[np.float64], *, after: float = WARM_UP, draws: int = 2000, seed: int = 0) -> Slope:
    """noted: (n,), one value for each round; after: share of the rounds that are left out at the start."""
    values = noted[int(after * len(noted)) :]
    rounds = np.arange(len(values)) / 100
    line = np.polyfit(rounds, values, 1)
    fitted = np.polyval(line, rounds)
    luck, residuals = np.random.default_rng(seed), values - fitted
    blocks = -(-len(values) // BLOCK)
    first = luck.integers(0, max(len(values) - BLOCK, 1), (draws, blocks, 1))
    drawn = residuals[np.minimum(first + np.arange(BLOCK), len(values) - 1)].reshape(draws, -1)[:, : len(values)]
    slopes = np.polyfit(rounds, (fitted + drawn).T, 1)[0]
    found = np.array([line[0], *np.quantile(slopes, (0.025, 0.975))])
    value, low, high = (found.round(9) + 0.0).tolist()  # a level line is level to the last digit, and 0 has no sign
    return Slope(value, low, high, len(values))


def told(noted: list[Noted]) -> Iterator[str]:
    """What the rounds say, in sentences."""
    kinds = {
        "in use, MiB": np.array([it.in_use for it in noted]) / MIB,
        "resident, MiB": np.array([it.memory for it in noted]) / MIB,
        "file handles": np.array([it.handles for it in noted], float),
        "threads": np.array([it.threads for it in noted], float),
    }
    yield f"{len(noted)} rounds in {noted[-1].seconds / 60:.0f} minutes"
    for what, values in kinds.items():
        yield f"{what}, after the first and the last: {values[0]:.1f}, {values[-1]:.1f}; most {values.max():.1f}"
        for when, after in (("after the warm-up", WARM_UP), ("second half", 0.5)):
            if (1 - after) * len(values) >= 2 * BLOCK:
                yield slope(values, after=after).sentence(f"{what}, {when}")


def handles_grow(noted: list[Noted]) -> bool:
    """Whether more are open at the end than ever during the first half."""
    half = len(noted) // 2
    return noted[-1].handles > max(it.handles for it in noted[: half + 1])


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--minutes", type=float, default=60)
    options.add_argument("--log", type=Path, help="one line of JSON for each round")
    given = options.parse_args()
    noted: list[Noted] = []
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        while time.perf_counter() - started < 60 * given.minutes:
            one_round(Path(folder))
            noted.append(note(started))
            if given.log is not None:
                with given.log.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(vars(noted[-1])) + "\n")
    sys.stdout.writelines(f"{sentence}\n" for sentence in told(noted))
    sys.exit(handles_grow(noted))


if __name__ == "__main__":
    main()
