"""Explicit query aspect diversification (Santos, Macdonald and Ounis, 2010), the aspects being subtopics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from recprism.data._checks import OneOf, Rule
from recprism.rerank._choices import Choices, compiled_for, rows_at
from recprism.rerank._pool import Pool
from recprism.rerank.base import Reranker
from recprism.rerank.features import Features


@dataclass(frozen=True, kw_only=True)
class XQuAD(Reranker):
    """Each place goes to the candidate with the largest (1 - t) * relevance + t * gain.

    t is ``trade_off``, lambda of the paper. The gain is the sum over subtopics of p(subtopic | user) *
    c(item, subtopic), times (1 - c(chosen, subtopic)) for each item chosen before. c is 1 if the item has the subtopic,
    so the gain is the probability of the subtopics that the item is the first to cover. With weighted subtopics c is
    the weight; if the largest weight is above 1, all are divided by it.

    Attributes:
        intents: "user" for the user's own p (``Features(user_subtopics=...)``), "uniform" for 1 / n_subtopics each.

    Stability: stable.
    """

    intents: str = "user"

    rules: ClassVar[Mapping[str, Rule]] = {**Reranker.rules, "intents": OneOf(("user", "uniform"))}

    def choose(self, pool: Pool, k: int, features: Features) -> Tensor:
        intents = features.uniform_intents if self.intents == "uniform" else features.intents(pool.n_users)
        return cover(pool, features, intents, k, trade_off=float(self.trade_off))


def cover(pool: Pool, features: Features, intents: Tensor, k: int, *, trade_off: float, kept: int = 0) -> Tensor:
    """Return positions, (n_users, k); see ``plain_cover``."""
    compiled = compiled_for(pool.device)
    by = plain_cover if compiled is None else compiled.cover
    positions: Tensor = by(pool, features, intents, k, trade_off=trade_off, kept=kept)
    return positions


def plain_cover(pool: Pool, features: Features, intents: Tensor, k: int, *, trade_off: float, kept: int) -> Tensor:
    """Choose positions in torch.

    Args:
        pool: Ranked candidates.
        features: The subtopics of the items.
        intents: Probabilities, (n_users, n_subtopics), or one row for all users.
        k: Length of the lists.
        trade_off: From 0 (relevance) to 1 (coverage).
        kept: How many of the best ranks stay before the choice begins.

    Returns:
        Positions, (n_users, k).
    """
    parts = []
    for users, some in pool.blocks(features.topics.n_cols):
        own = intents if len(intents) == 1 else intents[users]
        parts.append(_cover_of_some(some, features.chance_matrix, own, k, trade_off=trade_off, kept=kept))
    return torch.cat(parts)


def _cover_of_some(some: Pool, chances: Tensor, intents: Tensor, k: int, *, trade_off: float, kept: int) -> Tensor:
    chances = chances[some.known_items]
    uncovered = intents[:, :, None].expand(some.n_users, -1, 1)
    choices = Choices(some.real, k)
    for place in range(k):
        weight = 0.0 if place < kept else trade_off
        gain = torch.bmm(chances, uncovered)[:, :, 0]
        last = choices.choose((1 - weight) * some.relevance + weight * gain)
        uncovered = uncovered * (1 - rows_at(chances, last).transpose(1, 2))
    return choices.positions
