"""What methods gain where they lose equally much, and how sure that is: a bootstrap of the whole procedure.

In every draw, users are drawn with replacement, the same ones on validation and on the test, and so are the seeds. For
each method, the draw chooses the settings with the largest gain at the loss on validation; then it reads the gain of
these settings at the same loss on the test. No list is made again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from contest.curves import COST, Curve
from recprism.common.checks import random_generator
from recprism.metrics.registry import parse

DRAWS = 1000
SEED = 31  # makes these draws independent of others
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Weights:
    """How often every user and seed counts in each draw; the first draw counts all once.

    Attributes:
        users: (n_users, n_draws).
        seeds: (n_draws, n_seeds).
    """

    users: Array
    seeds: Array

    @classmethod
    def drawn(cls, n_users: int, n_seeds: int, draws: int = DRAWS) -> Weights:
        """Draw users and seeds with replacement."""
        rng = random_generator(0, SEED)

        def counts(n: int) -> Array:
            found = rng.multinomial(n, np.full(n, 1 / n), draws).astype(np.float64)
            return np.concatenate([np.ones((1, n)), found])

        return cls(np.ascontiguousarray(counts(n_users).T), counts(n_seeds))


def smooth_losses(losses: Array) -> Array:
    """Return the closest losses that never fall with the trade-off, (n, ...), by least squares.

    >>> smooth_losses(np.array([0.0, 0.02, 0.01, 0.05])).round(3).tolist()
    [0.0, 0.015, 0.015, 0.05]
    """
    n = len(losses)
    sums = np.concatenate([np.zeros((1, *losses.shape[1:])), np.cumsum(losses, 0)])
    found = np.full(losses.shape, -np.inf)
    for first in range(n):  # the largest over all beginnings of the smallest mean over all ends
        smallest = np.full(losses.shape[1:], np.inf)
        for last in range(n - 1, first - 1, -1):
            smallest = np.minimum(smallest, (sums[last + 1] - sums[first]) / (last + 1 - first))
            found[last] = np.maximum(found[last], smallest)
    return found


def gain_at(losses: Array, gains: Array, level: float) -> Array:
    """Return the gains where the smoothed losses reach a level, interpolated between trade-offs.

    The base lists, which lose and gain nothing, come before the first trade-off. A method that never loses as much has
    the gain of its largest trade-off.

    Args:
        losses: Along the trade-off, (n, ...).
        gains: The gains there, (n, ...).
        level: The loss.

    >>> float(gain_at(np.array([0.0, 0.04]), np.array([0.1, 0.3]), 0.01))
    0.15
    """
    nothing = np.zeros((1, *losses.shape[1:]))
    smooth, gains = smooth_losses(np.concatenate([nothing, losses])), np.concatenate([nothing, gains])
    low = (smooth <= level).cumprod(0).sum(0) - 1  # smoothing may raise the loss of the base above the level
    low = np.maximum(low, 0)[None]
    high = np.minimum(low + 1, len(smooth) - 1)
    ends = [np.take_along_axis(smooth, it, 0)[0] for it in (low, high)]
    between = [np.take_along_axis(gains, it, 0)[0] for it in (low, high)]
    span = ends[1] - ends[0]
    share = np.where(span > 0, (level - ends[0]) / np.where(span > 0, span, 1.0), 0.0)
    return np.asarray(between[0] + np.clip(share, 0.0, 1.0) * (between[1] - between[0]))


@dataclass(frozen=True)
class Curves:
    """Losses and gains of one choice of settings in every draw, (n_trade_offs, n_draws) each."""

    losses: Array
    gains: Array

    def at(self, level: float) -> Array:
        return gain_at(self.losses, self.gains, level)


def drawn_curves(found: Curve, base: Mapping[str, Array], goal: str, users: Array) -> Curves:
    """Return losses and gains as shares of the base, in every draw of users.

    Args:
        found: The curve of one choice.
        base: Metric -> values of the base lists, (n_users,) or (1,).
        goal: The metric.
        users: How often a user counts in each draw, (n_users, n_draws).
    """
    sign = 1.0 if parse(goal)[0].higher_is_better else -1.0

    def change(metric: str) -> Array:
        values, before = found.values[metric].astype(np.float64), base[metric]
        if len(before) == 1:  # of all lists together: it has no users to draw
            return np.broadcast_to(values / before - 1, (len(values), users.shape[1]))
        # A sum over the users who can be judged; who that is does not depend on the lists.
        return np.asarray((np.nan_to_num(values) @ users) / (np.nan_to_num(before) @ users) - 1)

    return Curves(-change(COST), sign * change(goal))


def over_seeds(curves: Sequence[Curves], seeds: Array) -> Curves:
    """Return the mean over seeds, as often as each was drawn, (n_draws, n_seeds)."""
    share = (seeds / seeds.sum(1, keepdims=True)).T[:, None, :]
    mean = [(np.stack([getattr(it, name) for it in curves]) * share).sum(0) for name in ("losses", "gains")]
    return Curves(*mean)


def chosen(validation: Mapping[int, Curves], level: float) -> NDArray[np.int64]:
    """Return the choice with the largest gain at a loss on validation, in each draw."""
    names = np.array(list(validation))
    return np.asarray(names[np.stack([it.at(level) for it in validation.values()]).argmax(0)])


def read(test: Mapping[int, Curves], picks: NDArray[np.int64], level: float) -> Array:
    """Return the gain of the chosen settings at a loss on the test, in each draw."""
    found = np.full(len(picks), np.nan)
    for choice in np.unique(picks):
        rows = picks == choice
        found[rows] = test[int(choice)].at(level)[rows]
    return found
