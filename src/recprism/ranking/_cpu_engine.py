"""Top-k on the CPU, compiled: scores are computed in registers, and only those above a user's bar are kept.

Users come in groups of GROUP, items in panels of PANEL. A tile is one group against one panel: GROUP x PANEL sums that
fit the vector registers. A panel and the vectors of a block of users fit the first cache. An item that scores above the
user's bar is held as one int64 key. When the buffer of a user is full, the worst keys are dropped and the bar rises.

If there are many users, their bars start at a guess, and users with fewer than k items are ranked again without one. A
score is one chain of multiply-adds over the factors, so its bits depend neither on threads nor on other users.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from recprism.common.threads import share_work
from recprism.data.sparse_rows import SparseRows
from recprism.ranking._kernels.bars import NO_GUESS, Guess, learn_guess
from recprism.ranking._kernels.registers import GROUP, panels_of
from recprism.ranking._kernels.topk import NO_KEY, best_keys, decode

USERS_PER_BLOCK = 64
BLOCKS_PER_TASK = 4
SAMPLE = 128  # users whose lists show where the bars of the others can start
SAMPLE_PAYS_FROM = 16  # in samples: with fewer users it costs more than it saves

Floats = NDArray[np.float32]
Longs = NDArray[np.int64]


def rank(user: Tensor, item: Tensor, k: int, exclude: SparseRows | None, block: int | None) -> tuple[Tensor, Tensor]:
    """Return items ``(n_users, k)`` int64 and scores ``(n_users, k)`` float32; -1 and -inf if no item is left."""
    users, factors = user.numpy(), item.numpy()
    n_users, n_items = len(users), len(factors)
    seen = SparseRows.empty((n_users, n_items)) if exclude is None else exclude
    keys_of = partial(_sorted_keys, panels=panels_of(factors), n_items=n_items, k=k, block=block or USERS_PER_BLOCK)
    if n_users < SAMPLE * SAMPLE_PAYS_FROM:
        keys = keys_of(users, seen, NO_GUESS)
    else:
        sample = np.arange(SAMPLE) * (n_users // SAMPLE)
        keys = keys_of(users[sample], seen.take_rows(sample), NO_GUESS)
        keys = keys_of(users, seen, learn_guess(factors, users[sample], decode(keys)[1][:, -1]))
        short = np.flatnonzero(keys[:, 0] == NO_KEY)  # the bar was too high, or there are not k items left
        if len(short):
            keys[short] = keys_of(users[short], seen.take_rows(short), NO_GUESS)
    items, scores = decode(keys)
    return torch.from_numpy(items), torch.from_numpy(scores)


def _sorted_keys(
    user: Floats, seen: SparseRows, guess: Guess, *, panels: Floats, n_items: int, k: int, block: int
) -> Longs:
    """``(n_users, k)`` keys of the best items above the users' bars, rising; NO_KEY first if there are fewer."""
    keys = np.empty((len(user), k), np.int64)
    seen_from, seen_items = np.ascontiguousarray(seen.indptr), np.ascontiguousarray(seen.indices)
    rows = -(-min(block, len(user)) // GROUP) * GROUP
    per_task = rows * BLOCKS_PER_TASK

    def fill(first: int, last: int) -> None:
        part = slice(first, last)
        starts = seen_from[first : last + 1]
        best_keys(user[part], panels, n_items, starts, seen_items, guess, rows, keys[part])
        keys[part].sort(axis=1)

    share_work(fill, len(user), per_task)
    return keys
