"""Maximal marginal relevance (Carbonell and Goldstein, 1998)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from recprism.rule.base import SimilarityReranker
from recprism.rule.features import Features
from recprism.rule.kernels import greedy
from recprism.rule.kernels.prices import TIE
from recprism.rule.pool import Pool


@dataclass(frozen=True, kw_only=True)
class MMR(SimilarityReranker):
    """Each place goes to the candidate with the largest (1 - t) * relevance - t * similarity.

    t is ``trade_off``, 1 - lambda of the paper. Similarity is the largest cosine to an item chosen before; negative
    cosines count as 0. The first place goes to the most relevant candidate.

    An item with an all-zero vector adds no diversity. From the second place on it has similarity 1 to the chosen items.
    Once chosen, it has similarity 0 to the other candidates.

    Stability: stable.
    """

    def choose(self, pool: Pool, k: int, features: Features) -> Tensor:
        directions = self.directions(features)
        return pool.choose(greedy.mmr, k, (directions.unit, directions.known), float(self.trade_off), TIE)
