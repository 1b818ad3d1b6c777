"""Named weights of blocks of users. What depends on the items alone is computed once for all blocks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from recprism.data.categories import Categories
from recprism.data.sparse_rows import SparseRows
from recprism.forms.dials.kernels.weights_state import Rows
from recprism.forms.dials.named import MARGIN, NEW, OLD, ROUNDING, SCALES
from recprism.forms.dials.rivals import GroupedItems, solve_on_device
from recprism.forms.dials.wanted import item_covariance, spread_of_block
from recprism.forms.dials.weights import rows_of
from recprism.ranking import topk


@dataclass(frozen=True, eq=False)
class FittedDials:
    """Named weights of a block of users.

    Attributes:
        weights: What is added to the scores of items with a category, (n_users, m) float32, in units of scores.
        held: Whether ranking with the weights alone returns the items of the list, (n_users,) bool.
    """

    weights: NDArray[np.float32]
    held: NDArray[np.bool_]


class DialFitter:
    """Finds the cheapest weights under which ranking returns lists.

    Args:
        item: (n_items, d) vectors, on the device where scores are computed.
        categories: The categories of the items.
    """

    def __init__(self, item: Tensor, categories: Categories) -> None:
        self._item, self._values = item, categories.dense()

    def __call__(self, user: Tensor, lists: Tensor, base: Tensor, exclude: SparseRows | None) -> FittedDials:
        """Fit the weights of a block of users, as :func:`recprism.forms.dials.lists_to_dials` does.

        Scores are computed on the device of the vectors; the programs run on the processors.

        Args:
            user: (n_users, d) vectors, on the device of the items.
            lists: The wanted items, (n_users, k); -1 in empty places.
            base: The lists without weights, (n_users, k).
            exclude: Items that cannot be recommended, (n_users, n_items).
        """
        table, (rows, items, covariance) = self._table, self._catalogue
        changed = (~_same_sets(lists, base)).nonzero().flatten()
        chosen = changed.cpu().numpy()
        new = (_largest(table, lists[changed]) > 0) & ~(_largest(table, base[changed]) > 0)
        found = solve_on_device(
            user[changed],
            items,
            rows,
            lists[changed],
            spread=spread_of_block(user.cpu().numpy(), covariance)[chosen],
            cost=torch.where(new, NEW, OLD).double().cpu().numpy(),
            exclude=None if exclude is None else exclude.take_rows(chosen),
        )
        weights = torch.zeros((len(user), table.shape[1]), device=user.device)
        weights[changed] = torch.as_tensor(found.weights, device=user.device).float()
        with_categories = torch.cat([self._item, table], 1)
        given, _ = topk(torch.cat([user, weights], 1), with_categories, lists.shape[1], exclude=exclude)
        return FittedDials(weights.cpu().numpy(), _same_sets(lists, given).cpu().numpy())

    @cached_property
    def _table(self) -> Tensor:
        return torch.as_tensor(self._values, device=self._item.device)

    @cached_property
    def _catalogue(self) -> tuple[Rows, GroupedItems, NDArray[np.float64]]:
        """What is the same for all users: requirements, grouped items, and the covariance of the item vectors."""
        values = self._values.astype(np.float64)
        rows = rows_of(values, margin=MARGIN, rounding=ROUNDING, scales=SCALES, ordered=False)
        return rows, GroupedItems.of(self._item, rows), item_covariance(self._item.cpu().numpy())


def _same_sets(lists: Tensor, given: Tensor) -> Tensor:
    """Return whether all wanted items are among as many given ones, (n_users,) bool."""
    allowed = torch.arange(given.shape[1], device=given.device) < (lists >= 0).sum(1, keepdim=True)
    found = (lists[:, :, None] == given.masked_fill(~allowed, -2)[:, None, :]).any(2)
    same: Tensor = (found | (lists < 0)).all(1)
    return same


def _largest(table: Tensor, lists: Tensor) -> Tensor:
    """Return the largest value of each category on each list, (n, m); 0 for an empty list."""
    return table[lists.clamp(min=0)].masked_fill((lists < 0)[:, :, None], 0.0).amax(1)
