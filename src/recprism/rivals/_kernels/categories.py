"""Kernels of re-rankers that compare the categories of a list with those of the user.

``greedy`` says what the kernels expect of pools and constants. ``settings`` are the trade-off, a number of the method
and the tie.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from recprism.common.compile import compiled


@compiled
def pm2(first: int, last: int, pool: Any, positions: Any, categories: Any, votes: Any, settings: Any) -> None:
    """Choose for some users; ``votes`` has a row for each user, or one for all."""
    items, relevance, lengths = pool
    for u in range(first, last):
        own = votes[u % len(votes)]
        _pm2_of_one(items[u, : lengths[u]], relevance[u], positions[u], categories, own, settings)


@compiled
def _pm2_of_one(items: Any, relevance: Any, positions: Any, categories: Any, votes: Any, settings: Any) -> None:
    (indptr, indices, chances, shares), (trade_off, focus, tie) = categories, settings
    n = len(items)
    taken = np.zeros(n, np.bool_)
    seats, weights = np.zeros(len(votes)), np.empty(len(votes))
    for place in range(min(len(positions), n)):
        most = _write_weights(votes, seats, weights, focus, tie)
        best, to_beat = 0, -np.inf
        for c in range(n):
            if taken[c]:
                continue
            start, end = indptr[items[c]], indptr[items[c] + 1]
            if (1 - trade_off) * relevance[c] + trade_off * most * (end - start) <= to_beat:
                continue
            gain = 0.0
            for entry in range(start, end):
                gain += weights[indices[entry]] * chances[entry]
            value = (1 - trade_off) * relevance[c] + trade_off * gain
            if value > to_beat:
                best, to_beat = c, value + tie
        positions[place] = best
        taken[best] = True
        for entry in range(indptr[items[best]], indptr[items[best] + 1]):
            seats[indices[entry]] += shares[entry]


@compiled
def _write_weights(votes: Any, seats: Any, weights: Any, focus: float, tie: float) -> float:
    """Write the current weight of each category; return the largest."""
    total = 0.0
    for category in range(len(votes)):
        weights[category] = votes[category] / (2 * seats[category] + 1)
        total += weights[category]
    turn, highest, most = 0, -np.inf, 0.0
    for category in range(len(votes)):
        quotient = weights[category] / total
        if quotient > highest + tie:
            turn, highest = category, quotient
        weights[category] = (1 - focus) * quotient
        most = max(most, weights[category])
    if len(votes) > 0:
        weights[turn] = focus * highest
    return max(most, focus * highest)


@compiled
def calibrated(first: int, last: int, pool: Any, positions: Any, categories: Any, wanted: Any, settings: Any) -> None:
    items, relevance, lengths = pool
    for u in range(first, last):
        _calibrated_of_one(items[u, : lengths[u]], relevance[u], positions[u], categories, wanted[u], settings)


@compiled
def _calibrated_of_one(items: Any, relevance: Any, positions: Any, categories: Any, wanted: Any, settings: Any) -> None:
    """Choose for one user.

    The fit of a list is the sum over categories of wanted * log(mixed), which differs from -KL by a constant. One more
    item rescales the whole list, so the logarithms of the current list are computed once for all candidates. Each
    candidate then changes the logarithms of its own categories. The gain from that never rises as more items are
    chosen, so earlier gains are bounds, as in ``greedy``.
    """
    (indptr, indices, shares), (trade_off, alpha, tie) = categories, settings
    n = len(items)
    value = np.full(n, np.inf)  # as last computed; -inf for chosen candidates
    amount, logs = np.zeros(len(wanted)), np.zeros(len(wanted))
    count = 0  # chosen items that have categories
    fit = _write_logs(logs, amount, wanted, 1, alpha)
    for place in range(min(len(positions), n)):
        one_more = _write_logs(logs, amount, wanted, count + 1, alpha)
        best, best_gain, to_beat = 0, 0.0, -np.inf
        for c in range(n):
            start, end = indptr[items[c]], indptr[items[c] + 1]
            if value[c] == -np.inf or (value[c] <= to_beat and end > start):
                continue
            gain = 0.0 if end > start else fit - one_more
            for entry in range(start, end):
                category = indices[entry]
                p = wanted[category]
                if p > 0:
                    mixed = (1 - alpha) * (amount[category] + shares[entry]) / (count + 1) + alpha * p
                    gain += p * (np.log(mixed) - logs[category])
            value[c] = (1 - trade_off) * relevance[c] + trade_off * gain
            if value[c] > to_beat:
                best, best_gain, to_beat = c, gain, value[c] + tie
        positions[place] = best
        value[best] = -np.inf
        fit = one_more + best_gain
        for entry in range(indptr[items[best]], indptr[items[best] + 1]):
            amount[indices[entry]] += shares[entry]
        count += indptr[items[best] + 1] > indptr[items[best]]


@compiled
def _write_logs(logs: Any, amount: Any, wanted: Any, count: int, alpha: float) -> float:
    """Write the logarithm of the mixed distribution for a list of ``count`` items; return the fit."""
    fit = 0.0
    for category in range(len(wanted)):
        p = wanted[category]
        if p > 0:
            logs[category] = np.log((1 - alpha) * amount[category] / count + alpha * p)
            fit += p * logs[category]
    return fit
