"""How far a run has come, from its events."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from recprism.runs.config import RunConfig
from recprism.runs.parts.folder import RunFolder
from recprism.runs.run import Run
from recprism.runs.status import RunStatus, run_status


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
        ([], 5.0, RunStatus("nothing")),
        ([DATA], 5.0, RunStatus("nothing")),
        ([DATA, *steps("epoch", 1, 10)], 11.0, RunStatus("training", 1, 10, None)),
        ([DATA, *steps("epoch", 4, 10)], 16.5, RunStatus("training", 4, 10, 11.5)),
        ([DATA, *steps("epoch", 4, 10)], 16.0 + 41, RunStatus("stopped", 4, 10)),
        ([DATA, *steps("epoch", 4, 10), TRAINED], 51.0, RunStatus("nothing")),
        ([*steps("epoch", 4, 10), TRAINED, *steps("step", 3, 60)], 64.0, RunStatus("searching", 3, 10, 14.0)),
    ],
)
def test_what_it_does_how_far_it_is_and_how_long_it_takes(
    tmp_path: Path, events: list[dict[str, Any]], now: float, expected: RunStatus
) -> None:
    assert run_status(run_with(tmp_path, events), now) == expected


def test_the_pace_is_that_of_the_last_steps(tmp_path: Path) -> None:
    yesterday = steps("epoch", 3, 0.0, pause=1000.0)
    today = [{**step, "done": step["done"] + 3, "total": 100} for step in steps("epoch", 25, 1e6, pause=1.0)]
    found = run_status(run_with(tmp_path, [*yesterday, *today]), 1e6 + 24)
    assert found.seconds_left == pytest.approx(100 - 28)


def test_a_named_result_has_the_events_of_the_run_and_its_own_search(tmp_path: Path) -> None:
    (of_unnamed,), (own,) = steps("step", 1, 60), steps("step", 1, 70)
    run = run_with(tmp_path, [DATA, of_unnamed, {**own, "result": "bold"}])
    assert RunFolder(run.path, "bold").events() == [DATA, {**own, "result": "bold"}]
    assert run.events() == [DATA, of_unnamed]
