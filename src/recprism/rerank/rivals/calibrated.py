"""Calibrated recommendations (Steck, 2018): the subtopics of a list in the proportions of the user's history."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from recprism.data._checks import Real, Rule
from recprism.rerank._choices import Choices, compiled_for, rows_at
from recprism.rerank._pool import Pool
from recprism.rerank.base import Reranker
from recprism.rerank.features import Features


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
        compiled = compiled_for(pool.device)
        by = plain_calibrated if compiled is None else compiled.calibrated
        terms = {"trade_off": float(self.trade_off), "alpha": float(self.alpha)}
        positions: Tensor = by(pool, features, features.intents(pool.n_users), k, **terms)
        return positions


def plain_calibrated(
    pool: Pool, features: Features, wanted: Tensor, k: int, *, trade_off: float, alpha: float
) -> Tensor:
    """Return positions, (n_users, k), computed in torch; ``wanted`` is (n_users, n_subtopics) probabilities."""
    parts = [
        _calibrated_of_some(some, features, wanted[users, None, :], k, trade_off=trade_off, alpha=alpha)
        for users, some in pool.blocks(features.topics.n_cols)
    ]
    return torch.cat(parts)


def _calibrated_of_some(
    some: Pool, features: Features, wanted: Tensor, k: int, *, trade_off: float, alpha: float
) -> Tensor:
    """Choose for a block of users; ``wanted`` is (n, 1, n_subtopics).

    The value omits p * log(p), which is the same for all candidates.
    """
    shares = features.topics.share_matrix[some.known_items]
    counts = shares.new_zeros(*shares.shape[:2], 1).masked_fill(shares.any(2, keepdim=True), 1.0)
    amount, count = torch.zeros_like(wanted), wanted.new_zeros(len(wanted), 1, 1)
    choices = Choices(some.real, k)
    for _ in range(k):
        mixed = (1 - alpha) * (amount + shares) / (count + counts).clamp(min=1) + alpha * wanted
        fit = torch.xlogy(wanted, mixed).sum(2)
        last = choices.choose((1 - trade_off) * some.relevance + trade_off * fit)
        amount, count = amount + rows_at(shares, last), count + rows_at(counts, last)
    return choices.positions
