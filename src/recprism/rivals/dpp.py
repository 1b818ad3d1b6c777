"""Determinantal point process: greedy maximum a posteriori (Chen, Zhang and Zhou, 2018)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from recprism.rule.base import SimilarityReranker
from recprism.rule.features import Features
from recprism.rule.kernels import greedy
from recprism.rule.kernels.prices import TIE
from recprism.rule.pool import Pool

FLOOR = 1e-6  # squared sine of the angle (0.06 degrees) below which an item adds no direction of its own


@dataclass(frozen=True, kw_only=True)
class DPP(SimilarityReranker):
    """Greedily maximises (1 - t) * sum of relevance + t * log det S over the chosen items, S their cosines.

    t is ``trade_off``, 1 - theta of the paper, whose kernel is q_i S_ij q_j with q = exp((1 - t) / (2 t) * relevance).
    A place goes to the candidate with the largest (1 - t) * relevance + t * log(residual). The residual is the factor
    by which the candidate would change det S. It equals the squared sine of the angle between the candidate and the
    span of the items chosen before.

    Once the kernel has no rank left, residuals are rounding errors. A residual therefore counts as at least FLOOR, and
    an item at the floor (a duplicate, one inside the span, one with an all-zero vector) adds nothing to the span. When
    all candidates are at the floor, relevance alone decides.

    Stability: stable.
    """

    def choose(self, pool: Pool, k: int, features: Features) -> Tensor:
        directions = self.directions(features)
        return pool.choose(greedy.dpp, k, (directions.unit, directions.known), float(self.trade_off), FLOOR, TIE)
