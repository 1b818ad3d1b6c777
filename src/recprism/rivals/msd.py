"""Max-sum diversification (Gollapudi and Sharma, 2009; Borodin, Lee and Ye, 2012)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from recprism.rivals._kernels import vectors
from recprism.rule.base import SimilarityReranker
from recprism.rule.features import Features
from recprism.rule.kernels.prices import TIE
from recprism.rule.pool import Pool


@dataclass(frozen=True, kw_only=True)
class MSD(SimilarityReranker):
    """Each place goes to the candidate with the largest (1 - t) * relevance + t * sum of distances to the chosen items.

    t is ``trade_off``. A distance is 1 - cosine, from 0 to 2. Because distances are summed, they weigh more as the list
    grows. The first place goes to the most relevant candidate.

    An item with an all-zero vector has distance 0 to all items.

    Stability: stable.
    """

    def choose(self, pool: Pool, k: int, features: Features) -> Tensor:
        directions = self.directions(features)
        return pool.choose(vectors.msd, k, (directions.unit, directions.known), float(self.trade_off), TIE)
