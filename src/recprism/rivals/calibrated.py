"""Calibrated recommendations (Steck, 2018): the categories of a list in the proportions of the user's history."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from recprism.common.checks import Check, Real
from recprism.rivals._kernels import categories as kernels
from recprism.rule.base import Reranker
from recprism.rule.features import Features
from recprism.rule.kernels.prices import TIE
from recprism.rule.pool import Pool


@dataclass(frozen=True, kw_only=True)
class Calibrated(Reranker):
    """Greedily maximises (1 - t) * sum of relevance - t * KL(p || q) over the chosen items.

    t is ``trade_off``, lambda of the paper. p is the user's own distribution over categories
    (``Features(user_categories=...)``), and q = (1 - alpha) * (distribution of the list) + alpha * p. Each item of the
    list counts 1, shared among its categories by their weights; items without categories do not count. The metric
    ``calibration`` is this KL.

    Attributes:
        alpha: How much of p is mixed into q, so that a missing category has a finite cost.

    Stability: stable.
    """

    alpha: float = 0.01

    rules: ClassVar[Mapping[str, Check]] = {**Reranker.rules, "alpha": Real(0, 1, above=True, below=True)}

    def choose(self, pool: Pool, k: int, features: Features) -> Tensor:
        rows, wanted = features.categories.rows, features.intents(pool.n_users)
        categories = (rows.indptr, rows.indices, features.categories.shares)
        return pool.choose(kernels.calibrated, k, categories, wanted, (float(self.trade_off), float(self.alpha), TIE))
