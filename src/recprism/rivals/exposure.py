"""Exposure-aware re-ranking: items that were shown least go first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from recprism.common.checks import LARGEST_SEED, Check, Whole, random_generator
from recprism.rule.base import Reranker
from recprism.rule.features import Features
from recprism.rule.kernels import greedy
from recprism.rule.pool import Pool

ORDER_SEED = Whole(0, LARGEST_SEED, none="for the order of the rows")


@dataclass(frozen=True, kw_only=True)
class ExposureAware(Reranker):
    """A user gets the k candidates with the largest (1 - t) * relevance + t / (1 + times shown so far), best first.

    t is ``trade_off``. At 1 the least shown items come first, and of equally often shown items the more relevant. Users
    are served one after another, and each list counts for the users after it. Counts start at ``Features(shown=...)``,
    or at 0.

    Attributes:
        seed: None serves users in the order of the rows; a number serves them in the random order of that seed.
    """

    seed: int | None = None

    rules: ClassVar[Mapping[str, Check]] = {**Reranker.rules, "seed": ORDER_SEED}

    def choose(self, pool: Pool, k: int, features: Features) -> Tensor:
        return spread(pool, features, k, trade_off=float(self.trade_off), seed=self.seed)


def spread(pool: Pool, features: Features, k: int, *, trade_off: float, seed: int | None, kept: int = 0) -> Tensor:
    """Choose positions, one user after another.

    Args:
        pool: Ranked candidates.
        features: How often items were shown before.
        k: Length of the lists.
        trade_off: From 0 (relevance) to 1 (exposure).
        seed: Of the order in which users are served.
        kept: How many of the best ranks all users keep. These count as shown before the first user is served.

    Returns:
        Positions, (n_users, k).
    """
    order, shown = order_of_service(pool.n_users, seed), features.shown_before(pool.n_items)
    return pool.choose_in_turn(greedy.spread, k, shown, order, trade_off, kept)


def order_of_service(n_users: int, seed: int | None) -> Tensor:
    """Return the order in which users are served, (n_users,) int64: that of the rows, or random for a ``seed``."""
    if seed is None:
        return torch.arange(n_users)
    return torch.from_numpy(random_generator(seed).permutation(n_users))
