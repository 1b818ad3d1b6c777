"""Kernel of calibration as a flow of minimum cost: from the categories of a user's history to the items of the list."""

from __future__ import annotations

from typing import Any

import numpy as np

from recprism.common.compile import compiled


@compiled
def calibrated_flow(
    first: int, last: int, pool: Any, positions: Any, categories: Any, wanted: Any, trade_off: float, tie: float
) -> None:
    """Choose the items of a flow, one augmenting path after another.

    A path ends in a new item. It takes a place of a category, and the items of that category may move on to another of
    their own. A chosen item never leaves, so k paths give the best flow.

    Args:
        first: First user.
        last: User after the last one.
        pool: Candidates and their relevance, (n_users, n_candidates), and the number of candidates, (n_users,).
        positions: Receives the chosen positions, (n_users, k), in the order of rank.
        categories: indptr and indices; the categories of item i are indices[indptr[i]:indptr[i + 1]].
        wanted: Share of each category in the user's history, (n_users, n_categories).
        trade_off: From 0 (relevance) to 1 (calibration).
        tie: Values closer than this are equal.
    """
    (items, relevance, lengths), (indptr, indices) = pool, categories
    n_categories = wanted.shape[1]
    gain, counts = np.empty(n_categories), np.empty(n_categories, np.int64)
    mover, target = np.empty(n_categories, np.int64), np.empty(n_categories, np.int64)
    inside, serves = np.empty(items.shape[1], np.bool_), np.empty(positions.shape[1], np.int64)
    for u in range(first, last):
        k = min(positions.shape[1], lengths[u])
        inside[:] = False
        counts[:] = 0
        for place in range(k):
            quota = wanted[u] * positions.shape[1]
            _gains(quota, counts, positions[u, :place], serves, items[u], categories, tie, (gain, mover, target))
            best, pick, category = -np.inf, -1, -1
            for c in range(lengths[u]):
                if inside[c]:
                    continue
                most, by = 0.0, -1  # an item that fills no quota serves no category
                for at in range(indptr[items[u, c]], indptr[items[u, c] + 1]):
                    if gain[indices[at]] > most:
                        most, by = gain[indices[at]], indices[at]
                value = (1 - trade_off) * relevance[u, c] + trade_off * most
                if value > best + tie:
                    best, pick, category = value, c, by
            positions[u, place], inside[pick] = pick, True
            serves[place] = category
            while category >= 0 and mover[category] >= 0:
                other = mover[category]
                category = target[category]
                serves[other] = category
            if category >= 0:
                counts[category] += 1
        positions[u, :k].sort()


@compiled
def _gains(
    quota: Any, counts: Any, chosen: Any, serves: Any, items: Any, categories: Any, tie: float, found: Any
) -> None:
    """Find what one more item of each category adds, if items of the list may move on to other categories.

    Args:
        quota: Wanted items of each category, (n_categories,).
        counts: Items that serve each category, (n_categories,).
        chosen: Positions of the list so far.
        serves: The category that each of them serves, -1 for none.
        items: Candidates of the user.
        categories: Categories by item.
        tie: Smaller differences do not count.
        found: Receives, (n_categories,) each: what is added; the place of the item that moves on, -1 for none; and
            where it moves.
    """
    (indptr, indices), (gain, mover, target) = categories, found
    for c in range(len(gain)):
        gain[c] = min(1.0, max(0.0, quota[c] - counts[c]))
        mover[c] = -1
    changed = True
    while changed:
        changed = False
        for place in range(len(chosen)):
            own = serves[place]
            if own < 0:
                continue
            item = items[chosen[place]]
            for at in range(indptr[item], indptr[item + 1]):
                if gain[indices[at]] > gain[own] + tie:
                    gain[own], mover[own], target[own] = gain[indices[at]], place, indices[at]
                    changed = True
