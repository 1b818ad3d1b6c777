"""The swaps of a change and their parts: which factor moved the new item past the item that it replaced.

The parts add up. They are a decomposition and no causal claim.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recprism.cmb.factors.change import Change
from recprism.cmb.factors.evaluator import Evaluator
from recprism.data.sparse_rows import SparseRows
from recprism.metrics import evaluate

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Swaps:
    """One entry per swap, by user and then by rank.

    The best item that entered a list is paired with the best item that left it.

    Attributes:
        users: (n,) row numbers.
        came: (n,) numbers of the items that entered.
        went: (n,) numbers of the items that left.
        rank_in: (n,) rank of ``came`` in the new list.
        rank_out: (n,) rank of ``went`` in the base list.
        parts: Side -> (n, d) contribution of each factor to the score of ``came`` minus that of ``went``. The joint
            effect of both sides is attributed to the user side.
        base_lists: (n_users, k) lists before the change.
    """

    users: IntArray
    came: IntArray
    went: IntArray
    rank_in: IntArray
    rank_out: IntArray
    parts: dict[str, FloatArray]
    base_lists: IntArray

    def __len__(self) -> int:
        return len(self.users)

    @property
    def total(self) -> FloatArray:
        """(n,) rise of the score of ``came`` relative to that of ``went``."""
        summed: FloatArray = sum((part.sum(axis=1) for part in self.parts.values()), np.zeros(len(self)))
        return summed

    def mean_parts(self) -> dict[str, FloatArray]:
        """Return side -> (d,) mean contribution of each factor over all swaps."""
        return {side: _mean(part) for side, part in self.parts.items()}

    def of_user(self, user: int) -> Swaps:
        """Return the swaps of one user, given by row number."""
        mine = self.users == user
        per_swap = {name: getattr(self, name)[mine] for name in ("users", "came", "went", "rank_in", "rank_out")}
        parts = {side: part[mine] for side, part in self.parts.items()}
        return Swaps(**per_swap, parts=parts, base_lists=self.base_lists)

    def effects(self, evaluator: Evaluator) -> dict[str, FloatArray]:
        """Measure the effect of each swap alone on the user's base list.

        The new item takes the place of the old one. Metrics of all lists together are left out.

        Args:
            evaluator: Evaluates the users of the swaps, at most to the depth of their lists.

        Returns:
            Metric -> (n,) differences; NaN for users without a value.
        """
        before = evaluate(self.base_lists, evaluator.context, evaluator.metrics, bootstrap=0).values
        found = {metric: np.zeros(len(self)) for metric in before}
        turn = _turn_within(self.users)
        for number in range(turn.max(initial=-1) + 1):  # the first swap of every user, then the second ...
            mine = turn == number
            lists = self.base_lists.copy()
            lists[self.users[mine], self.rank_out[mine]] = self.came[mine]
            after = evaluate(lists, evaluator.context, tuple(before), bootstrap=0).values
            for metric, values in after.items():
                found[metric][mine] = (values - before[metric])[self.users[mine]]
        return found


def find_swaps(change: Change, k: int = 10, *, exclude: SparseRows | None = None) -> Swaps:
    """Find the items that entered and left every user's list, and the parts of each swap.

    Args:
        change: The change of the vectors.
        k: Length of the lists.
        exclude: (n_users, n_items) pairs that are never ranked.

    Returns:
        The swaps; ranks count from 0.
    """
    base, after = (it.rank(k, exclude=exclude)[0] for it in (change.base, change.after))
    users, rank_in = np.nonzero(_missing_from(base, after))
    _, rank_out = np.nonzero(_missing_from(after, base))  # as many per user: both lists have the same length
    came, went = after[users, rank_in], base[users, rank_out]
    return Swaps(users, came, went, rank_in, rank_out, score_parts(change, users, came, went), base)


def score_parts(change: Change, users: IntArray, came: IntArray, went: IntArray) -> dict[str, FloatArray]:
    """Return side -> (n, d) contribution of each factor to the rise of ``came`` relative to ``went``."""
    parts: dict[str, FloatArray] = {}
    items = change.base.item.astype(np.float64)
    if change.item is not None:
        moved = change.item.astype(np.float64)
        parts["item"] = change.base.user[users] * (moved[came] - moved[went])
        items = items + moved
    if change.user is not None:
        parts["user"] = change.user[users] * (items[came] - items[went])
    return parts


def _missing_from(others: IntArray, lists: IntArray) -> NDArray[np.bool_]:
    """(n_users, k) whether an item of ``lists`` is missing from the same row of ``others``."""
    found = np.zeros(lists.shape, bool)
    for place in range(others.shape[1]):
        found |= lists == others[:, place, None]
    return ~found & (lists >= 0)


def _turn_within(users: IntArray) -> IntArray:
    """(n,) 0 for a user's first swap, 1 for the second, ...; ``users`` are sorted."""
    return np.arange(len(users)) - np.searchsorted(users, users)


def _mean(values: FloatArray) -> FloatArray:
    return np.asarray(values.sum(axis=0) / max(len(values), 1))
