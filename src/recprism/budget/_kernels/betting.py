"""The game behind a certificate: one bet per user, sized to the capital that is still needed."""

from __future__ import annotations

import math
from typing import Any

from recprism.common.compile import compiled

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
