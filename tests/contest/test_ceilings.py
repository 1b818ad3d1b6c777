"""Ceilings against brute force on small worlds, and the search against the ceilings."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest

from contest.ceilings import best_coverage, best_distances, coverage_ceiling, distance_ceiling
from recprism.budget.problem import Problem
from recprism.data import Dataset
from recprism.models.registry import make_model


@pytest.mark.parametrize("price", [0.0, 0.05, 0.2, 1.0])
def test_coverage_by_linear_and_whole_programs(price: float) -> None:
    n, k = 9, 3
    fractional = 0
    for seed in range(15):
        rng = np.random.default_rng(seed)
        relevance, has = rng.random(n), (rng.random((n, 5)) < 0.4).astype(float)

        def total(items: Any, relevance: Any = relevance, has: Any = has) -> float:
            return float(0.1 * relevance[list(items)].sum() + price * has[list(items)].max(0).sum())

        best = max(total(items) for items in combinations(range(n), k))
        found = best_coverage(relevance, has, k, 0.1, price)
        assert found.value == pytest.approx(best)
        assert found.bound == pytest.approx(best)
        relaxed = best_coverage(relevance, has, k, 0.1, price, decide=False)
        assert relaxed.bound >= best - 1e-9
        fractional += not relaxed.whole
    assert price != 1.0 or fractional, "some relaxations are not whole, so the whole program is tested"


def test_distances_by_a_whole_program() -> None:
    n, k = 9, 4
    for seed in range(5):
        rng = np.random.default_rng(seed)
        points = rng.random((n, 3))
        relevance, distance = rng.random(n), np.linalg.norm(points[:, None] - points[None], axis=2)

        def total(items: Any, relevance: Any = relevance, distance: Any = distance) -> float:
            own = list(items)
            return float(0.3 * relevance[own].sum() + 0.2 * distance[np.ix_(own, own)].sum() / 2)

        found = best_distances(relevance, distance, k, 0.3, 0.2)
        assert found.whole
        assert found.value == pytest.approx(max(total(items) for items in combinations(range(n), k)))
        assert found.bound == pytest.approx(found.value, rel=1e-3)


@pytest.mark.slow
def test_the_search_stays_below_the_ceiling(small: Dataset) -> None:
    split = small.split("random", seed=0).of_users(np.arange(60))
    factors = make_model("bprmf", epochs=3, patience=None).fit(split, seed=0)
    problem = Problem(factors, split, small.categories, "validation")
    found = [coverage_ceiling(problem, 0.3), distance_ceiling(problem, 0.3, users=3)]
    for row in found:
        assert 0.99 < row["share_of_best"] <= 1 + 1e-9
        assert row["share_of_bound"] <= 1 + 1e-9
        assert row["decided"] == row["users"]
    assert [row["users"] for row in found] == [60, 3]
