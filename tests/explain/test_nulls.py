"""Null erasures in worlds where their values are known."""

from __future__ import annotations

import numpy as np
import pytest

from recprism.cmb.factors import Change, Evaluator
from recprism.cmb.factors.nulls import null_erasures
from recprism.models import Factors
from recprism.testing.planted import Planted, make_planted


@pytest.fixture(scope="module")
def world() -> Planted:
    return make_planted(n_users=120, n_items=80, dim=8, seed=0)


def evaluator_of(base: Factors, world: Planted) -> Evaluator:
    return Evaluator.on(world.split, "test", base, world.categories, ("subtopic_coverage@10", "ndcg@10"))


def moved(n_items: int, dim: int, factors: list[int]) -> np.ndarray:
    delta = np.zeros((n_items, dim), np.float32)
    delta[:, factors] = np.random.default_rng(0).normal(size=(n_items, len(factors)))
    return delta


def test_factors_that_did_not_move_take_nothing_back(world: Planted) -> None:
    base = Factors.from_arrays(world.user, world.item)
    change, judge = Change(base, item=moved(80, 8, [2])), evaluator_of(base, world)
    direction, smallest, scaled = null_erasures(change, judge, draws=4, seed=1)
    learned = judge.means(change.after)
    assert learned != judge.means(base)
    assert (smallest.name, smallest.values, smallest.draws) == ("the 5 smallest factors", learned, 1)
    assert direction.name == "a random direction (mean of 4)"
    assert direction.draws == 4
    assert direction.values != learned
    assert scaled.values == judge.means(change.replaced(item=0.99 * change.sides["item"]).after)


def test_the_only_direction_there_is_takes_everything_back(world: Planted) -> None:
    base = Factors.from_arrays(world.user[:, :1], world.item[:, :1])
    change, judge = Change(base, item=moved(80, 1, [0])), evaluator_of(base, world)
    direction, smallest, _ = null_erasures(change, judge, draws=2)
    assert direction.values == pytest.approx(judge.means(base))
    assert smallest.values == judge.means(base)
    assert smallest.name == "the smallest factor"


def test_the_seed_decides_the_directions(world: Planted) -> None:
    base = Factors.from_arrays(world.user[:, :2], world.item[:, :2])
    change = Change(base, item=moved(80, 2, [0]), user=moved(120, 2, [0]))
    judge = evaluator_of(base, world)
    first, again = (null_erasures(change, judge, draws=3, seed=5)[0] for _ in range(2))
    assert first == again, "the same seed, the same draws"
    assert null_erasures(change, judge, draws=3, seed=6)[0].values != first.values
