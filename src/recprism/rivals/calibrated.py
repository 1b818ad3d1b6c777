"""Calibrated recommendations (Steck, 2018): the subtopics of a list in the proportions of the user's history."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from recprism.common.checks import Real, Rule
from recprism.rivals._kernels import subtopics
from recprism.rule.base import Reranker
from recprism.rule.features import Features
from recprism.rule.kernels.prices import TIE
from recprism.rule.pool import Pool


@dataclass(frozen=True, kw_only=True)
class Calibrated(Reranker):
    """Greedily maximises (1 - t) * sum of relevance - t * KL(p || q) over the chosen items.

    t is ``trade_off``, lambda of the paper. p is the user's own distribution over subtopics
    (``Features(user_subtopics=...)``), and q = (1 - alpha) * (distribution of the list) + alpha * p. Each item of the
    list counts 1, shared among its subtopics by their weights; items without subtopics do not count. The metric
    ``calibration`` is this KL.

    Attributes:
        alpha: How much of p is mixed into q, so that a missing subtopic has a finite cost.

    Stability: stable.
    """

    alpha: float = 0.01

    rules: ClassVar[Mapping[str, Rule]] = {**Reranker.rules, "alpha": Real(0, 1, above=True, below=True)}

    def choose(self, pool: Pool, k: int, features: Features) -> Tensor:
        rows, wanted = features.topics.rows, features.intents(pool.n_users)
        topics = (rows.indptr, rows.indices, features.topics.shares)
        return pool.choose(subtopics.calibrated, k, topics, wanted, (float(self.trade_off), float(self.alpha), TIE))
