"""The item side: one change of the item vectors for all users, by repeated sweeps over the lists."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recprism.data._checks import random_generator
from recprism.dials._kernels import item_side as loops
from recprism.dials._wanted import Wanted
from recprism.dials.result import Pulls
from recprism.models import Factors
from recprism.ranking import topk
from recprism.ranking._threads import share_work

ROWS_AT_ONCE = 256
# Largest pull, width (in standard deviations of scores) and number of sweeps of each stage. The first stage is convex:
# all lists pull at full strength. Later stages weaken the pull of items that are far from where they should be.
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
class ItemAnswer:
    """The solution of the item side.

    Attributes:
        change: (n_items, d) float32.
        support: The pulls whose sum is the change.
    """

    change: NDArray[np.float32]
    support: Pulls


def solve(base: Factors, wanted: Wanted, *, price: float, seed: int, stages: Any = STAGES) -> ItemAnswer:
    """Sweep over the rows and keep the vectors that return the most list items."""
    rows = _rows(base, wanted)
    generator = random_generator(seed)
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
    """Ranks with the current vectors and keeps the best so far."""

    def __init__(self, base: Factors, wanted: Wanted) -> None:
        self.base, self.wanted = base, wanted
        self.kept = -1
        self.total = int(wanted.lengths.sum())
        self._user = base.search_vectors[0][wanted.users]
        self._depth = wanted.k + (outsiders_watched(wanted.k) + 1) // 2

    def take(self, rows: Any) -> bool:
        """Rank, keep the vectors if they are the best so far, and return whether all lists are complete."""
        item = self.base.with_vectors(item=rows.item[:, : self.base.dim].astype(np.float32)).search_vectors[1]
        self.ranked = topk(self._user, item, self._depth, exclude=self.wanted.exclude)[0]
        kept = hits(self.wanted, self.ranked)
        if kept > self.kept:
            self.kept = kept
            self._item = item[:, : self.base.dim].copy()
            self._state = tuple(array.copy() for array in (rows.watched, rows.count, rows.pull))
        return kept == self.total

    def answer(self) -> ItemAnswer:
        watched, count, pull = self._state
        pulls = (np.arange(watched.shape[1]) < count[:, None]) & (pull != 0)
        row, place = np.nonzero(pulls)
        user = self.wanted.users[row]
        weight = pull[row, place] / self.wanted.spread[user]
        return ItemAnswer(self._item - self.base.item, Pulls(row, user, watched[row, place], weight))


def hits(wanted: Wanted, ranked: NDArray[np.int64]) -> int:
    """Count the items of each list of n items that are among the first n of ``ranked``, (n_rows, at least k)."""
    place = np.arange(wanted.k)
    given = np.where(place < wanted.lengths[:, None], ranked[:, : wanted.k], -2)
    return sum(int((given == wanted.lists[:, [column]]).sum()) for column in range(wanted.k))


def outsiders_watched(k: int) -> int:
    return 30 + k


def _rows(base: Factors, wanted: Wanted) -> loops.Rows:
    """Build the state before the first sweep: no pulls, and no watched items outside the lists."""
    spread = wanted.spread[wanted.users, None]
    bias = np.zeros(base.n_items) if base.item_bias is None else base.item_bias.astype(np.float64)
    user = base.user[wanted.users].astype(np.float64) / spread
    shape = (len(wanted.users), wanted.k + outsiders_watched(wanted.k))
    watched = np.zeros(shape, np.int64)
    in_front = np.argsort(wanted.lists < 0, axis=1, kind="stable")  # moves empty places to the end
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
