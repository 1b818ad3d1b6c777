"""The flow of exposure against brute force and a linear program."""

from __future__ import annotations

import sys
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compare import run
from contest.cases import World
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
        run([World("ml-latest-small", "bprmf")], lambda _: pytest.fail("nothing is read"), tmp_path, 1)
    assert not list(tmp_path.iterdir())
