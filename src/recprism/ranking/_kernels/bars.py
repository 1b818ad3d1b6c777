"""A guess of where a user's bar can start, so that the best k items pass it and few others; results are checked."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from recprism.common.compile import compiled_unchecked as compiled
from recprism.ranking._kernels.registers import GROUP, PANEL, fill_groups, panels_of, tile_scores

ITEMS_TO_LEARN_FROM = 1024
LISTS_MISSED = 0.005  # share of the sampled lists that a bar may cut short: such users are ranked again

Floats = NDArray[np.float32]


class Guess(NamedTuple):
    """Bars are ``height`` standard deviations above the mean of a user's scores.

    Attributes:
        moments: Panels of d + 1 vectors: the covariance of the items and their mean. The products of a user with them
            give the variance and the mean of the user's scores.
        height: Number of standard deviations.
    """

    moments: Floats
    height: np.float32


NO_GUESS = Guess(np.empty((0, 0, PANEL), np.float32), np.float32(-np.inf))


def learn_guess(item: Floats, user: Floats, last_scores: Floats) -> Guess:
    """Learn from the item vectors, the vectors of some users, and the scores at the end of these users' lists."""
    some = np.ascontiguousarray(item[:: -(-len(item) // ITEMS_TO_LEARN_FROM)])
    centre = some.mean(axis=0)
    with np.errstate(all="ignore"):  # overflow: nothing is learned
        covariance = _second_moments(some) / np.float32(len(some)) - np.outer(centre, centre)
        moments = panels_of(np.vstack([covariance, centre]))
        mean, above = (_bars_of(user, Guess(moments, np.float32(height))) for height in (0, 1))
        heights = (last_scores - mean) / (above - mean)
    heights = heights[np.isfinite(heights)]
    return Guess(moments, np.float32(np.quantile(heights, LISTS_MISSED))) if len(heights) else NO_GUESS


@compiled
def fill_bars(vectors: Floats, guess: Guess, bars: Floats) -> None:
    """Fill ``bars`` ``(block,)`` for the users in ``vectors`` ``(block / GROUP, d, GROUP)``; -inf if unknown."""
    if guess.height == -np.inf:
        bars[:] = -np.inf
        return
    n_panels, dim, _ = guess.moments.shape
    products = np.empty((GROUP, PANEL), np.float32)
    for group in range(vectors.shape[0]):
        mean, variance = np.zeros(GROUP, np.float32), np.zeros(GROUP, np.float32)
        for panel in range(n_panels):
            tile_scores(vectors, guess.moments, products, group, panel, dim)
            first = panel * PANEL
            for row in range(GROUP):
                for place in range(min(PANEL, dim - first)):
                    variance[row] += products[row, place] * vectors[group, first + place, row]
                if first <= dim < first + PANEL:
                    mean[row] = products[row, dim - first]
        for row in range(GROUP):
            bar = mean[row] + guess.height * np.sqrt(variance[row])
            bars[group * GROUP + row] = bar if np.isfinite(bar) and variance[row] > 0 else -np.inf


@compiled
def _bars_of(user: Floats, guess: Guess) -> Floats:
    """``(n_users, d)`` -> ``(n_users,)``."""
    n_users, dim = user.shape
    n_groups = (n_users + GROUP - 1) // GROUP
    vectors = np.zeros((n_groups, dim, GROUP), np.float32)
    bars = np.empty(n_groups * GROUP, np.float32)
    fill_groups(user, vectors)
    fill_bars(vectors, guess, bars)
    return bars[:n_users]


@compiled
def _second_moments(item: Floats) -> Floats:
    """``(n_items, d)`` -> ``(d, d)``, the sum of the outer products."""
    dim = item.shape[1]
    moments = np.zeros((dim, dim), np.float32)
    for row in range(item.shape[0]):
        for one in range(dim):
            for other in range(dim):
                moments[one, other] += item[row, one] * item[row, other]
    return moments
