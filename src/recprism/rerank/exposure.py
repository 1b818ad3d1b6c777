"""Exposure-aware re-ranking: what has been shown least so far goes first."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from recprism.rerank._choices import compiled_for
from recprism.rerank._pool import Pool
from recprism.rerank.base import Reranker, require_whole
from recprism.rerank.features import Features


@dataclass(frozen=True, kw_only=True)
class ExposureAware(Reranker):
    """A user gets the k candidates with the largest (1 - t) * relevance + t / (1 + times shown so far), best first.

    t is ``trade_off``; at 1 the least shown come first, of equally often shown ones the more relevant. Users are served
    one after another, and every list counts for those after it. Counting starts at ``Features(shown=...)``, or at 0.

    seed: None serves users in the order of the rows; a number serves them in the random order of that seed
    """

    seed: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require_whole("seed", self.seed, "for the order of the rows")

    def choose(self, pool: Pool, k: int, features: Features) -> Tensor:
        return spread(pool, features, k, trade_off=float(self.trade_off), seed=self.seed)


def spread(pool: Pool, features: Features, k: int, *, trade_off: float, seed: int | None, kept: int = 0) -> Tensor:
    """(n_users, k) positions by the fastest way there is; see ``plain_spread``.

    One user after another is no work for a GPU: candidates come over to the processor.
    """
    order = order_of_service(pool.n_users, seed)
    shown = features.shown_before(pool.n_items).cpu()
    here = pool.to("cpu")
    compiled = compiled_for(here.device)
    by = plain_spread if compiled is None else compiled.spread
    positions: Tensor = by(here, shown, order, k, trade_off=trade_off, kept=kept)
    return positions.to(pool.device)


def order_of_service(n_users: int, seed: int | None) -> Tensor:
    """(n_users,) int64: users as they are served, in the order of the rows or in the random one of ``seed``."""
    if seed is None:
        return torch.arange(n_users)
    return torch.from_numpy(np.random.default_rng(seed).permutation(n_users))


def plain_spread(pool: Pool, shown: Tensor, order: Tensor, k: int, *, trade_off: float, kept: int) -> Tensor:
    """(n_users, k) positions, in torch.

    shown: (n_items,) float64 times shown so far; counted on in place
    order: (n_users,) the users as they are served
    kept: how many of the best ranks everybody keeps; known from the start, they count before the first user is served
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
