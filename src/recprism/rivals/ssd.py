"""Sliding spectrum decomposition (Huang et al., 2021): how much an item adds to the volume of its neighbours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from recprism.common.checks import Check, OneOf
from recprism.rivals._kernels import vectors
from recprism.rivals.dpp import FLOOR
from recprism.rule.base import WindowedReranker
from recprism.rule.features import Directions, Features
from recprism.rule.kernels.prices import TIE
from recprism.rule.pool import Pool


@dataclass(frozen=True, kw_only=True)
class SSD(WindowedReranker):
    """Each place goes to the candidate with the largest (1 - t) * relevance + t * length of its new part.

    t is ``trade_off``: the stable variant of the paper (SSD*), with gamma = t / (1 - t). The new part of a candidate is
    the part of its unit vector outside the directions of the ``window - 1`` latest items, of length 0 to 1. As in the
    paper, a direction does not change when the earlier directions that it is orthogonal to leave the window.

    A part shorter than 0.001 counts as 0 and adds no direction (duplicates, items inside the span, all-zero vectors).
    When this holds for all candidates, relevance alone decides.

    Attributes:
        bias: Append a coordinate of 1 to the unit vectors, as in the paper, and scale back to length 1. Opposite
            vectors are then far apart; without it they are on one line and count as duplicates.
    """

    bias: bool = True

    rules: ClassVar[Mapping[str, Check]] = {**WindowedReranker.rules, "bias": OneOf((True, False))}

    def choose(self, pool: Pool, k: int, features: Features) -> Tensor:
        directions = self.directions(features)
        directions = _with_bias(directions) if self.bias else directions
        settings = (float(self.trade_off), self.earlier(k), FLOOR, TIE)
        return pool.choose(vectors.ssd, k, (directions.unit, directions.known), settings)


def _with_bias(directions: Directions) -> Directions:
    """Append the coordinate; an all-zero vector stays zero."""
    longer = torch.cat([directions.unit, directions.known[:, None].to(directions.unit.dtype)], dim=1)
    return Directions(longer * 0.5**0.5, directions.known)
