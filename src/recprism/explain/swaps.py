"""Every swap of a change taken apart: which factor moved the item that came in past the one that went out.

The parts add up, for it is arithmetic: a decomposition, and no claim about what would have happened otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recprism.data.incidence import Incidence
from recprism.explain.change import Change
from recprism.explain.evaluator import Evaluator
from recprism.metrics import evaluate

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Swaps:
    """One entry per swap, by user and then by rank: the best item that came in is paired with the best that went out.

    users: (n,) row numbers; came, went: (n,) item numbers
    rank_in: (n,) the place of the item that came, in the new list; rank_out: of the one that went, in the base list
    parts: side -> (n, d) what each factor added to the score of ``came`` less that of ``went``; what both sides do
        together counts for the user side
    base_lists: (n_users, k) the lists before
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
        """(n,) by how much the score of the item that came rose against that of the one that went."""
        summed: FloatArray = sum((part.sum(axis=1) for part in self.parts.values()), np.zeros(len(self)))
        return summed

    def mean_parts(self) -> dict[str, FloatArray]:
        """side -> (d,) mean over all swaps: how much each factor helped what came in."""
        return {side: _mean(part) for side, part in self.parts.items()}

    def mean_sizes(self) -> dict[str, FloatArray]:
        """side -> (d,) mean of the absolute parts: helped or hindered."""
        return {side: _mean(np.abs(part)) for side, part in self.parts.items()}

    def of_user(self, user: int) -> Swaps:
        """The swaps of one user, given by row number."""
        mine = self.users == user
        per_swap = {name: getattr(self, name)[mine] for name in ("users", "came", "went", "rank_in", "rank_out")}
        parts = {side: part[mine] for side, part in self.parts.items()}
        return Swaps(**per_swap, parts=parts, base_lists=self.base_lists)

    def effects(self, judge: Evaluator) -> dict[str, FloatArray]:
        """metric -> (n,) what each swap alone does to that metric of its user's base list; NaN if not to be judged.

        The new item takes the place of the old one. Metrics of all lists together are left out: they have no list.
        ``judge`` must look at the users that the swaps were found for, no deeper than their lists.
        """
        before = evaluate(self.base_lists, judge.context, judge.metrics, bootstrap=0).values
        found = {metric: np.zeros(len(self)) for metric in before}
        turn = _turn_within(self.users)
        for number in range(turn.max(initial=-1) + 1):  # every user's first swap, then every user's second ...
            mine = turn == number
            lists = self.base_lists.copy()
            lists[self.users[mine], self.rank_out[mine]] = self.came[mine]
            after = evaluate(lists, judge.context, tuple(before), bootstrap=0).values
            for metric, values in after.items():
                found[metric][mine] = (values - before[metric])[self.users[mine]]
        return found


def find_swaps(change: Change, k: int = 10, *, exclude: Incidence | None = None) -> Swaps:
    """What came into and what went out of every user's best k, and the parts of each swap; ranks count from 0."""
    base, _ = change.base.rank(k, exclude=exclude)
    after, _ = change.after.rank(k, exclude=exclude)
    users, rank_in = np.nonzero(_missing_from(base, after))
    _, rank_out = np.nonzero(_missing_from(after, base))  # as many per user: both lists have the same length
    came, went = after[users, rank_in], base[users, rank_out]
    return Swaps(users, came, went, rank_in, rank_out, score_parts(change, users, came, went), base)


def score_parts(change: Change, users: IntArray, came: IntArray, went: IntArray) -> dict[str, FloatArray]:
    """side -> (n, d) by factor, how much the score of ``came`` rose for the user against that of ``went``."""
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
    """(n_users, k) whether each place of ``lists`` holds an item that ``others`` lack."""
    found = np.zeros(lists.shape, bool)
    for place in range(others.shape[1]):
        found |= lists == others[:, place, None]
    return ~found & (lists >= 0)


def _turn_within(users: IntArray) -> IntArray:
    """(n,) 0 for a user's first swap, 1 for the second, ...; ``users`` do not fall."""
    return np.arange(len(users)) - np.searchsorted(users, users)


def _mean(values: FloatArray) -> FloatArray:
    return np.asarray(values.sum(axis=0) / max(len(values), 1))
