"""Stability of lists, reasons and dials: known answers, and figures by chance next to them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from recprism.budget.path import rule_at
from recprism.budget.problem import Problem
from recprism.data import Dataset
from recprism.errors import InputError
from recprism.explain.reasons.questions import reason_codes, why_list
from recprism.forms.compiled import compile_dials
from recprism.forms.dials import Dials
from recprism.models import Factors
from recprism.operate.stability import _agreement, stability_of
from recprism.rule import Rule

GOAL = "subtopic_coverage"
Made = tuple[Rule, Dials | None]


@pytest.fixture(scope="module")
def world(small: Dataset) -> tuple[Problem, Made]:
    split = small.split(seed=0)
    generator = np.random.default_rng(0)
    user, item = generator.standard_normal((split.n_users, 8)), generator.standard_normal((split.n_items, 8))
    base = Factors.from_arrays(user, item, user_ids=split.user_ids, item_ids=split.item_ids)
    problem = Problem(base, split, small.subtopics, "test")
    return problem, made(problem, 0.1)


def made(problem: Problem, trade_off: float) -> Made:
    """The rule at a trade-off, and its dials."""
    rule = rule_at(problem, GOAL, trade_off)
    return rule, compile_dials(problem, rule)


def compared(old: tuple[Problem, Made], new: tuple[Problem, Made], **options: Any) -> Any:
    return stability_of(*old, *new, **options)


def test_the_same_result_is_all_the_same(world: Any) -> None:
    found = compared(world, world, sample=20)
    assert (found.rule_churn, found.same_reason, found.same_dials, found.common_dials) == (0, 1, 1, 1)
    assert found.kept_items == 200
    assert found.same_reason_by_chance < 1
    assert found.same_dials_by_chance < 0.5
    assert found.same_dials_by_chance < found.common_dials_by_chance < 1
    assert found.dials == (world[1][1].weights != 0).sum()


def test_users_and_items_are_matched_by_id_and_scores_may_have_another_unit(world: Any, small: Dataset) -> None:
    problem, _ = world
    generator = np.random.default_rng(1)
    users, items = (generator.permutation(n) for n in (problem.split.n_users, problem.split.n_items))
    factors = problem.factors.with_vectors(user=3 * problem.factors.user, item=problem.factors.item)
    moved = Problem(
        factors.of_users(users).of_items(items),
        problem.split.of_users(users).of_items(items),
        small.subtopics.take_items(items),
        "test",
    )
    found = compared(world, (moved, made(moved, 0.1)), sample=20)
    assert found.rule_churn < 1e-3
    assert found.same_reason > 0.99
    assert found.same_dials > 0.99
    assert found.common_dials > 0.99


def test_churn_counts_the_lists_of_the_rules(world: Any) -> None:
    problem, _ = world
    later = made(problem, 0.3)
    found = compared(world, (problem, later), sample=20)
    before, now = (problem.rank(it[0])[0] for it in (world[1], later))
    kept = sum(len(set(a) & set(b)) for a, b in zip(before.tolist(), now.tolist(), strict=True))
    assert found.rule_churn == pytest.approx(1 - kept / before.size)
    assert 0 < found.same_reason < 1
    assert found.same_dials < 1


def test_agreement_of_dials() -> None:
    was = np.array([[1.0, 0.0, -1.0, 2.0], [0.0, 0.0, 1.0, 0.0]])
    now = np.array([[0.8, 1.0, 1.0, 0.0], [0.0, 0.0, 1.4, 0.0]])
    # Stays: 1 -> 0.8. Not: a change of sign, one that is gone, and 1 -> 1.4, which is 29 % of the larger.
    assert _agreement(was, now) == (1 / 4, 3 / 5)
    assert _agreement(np.zeros((2, 2)), np.zeros((2, 2))) == (None, None)


def test_codes_are_those_of_the_reasons(world: Any) -> None:
    problem, (rule, _) = world
    user = problem.split.user_ids[3].item()
    whole = {reason.item: reason.codes for reason in why_list(problem, rule, user)}
    assert reason_codes(problem, rule, user) == whole


def test_results_without_dials_or_with_lifts(world: Any) -> None:
    problem, (rule, _) = world
    found = compared(world, (problem, (rule, None)), sample=5)
    assert (found.same_dials, found.users_with_dials, found.same_reason) == (None, 0, 1)
    assert len(found.sentences()) == 1
    lifts = rule_at(problem, "shown_often", 0.05), None
    found = compared((problem, lifts), (problem, lifts))
    assert (found.rule_churn, found.same_reason, found.compared_users, found.sentences()) == (0, None, 0, [])


def test_mistakes(world: Any, small: Dataset) -> None:
    problem, served = world
    shorter = Problem(problem.factors, problem.split, small.subtopics, "test", 5)
    with pytest.raises(InputError, match="the old lists have 10 items and the new ones 5"):
        compared(world, (shorter, served))
    others = replace(problem.split, user_ids=problem.split.user_ids + 10_000)
    strangers = Problem(replace(problem.factors, user_ids=others.user_ids), others, small.subtopics, "test")
    with pytest.raises(InputError, match="no user in common"):
        compared(world, (strangers, served))
