"""benchmarks/faithfulness.py: its interventions, its linear program by brute force, and what it counts."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recprism.budget import Problem
from recprism.budget.path import rule_at
from recprism.data import Categories, SparseRows, Split
from recprism.models import Factors
from recprism.runs.run import Run

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import faithfulness as bench


@pytest.fixture(scope="module")
def problem(trained_run: Callable[..., Run]) -> Problem:
    return trained_run().problem("validation")


def little_problem(n_users: int = 12, n_items: int = 14) -> Problem:
    """So few items that all lists of 10 can be tried; some items have no category."""
    generator = np.random.default_rng(0)
    user, item = (generator.standard_normal((n, 3)).astype(np.float32) for n in (n_users, n_items))
    base, nothing = Factors.from_arrays(user, item), SparseRows.empty((n_users, n_items))
    at, category = np.nonzero(generator.random((n_items, 6)) < 0.2)
    categories = Categories.from_pairs(at, np.array(list("abcdef"))[category], n_items)
    return Problem(base, Split(nothing, nothing, nothing, base.user_ids, base.item_ids), categories)


@pytest.mark.slow
def test_the_rule_predicts_its_own_lists_and_a_cached_list_does_not(problem: Problem) -> None:
    found = bench.measured(problem, "rule at 0.2", 60, 0)["figures"]
    for after in bench.INTERVENTIONS:
        assert found["rule"][after]["lists"] == {"share": 1.0, "interval": [1.0, 1.0]}
        assert found["rule"][after]["newcomers"]["share"] == 1.0
    for after in bench.INTERVENTIONS[1:]:
        shares = [found[name][after]["lists"]["share"] for name in ("cached list", "choice model, free places")]
        assert shares[0] < shares[1] < 1


@pytest.mark.slow
def test_explanations_that_hold_the_list_return_it_without_an_intervention(problem: Problem) -> None:
    found = bench.measured(problem, "MMR on categories", 60, 0)["figures"]
    for name in ("choice model, free places", "cached list"):
        assert found[name]["nothing"]["lists"]["share"] == 1.0, name
    assert found["user vectors"]["nothing"]["lists"]["share"] > 0.9  # 8 factors do not hold every list
    assert found["three directions"]["nothing"]["lists"]["share"] < 1


def test_the_lists_of_the_rule_are_those_that_the_problem_serves(problem: Problem) -> None:
    world = bench.World.of(problem, np.arange(problem.base.n_users))
    made = bench.Method.of("rule at 0.1", problem, 0).make(world)
    assert (made == problem.rank(rule_at(problem, "subtopic_coverage", 0.1))[0]).all()


def test_interventions_take_away_what_they_say(problem: Problem) -> None:
    users = np.arange(40)
    world = bench.World.of(problem, users)
    lists = bench.Method.of("rule at 0.2", problem, 0).make(world)
    after = bench.interventions(world, lists, np.random.default_rng(0))
    new = bench.newcomers(lists, world.base_lists)
    taken = (after["removed"].left_of(lists) < 0) & (lists >= 0)
    assert (taken.sum(1) == 1).all()
    assert (taken & new).any(1)[new.any(1)].all()
    assert (after["consumed"].gone.keys == after["removed"].gone.keys).all()
    assert (after["removed"].history == world.history).all()
    assert (after["consumed"].history != world.history).any(1).all()
    has = problem.categories.items.dense()
    for user in users:
        banned = np.setdiff1d(after["ban"].gone.row(user), world.gone.row(user))
        shared = has[banned].all(0)  # one category that all of them have, and nobody who is left
        left = np.setdiff1d(np.arange(len(has)), after["ban"].gone.row(user))
        assert (shared & ~has[left].any(0)).any()
        assert (after["ban"].left_of(lists)[user] < 0).any()
    unseen = ~world.gone.dense()
    sold_out = after["stock"].gone.dense() & unseen
    assert ((sold_out == sold_out.any(0)) | ~unseen).all()
    assert sold_out.any(0).mean() == pytest.approx(bench.GONE_SHARE, abs=0.03)


@pytest.mark.parametrize("trade_off", [0.1, 0.4])
def test_shadow_prices_are_an_optimal_dual(trade_off: float) -> None:
    """The dual value bounds the best of all lists, and meets it for most users."""
    problem = little_problem()
    world = bench.World.of(problem, np.arange(problem.base.n_users))
    has, prices = problem.categories.items.dense(), bench.prices_of(world, trade_off)
    assert (prices >= 0).all()
    gaps = []
    for own, items, scores in zip(prices, *world.pool, strict=True):
        span = scores[0] - scores[-1]
        unit = trade_off / (1 - trade_off) * span * bench.K / has.any(0).sum()  # one category, in units of scores
        lists = np.array(list(itertools.combinations(range(len(items)), bench.K)))
        best = (scores[lists].sum(1) + unit * has[items][lists].any(1).sum(1)).max()
        dual = np.sort(scores + has[items] @ own)[-bench.K :].sum() + np.maximum(unit - own, 0).sum()
        gaps.append((dual - best) / span)
    assert min(gaps) > -1e-6
    assert np.mean(np.array(gaps) < 1e-6) > 0.5


def test_what_is_counted() -> None:
    base = np.array([[0, 1, 2], [0, 1, 2], [0, 1, 2]])
    truth = np.array([[0, 5, 6], [0, 1, 7], [0, 1, 2]])
    predicted = np.array([[6, 0, 4], [7, 0, 1], [0, 1, 3]])
    found: dict[str, Any] = bench.counted(predicted, truth, base)
    assert found["lists"]["share"] == pytest.approx(1 / 3)
    assert found["newcomers"]["share"] == pytest.approx((0.5 + 1) / 2)
    low, high = found["lists"]["interval"]
    assert 0 <= low < 1 / 3 < high <= 1


def test_a_cached_list_is_filled_with_the_best_scores() -> None:
    problem = little_problem()
    world = bench.World.of(problem, np.arange(problem.base.n_users))
    order = world.pool[0]
    lists = order[:, [0, 1, 2, 3, 4, 5, 6, 7, 8, 12]]
    gone = SparseRows.from_pairs(np.arange(len(order)), order[:, 3], world.gone.shape)
    found = bench.cached_list(world.without(gone), lists)
    assert (np.sort(found, 1) == np.sort(order[:, [0, 1, 2, 4, 5, 6, 7, 8, 9, 12]], 1)).all()
