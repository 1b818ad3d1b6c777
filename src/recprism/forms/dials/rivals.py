"""Named weights of many users, with scores on a device and the programs on the processors.

A GPU scores all items and keeps the best rival of each group of items with equal properties. Only these leave it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from recprism.common.threads import share_work
from recprism.data.sparse_rows import SparseRows
from recprism.forms.dials.kernels import weights as loops
from recprism.forms.dials.kernels.weights_state import Found, Rivals, Rows
from recprism.forms.dials.weights import USERS_AT_ONCE, no_answers
from recprism.ranking.seen import seen_pairs

SCORES_AT_ONCE = {"cpu": 2**24}
SCORES_AT_ONCE_ELSEWHERE = 2**30


@dataclass(frozen=True, eq=False)
class GroupedItems:
    """Item vectors with those of one group next to each other.

    Attributes:
        vectors: (n_items, d) float32, sorted by group.
        place: Row of each item in ``vectors``, (n_items,) int64.
        sizes: Items of each group, (n_groups,) int64.
    """

    vectors: Tensor
    place: Tensor
    sizes: Tensor

    @classmethod
    def of(cls, item: Tensor, rows: Rows) -> GroupedItems:
        """Sort items, (n_items, d), by the groups of ``rows``."""
        group = torch.as_tensor(rows.group, device=item.device)
        order = group.argsort(stable=True)
        place = torch.empty_like(order)
        place[order] = torch.arange(len(order), device=item.device)
        return cls(item[order].contiguous(), place, torch.bincount(group, minlength=rows.properties.shape[1]))

    def rivals(self, user: Tensor, lists: Tensor, exclude: SparseRows | None) -> tuple[Tensor, Tensor]:
        """Score all items for a block of users.

        Args:
            user: (n, d) float32.
            lists: The wanted items, (n, k) int64; -1 in empty places.
            exclude: Items that cannot be recommended, (n, n_items).

        Returns:
            The best score of each group without wanted items, (n, n_groups), and the scores of wanted items, (n, k).
        """
        scores = self.vectors @ user.T
        if exclude is not None and len(exclude):
            pairs = seen_pairs(exclude, user.device)
            of_user = torch.repeat_interleave(torch.diff(pairs.starts), output_size=len(exclude))
            scores[self.place[pairs.items.long()], of_user] = -torch.inf
        filled = torch.where(lists >= 0, lists, lists[:, :1]).clamp(min=0)
        places = self.place[filled].T
        own = scores.gather(0, places).T
        scores.scatter_(0, places, -torch.inf)
        best = torch.segment_reduce(scores, "max", lengths=self.sizes, axis=0, unsafe=True)
        return best.T.contiguous(), own.contiguous()


def solve_on_device(
    user: Tensor,
    items: GroupedItems,
    rows: Rows,
    lists: Tensor,
    *,
    spread: NDArray[np.float64],
    cost: NDArray[np.float64],
    exclude: SparseRows | None = None,
) -> Found:
    """Find the weights of users on a device; see :func:`recprism.forms.dials.weights.solve`.

    Args:
        user: (n, d) float32, on the device of the items.
        items: The catalogue.
        rows: Properties and requirements.
        lists: The wanted items, (n, k) int64, on the same device.
        spread: The unit of the scores of each user, (n,).
        cost: Cost of each weight, (n, m).
        exclude: Items that cannot be recommended, (n, n_items).

    Returns:
        Weights and status. The pairs of a proof name groups, not items.
    """
    found = no_answers(*cost.shape)
    wanted = lists.cpu().numpy()
    step = SCORES_AT_ONCE.get(user.device.type, SCORES_AT_ONCE_ELSEWHERE) // max(1, len(items.vectors))
    step = max(USERS_AT_ONCE, step)
    for start in range(0, len(user), step):
        some = slice(start, min(start + step, len(user)))
        out = None if exclude is None else exclude.take_rows(np.arange(some.start, some.stop))
        best, own = (it.cpu().numpy() for it in items.rivals(user[some], lists[some], out))
        block = Rivals(best, own, wanted[some], spread[some], cost[some])
        _solve_block(rows, block, Found(*(array[some] for array in found)))
    return found


def _solve_block(rows: Rows, block: Rivals, found: Found) -> None:
    """Solve the programs of a block on all threads."""
    share_work(
        lambda first, last: loops.find_weights_of_rivals(first, last, rows, block, True, found),
        len(block.lists),
        USERS_AT_ONCE,
    )
