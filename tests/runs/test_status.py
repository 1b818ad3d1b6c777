"""How far a run has come, from its events."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from recprism.runs.config import RunConfig
from recprism.runs.run import Run
from recprism.runs.status import Standing, standing


def run_with(path: Path, events: list[dict[str, Any]]) -> Run:
    run = Run.create(path / "run", RunConfig())
    (run.path / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events), encoding="utf-8")
    return run


def steps(kind: str, n: int, start: float, pause: float = 2.0) -> list[dict[str, Any]]:
    return [{"time": start + pause * at, "event": kind, "done": at + 1, "total": 10} for at in range(n)]


DATA = {"time": 0.0, "event": "data"}
TRAINED = {"time": 50.0, "event": "trained"}


@pytest.mark.parametrize(
    ("events", "now", "expected"),
    [
        ([], 5.0, Standing("nothing")),
        ([DATA], 5.0, Standing("nothing")),
        ([DATA, *steps("epoch", 1, 10)], 11.0, Standing("training", 1, 10, None)),
        ([DATA, *steps("epoch", 4, 10)], 16.5, Standing("training", 4, 10, 11.5)),
        ([DATA, *steps("epoch", 4, 10)], 16.0 + 41, Standing("stopped", 4, 10)),
        ([DATA, *steps("epoch", 4, 10), TRAINED], 51.0, Standing("nothing")),
        ([*steps("epoch", 4, 10), TRAINED, *steps("step", 3, 60)], 64.0, Standing("searching", 3, 10, 14.0)),
    ],
)
def test_what_it_does_how_far_it_is_and_how_long_it_takes(
    tmp_path: Path, events: list[dict[str, Any]], now: float, expected: Standing
) -> None:
    assert standing(run_with(tmp_path, events), now) == expected


def test_the_pace_is_that_of_the_last_steps(tmp_path: Path) -> None:
    yesterday = steps("epoch", 3, 0.0, pause=1000.0)
    today = [{**step, "done": step["done"] + 3, "total": 100} for step in steps("epoch", 25, 1e6, pause=1.0)]
    found = standing(run_with(tmp_path, [*yesterday, *today]), 1e6 + 24)
    assert found.seconds_left == pytest.approx(100 - 28)
