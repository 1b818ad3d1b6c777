"""Trials: the same number for every method, near the budget, on at most so many users."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recprism.budget.problem import Problem
from recprism.contest.methods import (
    DEPTHS,
    HISTORY_WEIGHTS,
    RIVALS,
    Method,
    greedy,
    ours,
    pool,
    possible,
    rule_of,
    scaled,
)
from recprism.contest.tuning import (
    TRIALS,
    TuningObjective,
    TuningUsers,
    best_within,
    drawn_choices,
    next_trade_off,
    relative_gain,
    tune,
)
from recprism.data import Dataset
from recprism.metrics.operations import discounts
from recprism.models.adapters.scores import ScoredCandidates
from recprism.models.registry import make_model
from recprism.rule import ListSearch
from recprism.rule.objective import Objective
from recprism.rule.pool import Pool

METRICS = TuningObjective().goals
GOALS = [name.partition("@")[0] for name in METRICS]


@pytest.fixture(scope="module")
def problem(small: Dataset) -> Problem:
    split = small.split("random", seed=0)
    return Problem(
        make_model("bprmf", epochs=3, patience=None).fit(split, seed=0), split, small.categories, "validation"
    )


@pytest.mark.parametrize("method", [*RIVALS.values(), *(make(goal) for goal in GOALS for make in (ours, greedy))])
def test_every_method_has_forty_trials_and_the_same_pools(method: Method) -> None:
    for budget in (0.01, 0.05):
        drawn = drawn_choices(method, budget)
        assert sum(number for _, number in drawn) == TRIALS
        assert len(drawn) == min(8, len(method.space))
        assert len({str(choice) for choice, _ in drawn}) == len(drawn), "without replacement"
    assert {choice["depth"] for choice in method.space} == set(DEPTHS)


@pytest.mark.parametrize("method", list(RIVALS.values()), ids=list(RIVALS))
def test_every_rival_may_use_the_history_with_our_weights(method: Method) -> None:
    weights = {choice["history_weight"] for choice in method.space}
    assert weights == {choice["history_weight"] for choice in ours("subtopic_coverage").space} == set(HISTORY_WEIGHTS)


def test_greedy_draws_the_choices_of_ours() -> None:
    for goal in GOALS:
        assert drawn_choices(ours(goal), 0.01) == drawn_choices(greedy(goal), 0.01)


@given(st.floats(0.01, 0.5), st.floats(0.7, 3), st.sampled_from([0.01, 0.05]))
def test_five_trade_offs_come_near_a_budget(scale: float, power: float, budget: float) -> None:
    """The loss is ``scale`` times a power of the odds."""
    points: list[tuple[float, float]] = []
    for _ in range(5):
        trade_off = next_trade_off(points, budget)
        assert 0 < trade_off < 1
        points.append((trade_off, scale * (trade_off / (1 - trade_off)) ** power))
    assert 0.8 * budget < max(loss for _, loss in points if loss <= budget)


def test_a_method_that_costs_nothing_goes_to_the_end() -> None:
    points: list[tuple[float, float]] = []
    for _ in range(12):
        points.append((next_trade_off(points, 0.01), 0.0))
    assert points[-1][0] > 0.99999
    assert all(math.isfinite(t) for t, _ in points)


def test_a_pool_adds_what_the_rule_adds_for_a_first_item(problem: Problem) -> None:
    weight, depth = 0.3, 50
    items, scores = pool(problem, depth, weight)
    plain = scaled(*(array[:, :depth] for array in problem.candidates))
    ranked = Pool.of(items, plain, problem.features.device, problem.base.n_items)
    rule = ListSearch(trade_off=0.0, history_weight=weight)
    objective = Objective.of(rule, ranked, problem.k, problem.features)
    total = float(discounts(problem.k).sum())
    for place in (0, 7, 30):
        value = objective.parts(items[:, place : place + 1], plain[:, place : place + 1]).total
        np.testing.assert_allclose(scores[:, place], total * value, rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("goal", GOALS)
def test_our_lists_are_those_of_the_rule_that_ships(problem: Problem, goal: str) -> None:
    """A rule with boosts looks at all 500 candidates; the contest holds it to its pool."""
    choice = next(it for it in ours(goal).space if it["depth"] == 500 and it.get("history_weight", 0.2) == 0.2)
    lists = ours(goal)(problem, 0.3, choice)
    np.testing.assert_array_equal(lists, problem.rank(rule_of(problem, 0.3, **choice))[0])


def test_at_most_so_many_users_tune_and_all_lists_count(problem: Problem) -> None:
    users = TuningUsers(problem, users=100)
    assert len(users.rows) == 100
    assert users.alone.base.n_users == 100
    assert users.together.base.n_users == problem.base.n_users
    alone, together = (it.judge(it.base_lists, ("ndcg@10",))["ndcg@10"] for it in (users.alone, users.together))
    np.testing.assert_allclose(alone, together[users.rows])
    assert np.isnan(np.delete(together, users.rows)).all(), "labels of other users are not read"
    assert users.of(RIVALS["flow"]) is users.together
    assert users.of(RIVALS["mmr"]) is users.alone


def test_a_trial_is_measured_and_the_best_one_kept(problem: Problem) -> None:
    users = TuningUsers(problem, users=150)
    found = tune(RIVALS["xquad_uniform"], users, (0.05,))
    assert len(found) == TRIALS
    best = best_within(found, 0.05, METRICS[0])
    assert best is not None
    assert best.loss <= 0.05
    assert best.gains[METRICS[0]] == max(it.gains[METRICS[0]] for it in found if it.loss <= 0.05)
    objective = TuningObjective()
    base, new = (
        objective.means(users.alone, lists)
        for lists in (users.alone.base_lists, RIVALS["xquad_uniform"](users.alone, best.trade_off, best.choice))
    )
    assert best.loss == pytest.approx(1 - new["ndcg@10"] / base["ndcg@10"])
    assert best_within(found, 0.01, METRICS[0]) is None, "trials of another budget do not count"


def test_a_fall_of_gini_is_a_gain() -> None:
    assert relative_gain("gini@10", 0.4, 0.8) == pytest.approx(0.5)
    assert relative_gain("shown_often@10", 0.4, 0.8) == pytest.approx(-0.5)
    assert relative_gain("shown_often@10", 0.4, 0.0) == 0.0


def test_a_model_without_vectors_has_no_similarity_by_vectors(problem: Problem) -> None:
    items, scores = problem.base.rank(60)
    base = ScoredCandidates(items, scores, problem.base.user_ids, problem.base.item_ids)
    scored = Problem(base, problem.split, problem.categories, "validation")
    assert {it["similarity"] for it in possible(RIVALS["mmr"], scored).space} == {"categories"}
    assert len(possible(RIVALS["mmr"], problem).space) == 2 * len(possible(RIVALS["mmr"], scored).space)
