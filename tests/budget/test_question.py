"""Questions to labels: words and shares are read once, and those of an audit belong together."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from recprism.budget.audit import cost_of_diversity
from recprism.budget.problem import Problem
from recprism.budget.question import BudgetQuestion
from recprism.data import Dataset
from recprism.errors import InputError
from recprism.models import BPRMF
from recprism.rule import Goal


@pytest.fixture(scope="module")
def problem(small: Dataset) -> Problem:
    assert small.categories is not None
    split = small.split(seed=0)
    return Problem(BPRMF(epochs=1).fit(split, seed=0, device="cpu"), split, small.categories, "test")


def test_words_and_shares_are_read() -> None:
    asked = BudgetQuestion.of("sc=2,ilad=1", {"ndcg": "5%", "hit-rate@5": 0.02}, k=20, confidence="90%")
    assert asked.goal == Goal.parse({"sc": 2, "ilad": 1})
    assert asked.budgets == {"ndcg@20": 0.05, "hit_rate@5": 0.02}
    assert (asked.confidence, asked.part, asked.steps) == (0.9, None, asked.goal.steps)
    assert replace(asked, trade_offs=(0.1,)).steps == (0.1,)


def test_an_audit_asks_about_every_goal_at_every_budget() -> None:
    asked = BudgetQuestion.each(
        ["sc", "ilad", "subtopic_coverage"], {"5%": 1, 0.01: 3}, {"recall@20": 0.1}, part="test"
    )
    assert [(str(it.goal), it.budgets["ndcg@10"], it.weight) for it in asked] == [
        ("subtopic_coverage", 0.01, 3),
        ("subtopic_coverage", 0.05, 1),
        ("ilad", 0.01, 3),
        ("ilad", 0.05, 1),
    ]
    assert {it.budgets["recall@20"] for it in asked} == {0.1}
    assert {it.part for it in asked} == {"test"}


@pytest.mark.parametrize(
    ("budgets", "guards", "said"),
    [
        ([], None, "name at least one budget"),
        ({0.01: 0.0}, None, "a weight that is not above 0"),
        ([0.01], {"ndcg": 0.1}, "ndcg@10 has the budget already"),
        ([0.01], {"gini": 0.1}, "gini@10 has one value for all users together"),
        ([1.0], None, "budget: 1.0 is not a share above 0 and below 1"),
    ],
)
def test_budgets_that_mean_nothing_are_refused(budgets: Any, guards: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        BudgetQuestion.each(["sc"], budgets, guards)


@pytest.mark.parametrize(
    "other", [{"confidence": 0.9}, {"method": "t"}, {"part": "test"}, {"budgets": {"recall@20": 0.1}}]
)
def test_an_audit_refuses_questions_of_another_kind(problem: Problem, other: dict[str, Any]) -> None:
    one, two = BudgetQuestion.each(["sc"], [0.01, 0.05])
    with pytest.raises(InputError, match="the questions of an audit differ in goals, budgets of ndcg@10 and weights"):
        cost_of_diversity(problem, [one, replace(two, **other)])


@pytest.mark.slow
def test_the_order_of_questions_and_their_steps_count(problem: Problem) -> None:
    """Budgets are answered from the smallest on; a path has the steps that are asked for."""
    asked = BudgetQuestion.each(["sc"], [0.1, 0.3], trade_offs=(0.02, 0.05, 0.1, 0.2))
    one, two = (cost_of_diversity(problem, it) for it in (asked, asked[::-1]))
    assert one.to_dict() == two.to_dict()
    (stops,) = one.stops.values()
    assert [it.budget for it in stops] == [0.1, 0.3]
    assert {it.trade_off for path in one.paths.values() for it in path.points} <= {0.02, 0.05, 0.1, 0.2}
    assert stops[1].certified is not None
