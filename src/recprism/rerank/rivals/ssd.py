"""Sliding spectrum decomposition (Huang et al., 2021): how much an item adds to the volume of its neighbours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from recprism.data._checks import OneOf, Rule
from recprism.rerank._choices import Choices, compiled_for, rows_at
from recprism.rerank._pool import Pool
from recprism.rerank.base import WindowedReranker
from recprism.rerank.features import Directions, Features
from recprism.rerank.rivals.dpp import FLOOR


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

    Stability: provisional.
    """

    bias: bool = True

    rules: ClassVar[Mapping[str, Rule]] = {**WindowedReranker.rules, "bias": OneOf((True, False))}

    def choose(self, pool: Pool, k: int, features: Features) -> Tensor:
        compiled = compiled_for(pool.device)
        ssd = plain_ssd if compiled is None else compiled.ssd
        directions = self.directions(features)
        directions = _with_bias(directions) if self.bias else directions
        positions: Tensor = ssd(pool, directions, k, trade_off=float(self.trade_off), earlier=self.earlier(k))
        return positions


def _with_bias(directions: Directions) -> Directions:
    """Append the coordinate; an all-zero vector stays zero."""
    longer = torch.cat([directions.unit, directions.known[:, None].to(directions.unit.dtype)], dim=1)
    return Directions(longer * 0.5**0.5, directions.known)


def plain_ssd(pool: Pool, directions: Directions, k: int, *, trade_off: float, earlier: int) -> Tensor:
    """Return positions, (n_users, k), computed in torch; ``earlier`` is how many of the latest items count."""
    blocks = pool.blocks(directions.unit.shape[1])
    return torch.cat([_ssd_of_some(some, directions, k, trade_off, earlier) for _, some in blocks])


def _ssd_of_some(some: Pool, directions: Directions, k: int, trade_off: float, earlier: int) -> Tensor:
    unit = directions.unit[some.known_items]
    outside = directions.known[some.known_items].to(unit.dtype)  # squared length outside the window
    span = unit.new_zeros(len(unit), earlier, unit.shape[2])  # orthonormal rows; zero where a choice added no direction
    along = unit.new_zeros(len(unit), earlier, unit.shape[1])  # squared coordinates of candidates in ``span``
    choices = Choices(some.real, k)
    for place in range(k):
        length = torch.where(outside > FLOOR, outside, 0.0).sqrt()
        last = choices.choose((1 - trade_off) * some.relevance + trade_off * length)
        if earlier:
            chosen = rows_at(unit, last)
            rest = chosen - torch.bmm(torch.bmm(chosen, span.transpose(1, 2)), span)
            new = outside.gather(1, last)[:, :, None] > FLOOR
            direction = torch.where(new, torch.nn.functional.normalize(rest, dim=2), 0.0)
            square = torch.bmm(unit, direction.transpose(1, 2))[:, :, 0] ** 2
            slot = place % earlier  # the slot of the direction that leaves the window
            outside = outside + along[:, slot] - square
            span[:, slot], along[:, slot] = direction[:, 0], square
    return choices.positions
