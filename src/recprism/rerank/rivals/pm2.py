"""PM-2, diversity by proportionality (Dang and Croft, 2012): places are allocated like seats in a parliament."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from recprism.data._checks import WEIGHT, OneOf, Rule
from recprism.rerank._choices import Choices, compiled_for, rows_at
from recprism.rerank._kernels.prices import TIE
from recprism.rerank._pool import Pool
from recprism.rerank.base import Reranker
from recprism.rerank.features import Features


@dataclass(frozen=True, kw_only=True)
class PM2(Reranker):
    """Each place goes to the candidate with the largest (1 - t) * relevance + t * gain.

    t is ``trade_off``. A subtopic's quotient, by the method of Sainte-Laguë, is votes / (2 * seats + 1). Its votes are
    p(subtopic | user). It gets a seat for each chosen item, or the item's share of one if the item has several
    subtopics. The gain is the sum over subtopics of quotient * c(item, subtopic). Terms are multiplied by ``focus`` for
    the subtopic with the highest quotient and by 1 - focus for the others. c is as in :class:`XQuAD`.

    The paper has no term for relevance: t = 1 is PM-2 itself, and of equal candidates the more relevant wins. Quotients
    are scaled to sum 1 at every place, which does not affect PM-2 and gives ``trade_off`` the same meaning at all
    places.

    Attributes:
        intents: "user" for the user's own p (``Features(user_subtopics=...)``), "uniform" for 1 / n_subtopics each.
        focus: Weight of the subtopic with the highest quotient; lambda of the paper.

    Stability: provisional.
    """

    intents: str = "user"
    focus: float = 0.5

    rules: ClassVar[Mapping[str, Rule]] = {**Reranker.rules, "intents": OneOf(("user", "uniform")), "focus": WEIGHT}

    def choose(self, pool: Pool, k: int, features: Features) -> Tensor:
        votes = features.uniform_intents if self.intents == "uniform" else features.intents(pool.n_users)
        compiled = compiled_for(pool.device)
        by = plain_pm2 if compiled is None else compiled.pm2
        terms = {"trade_off": float(self.trade_off), "focus": float(self.focus)}
        positions: Tensor = by(pool, features, votes, k, **terms)
        return positions


def plain_pm2(pool: Pool, features: Features, votes: Tensor, k: int, *, trade_off: float, focus: float) -> Tensor:
    """Return positions, (n_users, k), computed in torch; ``votes`` has a row for each user, or one for all."""
    parts = []
    for users, some in pool.blocks(features.topics.n_cols):
        own = votes.expand(some.n_users, -1) if len(votes) == 1 else votes[users]
        parts.append(_pm2_of_some(some, features, own, k, trade_off=trade_off, focus=focus))
    return torch.cat(parts)


def _pm2_of_some(some: Pool, features: Features, votes: Tensor, k: int, *, trade_off: float, focus: float) -> Tensor:
    chances = features.chance_matrix[some.known_items]
    shares = features.topics.share_matrix[some.known_items]
    seats = torch.zeros_like(votes)
    choices = Choices(some.real, k)
    for _ in range(k):
        weights = _weights(votes / (2 * seats + 1), focus)
        gain = torch.bmm(chances, weights[:, :, None])[:, :, 0]
        last = choices.choose((1 - trade_off) * some.relevance + trade_off * gain)
        seats = seats + rows_at(shares, last)[:, 0]
    return choices.positions


def _weights(quotients: Tensor, focus: float) -> Tensor:
    """Turn quotients, (n, n_subtopics), into weights of subtopics: scaled to sum 1, with the first highest in focus."""
    if quotients.shape[1] == 0:
        return quotients
    quotients = quotients / quotients.sum(1, keepdim=True)
    turn = (quotients >= quotients.amax(1, keepdim=True) - TIE).to(torch.int8).argmax(1, keepdim=True)
    return ((1 - focus) * quotients).scatter(1, turn, focus * quotients.gather(1, turn))
