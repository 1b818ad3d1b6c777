"""PM-2, diversity by proportionality (Dang and Croft, 2012): places are allocated like seats in a parliament."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from recprism.common.checks import WEIGHT, Check, OneOf
from recprism.rivals._kernels import categories as kernels
from recprism.rule.base import Reranker
from recprism.rule.features import Features
from recprism.rule.kernels.prices import TIE
from recprism.rule.pool import Pool


@dataclass(frozen=True, kw_only=True)
class PM2(Reranker):
    """Each place goes to the candidate with the largest (1 - t) * relevance + t * gain.

    t is ``trade_off``. A category's quotient, by the method of Sainte-Laguë, is votes / (2 * seats + 1). Its votes are
    p(category | user). It gets a seat for each chosen item, or the item's share of one if the item has several
    categories. The gain is the sum over categories of quotient * c(item, category). Terms are multiplied by ``focus``
    for the category with the highest quotient and by 1 - focus for the others. c is as in :class:`XQuAD`.

    The paper has no term for relevance: t = 1 is PM-2 itself, and of equal candidates the more relevant wins. Quotients
    are scaled to sum 1 at every place, which does not affect PM-2 and gives ``trade_off`` the same meaning at all
    places.

    Attributes:
        intents: "user" for the user's own p (``Features(user_categories=...)``), "uniform" for 1 / n_categories each.
        focus: Weight of the category with the highest quotient; lambda of the paper.
    """

    intents: str = "user"
    focus: float = 0.5

    rules: ClassVar[Mapping[str, Check]] = {**Reranker.rules, "intents": OneOf(("user", "uniform")), "focus": WEIGHT}

    def choose(self, pool: Pool, k: int, features: Features) -> Tensor:
        votes = features.uniform_intents if self.intents == "uniform" else features.intents(pool.n_users)
        rows = features.categories.rows
        categories = (rows.indptr, rows.indices, features.chances, features.categories.shares)
        return pool.choose(kernels.pm2, k, categories, votes, (float(self.trade_off), float(self.focus), TIE))
