"""Determinantal point process: greedy maximum a posteriori (Chen, Zhang and Zhou, 2018)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from recprism.rerank._choices import Choices, compiled_for, rows_at
from recprism.rerank._pool import Pool
from recprism.rerank.base import SimilarityReranker
from recprism.rerank.features import Directions, Features

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
        compiled = compiled_for(pool.device)
        dpp = plain_dpp if compiled is None else compiled.dpp
        positions: Tensor = dpp(pool, self.directions(features), k, float(self.trade_off))
        return positions


def plain_dpp(pool: Pool, directions: Directions, k: int, trade_off: float) -> Tensor:
    """Return positions, (n_users, k), computed in torch.

    The incremental Cholesky factor of S is kept as orthonormal directions of the chosen vectors. An item's row of the
    factor is its coordinates along them, so each choice costs one dot product per candidate.
    """
    blocks = pool.blocks(directions.unit.shape[1])
    return torch.cat([_dpp_of_some(some, directions, k, trade_off) for _, some in blocks])


def _dpp_of_some(some: Pool, directions: Directions, k: int, trade_off: float) -> Tensor:
    unit = directions.unit[some.known_items]
    residual = directions.known[some.known_items].to(unit.dtype)
    span = unit.new_zeros(len(unit), k, unit.shape[2])  # orthonormal rows; zero where a choice added no direction
    choices = Choices(some.real, k)
    for place in range(k):
        last = choices.choose((1 - trade_off) * some.relevance + trade_off * residual.clamp(min=FLOOR).log())
        chosen = rows_at(unit, last)
        outside = chosen - torch.bmm(torch.bmm(chosen, span.transpose(1, 2)), span)
        new = residual.gather(1, last)[:, :, None] > FLOOR
        direction = torch.where(new, torch.nn.functional.normalize(outside, dim=2), 0.0)
        residual = residual - torch.bmm(unit, direction.transpose(1, 2))[:, :, 0] ** 2
        span[:, place] = direction[:, 0]
    return choices.positions
