"""Kernel of P-MMF: users are served one after another, and all prices are updated after each.

``pmmf`` explains the method; ``greedy`` says what the kernels expect of pools and constants. ``amounts`` are the
places, the capacity and the rate of a ``Market``; ``settings`` are the trade-off, the momentum, ``ENOUGH`` and the tie.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from recprism.common.compile import compiled, compiled_loosely


@compiled
def provide(pool: Any, positions: Any, provider: Any, share: Any, order: Any, amounts: Any, settings: Any) -> None:
    (items, relevance, lengths), (places, capacity, rate) = pool, amounts
    trade_off, momentum, enough, tie = settings
    weighted, direction = np.zeros(len(share)), np.zeros(len(share))
    left = capacity * places * share
    speed = rate / share
    value = np.empty(items.shape[1])
    for u in order:
        n, k = lengths[u], min(positions.shape[1], lengths[u])
        if n == 0:
            continue
        for c in range(n):
            p = provider[items[u, c]]
            value[c] = (1 - trade_off) * relevance[u, c] - trade_off * (weighted[p] / share[p])
        _take_best(value[:n], positions[u, :k], tie)
        for place in range(k):
            left[provider[items[u, positions[u, place]]]] -= 1.0
        _turn(direction, left, momentum, (1 - momentum) / places)
        for place in range(k):
            direction[provider[items[u, positions[u, place]]]] -= (1 - momentum) / k
        _allow(weighted, _move(weighted, direction, speed), enough)


@compiled
def _take_best(value: Any, positions: Any, tie: float) -> None:
    for place in range(len(positions)):
        best, to_beat = 0, -np.inf
        for c in range(len(value)):
            if value[c] > to_beat:
                best, to_beat = c, value[c] + tie
        positions[place] = best
        value[best] = -np.inf


@compiled_loosely
def _turn(direction: Any, left: Any, kept: float, scale: float) -> None:
    for p in range(len(direction)):
        direction[p] = kept * direction[p] + scale * left[p]


@compiled_loosely
def _move(weighted: Any, direction: Any, speed: Any) -> float:
    """Take the step; return the sum of negative values after it."""
    below = 0.0
    for p in range(len(weighted)):
        weighted[p] -= speed[p] * direction[p]
        below += min(weighted[p], 0.0)
    return below


@compiled_loosely
def _allow(weighted: Any, below: float, enough: float) -> None:
    """Project ``weighted`` in place onto the vectors whose negative values add up to at least -1.

    All negative values are raised by the same amount, to at most 0. Newton's method finds the amount: the sum is convex
    in it, so steps from below never overshoot, and each step but the last removes providers from the sum.

    Args:
        weighted: Prices times shares, (n_providers,).
        below: Sum of its negative values.
        enough: A smaller excess needs no correction.
    """
    raised, count = 0.0, 0
    while -below - 1.0 > enough:
        if count == 0:
            for p in range(len(weighted)):
                count += weighted[p] < 0.0
        raised += (-below - 1.0) / count
        below, count = 0.0, 0
        for p in range(len(weighted)):
            below += min(weighted[p] + raised, 0.0)
            count += weighted[p] + raised < 0.0
    if raised > 0.0:
        for p in range(len(weighted)):
            weighted[p] = min(weighted[p] + raised, 0.0) if weighted[p] < 0.0 else weighted[p]
