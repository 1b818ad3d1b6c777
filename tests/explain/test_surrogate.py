"""benchmarks/surrogate.py: SHAP values of trees against their definition."""

from __future__ import annotations

import sys
from collections.abc import Collection
from itertools import combinations
from math import factorial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingClassifier

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from surrogate import leaves_of, shap_values

N = 5


def expected(tree: Any, row: np.ndarray, known: Collection[int], node: int = 0) -> float:
    """The prediction of a tree if only some columns are known; the others go both ways, by the rows of the fit."""
    if tree.children_left[node] < 0:
        return float(tree.value[node, 0, 0])
    column, sides = tree.feature[node], (tree.children_left[node], tree.children_right[node])
    if column in known:
        return expected(tree, row, known, sides[0] if np.float32(row[column]) <= tree.threshold[node] else sides[1])
    rows = tree.weighted_n_node_samples
    return sum(float(rows[it] / rows[node]) * expected(tree, row, known, it) for it in sides)


@pytest.mark.slow
def test_shap_values_are_means_over_all_orders_of_the_columns() -> None:
    generator = np.random.default_rng(0)
    rows = generator.normal(size=(300, N)).round(1)  # some rows lie on the limit of a node
    model = GradientBoostingClassifier(n_estimators=5, max_depth=4, random_state=0)
    trees = [one.tree_ for (one,) in model.fit(rows, rows[:, 0] * rows[:, 1] + rows[:, 2] > 0).estimators_]
    for row in rows[:4]:
        slow = np.zeros(N)
        for column in range(N):
            others = [it for it in range(N) if it != column]
            for some in (it for size in range(N) for it in combinations(others, size)):
                weight = factorial(len(some)) * factorial(N - len(some) - 1) / factorial(N)
                gains = (expected(it, row, {*some, column}) - expected(it, row, some) for it in trees)
                slow[column] += weight * sum(gains)
        leaves = [leaf for tree in trees for leaf in leaves_of(tree, 1.0)]
        np.testing.assert_allclose(shap_values(leaves, row), slow, atol=1e-12)
