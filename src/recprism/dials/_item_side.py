"""The item side: one change of the item vectors for all users, as good a balance as can be found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recprism.dials._kernels import item_side as loops
from recprism.dials._wanted import Wanted
from recprism.models import Factors
from recprism.ranking import topk
from recprism.ranking._threads import share_work

ROWS_AT_ONCE = 256
# How far a wish may pull in the course of the sweeps, and how soon it pulls less for being off (in spreads of scores).
# First the convex problem, where every wish has its say; then wishes that cannot be granted lose theirs.
STAGES = (
    (3.0, np.inf, 60),
    (10.0, 0.15, 60),
    (20.0, 0.05, 100),
    (80.0, 0.01, 100),
    (160.0, 0.005, 200),
    (320.0, 0.0025, 200),
    (640.0, 0.00125, 400),
)
SWEEPS_PER_RANKING = 20
NEAR = 0.1


@dataclass(frozen=True, eq=False)
class Pulls:
    """Who moved which item: change of item i = sum over its pulls of weight * user vector.

    row: (n,) int64 row of the lists; user: (n,) int64 whose row it is; item: (n,) int64
    weight: (n,) float64, above 0 where the item is on the row's list, below 0 where it is an outsider
    """

    row: NDArray[np.int64]
    user: NDArray[np.int64]
    item: NDArray[np.int64]
    weight: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.row)

    @property
    def items(self) -> NDArray[np.int64]:
        """Items that were moved, rising."""
        return np.unique(self.item)

    def of_user(self, user: int) -> Pulls:
        own = self.user == user
        return Pulls(self.row[own], self.user[own], self.item[own], self.weight[own])


@dataclass(frozen=True, eq=False)
class ItemAnswer:
    """change: (n_items, d) float32; support: the pulls it consists of."""

    change: NDArray[np.float32]
    support: Pulls


def solve(base: Factors, wanted: Wanted, *, price: float, seed: int, stages: Any = STAGES) -> ItemAnswer:
    """Sweep after sweep over the rows; the vectors that gave most of the lists back are kept."""
    rows = _rows(loops, base, wanted)
    generator = np.random.default_rng(seed)
    unit = 1.0 / max(float(rows.strength.mean()), 1e-300) if len(rows.strength) else 1.0
    best = _Best(base, wanted)
    for most, width, sweeps in stages:
        cap = unit * min(most, 1.0 / price)
        for number in range(sweeps):
            whole = number % SWEEPS_PER_RANKING == 0
            if whole:
                if best.take(rows):
                    return best.answer()
                _share(loops.watch, rows, best.ranked)
                _share(loops.set_caps, rows, cap, width)
            loops.sweep(rows, generator.permutation(len(wanted.users)), wanted.half_margin, NEAR, whole)
    best.take(rows)
    return best.answer()


class _Best:
    """Ranks with the vectors at hand and remembers the best so far."""

    def __init__(self, base: Factors, wanted: Wanted) -> None:
        self.base, self.wanted = base, wanted
        self.kept = -1
        self.wish = int(wanted.lengths.sum())
        self._user = base.search_vectors[0][wanted.users]
        self._depth = wanted.k + (outsiders_watched(wanted.k) + 1) // 2

    def take(self, rows: Any) -> bool:
        """Whether every list is given back."""
        item = self.base.with_vectors(item=rows.item[:, : self.base.dim].astype(np.float32)).search_vectors[1]
        self.ranked = topk(self._user, item, self._depth, exclude=self.wanted.exclude)[0]
        kept = hits(self.wanted, self.ranked)
        if kept > self.kept:
            self.kept = kept
            self._item = item[:, : self.base.dim].copy()
            self._state = tuple(array.copy() for array in (rows.watched, rows.count, rows.pull))
        return kept == self.wish

    def answer(self) -> ItemAnswer:
        watched, count, pull = self._state
        pulls = (np.arange(watched.shape[1]) < count[:, None]) & (pull != 0)
        row, place = np.nonzero(pulls)
        user = self.wanted.users[row]
        weight = pull[row, place] / self.wanted.spread[user]
        return ItemAnswer(self._item - self.base.item, Pulls(row, user, watched[row, place], weight))


def hits(wanted: Wanted, ranked: NDArray[np.int64]) -> int:
    """How many items of the lists are among the first as many of ``ranked`` (n_rows, at least k)."""
    place = np.arange(wanted.k)
    given = np.where(place < wanted.lengths[:, None], ranked[:, : wanted.k], -2)
    return sum(int((given == wanted.lists[:, [column]]).sum()) for column in range(wanted.k))


def outsiders_watched(k: int) -> int:
    return 30 + k


def _rows(loops: Any, base: Factors, wanted: Wanted) -> Any:
    """The state before the first sweep: nothing pulled, nobody watched."""
    spread = wanted.spread[wanted.users, None]
    bias = np.zeros(base.n_items) if base.item_bias is None else base.item_bias.astype(np.float64)
    user = base.user[wanted.users].astype(np.float64) / spread
    shape = (len(wanted.users), wanted.k + outsiders_watched(wanted.k))
    watched = np.zeros(shape, np.int64)
    in_front = np.argsort(wanted.lists < 0, axis=1, kind="stable")  # empty places to the end
    watched[:, : wanted.k] = np.take_along_axis(wanted.lists, in_front, 1)
    return loops.Rows(
        np.hstack([user, 1 / spread]),
        np.hstack([base.item.astype(np.float64), bias[:, None]]),
        np.square(user).sum(1),
        wanted.lengths,
        watched,
        wanted.lengths.copy(),
        np.zeros(shape),
        np.zeros(shape),
        np.zeros(shape, np.int64),
        np.zeros(shape[0], np.int64),
    )


def _share(loop: Any, rows: Any, *others: Any) -> None:
    share_work(lambda first, last: loop(first, last, rows, *others), len(rows.length), ROWS_AT_ONCE)
