"""Does a segment of users lose more than all other users? One-sided studentised permutation tests, Holm-corrected.

The statistic is the difference of two relative changes over its standard error, as in a Welch test. Its distribution
comes from permutations of the users. If segment and rest have the same distribution, the test is valid for any number
of users, however rare and large the losses. If only their relative changes are equal, it is valid for many users,
because of the standard error (Chung and Romano, 2013). A t distribution is not: most users do not change at all.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from recprism.metrics.statistics import holm

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

PERMUTATIONS = 1999
MOST_PERMUTED = 20_000  # with more users the normal distribution replaces permutations, which would take minutes
SMALLEST = 2  # users on each side, for a standard error
ROUNDING = 1e-10
BATCH = 100_000  # users of all permutations that are in memory at a time


def loses_more(old: Array, new: Array, masks: Sequence[Mask]) -> list[float | None]:
    """Return the p-value of each segment for "it loses no more than the others", corrected by Holm.

    Args:
        old: ``(n,)`` values before.
        new: ``(n,)`` values after.
        masks: ``(n,)`` bool for each segment.

    Returns:
        One p-value per segment; None if one side has fewer than two users or a mean of 0 before. Such segments are not
        counted in the correction.
    """
    tested = [at for at, mask in enumerate(masks) if _testable(old, mask)]
    found: list[float | None] = [None] * len(masks)
    if not tested:
        return found
    inside = np.array([masks[at] for at in tested], np.float64)
    moments = _moments(old, new - old)
    observed = _statistics(inside @ moments, moments.sum(axis=0))
    if len(old) > MOST_PERMUTED:
        from scipy.special import ndtr

        p_values = ndtr(observed)
    else:
        p_values = _by_permutation(observed, moments, inside)
    for at, p_value in zip(tested, holm(p_values), strict=True):
        found[at] = float(p_value)
    return found


def _testable(old: Array, mask: Mask) -> bool:
    sides = old[mask], old[~mask]
    return all(len(side) >= SMALLEST and side.mean() > 0 for side in sides)


def _by_permutation(observed: Array, moments: Array, inside: Array) -> Array:
    generator, total = np.random.default_rng(0), moments.sum(axis=0)
    at_most = np.ones(len(observed))  # the users as they are count as one of the permutations
    users, left = np.arange(len(moments)), PERMUTATIONS
    while left:
        size = min(left, max(1, BATCH // len(users)))
        orders = generator.permuted(np.broadcast_to(users, (size, len(users))), axis=1)
        at_most += (_statistics(inside @ moments[orders], total) <= observed + ROUNDING).sum(axis=0)
        left -= size
    return at_most / (PERMUTATIONS + 1)


def _moments(old: Array, change: Array) -> Array:
    """Return ``(n, 5)`` terms whose sums over a segment are all that its statistic needs."""
    apart = change - change.sum() / old.sum() * old  # from what the user would lose at the relative change of everyone
    apart[np.abs(apart) < ROUNDING] = 0.0
    return np.column_stack([np.ones_like(old), old, change, apart, apart**2])


def _statistics(inside: Array, total: Array) -> Array:
    """Return, per segment, the relative change less that of the rest, over its standard error.

    The difference is multiplied by both means before, so that a segment with a mean of 0 needs no division.

    Args:
        inside: ``(..., n_segments, 5)`` sums of the moments.
        total: ``(5,)`` sums over all users.
    """
    sides = inside, total - inside
    users = [side[..., 0] for side in sides]
    old, change = ([side[..., column] / n for side, n in zip(sides, users, strict=True)] for column in (1, 2))
    errors = [_squared_error(side) for side in sides]
    difference = old[1] * change[0] - old[0] * change[1]
    difference[np.abs(difference) < ROUNDING] = 0.0
    error = np.sqrt(old[1] ** 2 * errors[0] + old[0] ** 2 * errors[1])
    with np.errstate(divide="ignore"):
        return np.divide(difference, error, out=np.zeros_like(difference), where=difference != 0)


def _squared_error(sums: Array) -> Array:
    """Return the squared standard error of the mean of ``apart``."""
    users, total, squares = sums[..., 0], sums[..., 3], sums[..., 4]
    variance: Array = np.maximum(squares - total**2 / users, 0.0) / (users - 1)
    return variance / users
