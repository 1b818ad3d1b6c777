"""Tests of "the true loss exceeds the budget" on a sample of users, and the largest loss that lists allow."""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recprism.budget._kernels.betting import LARGEST_RISK, log_capitals
from recprism.common.checks import random_generator
from recprism.metrics.registry import parse
from recprism.rule.limits import largest_losses

Array = NDArray[np.float64]
PValue = Callable[[float], float]  # of "the true loss exceeds the budget", for any budget

ROUNDING = 1e-12  # smaller differences come from floating-point sums
POWER = 0.8  # of the test with the number of users that a certificate needs
PRICE_OF_BETTING = 0.15  # standard errors that betting needs beyond a normal test, if its bets are not held back
BUDGETS = np.concatenate(
    [
        *(np.arange(1, 10) / 1e4, np.arange(2, 40) / 2e3, np.arange(20, 100) / 1e3),
        *(np.arange(20, 40) / 2e2, np.arange(4, 20) / 20),
    ]
)
"""Budgets that bets are made for; a budget between two of them counts as the smaller one."""


def possible_losses(base: NDArray[Any], lists: NDArray[Any], metric: str) -> Array:
    """Return the largest loss of a metric that each user can have between two lists, whatever the labels are.

    It is exact for NDCG. For other metrics, and beyond the end of the lists, it is 1 if the lists differ, else 0.

    Args:
        base: ``(n_users, n)`` item numbers.
        lists: ``(n_users, n)`` new lists of the same users.
        metric: Name with a cut.

    >>> lists = np.array([[1, 2, 3], [1, 2, 4], [5, 6, 7]])
    >>> possible_losses(lists[[0, 0, 0]], lists, "ndcg@3").round(2).tolist()
    [0.0, 0.5, 1.0]
    """
    found, cut = parse(metric)
    before, after = base[:, :cut], lists[:, :cut]
    if found.name != "ndcg" or (cut or 0) > before.shape[1]:
        return np.asarray((before != after).any(1), np.float64)
    return largest_losses(before, after)


def t_test(base: Array, new: Array, largest_loss: float = 1.0, alpha: float = 0.05, seed: int = 0) -> PValue:  # noqa: ARG001
    """Return Student's paired test of new - (1 - budget) base, as a function of the budget.

    It is approximate: a few users who lose everything may be missing in the sample, and then it errs far more often
    than it says. A relative loss is defined only for a mean above 0, which is tested, too.

    Args:
        base: ``(n,)`` values without NaN, n at least 2.
        new: ``(n,)`` values of the same users.
        largest_loss: Not used.
        alpha: Not used.
        seed: Not used.
    """
    above_zero = _t_p_value(base)
    return lambda budget: max(_t_p_value(new - (1 - budget) * base), above_zero)


def betting_test(base: Array, new: Array, largest_loss: float = 1.0, alpha: float = 0.05, seed: int = 0) -> PValue:
    """Return a test by betting, as a function of the budget; it holds for any number of users.

    The test bets on each user that new - (1 - budget) base is above 0. If its mean is not, the game is not favourable,
    so a large capital is evidence. One over the largest capital ever held is a p-value (Ville). The smaller the
    largest possible loss, the larger the bets may be. Bets depend on the budget, so that a larger budget may by chance
    fare worse; the p-value is therefore the largest of all budgets from this one on.

    Args:
        base: ``(n,)`` values from 0 to 1 without NaN.
        new: ``(n,)`` values of the same users.
        largest_loss: No user of the population can lose more than this.
        alpha: The level that the bets are sized for: the p-value does not fall far below it.
        seed: Of the order of the users.
    """
    order = random_generator(seed).permutation(len(base))
    base, new = base[order], new[order]
    found = np.full(len(BUDGETS), np.nan)  # the largest p-value of each budget and all above it, once it is asked for

    def p_value(budget: float) -> float:
        at = int(np.searchsorted(BUDGETS, budget * (1 + 1e-9), side="right")) - 1
        if at < 0:
            return 1.0
        if np.isnan(found[at]):
            until = at + int(np.isnan(found[at:]).sum())  # those above are known
            capitals = np.full(until - at, np.inf)
            if largest_loss > ROUNDING:
                log_capitals(base, new, BUDGETS[at:until], largest_loss, alpha, capitals)
            p_values = np.where(
                capitals >= math.log(1 / alpha), np.minimum(np.exp(-capitals), alpha), np.exp(-capitals)
            )
            above = found[until] if until < len(BUDGETS) else 0.0
            found[at:until] = np.maximum.accumulate(np.append(p_values, above)[::-1])[::-1][:-1]
        return float(found[at])

    return p_value


METHODS: dict[str, Callable[[Array, Array, float, float, int], PValue]] = {"betting": betting_test, "t": t_test}


def _t_p_value(differences: Array) -> float:
    """Return the p-value of "the mean is at most 0"; without any spread it is 0 or 1."""
    from scipy.special import stdtr

    mean, deviation = float(differences.mean()), float(differences.std(ddof=1))
    if deviation < ROUNDING:
        return 0.0 if mean > ROUNDING else 1.0
    return float(stdtr(len(differences) - 1, -mean / deviation * math.sqrt(len(differences))))


def upper_bound(p_value: PValue, alpha: float) -> float:
    """Return the smallest budget that the data certify, to a millionth: an upper confidence bound of the loss."""
    low, high = 0.0, 1.0
    for _ in range(20):
        middle = (low + high) / 2
        low, high = (low, middle) if p_value(middle) <= alpha else (middle, high)
    rounded = round(high, 4)  # 0.05, not 0.0500003: a budget of 5 % must count as certified
    return rounded if rounded < high and p_value(rounded) <= alpha else high


def users_needed(base: Array, new: Array, budget: float, alpha: float, method: str, largest_loss: float) -> int | None:
    """Return how many users a certificate needs. A gain counts as no loss: without a certificate it may be chance."""
    room = min(float(new.mean()), float(base.mean())) - (1 - budget) * float(base.mean())
    if room <= ROUNDING:
        return None
    deviation = max(float((new - (1 - budget) * base).std()), ROUNDING)
    luck, distance = NormalDist().inv_cdf(POWER), NormalDist().inv_cdf(1 - alpha)
    if method == "t":
        return max(len(base) + 1, math.ceil(((distance + luck) * deviation / room) ** 2))
    users = ((distance + PRICE_OF_BETTING + luck) * deviation / room) ** 2
    bet, riches = LARGEST_RISK / max(largest_loss, ROUNDING), math.log(1 / alpha)
    if bet**2 * users * deviation**2 < 2 * riches and room > bet * deviation**2 / 2:
        # The bet is held back: users * growth - luck * sqrt(users) * bet * deviation must reach the riches.
        growth, swing = bet * (room - bet * deviation**2 / 2), luck * bet * deviation
        users = max(users, ((swing + math.sqrt(swing**2 + 4 * growth * riches)) / (2 * growth)) ** 2)
    return max(len(base) + 1, math.ceil(users))
