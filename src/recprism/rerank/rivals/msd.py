"""Max-sum diversification (Gollapudi and Sharma, 2009; Borodin, Lee and Ye, 2012)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from recprism.rerank._choices import Choices, compiled_for, rows_at
from recprism.rerank._pool import Pool
from recprism.rerank.base import SimilarityReranker
from recprism.rerank.features import Directions, Features


@dataclass(frozen=True, kw_only=True)
class MSD(SimilarityReranker):
    """Each place goes to the candidate with the largest (1 - t) * relevance + t * sum of distances to the chosen items.

    t is ``trade_off``. A distance is 1 - cosine, from 0 to 2. Because distances are summed, they weigh more as the list
    grows. The first place goes to the most relevant candidate.

    An item with an all-zero vector has distance 0 to all items.

    Stability: stable.
    """

    def choose(self, pool: Pool, k: int, features: Features) -> Tensor:
        compiled = compiled_for(pool.device)
        msd = plain_msd if compiled is None else compiled.msd
        positions: Tensor = msd(pool, self.directions(features), k, float(self.trade_off))
        return positions


def plain_msd(pool: Pool, directions: Directions, k: int, trade_off: float) -> Tensor:
    """Return positions, (n_users, k), computed in torch; each step computes distances to the latest item only."""
    blocks = pool.blocks(directions.unit.shape[1])
    return torch.cat([_msd_of_some(some, directions, k, trade_off) for _, some in blocks])


def _msd_of_some(some: Pool, directions: Directions, k: int, trade_off: float) -> Tensor:
    unit = directions.unit[some.known_items]
    known = directions.known[some.known_items].to(unit.dtype)
    distances = torch.zeros_like(some.relevance)  # summed over the chosen items
    choices = Choices(some.real, k)
    for _ in range(k):
        last = choices.choose((1 - trade_off) * some.relevance + trade_off * distances)
        similarity = torch.bmm(unit, rows_at(unit, last).transpose(1, 2))[:, :, 0]
        distances = distances + known * known.gather(1, last) - similarity
    return choices.positions
