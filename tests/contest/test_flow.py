"""The flow of exposure against brute force and a linear program, and BPR with reweighted positives."""

from __future__ import annotations

import sys
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from contest.cases import World
from contest.contest import compare
from contest.reweighted import _WeightedTriples, positive_weights, train_reweighted
from recprism.data.categories import Categories
from recprism.data.sparse_rows import SparseRows
from recprism.errors import MissingDependencyError


def value(lists: Any, relevance: Any, trade_off: float, times: int) -> float:
    """The objective of lists of positions; candidates are the same items for all users."""
    shown = np.bincount(np.asarray(lists).ravel(), minlength=relevance.shape[1])
    total = sum(relevance[user, place] for user, places in enumerate(lists) for place in places)
    return float((1 - trade_off) * total + trade_off * np.minimum(shown, times).sum())


@pytest.mark.needs("ortools")
@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("trade_off", [0.0, 0.1, 0.4, 0.9])
def test_the_flow_has_the_best_lists_of_all_users(trade_off: float, times: int) -> None:
    from recprism.contest.flow import exposure_flow

    n_users, n_items, k = 4, 5, 2
    for seed in range(8):
        raw = np.sort(np.random.default_rng(seed).random((n_users, n_items)), 1)[:, ::-1].round(3)
        items = np.array([np.random.default_rng(seed + 100 + u).permutation(n_items) for u in range(n_users)])
        by_item = np.take_along_axis(raw, np.argsort(items, 1), 1)
        found = exposure_flow(items, raw, k, n_items=n_items, trade_off=trade_off, times=times)
        every = product(combinations(range(n_items), k), repeat=n_users)
        best = max(value(lists, by_item, trade_off, times) for lists in every)
        assert value(found, by_item, trade_off, times) == pytest.approx(best, abs=1e-5)
        ranks = (items[:, None, :] == found[:, :, None]).argmax(2)
        assert (np.diff(ranks, axis=1) > 0).all(), "sorted by relevance, and no item twice"


@pytest.mark.needs("ortools")
def test_the_flow_equals_a_linear_program() -> None:
    from scipy.optimize import linprog

    from recprism.contest.flow import exposure_flow

    rng = np.random.default_rng(1)
    n_users, n_items, k, times, trade_off = 12, 15, 3, 2, 0.2
    items = np.array([rng.permutation(n_items)[:9] for _ in range(n_users)])
    raw = np.sort(rng.random(items.shape), 1)[:, ::-1]
    found = exposure_flow(items, raw, k, n_items=n_items, trade_off=trade_off, times=times)
    flat = items.ravel()
    n = len(flat)
    cost = np.r_[-(1 - trade_off) * raw.ravel(), np.full(n_items, -trade_off)]
    places = np.zeros((n_users, n + n_items))
    places[np.repeat(np.arange(n_users), 9), np.arange(n)] = 1
    earned = np.zeros((n_items, n + n_items))
    earned[flat, np.arange(n)] = -1
    earned[np.arange(n_items), n + np.arange(n_items)] = 1
    bounds = [(0, 1)] * n + [(0, times)] * n_items
    best = -linprog(cost, earned, np.zeros(n_items), places, np.full(n_users, k), bounds=bounds).fun
    relevance = np.full((n_users, n_items), np.nan)
    np.put_along_axis(relevance, items, raw, 1)
    assert value(found, relevance, trade_off, times) == pytest.approx(best, abs=1e-4)


@pytest.mark.needs("ortools")
def test_empty_places_stay_empty() -> None:
    from recprism.contest.flow import exposure_flow

    items = np.array([[0, -1, -1], [0, 1, 2]])
    relevance = np.array([[0.0, -np.inf, -np.inf], [1.0, 0.5, 0.0]])
    found = exposure_flow(items, relevance, 2, n_items=3, trade_off=0.6, times=1)
    assert found.tolist() == [[0, -1], [1, 2]], "item 0 is shown to the user who has no other"


def test_without_or_tools_a_contest_does_not_start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "ortools.graph.python", None)
    with pytest.raises(MissingDependencyError, match=r"needs ortools, .* pip install 'recprism\[contest\]'"):
        compare((World("ml-latest-small", "bprmf"),), lambda _: pytest.fail("nothing is read"), tmp_path)
    assert not list(tmp_path.iterdir())


def test_rare_categories_of_a_user_weigh_more() -> None:
    train = SparseRows.from_pairs(np.array([0, 0, 0, 0, 1]), np.array([0, 1, 2, 3, 0]), (2, 5))
    categories = Categories.from_pairs(np.arange(4), ["a", "a", "a", "b"], n_items=5)
    weights = positive_weights(train, categories, 1.0)  # shares .75 and .25: inverse 4/3 and 4, their mean is 2
    np.testing.assert_allclose(weights, [2 / 3, 2 / 3, 2 / 3, 2.0, 1.0])
    np.testing.assert_allclose(positive_weights(train, categories, 0.0), 1.0)


def test_positives_are_drawn_by_weight() -> None:
    import torch

    train = SparseRows.from_pairs(np.zeros(3, np.int64), np.arange(3), (1, 5))
    triples = _WeightedTriples(train, 1, torch.device("cpu"), np.array([1.0, 2.0, 0.0]))
    generator = torch.Generator().manual_seed(0)
    drawn = torch.cat([batch.positives for _ in range(600) for batch in triples.batches(2, generator)])
    share = torch.bincount(drawn, minlength=3) / len(drawn)
    assert share[2] == 0
    assert share[1] == pytest.approx(2 / 3, abs=0.04)


@pytest.mark.slow
def test_more_strength_makes_lists_more_diverse(small: Any) -> None:
    split = small.split("random", seed=0)
    from recprism.budget.problem import Problem

    covered = []
    for strength in (0.0, 1.0):
        factors = train_reweighted(split, small.categories, strength, dataset="ml-latest-small", seed=0, device="cpu")
        problem = Problem(factors, split, small.categories, "test")
        name = "subtopic_coverage@10"
        covered.append(float(np.nanmean(problem.judge(problem.base_lists, (name,))[name])))
    assert covered[1] > 1.02 * covered[0]
