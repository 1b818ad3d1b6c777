"""Positives in random batches, each with negatives drawn uniformly from the user's other items."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from recprism.data.sparse_rows import SparseRows
from recprism.errors import InputError


class Batch(NamedTuple):
    """Triples of a training step.

    Attributes:
        users: (n,) int64, in ascending order.
        positives: (n,) int64.
        negatives: (n, m) int64.
    """

    users: Tensor
    positives: Tensor
    negatives: Tensor


class NegativeSampler:
    """Draws uniformly from the items that a user does not have in ``avoid``, without rejection.

    The r-th such item is r plus the number of the user's own items before it. Let p_0 < p_1 < ... be the user's own
    items; before p_k there are ``p_k - k`` missing items. These counts never decrease along a row, so one binary search
    over all rows finds how many own items to skip.
    """

    def __init__(self, avoid: SparseRows, device: torch.device) -> None:
        rank = np.arange(len(avoid)) - avoid.indptr[avoid.row_of_entry]
        missing_before = avoid.row_of_entry * (avoid.n_cols + 1) + avoid.indices - rank
        self._missing_before = torch.from_numpy(missing_before).to(device)
        self._first = torch.from_numpy(avoid.indptr[:-1].copy()).to(device)
        self._missing = torch.from_numpy(avoid.n_cols - avoid.row_counts).to(device)
        self._stride = avoid.n_cols + 1

    def draw(self, users: Tensor, count: int, generator: torch.Generator) -> Tensor:
        """Draw (n, count) items independently for (n,) users, each of whom lacks at least one item."""
        users = users[:, None]
        # float64, because with its 53 bits no item is measurably favoured
        uniform = torch.rand(len(users), count, generator=generator, dtype=torch.float64, device=users.device)
        rank = (uniform * self._missing[users]).long()
        stepped_over = torch.searchsorted(self._missing_before, users * self._stride + rank, right=True)
        return rank + stepped_over - self._first[users]


class Triples:
    """All training pairs (user, positive) whose user lacks some item, with negatives.

    Args:
        train: Training interactions, (n_users, n_items).
        negatives: Drawn for each positive.
        device: Where to draw.
        avoid: Interactions that are never drawn as negatives, (n_users, n_items); the training part by default.
        fixed: Generator that draws all negatives once; each triple is then an example of its own. By default each
            batch draws its own negatives.
    """

    def __init__(
        self,
        train: SparseRows,
        negatives: int,
        device: torch.device,
        *,
        avoid: SparseRows | None = None,
        fixed: torch.Generator | None = None,
    ) -> None:
        avoid = train if avoid is None else avoid
        lacks_some = avoid.row_counts[train.row_of_entry] < train.n_cols
        if not lacks_some.any():
            raise InputError(
                f"no user has both an item and an item missing ({train.n_rows} users, {train.n_cols} items, "
                f"{len(train)} interactions); there is nothing to learn from"
            )
        self._users = torch.from_numpy(train.row_of_entry[lacks_some]).to(device)
        self._positives = torch.from_numpy(train.indices[lacks_some].astype(np.int64)).to(device)
        self._sampler = NegativeSampler(avoid, device)
        self._negatives = negatives
        self._fixed: Tensor | None = None
        if fixed is not None:
            self._fixed = self._sampler.draw(self._users, negatives, fixed).view(-1, 1)
            self._users = self._users.repeat_interleave(negatives)
            self._positives = self._positives.repeat_interleave(negatives)

    def __len__(self) -> int:
        return len(self._users)

    def batches(self, size: int, generator: torch.Generator) -> Iterator[Batch]:
        """Yield every example once in random batches, each sorted by user, because gradients are summed by user."""
        order = torch.randperm(len(self), generator=generator, device=self._users.device)
        for first in range(0, len(order), size):
            rows = order[first : first + size].sort().values
            users = self._users[rows]
            drawn = self._sampler.draw(users, self._negatives, generator) if self._fixed is None else self._fixed[rows]
            yield Batch(users, self._positives[rows], drawn)
