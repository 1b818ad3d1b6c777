"""The table of `recprism frontier`: who wins, which row is ours, what the percentages are of."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from recprism.cli.paper.frontier import _cell, _print_fronts
from recprism.contest.fronts import Front, FrontPoint, winner
from recprism.runs.run import Run

BUDGETS = (0.01, 0.05)


def _front(method: str, *points: tuple[float, float, float | None]) -> Front:
    made = (FrontPoint(budget, loss, gain, p) for budget, (loss, gain, p) in zip(BUDGETS, points, strict=True))
    return Front(method, tuple(made), 1.0)


POPULAR = Front("popularity", (FrontPoint(None, 0.5, -0.1, None),), 0.0)
OURS = _front("ours:subtopic_coverage", (0.008, 0.10, None), (0.03, 0.25, None))
NEAR = _front("xquad", (0.009, 0.12, 0.03), (0.06, 0.30, 0.001))


@pytest.fixture(scope="module")
def run(searched_run: Callable[..., Run]) -> Run:
    return searched_run(iterations=2)


def test_the_winner_keeps_the_budget_on_the_test_part() -> None:
    assert winner([OURS, NEAR], 0.01) is NEAR
    assert winner([OURS, NEAR], 0.05) is OURS, "xquad gains more there, but loses 6 %"
    over = _front("mmr", (0.02, 1.0, None), (0.06, 1.0, None))
    assert winner([OURS, over], 0.01) is OURS
    assert winner([NEAR, over], 0.05) is over, "no method keeps this one"
    assert winner([POPULAR], 0.01) is None


def test_the_winner_is_named_and_ours_is_marked(capsys: pytest.CaptureFixture[str]) -> None:
    _print_fronts("runs/x", "subtopic_coverage", [OURS, NEAR, POPULAR], BUDGETS)
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "ours ours:subtopic_coverage +10.0 (-0.8) +25.0 (-3.0)* 1.0" in lines
    assert "xquad +12.0 (-0.9)* +30.0 (-6.0)! 1.0" in lines
    assert "Within 1 %: xquad gains most, +12.0 %; ours gains +10.0 % (difference: p = 0.0300)." in lines
    assert "Within 5 %: ours:subtopic_coverage gains most, +25.0 %; no other method keeps the budget." in lines


def test_ours_over_the_budget_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    ours = _front("ours:subtopic_coverage", (0.02, 0.20, None), (0.03, 0.25, None))
    _print_fronts("runs/x", "subtopic_coverage", [ours, NEAR, POPULAR], BUDGETS)
    printed = capsys.readouterr().out
    assert "Within 1 %: xquad gains most, +12.0 %; ours gains +20.0 %, but loses more than the budget." in printed


def test_popularity_keeps_no_budget_only_if_that_is_so(capsys: pytest.CaptureFixture[str]) -> None:
    _print_fronts("runs/x", "subtopic_coverage", [OURS, NEAR, POPULAR], BUDGETS)
    assert "popularity, which keeps none of these budgets: " in capsys.readouterr().out
    better = Front("popularity", (FrontPoint(None, 0.03, -0.1, None),), 0.0)
    _print_fronts("runs/x", "subtopic_coverage", [OURS, NEAR, better], BUDGETS)
    assert "popularity: -10.0 (-3.0)" in capsys.readouterr().out


def test_a_method_without_a_setting_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    nothing = Front("ours:subtopic_coverage", (), 0.0)
    _print_fronts("runs/x", "subtopic_coverage", [nothing, NEAR, POPULAR], BUDGETS)
    printed = capsys.readouterr().out
    assert "Within 1 %: xquad gains most, +12.0 %." in printed
    assert "Within 5 %: xquad gains most, +30.0 %, but no method keeps the budget on the test part." in printed


@pytest.mark.parametrize(
    ("loss", "gain", "shown"),
    [(0.001, -0.001, "-0.1 (-0.1)"), (-0.001, 0.2, "+20.0 (+0.1)"), (0.0001, -0.0004, "0.0 (0.0)")],
)
def test_a_change_has_one_sign(loss: float, gain: float, shown: str) -> None:
    assert _cell(FrontPoint(0.01, loss, gain, None)) == shown


@pytest.mark.slow
def test_a_real_run(run: Run, ok: Callable[..., Any]) -> None:
    printed = ok("frontier", run.path, "--rivals", "mmr").out
    assert "in percent of the base lists' value on the test part" in printed
    assert "ndcg@10, in percent of its base value" in printed
    assert not re.search(r"--\d|[-+]0\.0\b", printed), "no double sign, no signed zero"
    assert len(re.findall(r"^Within [\d.]+ %: .+\.$", printed, re.MULTILINE)) == 5
