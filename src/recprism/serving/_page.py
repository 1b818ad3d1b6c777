"""One request: its candidates, its pins, and its lists at any trade-off."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from recprism.data._ids import canonical_text
from recprism.explain.reasons._codes import GRID, ORDER, PRECISION, TIED, first_present
from recprism.rerank._kernels.optimal import optimal
from recprism.rerank._kernels.prices import TIE
from recprism.serving._compared import Compared
from recprism.serving._kernels.reasons import compare
from recprism.serving._pool import Pool
from recprism.serving._prepared import PreparedRule
from recprism.serving.constraints import Id, RequestConstraints, Unmet

ANY_GROUP = np.ones((1, 1), np.bool_)  # without limits on categories, every item may replace every other


class Listed(NamedTuple):
    """A whole list, pins included: ids, item numbers, scores as given, and whether each place is pinned."""

    ids: list[Id]
    numbers: list[int]
    scores: list[float]
    pinned: list[bool]


class Page:
    """One request.

    Args:
        rule: The rule.
        pool: The candidates.
        k: Length of the list.
        kept: The constraints.
        out: Ids that are not shown, as text; a pin of one of them is released.
        intents: The user's weights of categories.
    """

    def __init__(
        self,
        rule: PreparedRule,
        pool: Pool,
        k: int,
        kept: RequestConstraints,
        out: set[str],
        intents: NDArray[np.float64],
    ) -> None:
        self.rule, self.k, self.intents, self.all = rule, k, intents, pool
        self.asked = kept.pinned
        held = {place - 1: it for place, it in kept.pinned.items() if place <= k and canonical_text(it) not in out}
        self.pinned_ids = dict(sorted(held.items()))
        self.pins = np.full(k, -1, np.int64)
        if held:
            self.pins[list(self.pinned_ids)] = rule.numbers(list(self.pinned_ids.values()))
        self.pool = pool.without({canonical_text(item) for item in held.values()})
        self.free = k - len(held)
        self.limits = rule.limits(kept) if kept.names_shares and k else None
        self.base = self._kept(np.arange(min(self.free, len(self.pool.ids))))
        self.base.sort()

    def positions(self, trade_off: float) -> NDArray[np.int64]:
        """Run the rule: positions of the list, (m,), without pins."""
        return self._kept(self.unrepaired(trade_off))

    def unrepaired(self, trade_off: float) -> NDArray[np.int64]:
        """Run the rule without shares."""
        n = len(self.pool.ids)
        chosen = np.arange(min(self.free, n))
        file = self.rule.file
        if not file.goals or (trade_off == 0 and file.history_weight == 0) or not len(chosen):
            return chosen
        goals = self.rule.goal_arrays(trade_off, self.free, self.intents[None])
        lists = np.full((1, self.free), -1)
        lists[0, : len(chosen)] = chosen
        optimal(0, 1, self.pool.numbers[None], self.pool.relevance[None], np.array([n]), lists, *goals, TIE)
        return lists[0, : len(chosen)]

    def _kept(self, chosen: NDArray[np.int64]) -> NDArray[np.int64]:
        if self.limits is None or not len(chosen):
            return chosen
        return self.limits.keep(self.pool.numbers, self.pool.relevance, chosen, self.pins)

    def whole(self, chosen: NDArray[np.int64]) -> Listed:
        """Return the list: pins at their places, the others in order; a short list has no gaps."""
        pool, at = self.pool, chosen.tolist()
        found = Listed(
            [pool.ids[it] for it in at], pool.numbers[chosen].tolist(), pool.scores[chosen].tolist(), [False] * len(at)
        )
        for place, item in self.pinned_ids.items():
            for column, value in zip(found, (item, int(self.pins[place]), self._score_of(item), True), strict=True):
                column.insert(place, value)  # type: ignore[attr-defined]
        return found

    def _score_of(self, item: Id) -> float:
        text, ranked = canonical_text(item), [*zip(self.all.ids, self.all.scores.tolist(), strict=True), *self.all.rest]
        return next((score for one, score in ranked if canonical_text(one) == text), float("nan"))

    def unmet(self, found: Listed) -> tuple[Unmet, ...]:
        """Return what the list does not keep."""
        missed = [place for place, item in self.asked.items() if not _is_at(found.ids, place - 1, item)]
        unmet = [Unmet(f"item {self.asked[place]} at place {place}", 1) for place in missed]
        if self.limits is not None and found.ids:
            unmet += self.limits.unmet(np.array(found.numbers, np.int64))
        return tuple(unmet)

    def compared(self, chosen: NDArray[np.int64], found: Listed, trade_off: float, *, entry_prices: bool) -> Compared:
        """Compare each item of the list with others; ``found`` is the whole list."""
        rule, pool, m = self.rule, self.pool, len(chosen)
        group, allowed = np.zeros(len(pool.ids), np.int64), ANY_GROUP
        if self.limits is not None:
            group, allowed = self.limits.groups(pool.numbers, np.array(found.numbers, np.int64))
        others, differences = np.empty((2, m), np.int64), np.empty((3, m, 6))
        by_rank = rule.by_rank and bool((chosen[1:] > chosen[:-1]).all())
        goals = rule.goal_arrays(trade_off, max(1, self.free), self.intents)
        about = (pool.numbers, pool.relevance, chosen, self.base, group, allowed, by_rank)
        compare(*about, *goals, TIED, ORDER, others, differences)
        return Compared(
            numbers=found.numbers,
            pinned=found.pinned,
            chosen=chosen,
            unrepaired=chosen if self.limits is None else self.unrepaired(trade_off),
            pool=pool,
            candidates=self.all,
            others=others,
            differences=differences,
            categories=rule.categories,
            names=rule.file.names,
            weights=self.intents if len(self.intents) else None,
            enters=(lambda at: self._enters(at, trade_off)) if entry_prices else None,
        )

    def _enters(self, at: int, trade_off: float) -> tuple[float, float | None] | None:
        """Return the smallest trade-off found at which an item is in the list, by running the rule again."""
        below = [*(it for it in GRID if it < trade_off), trade_off]
        return first_present(lambda other: bool(at in self.positions(other)), below, None, PRECISION)


def _is_at(ids: list[Any], place: int, item: Id) -> bool:
    return place < len(ids) and canonical_text(ids[place]) == canonical_text(item)
