"""Where a run stands: what it is doing, how far it has come, and how long the rest will take."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from recprism.runs.run import STEPS, Run

Doing = Literal["nothing", "training", "searching", "stopped"]
DOING: dict[str, Doing] = dict(zip(STEPS, ("training", "searching"), strict=True))
ENDS = ("trained", "diversified", "diversified within a budget")
SILENT = 20.0  # times the usual pause between two steps, and at least as many seconds: then a run counts as stopped


@dataclass(frozen=True)
class RunStatus:
    """doing: "stopped" is a run that went on step by step and fell silent before its end

    done, total: steps (epochs of training, iterations of a search); training may end earlier than the total
    seconds_left: at most, at the pace so far; None where nobody can tell
    """

    doing: Doing
    done: int = 0
    total: int | None = None
    seconds_left: float | None = None


def run_status(run: Run, now: float | None = None) -> RunStatus:
    """Read from the run's events; now: seconds since 1970."""
    events = run.events()
    steps = _last_steps(events)
    if not steps:
        return RunStatus("nothing")
    last, pace = steps[-1], _pace(steps)
    done, total = int(last["done"]), last.get("total")
    silent = (time.time() if now is None else now) - float(last["time"])
    if silent > max(SILENT, SILENT * (pace or 0.0)):
        return RunStatus("stopped", done, total)
    left = None if pace is None or total is None else max(0.0, pace * (total - done) - silent)
    return RunStatus(DOING[last["event"]], done, total, left)


def _last_steps(events: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The steps of what is going on; empty once it has ended."""
    found: list[Mapping[str, Any]] = []
    for event in events:
        kind = event.get("event")
        if kind in STEPS:
            if found and found[-1]["event"] != kind:
                found = []
            found.append(event)
        elif kind in ENDS:
            found = []
    return found


def _pace(steps: Sequence[Mapping[str, Any]]) -> float | None:
    """Seconds a step, over the last twenty: a run that was resumed yesterday has an old first one."""
    recent = [float(step["time"]) for step in steps[-20:]]
    return (recent[-1] - recent[0]) / (len(recent) - 1) if len(recent) > 1 else None
