"""Exposure as a flow of minimum cost: the lists of all users together, solved exactly."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from recprism.common.extras import needing

UNIT = 1_000_000  # whole costs per unit of relevance


def exposure_flow(
    items: NDArray[Any], relevance: NDArray[Any], k: int, *, n_items: int, trade_off: float, times: int
) -> NDArray[np.int64]:
    """Return the lists with the largest (1 - t) * sum of relevance + t * (showings up to ``times`` for each item).

    t is ``trade_off``. Each user has k places. An item's first ``times`` showings earn t each, later ones nothing.
    This is a flow from users to items, whose optimum is whole; costs are rounded to a millionth of the relevance.

    Args:
        items: Candidates, (n_users, n), the best first; -1 in empty places.
        relevance: Their relevance, (n_users, n), from 0 to 1.
        k: Length of the lists.
        n_items: Size of the catalogue.
        trade_off: From 0 (relevance) to 1 (exposure).
        times: How many showings of an item earn something.

    Returns:
        Item numbers, (n_users, k), sorted by relevance; -1 in empty places.

    Raises:
        MissingDependencyError: If OR-tools is not installed.
    """
    graph = solver()
    user, place = np.nonzero(_can_be_shown(items, relevance, k, trade_off))
    n_users, item, arcs = len(items), items[user, place], np.arange(len(user))
    supply = np.minimum((items >= 0).sum(1), k)
    sink = n_users + n_items
    shelves = n_users + np.arange(n_items)
    cost = -np.rint(UNIT * (1 - trade_off) * relevance[user, place]).astype(np.int64)
    graph.add_arcs_with_capacity_and_unit_cost(user, n_users + item, np.ones_like(cost), cost)
    for capacity, bonus in ((times, -int(UNIT * trade_off)), (n_users, 0)):
        sinks, most = np.full(n_items, sink), np.full(n_items, capacity)
        graph.add_arcs_with_capacity_and_unit_cost(shelves, sinks, most, np.full(n_items, bonus))
    graph.set_nodes_supplies(np.arange(n_users), supply)
    graph.set_nodes_supplies(np.array([sink]), np.array([-supply.sum()]))
    status = graph.solve()
    if status != graph.OPTIMAL:
        raise RuntimeError(f"the flow of exposure ended with {status}")
    chosen = graph.flows(arcs) > 0
    user, item = user[chosen], item[chosen]  # by user, then by rank
    lists = np.full((n_users, k), -1, np.int64)
    lists[user, np.arange(len(user)) - np.searchsorted(user, user)] = item
    return lists


def _can_be_shown(items: NDArray[Any], relevance: NDArray[Any], k: int, trade_off: float) -> NDArray[np.bool_]:
    """Leave out candidates that are more than a bonus below the user's k-th: no optimal list has them."""
    worth = (1 - trade_off) * np.where(items >= 0, relevance, -np.inf)
    kth = worth[:, min(k, items.shape[1]) - 1]
    bar = np.where(np.isfinite(kth), kth, -np.inf)[:, None]
    return np.asarray((items >= 0) & (worth + trade_off >= bar - 2 / UNIT))


def solver() -> Any:
    """Return an empty flow of OR-tools.

    Raises:
        MissingDependencyError: If OR-tools is not installed.
    """
    with needing("the rival 'flow'", "contest"):
        from ortools.graph.python import min_cost_flow
    return min_cost_flow.SimpleMinCostFlow()
