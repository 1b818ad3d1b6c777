"""Kernels of greedy re-rankers that evaluate as few candidates as possible.

In each re-ranker here the value of a candidate never rises as more items are chosen, so an earlier value is an upper
bound. A candidate whose bound does not beat the best so far is skipped. The others are updated one chosen item at a
time, as long as they can still win. Candidates are visited from the best rank, so winners are found early.

Pools must have been checked: these kernels do not detect item numbers outside the catalogue. Constants are arguments,
because the modules that define them need torch. These arguments are tuples:

- ``pool``: items and relevance, ``(n_users, n_candidates)``, and the number of candidates, ``(n_users,)``
- ``directions``: unit vectors of the items, ``(n_items, d)``, and whether each is known, ``(n_items,)``
- ``categories``: ``indptr`` and ``indices`` of the items' categories, and values of the entries
"""

from __future__ import annotations

from typing import Any

import numpy as np

from recprism.common.compile import compiled, compiled_loosely


@compiled
def ranked(
    first: int, last: int, candidates: Any, scores: Any, items: Any, relevance: Any, lengths: Any, n_items: int
) -> bool:
    """Fill ``items``, ``relevance`` and ``lengths`` of a ``Pool``.

    Returns:
        False, with incomplete results, if the candidates are not ranked or invalid.
    """
    last_seen = np.full(n_items, -1)
    for u in range(first, last):
        n = 0
        for c in range(candidates.shape[1]):
            item, score = candidates[u, c], scores[u, c]
            if not score < np.inf or item < -1 or item >= n_items:
                return False
            if item >= 0 and score > -np.inf:
                if last_seen[item] == u or (n > 0 and score > relevance[u, n - 1]):
                    return False
                last_seen[item] = u
                items[u, n], relevance[u, n] = item, score
                n += 1
        lengths[u] = n
        low = relevance[u, n - 1] if n > 0 else 0.0
        span = relevance[u, 0] - low if n > 0 else 0.0
        for c in range(n):
            relevance[u, c] = (relevance[u, c] - low) / (span if span > 0 else 1.0)
        for c in range(n, candidates.shape[1]):
            items[u, c], relevance[u, c] = -1, -np.inf
    return True


@compiled
def taken(items: Any, positions: Any, chosen: Any) -> None:
    for u in range(len(items)):
        for place in range(positions.shape[1]):
            position = positions[u, place]
            chosen[u, place] = items[u, position] if position >= 0 else -1


@compiled
def mmr(first: int, last: int, pool: Any, positions: Any, directions: Any, trade_off: float, tie: float) -> None:
    items, relevance, lengths = pool
    for u in range(first, last):
        _mmr_of_one(items[u, : lengths[u]], relevance[u], positions[u], directions, trade_off, tie)


@compiled
def _mmr_of_one(items: Any, relevance: Any, positions: Any, directions: Any, trade_off: float, tie: float) -> None:
    unit, known = directions
    n = len(items)
    compared = np.zeros(n, np.int64)  # -1 for chosen candidates
    nearest = np.empty(n)  # largest similarity to the first ``compared`` chosen items
    for c in range(n):
        nearest[c] = 0.0 if known[items[c]] else 1.0
    for place in range(min(len(positions), n)):
        best, to_beat = 0, -np.inf
        for c in range(n if place > 0 else 0):
            most = (1 - trade_off) * relevance[c]
            if most <= to_beat:
                break  # lower ranks have even less
            if compared[c] < 0:
                continue
            value = most - trade_off * nearest[c]
            while value > to_beat and compared[c] < place:
                chosen = items[positions[compared[c]]]
                nearest[c] = max(nearest[c], dot(unit[items[c]], unit[chosen]))
                value = most - trade_off * nearest[c]
                compared[c] += 1
            if value > to_beat:
                best, to_beat = c, value + tie
        positions[place] = best
        compared[best] = -1


@compiled
def dpp(
    first: int, last: int, pool: Any, positions: Any, directions: Any, trade_off: float, floor: float, tie: float
) -> None:
    items, relevance, lengths = pool
    for u in range(first, last):
        _dpp_of_one(items[u, : lengths[u]], relevance[u], positions[u], directions, trade_off, floor, tie)


@compiled
def _dpp_of_one(
    items: Any, relevance: Any, positions: Any, directions: Any, trade_off: float, floor: float, tie: float
) -> None:
    """Choose for one user; the bound log(x) <= 2 (x - 1) / (x + 1) for x <= 1 avoids most logarithms."""
    unit, known = directions
    n, k = len(items), min(len(positions), len(items))
    span = np.empty((k, unit.shape[1]))
    n_directions = 0  # orthonormal rows of ``span`` in use
    compared = np.zeros(n, np.int64)  # -1 for chosen candidates
    residual = np.empty(n)  # squared length outside the first ``compared`` directions, at least the floor
    for c in range(n):
        residual[c] = 1.0 if known[items[c]] else floor
    for place in range(k):
        best, to_beat = 0, -np.inf
        for c in range(n):
            needed = to_beat - (1 - trade_off) * relevance[c]  # of trade_off * log(residual)
            if needed >= 0.0:
                break  # no residual has a logarithm above 0, and lower ranks need even more
            if compared[c] < 0:
                continue
            while compared[c] < n_directions and trade_off * 2 * (residual[c] - 1) > needed * (residual[c] + 1):
                outside = residual[c] - dot(unit[items[c]], span[compared[c]]) ** 2
                residual[c] = max(outside, floor)
                compared[c] += 1
            if compared[c] == n_directions and trade_off * 2 * (residual[c] - 1) > needed * (residual[c] + 1):
                gain = trade_off * np.log(residual[c])
                if gain > needed:
                    best, to_beat = c, (1 - trade_off) * relevance[c] + gain + tie
        positions[place] = best
        compared[best] = -1
        if residual[best] > floor and place < k - 1:
            _write_direction(span, n_directions, unit[items[best]])
            n_directions += 1


@compiled_loosely
def _write_direction(span: Any, directions: int, vector: Any) -> None:
    """Write the part of ``vector`` outside the first rows of ``span`` to the next row, at length 1."""
    d = len(vector)
    outside = np.empty(d)
    for i in range(d):
        outside[i] = vector[i]
    for earlier in range(directions):
        along = dot(outside, span[earlier])
        for i in range(d):
            outside[i] -= along * span[earlier, i]
    length = np.sqrt(dot(outside, outside))
    for i in range(d):
        span[directions, i] = outside[i] / length


@compiled
def cover(
    first: int,
    last: int,
    pool: Any,
    positions: Any,
    categories: Any,
    intents: Any,
    trade_off: float,
    kept: int,
    tie: float,
) -> None:
    """Choose for some users; ``intents`` has a row for each user, or one for all."""
    items, relevance, lengths = pool
    uncovered = np.empty(intents.shape[1])
    for u in range(first, last):
        for category in range(len(uncovered)):
            uncovered[category] = intents[u % len(intents), category]
        _cover_of_one(items[u, : lengths[u]], relevance[u], positions[u], categories, uncovered, trade_off, kept, tie)


@compiled
def _cover_of_one(
    items: Any, relevance: Any, positions: Any, categories: Any, uncovered: Any, trade_off: float, kept: int, tie: float
) -> None:
    indptr, indices, chances = categories
    n = len(items)
    value = np.full(n, np.inf)
    for place in range(min(len(positions), n)):
        best, to_beat = place, -np.inf
        for c in range(n if place >= kept else 0):
            if value[c] > to_beat:
                gain = 0.0
                for entry in range(indptr[items[c]], indptr[items[c] + 1]):
                    gain += uncovered[indices[entry]] * chances[entry]
                value[c] = (1 - trade_off) * relevance[c] + trade_off * gain
                if value[c] > to_beat:
                    best, to_beat = c, value[c] + tie
        positions[place] = best
        value[best] = -np.inf
        for entry in range(indptr[items[best]], indptr[items[best] + 1]):
            uncovered[indices[entry]] *= 1 - chances[entry]


@compiled
def spread(pool: Any, positions: Any, shown: Any, order: Any, trade_off: float, kept: int) -> None:
    """Serve users one after another, in ``order``, and increase ``shown``."""
    items, relevance, lengths = pool
    for u in range(len(items)):
        for place in range(min(kept, lengths[u])):
            positions[u, place] = place
            shown[items[u, place]] += 1
    value = np.empty(items.shape[1])
    for u in order:
        end = min(positions.shape[1], lengths[u])
        for c in range(kept, lengths[u]):
            value[c] = (1 - trade_off) * relevance[u, c] + trade_off / (1 + shown[items[u, c]])
        for place in range(kept, end):
            best = kept
            for c in range(kept + 1, lengths[u]):
                if value[c] > value[best]:
                    best = c
            positions[u, place] = best
            value[best] = -np.inf
        for place in range(kept, end):
            shown[items[u, positions[u, place]]] += 1


@compiled_loosely
def dot(a: Any, b: Any) -> Any:
    total = 0.0
    for i in range(len(a)):
        total += a[i] * b[i]
    return total
