"""Kernels of re-rankers in which the value of a candidate can rise as more items are chosen.

Earlier values are no bounds here, so each candidate is compared with each chosen item once: when that item is chosen,
or, in a sliding window, when it first matters. ``greedy`` says what the kernels expect of pools and constants.
``settings`` are the trade-off, the length of the window, the floor of a residual and the tie.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from recprism.common.compile import compiled, compiled_in_place, compiled_loosely
from recprism.rule.kernels.greedy import dot


@compiled
def msd(first: int, last: int, pool: Any, positions: Any, directions: Any, trade_off: float, tie: float) -> None:
    items, relevance, lengths = pool
    for u in range(first, last):
        _msd_of_one(items[u, : lengths[u]], relevance[u], positions[u], directions, trade_off, tie)


@compiled
def _msd_of_one(items: Any, relevance: Any, positions: Any, directions: Any, trade_off: float, tie: float) -> None:
    unit, known = directions
    n, k = len(items), min(len(positions), len(items))
    distances = np.zeros(n)  # summed over the chosen items; NaN for chosen candidates
    for place in range(k):
        best, to_beat = 0, -np.inf
        for c in range(n):
            value = (1 - trade_off) * relevance[c] + trade_off * distances[c]
            if value > to_beat:  # never true of a NaN
                best, to_beat = c, value + tie
        positions[place] = best
        distances[best] = np.nan
        if known[items[best]] and place < k - 1:
            for c in range(n):
                if known[items[c]]:
                    distances[c] += 1.0 - dot(unit[items[c]], unit[items[best]])


@compiled
def ssd(first: int, last: int, pool: Any, positions: Any, directions: Any, settings: Any) -> None:
    items, relevance, lengths = pool
    for u in range(first, last):
        _ssd_of_one(items[u, : lengths[u]], relevance[u], positions[u], directions, settings)


@compiled
def _ssd_of_one(items: Any, relevance: Any, positions: Any, directions: Any, settings: Any) -> None:
    (unit, known), (trade_off, earlier, floor, tie) = directions, settings
    n, k = len(items), min(len(positions), len(items))
    span = np.zeros((earlier, unit.shape[1]))  # orthonormal rows; zero where a choice added no direction
    along = np.zeros((earlier, n))  # squared coordinates of candidates in ``span``
    outside = np.empty(n)  # squared length outside the window
    taken = np.zeros(n, np.bool_)
    for c in range(n):
        outside[c] = 1.0 if known[items[c]] else 0.0
    for place in range(k):
        best, to_beat = 0, -np.inf
        for c in range(n):
            if (1 - trade_off) * relevance[c] + trade_off <= to_beat:
                break  # not even its full length suffices, and lower ranks have even less
            if not taken[c]:
                length = np.sqrt(outside[c]) if outside[c] > floor else 0.0
                value = (1 - trade_off) * relevance[c] + trade_off * length
                if value > to_beat:
                    best, to_beat = c, value + tie
        positions[place] = best
        taken[best] = True
        if earlier > 0 and place < k - 1:
            slot = place % earlier  # the slot of the direction that leaves the window
            _write_direction(span, slot, unit[items[best]], outside[best] > floor)
            for c in range(n):
                if not taken[c]:
                    square = dot(unit[items[c]], span[slot]) ** 2
                    outside[c] += along[slot, c] - square
                    along[slot, c] = square


@compiled_loosely
def _write_direction(span: Any, slot: int, vector: Any, is_new: bool) -> None:
    """Write the part of ``vector`` outside all rows of ``span`` to row ``slot``, at length 1; 0 if not new."""
    d = len(vector)
    outside = np.zeros(d)
    if is_new:
        for i in range(d):
            outside[i] = vector[i]
        for row in range(len(span)):
            coordinate = dot(outside, span[row])
            for i in range(d):
                outside[i] -= coordinate * span[row, i]
        length = np.sqrt(dot(outside, outside))
        for i in range(d):
            outside[i] /= length
    for i in range(d):
        span[slot, i] = outside[i]


@compiled
def sliding_dpp(first: int, last: int, pool: Any, positions: Any, directions: Any, settings: Any) -> None:
    items, relevance, lengths = pool
    for u in range(first, last):
        _sliding_dpp_of_one(items[u, : lengths[u]], relevance[u], positions[u], directions, settings)


@compiled
def _sliding_dpp_of_one(items: Any, relevance: Any, positions: Any, directions: Any, settings: Any) -> None:
    """Choose for one user; the bound log(x) <= 2 (x - 1) / (x + 1) for x <= 1 avoids most logarithms."""
    (unit, known), (trade_off, earlier, floor, tie) = directions, settings
    n, k = len(items), min(len(positions), len(items))
    cosines = np.empty((n, k))  # to the item at each place, for places below ``compared`` and inside the window
    compared = np.zeros(n, np.int64)  # -1 for chosen candidates
    places = np.empty(earlier, np.int64)  # in the window, without those that add no direction
    factor = np.empty((earlier + 1, earlier))  # Cholesky factor of the cosines between their items, plus a work row
    for place in range(k):
        start = max(0, place - earlier)
        rank = _factorise(start, place, items, positions, known, cosines, places, factor, floor)
        best, to_beat = 0, -np.inf
        for c in range(n):
            needed = to_beat - (1 - trade_off) * relevance[c]  # of trade_off * log(residual)
            if needed >= 0.0:
                break  # no residual has a logarithm above 0, and lower ranks need even more
            if compared[c] < 0:
                continue
            for at in range(max(start, compared[c]), place):
                cosines[c, at] = dot(unit[items[c]], unit[items[positions[at]]])
            compared[c] = place
            residual = max(floor, _residual(c, cosines, places, factor, rank) if known[items[c]] else 0.0)
            if trade_off * 2 * (residual - 1) > needed * (residual + 1):
                gain = trade_off * np.log(residual)
                if gain > needed:
                    best, to_beat = c, (1 - trade_off) * relevance[c] + gain + tie
        positions[place] = best
        compared[best] = -1


@compiled
def _factorise(
    start: int, end: int, items: Any, positions: Any, known: Any, cosines: Any, places: Any, factor: Any, floor: float
) -> int:
    """Fill ``places`` and ``factor`` for the items chosen from place ``start`` up to ``end``; return the rank.

    This is repeated for each place, because the item that leaves the window was the first row, on which all others
    depend. An item's cosines to earlier items are known, because they were needed to choose it.
    """
    rank = 0
    for place in range(start, end):
        if known[items[positions[place]]]:
            residual = _residual(positions[place], cosines, places, factor, rank)
            if residual > floor:
                factor[rank, rank] = 1.0 / np.sqrt(residual)  # the reciprocal, because divisions are slow
                places[rank] = place
                rank += 1
    return rank


@compiled_in_place
def _residual(c: int, cosines: Any, places: Any, factor: Any, rank: int) -> Any:
    """Return the squared length of candidate c outside the window.

    Row ``rank`` of ``factor`` receives its coordinates along the window's directions.
    """
    left = 1.0
    for j in range(rank):
        coordinate = cosines[c, places[j]]
        for i in range(j):
            coordinate -= factor[j, i] * factor[rank, i]
        coordinate *= factor[j, j]
        factor[rank, j] = coordinate
        left -= coordinate**2
    return left
