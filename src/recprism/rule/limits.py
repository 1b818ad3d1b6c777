"""The limit of a rule: a list that could lose more of NDCG than the limit is the base list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

STEPS = 100  # limits are 0, 0.01, 0.02, ..., 1; they are fixed before any list is seen
ROUNDING = 1e-9
AT_ONCE = 1 << 15  # lists that are compared at once


def largest_losses(base: NDArray[Any], lists: NDArray[Any]) -> NDArray[np.float64]:
    """Return the largest NDCG that each user can lose between two lists, whatever the user's labels are, ``(n,)``.

    With m relevant items, a loss is the sum of the discounts that these items lose over the best possible sum. It is
    largest if they are the m items whose discount falls most. Relevant items elsewhere make it smaller.

    Args:
        base: ``(n, k)`` item numbers, -1 in empty places.
        lists: ``(n, k)`` item numbers of the new lists.

    >>> lists = np.array([[1, 2, 3], [1, 2, 4], [5, 6, 7]])
    >>> largest_losses(lists[[0, 0, 0]], lists).round(2).tolist()
    [0.0, 0.5, 1.0]
    """
    k = base.shape[1]
    discounts = np.append(1 / np.log2(np.arange(2, k + 2)), 0.0)
    found = np.zeros(len(base))
    for start in range(0, len(base) if k else 0, AT_ONCE):
        old, new = (it[start : start + AT_ONCE] for it in (base, lists))
        same = old[:, :, None] == new[:, None, :]
        places = np.where(same.any(2), same.argmax(2), k)
        falls = np.where(old >= 0, discounts[:k] - discounts[places], 0.0)
        falls = np.sort(np.maximum(falls, 0.0), axis=1)[:, ::-1]
        found[start : start + AT_ONCE] = (falls.cumsum(1) / discounts[:k].cumsum()).max(1)
    return found


def largest_loss(base: Sequence[Any], ids: Sequence[Any]) -> float:
    """Return the same for one pair of lists of ids, which plain Python does ten times as fast."""
    places = {one: at for at, one in enumerate(ids)}
    falls = [_discount(at) - (_discount(places[one]) if one in places else 0.0) for at, one in enumerate(base)]
    lost = best = largest = 0.0
    for at, fall in enumerate(sorted(falls, reverse=True)):
        if fall <= 0:
            break
        lost, best = lost + fall, best + _discount(at)
        largest = max(largest, lost / best)
    return largest


@cache
def _discount(place: int) -> float:
    return float(1 / np.log2(place + 2.0))


def cuts_of(limits: Mapping[str, float]) -> list[tuple[int, float]]:
    """Return cut and limit of each metric."""
    return [(int(metric.partition("@")[2]), limit) for metric, limit in limits.items()]


def limit_of(losses: NDArray[np.float64]) -> float:
    """Return the smallest limit that no loss exceeds."""
    return float(np.ceil(STEPS * max(0.0, losses.max(initial=0.0) - ROUNDING)) / STEPS)


def needing(losses: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return whether each loss is above the next smaller limit, ``(n,)``: without these, the limit would be smaller."""
    return losses > limit_of(losses) - 1 / STEPS + ROUNDING


def beyond_limits(base: NDArray[Any], lists: NDArray[Any], limits: Mapping[str, float]) -> NDArray[np.bool_]:
    """Return whether each list could lose more than a limit, ``(n,)``.

    Args:
        base: ``(n, k)`` item numbers of the base lists, -1 in empty places.
        lists: ``(n, k)`` item numbers.
        limits: NDCG with a cut -> the largest loss allowed.
    """
    found = np.zeros(len(base), np.bool_)
    for cut, limit in cuts_of(limits):
        found |= largest_losses(base[:, :cut], lists[:, :cut]) > limit + ROUNDING
    return found
