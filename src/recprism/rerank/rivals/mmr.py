"""Maximal marginal relevance (Carbonell and Goldstein, 1998)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from recprism.rerank._choices import Choices, compiled_for, rows_at
from recprism.rerank._pool import Pool
from recprism.rerank.base import SimilarityReranker
from recprism.rerank.features import Directions, Features


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
        compiled = compiled_for(pool.device)
        mmr = plain_mmr if compiled is None else compiled.mmr
        positions: Tensor = mmr(pool, self.directions(features), k, float(self.trade_off))
        return positions


def plain_mmr(pool: Pool, directions: Directions, k: int, trade_off: float) -> Tensor:
    """Return positions, (n_users, k), computed in torch; each step computes similarities to the latest item only."""
    blocks = pool.blocks(directions.unit.shape[1])
    return torch.cat([_mmr_of_some(some, directions, k, trade_off) for _, some in blocks])


def _mmr_of_some(some: Pool, directions: Directions, k: int, trade_off: float) -> Tensor:
    unit = directions.unit[some.known_items]
    choices = Choices(some.real, k)
    last = choices.choose(some.relevance)
    nearest = (~directions.known[some.known_items]).to(unit.dtype)
    for _ in range(1, k):
        similarity = torch.bmm(unit, rows_at(unit, last).transpose(1, 2))[:, :, 0]
        nearest = torch.maximum(nearest, similarity)
        last = choices.choose((1 - trade_off) * some.relevance - trade_off * nearest)
    return choices.positions
