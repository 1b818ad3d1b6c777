"""The progress of a run: what it is doing, how many steps are done, and how long the rest will take."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from recprism.runs.event_log import STEPS
from recprism.runs.run import Run

Doing = Literal["nothing", "training", "searching", "stopped"]
DOING: dict[str, Doing] = dict(zip(STEPS, ("training", "searching"), strict=True))
ENDS = ("trained", "diversified", "diversified within a budget")
SILENT = 20.0  # a run counts as stopped after this many times the usual pause between steps, and this many seconds


@dataclass(frozen=True)
class RunStatus:
    """The progress of a run.

    Attributes:
        doing: "stopped" is a run whose steps ended before the last one.
        done: Steps so far: epochs of training, or iterations of a search.
        total: All steps; training may end earlier.
        seconds_left: The longest time that is left at the pace so far; None if it is unknown.
    """

    doing: Doing
    done: int = 0
    total: int | None = None
    seconds_left: float | None = None


def run_status(run: Run, now: float | None = None) -> RunStatus:
    """Read the progress from the run's events.

    Args:
        run: The run.
        now: Seconds since 1970; the present by default.
    """
    steps = _last_steps(run.under_way().events())
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
    """Return the steps of the training or search in progress; none if it has ended."""
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
    """Return the seconds per step over the last twenty steps, so that a resumed run does not count its pause."""
    recent = [float(step["time"]) for step in steps[-20:]]
    return (recent[-1] - recent[0]) / (len(recent) - 1) if len(recent) > 1 else None
