"""Exact lists for more users and items than memory holds: blocks of users against blocks of items."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from recprism.data.sparse_rows import SparseRows
from recprism.ranking.exact import topk

USERS_AT_A_TIME = 16384
ITEMS_AT_A_TIME = 2**20

Block = tuple[slice, NDArray[np.int64], NDArray[np.float32]]


def topk_blocks(
    user: NDArray[Any],
    item: NDArray[Any],
    k: int,
    *,
    exclude: SparseRows | Any | None = None,
    users_at_a_time: int = USERS_AT_A_TIME,
    items_at_a_time: int = ITEMS_AT_A_TIME,
    engine: str = "auto",
) -> Iterator[Block]:
    """Yield the lists of :func:`topk`, some users at a time.

    Vectors may be memory-mapped (``Factors.load(path, mapped=True)``). Only one block of users, one block of items and
    the lists of one block of users are in memory.

    Args:
        user: ``(n_users, d)`` vectors.
        item: ``(n_items, d)`` vectors.
        k: Length of the lists.
        exclude: Users x items, the pairs never to be returned.
        users_at_a_time: Number of users in a block.
        items_at_a_time: Number of items in a block.
        engine: As for :func:`topk`.

    Yields:
        The rows of a block of users, their items ``(n, k)`` and scores ``(n, k)``.

    >>> import numpy as np
    >>> item = np.array([[1], [3], [2]])
    >>> [(rows.start, items.tolist()) for rows, items, _ in topk_blocks(np.ones((3, 1)), item, 2, users_at_a_time=2)]
    [(0, [[1, 2], [1, 2]]), (2, [[1, 2]])]
    """
    seen = None if exclude is None else SparseRows.coerce(exclude)
    for start in range(0, len(user), users_at_a_time):
        rows = slice(start, min(start + users_at_a_time, len(user)))
        of_users = None if seen is None else seen.take_rows(np.arange(rows.start, rows.stop))
        items, scores = _over_items(np.asarray(user[rows], np.float32), item, k, of_users, items_at_a_time, engine)
        yield rows, items.numpy(), scores.numpy()


def _over_items(
    user: NDArray[np.float32], item: NDArray[Any], k: int, seen: SparseRows | None, step: int, engine: str
) -> tuple[Tensor, Tensor]:
    """Return the lists of a block of users over all blocks of items."""
    users, n_items = torch.from_numpy(user), len(item)
    best: tuple[Tensor, Tensor] | None = None
    for start in range(0, n_items, step) or [0]:
        stop = min(start + step, n_items)
        there = seen if seen is None or step >= n_items else seen.take_cols(start, stop)
        items, scores = topk(users, np.asarray(item[start:stop], np.float32), k, exclude=there, engine=engine)
        items += start * (items >= 0)
        best = (items, scores) if best is None else _merged(best, (items, scores), k)
    assert best is not None
    return best


def _merged(earlier: tuple[Tensor, Tensor], later: tuple[Tensor, Tensor], k: int) -> tuple[Tensor, Tensor]:
    """Return the best k of both; a stable sort puts lower item numbers, which came earlier, first among equals."""
    items, scores = (torch.cat(pair, 1) for pair in zip(earlier, later, strict=True))
    order = scores.sort(dim=1, descending=True, stable=True).indices[:, :k]
    return items.gather(1, order), scores.gather(1, order)
