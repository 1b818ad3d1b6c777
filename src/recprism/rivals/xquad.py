"""Explicit query aspect diversification (Santos, Macdonald and Ounis, 2010), the aspects being categories."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from recprism.common.checks import Check, OneOf
from recprism.rule.base import Reranker
from recprism.rule.features import Features
from recprism.rule.kernels import greedy
from recprism.rule.kernels.prices import TIE
from recprism.rule.pool import Pool


@dataclass(frozen=True, kw_only=True)
class XQuAD(Reranker):
    """Each place goes to the candidate with the largest (1 - t) * relevance + t * gain.

    t is ``trade_off``, lambda of the paper. The gain is the sum over categories of p(category | user) *
    c(item, category), times (1 - c(chosen, category)) for each item chosen before. c is 1 if the item has the category,
    so the gain is the probability of the categories that the item is the first to cover. With weighted categories c is
    the weight; if the largest weight is above 1, all are divided by it.

    Attributes:
        intents: "user" for the user's own p (``Features(user_categories=...)``), "uniform" for 1 / n_categories each.

    Stability: stable.
    """

    intents: str = "user"

    rules: ClassVar[Mapping[str, Check]] = {**Reranker.rules, "intents": OneOf(("user", "uniform"))}

    def choose(self, pool: Pool, k: int, features: Features) -> Tensor:
        intents = features.uniform_intents if self.intents == "uniform" else features.intents(pool.n_users)
        return cover(pool, features, intents, k, trade_off=float(self.trade_off))


def cover(pool: Pool, features: Features, intents: Tensor, k: int, *, trade_off: float, kept: int = 0) -> Tensor:
    """Choose positions.

    Args:
        pool: Ranked candidates.
        features: The categories of the items.
        intents: Probabilities, (n_users, n_categories), or one row for all users.
        k: Length of the lists.
        trade_off: From 0 (relevance) to 1 (coverage).
        kept: How many of the best ranks stay before the choice begins.

    Returns:
        Positions, (n_users, k).
    """
    rows = features.categories.rows
    return pool.choose(greedy.cover, k, (rows.indptr, rows.indices, features.chances), intents, trade_off, kept, TIE)
