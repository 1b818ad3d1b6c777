"""Re-ranking on the CPU: compiled kernels, with users shared among cores.

No torch operation here works on whole pools; ``as_tensor`` explains why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from recprism.ranking._threads import share_work
from recprism.rerank._kernels import greedy, providers, subtopics, vectors
from recprism.rerank._kernels.prices import TIE
from recprism.rerank._pool import Pool
from recprism.rerank.features import Directions, Features
from recprism.rerank.rivals.dpp import FLOOR
from recprism.rerank.rivals.pmmf import ENOUGH, Market

Term = Tensor | float | tuple[Tensor | float, ...]
USERS_AT_ONCE = 128  # large compared with the cost of a call, small enough to share the work evenly


def ranked(items: Tensor, score: Tensor, n_items: int | None) -> Pool | None:
    """Build the pool; None if the candidates are invalid."""
    n_items = int(np.max(items.numpy(), initial=-1)) + 1 if n_items is None else n_items
    pool = Pool(torch.empty_like(items), torch.empty_like(score), torch.empty(len(items), dtype=torch.int64), n_items)
    return pool if _fill(pool, items, score) or _fill(pool, *_by_score(items.numpy(), score.numpy())) else None


def _fill(pool: Pool, items: Tensor, score: Tensor) -> bool:
    share = max(USERS_AT_ONCE, -(-len(items) // torch.get_num_threads()))  # each thread has an array over the catalogue
    terms = (items, score, pool.items, pool.relevance, pool.lengths, pool.n_items)
    return all(_on_all_cores(greedy.ranked, pool.n_users, share, *terms))


def _by_score(items: Any, score: Any) -> Iterator[Tensor]:
    """Sort both by score, best first; equal scores keep their order."""
    order = np.argsort(-score, axis=1, kind="stable")
    return (torch.from_numpy(np.take_along_axis(array, order, 1)) for array in (items, score))


def taken(items: Tensor, positions: Tensor, by_rank: bool) -> Tensor:
    """Implement ``Pool.take``."""
    chosen, at = torch.empty_like(positions), _array(positions)
    if by_rank:  # a position is a rank; as an unsigned number, -1 (no candidate) is the largest and goes last
        at = np.sort(at.view(np.uint64), axis=1).view(np.int64)
    greedy.taken(_array(items), at, _array(chosen))
    return chosen


def mmr(pool: Pool, directions: Directions, k: int, trade_off: float) -> Tensor:
    return _chosen(greedy.mmr, pool, k, (directions.unit, directions.known), trade_off, TIE)


def dpp(pool: Pool, directions: Directions, k: int, trade_off: float) -> Tensor:
    return _chosen(greedy.dpp, pool, k, (directions.unit, directions.known), trade_off, FLOOR, TIE)


def msd(pool: Pool, directions: Directions, k: int, trade_off: float) -> Tensor:
    return _chosen(vectors.msd, pool, k, (directions.unit, directions.known), trade_off, TIE)


def ssd(pool: Pool, directions: Directions, k: int, *, trade_off: float, earlier: int) -> Tensor:
    return _chosen(vectors.ssd, pool, k, (directions.unit, directions.known), (trade_off, earlier, FLOOR, TIE))


def sliding_dpp(pool: Pool, directions: Directions, k: int, *, trade_off: float, earlier: int) -> Tensor:
    return _chosen(vectors.sliding_dpp, pool, k, (directions.unit, directions.known), (trade_off, earlier, FLOOR, TIE))


def pm2(pool: Pool, features: Features, votes: Tensor, k: int, *, trade_off: float, focus: float) -> Tensor:
    rows = features.topics.rows
    topics = (rows.indptr, rows.indices, features.chances, features.topics.shares)
    return _chosen(subtopics.pm2, pool, k, topics, votes, (trade_off, focus, TIE))


def calibrated(pool: Pool, features: Features, wanted: Tensor, k: int, *, trade_off: float, alpha: float) -> Tensor:
    rows = features.topics.rows
    topics = (rows.indptr, rows.indices, features.topics.shares)
    return _chosen(subtopics.calibrated, pool, k, topics, wanted, (trade_off, alpha, TIE))


def cover(pool: Pool, features: Features, intents: Tensor, k: int, *, trade_off: float, kept: int) -> Tensor:
    rows = features.topics.rows
    topics = (rows.indptr, rows.indices, features.chances)
    return _chosen(greedy.cover, pool, k, topics, intents, trade_off, kept, TIE)


def spread(pool: Pool, shown: Tensor, order: Tensor, k: int, *, trade_off: float, kept: int) -> Tensor:
    positions = _empty_places(pool, k)
    tensors = (pool.items, pool.relevance, pool.lengths, positions, shown, order)
    greedy.spread(*map(_array, tensors), trade_off, kept)
    return positions


def provide(pool: Pool, market: Market, order: Tensor, k: int, *, trade_off: float, momentum: float) -> Tensor:
    positions = _empty_places(pool, k)
    tensors = (pool.items, pool.relevance, pool.lengths, positions, market.provider, market.share, order)
    terms = (market.places, market.capacity, market.rate, trade_off, momentum, ENOUGH, TIE)
    providers.provide(*map(_array, tensors), *terms)
    return positions


def _chosen(loop: Callable[..., None], pool: Pool, k: int, *terms: Term) -> Tensor:
    """Return positions, (n_users, k), from ``loop(first, last, (items, relevance, lengths), positions, *terms)``."""
    positions = _empty_places(pool, k)
    candidates = (pool.items, pool.relevance, pool.lengths)
    _on_all_cores(loop, pool.n_users, USERS_AT_ONCE, candidates, positions, *terms)
    return positions


def _on_all_cores(loop: Callable[..., Any], n_users: int, step: int, *terms: Term) -> list[Any]:
    """Call ``loop(first, last, *terms)`` for each block of ``step`` users and return the results."""
    arrays = [_array(term) for term in terms]
    return share_work(lambda first, last: loop(first, last, *arrays), n_users, step)


def _empty_places(pool: Pool, k: int) -> Tensor:
    return torch.from_numpy(np.full((pool.n_users, k), -1, np.int64))


def _array(term: Term) -> Any:
    """Return tensors as arrays, also those in a tuple; numbers stay."""
    if isinstance(term, tuple):
        return tuple(_array(it) for it in term)
    return np.ascontiguousarray(term.numpy()) if isinstance(term, Tensor) else term
