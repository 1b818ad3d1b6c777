"""The choices on a processor: compiled loops, lists of different users on different cores.

No torch operation goes over whole pools here: see ``as_tensor`` for why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from recprism.ranking._threads import share_work
from recprism.rerank._choices import TIE
from recprism.rerank._kernels import (
    greedy as loops,
)
from recprism.rerank._kernels import (
    providers as provider_loops,
)
from recprism.rerank._kernels import (
    subtopics as subtopic_loops,
)
from recprism.rerank._kernels import (
    vectors as vector_loops,
)
from recprism.rerank._pool import Pool
from recprism.rerank.dpp import FLOOR
from recprism.rerank.features import Directions, Features
from recprism.rerank.pmmf import ENOUGH, Market

USERS_AT_ONCE = 128  # a thread's portion: large against the cost of a call, small enough to share the work evenly


def ranked(items: Tensor, score: Tensor, n_items: int | None) -> Pool | None:
    """The pool, or None where something is wrong with the candidates."""
    n_items = int(np.max(items.numpy(), initial=-1)) + 1 if n_items is None else n_items
    pool = Pool(torch.empty_like(items), torch.empty_like(score), torch.empty(len(items), dtype=torch.int64), n_items)
    return pool if _fill(pool, items, score) or _fill(pool, *_by_score(items.numpy(), score.numpy())) else None


def _fill(pool: Pool, items: Tensor, score: Tensor) -> bool:
    share = max(USERS_AT_ONCE, -(-len(items) // torch.get_num_threads()))  # each keeps an array over the catalogue
    terms = (items, score, pool.items, pool.relevance, pool.lengths, pool.n_items)
    return all(_on_all_cores(loops.ranked, pool.n_users, share, *terms))


def _by_score(items: Any, score: Any) -> Iterator[Tensor]:
    """Both with the best scores first, of equal ones the first."""
    order = np.argsort(-score, axis=1, kind="stable")
    return (torch.from_numpy(np.take_along_axis(array, order, 1)) for array in (items, score))


def taken(items: Tensor, positions: Tensor, by_rank: bool) -> Tensor:
    chosen, at = torch.empty_like(positions), _array(positions)
    if by_rank:  # a position is a rank; -1, for no candidate, goes last: it is the largest number without a sign
        at = np.sort(at.view(np.uint64), axis=1).view(np.int64)
    loops.taken(_array(items), at, _array(chosen))
    return chosen


def mmr(pool: Pool, directions: Directions, k: int, trade_off: float) -> Tensor:
    return _chosen(loops.mmr, pool, k, directions.unit, directions.known, trade_off, TIE)


def dpp(pool: Pool, directions: Directions, k: int, trade_off: float) -> Tensor:
    return _chosen(loops.dpp, pool, k, directions.unit, directions.known, trade_off, FLOOR, TIE)


def msd(pool: Pool, directions: Directions, k: int, trade_off: float) -> Tensor:
    return _chosen(vector_loops.msd, pool, k, directions.unit, directions.known, trade_off, TIE)


def ssd(pool: Pool, directions: Directions, k: int, *, trade_off: float, earlier: int) -> Tensor:
    terms = (directions.unit, directions.known, trade_off, earlier, FLOOR, TIE)
    return _chosen(vector_loops.ssd, pool, k, *terms)


def sliding_dpp(pool: Pool, directions: Directions, k: int, *, trade_off: float, earlier: int) -> Tensor:
    terms = (directions.unit, directions.known, trade_off, earlier, FLOOR, TIE)
    return _chosen(vector_loops.sliding_dpp, pool, k, *terms)


def pm2(pool: Pool, features: Features, votes: Tensor, k: int, *, trade_off: float, focus: float) -> Tensor:
    topics, rows = features.topics, features.topics.rows
    terms = (rows.indptr, rows.indices, features.chances, topics.shares, votes, trade_off, focus, TIE)
    return _chosen(subtopic_loops.pm2, pool, k, *terms)


def calibrated(pool: Pool, features: Features, wanted: Tensor, k: int, *, trade_off: float, alpha: float) -> Tensor:
    topics, rows = features.topics, features.topics.rows
    terms = (rows.indptr, rows.indices, topics.shares, wanted, trade_off, alpha, TIE)
    return _chosen(subtopic_loops.calibrated, pool, k, *terms)


def cover(pool: Pool, features: Features, intents: Tensor, k: int, *, trade_off: float, kept: int) -> Tensor:
    rows = features.topics.rows
    return _chosen(loops.cover, pool, k, rows.indptr, rows.indices, features.chances, intents, trade_off, kept, TIE)


def spread(pool: Pool, shown: Tensor, order: Tensor, k: int, *, trade_off: float, kept: int) -> Tensor:
    positions = _empty_places(pool, k)
    tensors = (pool.items, pool.relevance, pool.lengths, positions, shown, order)
    loops.spread(*map(_array, tensors), trade_off, kept)
    return positions


def provide(pool: Pool, market: Market, order: Tensor, k: int, *, trade_off: float, momentum: float) -> Tensor:
    positions = _empty_places(pool, k)
    tensors = (pool.items, pool.relevance, pool.lengths, positions, market.provider, market.share, order)
    terms = (market.places, market.capacity, market.rate, trade_off, momentum, ENOUGH, TIE)
    provider_loops.provide(*map(_array, tensors), *terms)
    return positions


def _chosen(loop: Callable[..., None], pool: Pool, k: int, *terms: Tensor | float) -> Tensor:
    """(n_users, k) positions as ``loop(first, last, items, relevance, lengths, positions, *terms)`` writes them."""
    positions = _empty_places(pool, k)
    _on_all_cores(loop, pool.n_users, USERS_AT_ONCE, pool.items, pool.relevance, pool.lengths, positions, *terms)
    return positions


def _on_all_cores(loop: Callable[..., Any], n_users: int, step: int, *terms: Tensor | float) -> list[Any]:
    """What ``loop(first, last, *terms)`` returns for each run of ``step`` users."""
    arrays = [_array(term) if isinstance(term, Tensor) else term for term in terms]
    return share_work(lambda first, last: loop(first, last, *arrays), n_users, step)


def _empty_places(pool: Pool, k: int) -> Tensor:
    return torch.from_numpy(np.full((pool.n_users, k), -1, np.int64))


def _array(tensor: Tensor) -> Any:
    return np.ascontiguousarray(tensor.numpy())
