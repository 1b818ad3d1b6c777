"""The game behind a certificate: one bet per user, sized to the capital that is still needed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from recprism._compile import compiled

EXPECTED_SIZE = 0.05  # of a difference, before the first one is seen
LARGEST_RISK = 0.99  # share of the capital that a user with the largest possible loss would take


@compiled
def log_capitals(base: Any, new: Any, budgets: Any, largest_loss: float, alpha: float, capitals: Any) -> None:
    """Fill the logarithm of the largest capital of a game for each budget; a game begins with 1 and ends at 1 / alpha.

    Before each user, the bet is the one that would reach 1 / alpha at the last user, if the differences go on as so
    far (a simplified form of STaR-Bets, Voracek and Orabona, 2025). It depends on earlier users only.

    Args:
        base: ``(n,)`` values in random order.
        new: ``(n,)`` values of the same users.
        budgets: ``(n_budgets,)`` shares of the base that may be lost.
        largest_loss: The largest possible base - new, above 0.
        alpha: The level that the bets are sized for.
        capitals: ``(n_budgets,)``, filled.
    """
    n, wanted = len(base), math.log(1 / alpha)
    for b in range(len(budgets)):
        squares, capital, richest = EXPECTED_SIZE**2, 0.0, 0.0
        for t in range(n):
            difference = new[t] - (1 - budgets[b]) * base[t]
            bet = math.sqrt(2 * (wanted - capital) * (t + 1) / ((n - t) * squares))
            capital += math.log1p(min(bet, LARGEST_RISK / largest_loss) * difference)
            richest = max(richest, capital)
            if capital >= wanted:
                break
            squares += difference**2
        capitals[b] = richest


@compiled
def largest_losses_of_ndcg(base: Any, new: Any, losses: Any) -> None:
    """Fill the largest NDCG that each user can lose between two lists, whatever the user's labels are.

    With m relevant items, a loss is the sum of the discounts that these items lose over the best possible sum. It is
    largest if they are the m items whose discount falls most. Relevant items elsewhere make it smaller.

    Args:
        base: ``(n_users, k)`` item numbers, -1 in empty places.
        new: ``(n_users, k)`` item numbers of the new lists.
        losses: ``(n_users,)``, filled.
    """
    k = base.shape[1]
    discounts = 1 / np.log2(np.arange(2, k + 2))
    falls = np.empty(k)
    for u in range(len(base)):
        for place in range(k):
            item = base[u, place]
            falls[place] = discounts[place] if item >= 0 else 0.0
            for at in range(k):
                if item >= 0 and new[u, at] == item:
                    falls[place] -= discounts[at]
        falls.sort()
        lost, best, losses[u] = 0.0, 0.0, 0.0
        for m in range(k):
            if falls[k - 1 - m] <= 0:
                break
            lost += falls[k - 1 - m]
            best += discounts[m]
            losses[u] = max(losses[u], lost / best)
