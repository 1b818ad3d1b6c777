"""Rankings of factors by how far they moved: over all items, over a slice, for one item or one user.

The size of a move is not its effect. The effect of a factor is what erasing it undoes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata
from scipy.stats import t as student

from recprism.errors import InputError

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


def shared(delta: NDArray[Any], rows: ArrayLike | None = None) -> FloatArray:
    """(d,) mean |delta| over items (the paper's CMB-Shared) or over users.

    Args:
        delta: (n, d) the change of one side.
        rows: Row numbers or a mask; by default all rows.

    >>> shared(np.array([[1.0, -2.0], [3.0, 0.0]])).tolist()
    [2.0, 1.0]
    """
    chosen = delta if rows is None else delta[_as_rows(rows, len(delta))]
    return np.asarray(np.abs(chosen.astype(np.float64)).mean(axis=0))


def individual(delta: NDArray[Any], rows: ArrayLike | None = None) -> FloatArray:
    """(n, d) |delta| of each item (the paper's CMB-Individual) or user; of the given ``rows`` only, if any."""
    chosen = delta if rows is None else delta[_as_rows(rows, len(delta))]
    return np.abs(chosen.astype(np.float64))


def through_lists(delta_item: NDArray[Any], lists: NDArray[Any]) -> FloatArray:
    """(n_users, d) mean |delta| of the items in each user's list; 0 for an empty list.

    Args:
        delta_item: (n_items, d) the change of the item vectors.
        lists: (n_users, k) item numbers, -1 in empty places.
    """
    real = lists >= 0
    if lists.max(initial=-1) >= len(delta_item):
        raise InputError(f"the lists name item {lists.max()}; the change has {len(delta_item)} items")
    sizes = np.abs(delta_item.astype(np.float64))
    total = np.zeros((len(lists), delta_item.shape[1]))
    for place in range(lists.shape[1]):  # one place at a time: users x k x d may not fit in memory
        total += sizes[np.maximum(lists[:, place], 0)] * real[:, place, None]
    return np.asarray(total / np.maximum(real.sum(axis=1), 1)[:, None])


def order(sizes: FloatArray) -> IntArray:
    """Sort factor numbers by descending size along the last axis; ties by ascending number."""
    return np.argsort(-sizes, axis=-1, kind="stable")


@dataclass(frozen=True)
class Agreement:
    """Agreement of rankings: the mean of Spearman's correlation over all pairs, from -1 to 1.

    Attributes:
        mean: The mean correlation.
        low: Lower end of its interval over seeds; NaN for fewer than three rankings.
        high: Upper end of that interval.
        n_rankings: Number of rankings.
        level: Coverage of the interval.
    """

    mean: float
    low: float
    high: float
    n_rankings: int
    level: float = 0.95


def rank_agreement(sizes: Sequence[ArrayLike] | FloatArray, level: float = 0.95) -> Agreement:
    """Measure the agreement of rankings from different seeds, with a jackknife interval.

    Args:
        sizes: (n_seeds, d) sizes that rank the factors; a row of equal sizes has correlation 0 with all others.
        level: Coverage of the interval.

    Raises:
        InputError: If there are fewer than two rankings or factors, or if a size is not finite.
    """
    rows = np.asarray(sizes, np.float64)
    if rows.ndim != 2 or len(rows) < 2 or rows.shape[1] < 2:
        raise InputError(f"an agreement needs two rankings of two factors or more; got shape {rows.shape}")
    if not np.isfinite(rows).all():
        raise InputError("a ranking holds NaN or infinity; rank finite sizes")
    pairs = _pairwise_spearman(rows)
    n = len(rows)
    mean = _mean_of_pairs(pairs, range(n))
    low = high = float("nan")
    if n > 2:
        without = np.array([_mean_of_pairs(pairs, [other for other in range(n) if other != one]) for one in range(n)])
        error = np.sqrt((n - 1) / n * ((without - without.mean()) ** 2).sum())
        reach = float(student.ppf((1 + level) / 2, n - 1) * error)
        low, high = max(mean - reach, -1.0), min(mean + reach, 1.0)
    return Agreement(mean, low, high, n, level)


def _pairwise_spearman(rows: FloatArray) -> FloatArray:
    """(n, n) correlations of ranks."""
    ranks = rankdata(rows, axis=1)
    ranks -= ranks.mean(axis=1, keepdims=True)
    length = np.linalg.norm(ranks, axis=1, keepdims=True)
    unit = np.divide(ranks, length, out=np.zeros_like(ranks), where=length > 0)
    return np.asarray(unit @ unit.T)


def _mean_of_pairs(pairs: FloatArray, chosen: Sequence[int]) -> float:
    return float(np.mean([pairs[a, b] for a, b in combinations(chosen, 2)]))


def _as_rows(rows: ArrayLike, size: int) -> IntArray:
    numbers = np.asarray(rows)
    if numbers.dtype == bool:
        numbers = np.flatnonzero(numbers)
    if not len(numbers) or numbers.min() < 0 or numbers.max() >= size:
        raise InputError(f"a slice needs at least one row, each from 0 to {size - 1}")
    return numbers.astype(np.int64)
