"""Exposure-aware re-ranking: items that were shown least go first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from recprism.data._checks import LARGEST_SEED, Rule, Whole, random_generator
from recprism.rerank._choices import compiled_for
from recprism.rerank._pool import Pool
from recprism.rerank.base import Reranker
from recprism.rerank.features import Features

ORDER_SEED = Whole(0, LARGEST_SEED, none="for the order of the rows")


@dataclass(frozen=True, kw_only=True)
class ExposureAware(Reranker):
    """A user gets the k candidates with the largest (1 - t) * relevance + t / (1 + times shown so far), best first.

    t is ``trade_off``. At 1 the least shown items come first, and of equally often shown items the more relevant. Users
    are served one after another, and each list counts for the users after it. Counts start at ``Features(shown=...)``,
    or at 0.

    Attributes:
        seed: None serves users in the order of the rows; a number serves them in the random order of that seed.

    Stability: provisional.
    """

    seed: int | None = None

    rules: ClassVar[Mapping[str, Rule]] = {**Reranker.rules, "seed": ORDER_SEED}

    def choose(self, pool: Pool, k: int, features: Features) -> Tensor:
        return spread(pool, features, k, trade_off=float(self.trade_off), seed=self.seed)


def spread(pool: Pool, features: Features, k: int, *, trade_off: float, seed: int | None, kept: int = 0) -> Tensor:
    """Return positions, (n_users, k); see ``plain_spread``.

    Serving one user after another does not suit a GPU, so the candidates are moved to the CPU.
    """
    order = order_of_service(pool.n_users, seed)
    shown = features.shown_before(pool.n_items).cpu()
    here = pool.to("cpu")
    compiled = compiled_for(here.device)
    by = plain_spread if compiled is None else compiled.spread
    positions: Tensor = by(here, shown, order, k, trade_off=trade_off, kept=kept)
    return positions.to(pool.device)


def order_of_service(n_users: int, seed: int | None) -> Tensor:
    """Return the order in which users are served, (n_users,) int64: that of the rows, or random for a ``seed``."""
    if seed is None:
        return torch.arange(n_users)
    return torch.from_numpy(random_generator(seed).permutation(n_users))


def plain_spread(pool: Pool, shown: Tensor, order: Tensor, k: int, *, trade_off: float, kept: int) -> Tensor:
    """Choose positions in torch.

    Args:
        pool: Ranked candidates.
        shown: Times shown so far, (n_items,) float64; increased in place.
        order: Users in the order of service, (n_users,).
        k: Length of the lists.
        trade_off: From 0 (relevance) to 1 (exposure).
        kept: How many of the best ranks all users keep. These count as shown before the first user is served.

    Returns:
        Positions, (n_users, k).
    """
    places = torch.arange(k)
    positions = torch.where(places < pool.lengths[:, None], places, -1)
    shown += torch.bincount(pool.items[:, :kept].flatten() + 1, minlength=len(shown) + 1)[1:]
    for user in order.tolist():
        length = int(pool.lengths[user])
        if length > kept:
            items = pool.items[user, kept:length]
            value = (1 - trade_off) * pool.relevance[user, kept:length] + trade_off / (1 + shown[items])
            best = value.sort(descending=True, stable=True).indices[: k - kept]
            positions[user, kept : kept + len(best)] = kept + best
            shown[items[best]] += 1
    return positions
