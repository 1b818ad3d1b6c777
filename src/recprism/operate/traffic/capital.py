"""A test by betting that may be read at any time: how much less users take under the rule than in the holdout.

Clusters come in the order in which they opened. Cluster i has an outcome y from 0 to 1 and an arm that was drawn with a
known probability p. Its difference, for a budget b and a prediction m that depends on earlier clusters alone, is

    w = (y - m) / p + b m             in the rule's arm,
    w = -(1 - b) (y - m) / p + b m    in the holdout,
    w = b m                           in any other arm.

Given all earlier clusters, w has the mean d_i = E[y under the rule] - (1 - b) E[y in the holdout] for any m, because
the draw does not depend on them. A good m makes it less noisy. |w| is at most 1 / p, for p of the rarest arm.

A bet is a fixed number c in (0, p). Its capital is the product of 1 + c w. Divided by the product of 1 + c d_i it is a
martingale that begins at 1, and that product is at most exp(c sum d_i). So while the running mean of d_i is not above
0, the capital is at most a martingale, whatever the single d_i are. The mean of the capitals of all bets is, too. By
Ville's inequality it reaches 1 / alpha at such a time with a chance of at most alpha, however often it is read. Bets
that adapt to the data would grow faster, and would need each single d_i to be at most 0. The other direction bets on
-w.

The argument needs no independence of outcomes, only that of the draws: a draw does not depend on earlier clusters, and
the outcome of a cluster does not depend on later draws.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recprism.operate.traffic.steps import BROKEN, CERTIFIED, UNDECIDED

BETS = 2.0 ** -np.arange(1.0, 10.0)
"""The bets, as shares of the largest p that is allowed: from a loss of half of all outcomes to one of a thousandth."""

Array = NDArray[np.float64]


def earlier_means(outcome: Array) -> Array:
    """Return the mean of 0 and all earlier outcomes for each cluster, (n,): the prediction."""
    return (np.cumsum(outcome) - outcome) / np.arange(1, len(outcome) + 1)


def differences(outcome: Array, arm: Array, probability: Array, prediction: Array, budget: float) -> Array:
    """Return the difference w of each cluster, (...).

    Args:
        outcome: From 0 to 1, (...).
        arm: 1 for the rule, -1 for the holdout, 0 for any other arm, (...).
        probability: With which this arm was drawn, (...).
        prediction: Of the outcome, from earlier clusters, (...).
        budget: The share of the holdout's outcome that may be lost; a negative one is a gain.
    """
    error = (outcome - prediction) / probability
    found: Array = np.where(arm > 0, error, np.where(arm < 0, (budget - 1) * error, 0.0)) + budget * prediction
    return found


def log_growths(w: Array, starts: NDArray[np.int64], least: float, budget: float) -> Array:
    """Return the growth of the logarithm of each capital in consecutive parts of the clusters.

    Args:
        w: Differences, (n,).
        starts: Position of the first cluster of each part, (parts,).
        least: The smallest probability of an arm.
        budget: That of the differences.

    Returns:
        For bets on w and on -w, (2, bets, parts).
    """
    bets = BETS * least / (1 + max(0.0, -budget))
    return np.stack([[np.add.reduceat(np.log1p(bet * sign * w), starts) for bet in bets] for sign in (1, -1)])


def log_mixture(logs: Array) -> Array:
    """Return the logarithm of the mean capital of all bets.

    Args:
        logs: Logarithms of capitals, (bets, ...).
    """
    top = logs.max(0)
    found: Array = top + np.log(np.exp(logs - top).mean(0))
    return found


@dataclass(frozen=True)
class Evidence:
    """What the capitals show.

    Attributes:
        kept: Logarithm of the capital of the bets that the budget is kept, from the first cluster on.
        limit: The logarithm that a capital must reach: 2 / alpha, because both directions share alpha.
        since: The part from which on the budget is broken; None if no part is.
        needed: Clusters until the first of both is decided, if they go on as before; None if neither capital grows.
    """

    kept: float
    limit: float
    since: int | None
    needed: int | None

    @property
    def answer(self) -> str:
        """What the capitals say at this moment."""
        return BROKEN if self.since is not None else CERTIFIED if self.kept >= self.limit else UNDECIDED


def evidence(growths: Array, n: int, alpha: float) -> Evidence:
    """Judge capitals.

    "Broken" is tested from each part on, because a loss may begin late. The test that begins with part d has the share
    1 / (d (d + 1)) of the error, and these shares add up to 1.

    Args:
        growths: (2, bets, parts), of parts in the order of time.
        n: Number of clusters.
        alpha: Chance that one of both answers is false at some time.
    """
    limit, parts = math.log(2 / alpha), np.arange(1, growths.shape[2] + 1)
    price = np.log(parts * (parts + 1.0))
    from_part = log_mixture(growths[1, :, ::-1].cumsum(1)[:, ::-1])
    surplus = from_part - price - limit
    first = int(surplus.argmax())
    sums = growths.sum(2)
    missing = limit + math.log(len(BETS)) + np.array([[0.0], [price[0]]]) - sums
    pace = sums / n
    needed = float(np.divide(missing, pace, out=np.full_like(pace, np.inf), where=pace > 0).min())
    return Evidence(
        kept=float(log_mixture(sums[0])),
        limit=limit,
        since=first if surplus[first] >= 0 else None,
        needed=math.ceil(max(needed, 1.0)) if needed < math.inf else None,
    )
