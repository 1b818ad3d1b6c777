"""Determinantal point process in a sliding window (Chen, Zhang and Zhou, 2018, section 4)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from recprism.rerank._choices import Choices, compiled_for, rows_at
from recprism.rerank._pool import Pool
from recprism.rerank.base import WindowedReranker
from recprism.rerank.features import Directions, Features
from recprism.rerank.rivals.dpp import FLOOR


@dataclass(frozen=True, kw_only=True)
class SlidingDPP(WindowedReranker):
    """DPP in a window: items need only differ from those near them in the list.

    A place goes to the candidate with the largest (1 - t) * relevance + t * log(residual). The residual is the factor
    by which the candidate would change det S of the ``window - 1`` latest items. It equals the squared sine of its
    angle to their span. :class:`DPP` explains t, which is ``trade_off``, and the case where the kernel has no rank
    left.

    Stability: provisional.
    """

    def choose(self, pool: Pool, k: int, features: Features) -> Tensor:
        compiled = compiled_for(pool.device)
        by = plain_sliding_dpp if compiled is None else compiled.sliding_dpp
        directions = self.directions(features)
        positions: Tensor = by(pool, directions, k, trade_off=float(self.trade_off), earlier=self.earlier(k))
        return positions


def plain_sliding_dpp(pool: Pool, directions: Directions, k: int, *, trade_off: float, earlier: int) -> Tensor:
    """Return positions, (n_users, k), computed in torch; ``earlier`` is how many of the latest items count."""
    blocks = pool.blocks(directions.unit.shape[1])
    return torch.cat([_sliding_dpp_of_some(some, directions, k, trade_off, earlier) for _, some in blocks])


def _sliding_dpp_of_some(some: Pool, directions: Directions, k: int, trade_off: float, earlier: int) -> Tensor:
    unit = directions.unit[some.known_items]
    known = directions.known[some.known_items].to(unit.dtype)
    chosen = unit.new_zeros(len(unit), k, unit.shape[2])
    choices = Choices(some.real, k)
    for place in range(k):
        span = _orthonormal(chosen[:, max(0, place - earlier) : place])
        residual = known - (torch.bmm(unit, span.transpose(1, 2)) ** 2).sum(2)
        last = choices.choose((1 - trade_off) * some.relevance + trade_off * residual.clamp(min=FLOOR).log())
        chosen[:, place] = rows_at(unit, last)[:, 0]
    return choices.positions


def _orthonormal(vectors: Tensor) -> Tensor:
    """Orthonormalise unit vectors, (n, m, d), row by row; a row inside the span of those before it becomes zero.

    This is repeated for each place, because a row that leaves the window changes all rows after it.
    """
    span = torch.zeros_like(vectors)
    for row in range(vectors.shape[1]):
        vector = vectors[:, row : row + 1]
        outside = vector - torch.bmm(torch.bmm(vector, span.transpose(1, 2)), span)
        new = (outside**2).sum(2, keepdim=True) > FLOOR
        span[:, row : row + 1] = torch.where(new, torch.nn.functional.normalize(outside, dim=2), 0.0)
    return span
