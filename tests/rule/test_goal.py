"""Goals: words become objects once, and a goal from outside the package is certified like any other."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import recprism as rp
from recprism.budget.problem import Problem
from recprism.errors import InputError
from recprism.metrics import METRICS
from recprism.models.registry import make_model
from recprism.rule import GoalTerm, register_goal
from recprism.rule.goal import TERMS, Goal, Words, term_named
from recprism.rule.kernels.prices import SEARCHED
from recprism.testing import make_world

CONTRIBUTING = Path(__file__).parents[2] / "CONTRIBUTING.md"
NAMES = (*TERMS, "shown_3_times")
TOGETHER = ("subtopic_coverage", "ilad_subtopics", "catalogue_coverage")


@pytest.mark.parametrize(
    ("words", "weights"),
    [
        ("sc", {"subtopic_coverage": 1}),
        ("sc+ilad", {"subtopic_coverage": 1, "ilad": 1}),
        ("ilad + SC", {"ilad": 1, "subtopic_coverage": 1}),
        ("sc=2,ilad=1", {"subtopic_coverage": 2, "ilad": 1}),
        (" ilad=0.5 , pc=1e-3", {"ilad": 0.5, "catalogue_coverage": 0.001}),
        ({"sc": 2, "ilad": 1}, {"subtopic_coverage": 2, "ilad": 1}),
        ("sc+subtopic_coverage", {"subtopic_coverage": 1}),
        ("gini+sc", {"gini": 1, "subtopic_coverage": 1}),
        (Goal.parse("ilad"), {"ilad": 1}),
    ],
)
def test_words_are_read(words: Words, weights: Mapping[str, float]) -> None:
    found = Goal.parse(words)
    assert list(found.weights.items()) == list(weights.items())
    assert Goal.parse(found) is found


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("fun", "there is no path towards 'fun'"),
        ("", "there is no path towards ''"),
        ({}, "a goal needs a metric"),
        ("sc=0", "the weight of goal 'sc'"),
        ("sc=-1", "the weight of goal 'sc'"),
        ("sc=nan", "the weight of goal 'sc'"),
        ({"sc": math.inf}, "the weight of goal 'sc'"),
        ("sc=much", "'sc=much' has no weight; write sc=1, say"),
        ("sc=2,ilad", "'ilad' has no weight; write ilad=1, say"),
        ("sc=1,sc=2", "subtopic_coverage has two weights"),
        ({"sc": 1, "subtopic_coverage": 2}, "subtopic_coverage has two weights"),
        ("ilad+ilad_subtopics", "ilad and ilad_subtopics are two ways to measure one goal"),
        ("alpha_ndcg+err_ia", "alpha_ndcg and err_ia are two ways to measure one goal"),
        ("gini+shown_often", "gini and shown_often are reached by the same boosts"),
        ("gini+catalogue_coverage", "an exposure goal does not combine with catalogue_coverage"),
        ("shown_3_times+alpha_ndcg", "an exposure goal does not combine with alpha_ndcg"),
    ],
)
def test_others_are_refused(words: Words, said: str) -> None:
    with pytest.raises(InputError, match=re.escape(said)):
        Goal.parse(words)


@pytest.mark.parametrize("name", NAMES)
def test_a_single_goal_is_read_as_it_is_written(name: str) -> None:
    goal = Goal.parse(name)
    assert str(goal) == name
    assert Goal.parse(str(goal)) == goal
    assert goal.metrics(7) == (f"{name}@7",)
    assert goal.steps == term_named(name).steps


@given(st.dictionaries(st.sampled_from(TOGETHER), st.floats(1e-300, 1e15), min_size=1))
def test_weights_are_read_as_they_are_written(weights: dict[str, float]) -> None:
    goal = Goal.parse(weights)
    assert Goal.parse(str(goal)) == goal
    assert goal.weights == weights


@pytest.fixture
def from_outside() -> Iterator[GoalTerm]:
    """The goal of CONTRIBUTING.md, until the end of the test."""
    tables: tuple[dict[str, Any], ...] = (TERMS, SEARCHED, METRICS)
    before = [dict(table) for table in tables]
    (block,) = re.findall(r"```python\n(.*?)```", CONTRIBUTING.read_text(encoding="utf-8"), re.DOTALL)
    exec(compile(block, str(CONTRIBUTING), "exec"), {"__name__": "outside"})
    yield TERMS["category_count"]
    for table, was in zip(tables, before, strict=True):
        table.clear()
        table.update(was)


def test_a_goal_from_outside_is_certified(from_outside: GoalTerm) -> None:
    case = synthetic()
    audit = rp.audit(case, "category_count", budgets=["20%"])
    found = rp.diversify(case, "category_count", "20%")
    assert found.goal == Goal.parse("category_count")
    assert found.certificate is not None
    assert found.certificate.last is not None
    assert found.trade_off in from_outside.steps
    (stop,) = audit.stops[found.goal]
    assert stop.certified is not None
    assert stop.certified.trade_off == found.trade_off
    before, after = (
        case.judge(lists, ("category_count@10", "subtopic_coverage@10"))
        for lists in (case.base_lists, found.ranked(live=False)[0])
    )
    n = len(case.categories)
    np.testing.assert_allclose(after["category_count@10"], n * after["subtopic_coverage@10"], rtol=1e-6)
    assert after["category_count@10"].mean() > before["category_count@10"].mean() + 0.1
    assert dict(found.rule.units) == {"category_count": 1.0}  # type: ignore[union-attr]


def test_a_goal_that_is_not_registered_any_more_is_unknown() -> None:
    assert "category_count" not in TERMS
    with pytest.raises(InputError, match="there is no path towards 'category_count'"):
        rp.diversify(synthetic(), "category_count")


def synthetic() -> Problem:
    data = make_world(400, 120, 12, seed=3).dataset()
    split = data.split(seed=0)
    assert data.categories is not None
    return Problem(make_model("bprmf", epochs=3).fit(split, seed=0, device="cpu"), split, data.categories)


class Together(GoalTerm):
    """A goal that no list reaches alone."""

    name = "recall"
    needs = ()


def test_a_goal_of_several_users_cannot_be_added() -> None:
    with pytest.raises(InputError, match="recall needs a value for one list"):
        register_goal(Together())
    assert "recall" not in TERMS
