"""Determinantal point process in a sliding window (Chen, Zhang and Zhou, 2018, section 4)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from recprism.rivals._kernels import vectors
from recprism.rivals.dpp import FLOOR
from recprism.rule.base import WindowedReranker
from recprism.rule.features import Features
from recprism.rule.kernels.prices import TIE
from recprism.rule.pool import Pool


@dataclass(frozen=True, kw_only=True)
class SlidingDPP(WindowedReranker):
    """DPP in a window: items need only differ from those near them in the list.

    A place goes to the candidate with the largest (1 - t) * relevance + t * log(residual). The residual is the factor
    by which the candidate would change det S of the ``window - 1`` latest items. It equals the squared sine of its
    angle to their span. :class:`DPP` explains t, which is ``trade_off``, and the case where the kernel has no rank
    left.
    """

    def choose(self, pool: Pool, k: int, features: Features) -> Tensor:
        directions = self.directions(features)
        settings = (float(self.trade_off), self.earlier(k), FLOOR, TIE)
        return pool.choose(vectors.sliding_dpp, k, (directions.unit, directions.known), settings)
