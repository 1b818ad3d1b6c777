"""Intervals of means over users and paired tests, by resampling with matrix products in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
MAX_CELLS = 1 << 21  # of a temporary resamples x users array


def bootstrap_means(values: Array, resamples: int, generator: np.random.Generator) -> Array:
    """Return means over users drawn with replacement, with one draw for all columns.

    Args:
        values: ``(n_users, m)``; NaN entries are left out.
        resamples: Number of draws.
        generator: Draws the users.

    Returns:
        ``(resamples, m)`` means.
    """
    known = ~np.isnan(values)
    gaps = ~known.all(0)
    filled = np.where(known, values, 0.0)
    known_in_gaps = known[:, gaps].astype(np.float64)
    sums = np.empty((resamples, values.shape[1]))
    counts = np.full_like(sums, len(values))
    done = 0
    for draws in _draws(len(values), resamples, generator):
        block = slice(done, done + len(draws))
        sums[block] = draws @ filled  # a draw is a row of counts, so that all means of a block are one matrix product
        counts[block, gaps] = draws @ known_in_gaps
        done += len(draws)
    return _divide(sums, counts)


def percentile_interval(resampled: Array, level: float) -> tuple[Array, Array]:
    """Return the ``(m,)`` ends of the central ``level`` of each column of ``(resamples, m)``, without NaN entries."""
    outside = (1 - level) / 2
    low, high = np.full((2, resampled.shape[1]), np.nan)
    some = ~np.isnan(resampled).all(0)
    if some.any():
        low[some], high[some] = np.nanquantile(resampled[:, some], [outside, 1 - outside], axis=0)
    return low, high


def sign_flip_test(differences: Array, flips: int, generator: np.random.Generator) -> Array:
    """Return two-sided p-values of the paired permutation test, which reverses differences at random.

    Args:
        differences: ``(n_users, m)``; NaN entries are left out.
        flips: Number of random reversals; the smallest possible p-value is 1 / (flips + 1).
        generator: Draws the signs.

    Returns:
        ``(m,)`` p-values.
    """
    filled = np.nan_to_num(differences)
    observed = np.abs(filled.sum(0))
    as_large = np.zeros(differences.shape[1], np.int64)
    for rows in _blocks(flips, len(filled)):
        signs = generator.integers(0, 2, size=(rows, len(filled)), dtype=np.int8) * 2.0 - 1.0
        # The tolerance keeps exact ties equal for any order of summation.
        as_large += (np.abs(signs @ filled) >= observed * (1 - 1e-9)).sum(0)
    return (as_large + 1) / (flips + 1)


def holm(p_values: ArrayLike) -> Array:
    """Correct p-values for their number: the smallest times n, the next times n - 1, ..., never decreasing.

    >>> holm([0.01, 0.04]).tolist()
    [0.02, 0.04]
    """
    found = np.asarray(p_values, np.float64)
    order = np.argsort(found, kind="stable")
    corrected = np.empty_like(found)
    corrected[order] = np.minimum(1.0, np.maximum.accumulate(found[order] * np.arange(len(found), 0, -1)))
    return corrected


def _draws(n_users: int, resamples: int, generator: np.random.Generator) -> Iterator[Array]:
    """Yield blocks of ``(rows, n_users)`` counts of users in n_users draws with replacement."""
    for rows in _blocks(resamples, n_users):
        drawn = generator.integers(0, n_users, size=(rows, n_users), dtype=np.int32)
        flat = (drawn + np.arange(rows)[:, None] * n_users).ravel()
        yield np.bincount(flat, minlength=rows * n_users).reshape(rows, n_users).astype(np.float64)


def _blocks(total: int, width: int) -> Iterator[int]:
    step = max(1, MAX_CELLS // max(1, width))
    for start in range(0, total, step):
        yield min(step, total - start)


def _divide(sums: Array, counts: NDArray[Any]) -> Array:
    quotient: Array = np.divide(sums, counts, out=np.full(np.shape(sums), np.nan), where=counts > 0)
    return quotient
