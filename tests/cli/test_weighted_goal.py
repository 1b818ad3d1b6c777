"""A goal with weights goes through the commands: each reads what the one before it wrote."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from recprism.rule import Goal
from recprism.runs.run import Run

Recprism = Callable[..., Any]
WORDS, WEIGHTS = "ilad=2,sc=1", {"ilad": 2.0, "subtopic_coverage": 1.0}
NAME = "ilad=2,subtopic_coverage=1"


def gains(front: dict[str, Any]) -> list[float]:
    return [it["gain"] for it in front["points"]]


@pytest.mark.slow
def test_a_goal_with_weights(trained_run: Callable[..., Run], ok: Recprism, tmp_path: Path) -> None:
    run = trained_run()
    audit = ok("audit", run.path, "--goal", WORDS, "--budgets", "30%", "--json").json
    assert list(audit["fronts"]) == [NAME]
    (stop,) = audit["fronts"][NAME]["budgets"]
    made = ok("diversify", run.path, "--goal", WORDS, "--budget", "30%", "--json").json
    assert (made["goal"], made["trade_off"]) == (NAME, stop["certified_at"]), "the audit is taken over"
    found = run.load_result()
    assert found.goal == Goal.parse(WORDS)
    assert found.rule is not None
    assert dict(found.rule.goals) == WEIGHTS
    assert found.objective == "ilad@10", "the first metric"
    assert "ilad@10" in {row.name for row in found.change.rows}
    following = ok("audit", run.path, "--goal", WORDS, "--budgets", "30%").err
    assert "--name ilad-2-subtopic_coverage-1-30" in following
    ok("export", run.path, "-o", tmp_path / "rule")
    assert json.loads((tmp_path / "rule" / "rule.json").read_text(encoding="utf-8"))["goals"] == WEIGHTS
    ok("report", run.path, "--draws", "0")
    assert NAME in run.report_path.read_text(encoding="utf-8")


@pytest.mark.slow
def test_a_front_of_a_goal_with_weights_shows_its_first_metric(trained_run: Callable[..., Run], ok: Recprism) -> None:
    run = trained_run()
    fronts = ok("frontier", run.path, "--goal", WORDS, "--rivals", "mmr", "--json").json
    assert fronts["goal"] == NAME
    assert fronts["fronts"][0]["method"] == f"ours:{NAME}"
    alone = ok("frontier", run.path, "--goal", "ilad", "--rivals", "mmr", "--json").json
    ours, rival = ([gains(it["fronts"][at]) for it in (fronts, alone)] for at in (0, 1))
    assert rival[0] == rival[1], "the rival is tuned for the same metric"
    assert ours[0] != ours[1]


def test_the_help_shows_how_weights_are_written(ok: Recprism) -> None:
    for command in ("audit", "diversify", "frontier"):
        assert "sc=2,ilad=1" in ok(command, "--help").out
