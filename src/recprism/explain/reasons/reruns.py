"""The whole rule again for one list, without a cause: what a sentence about a newcomer is checked against."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recprism.rule.function_search import search_kernel
from recprism.rule.kernels.prices import TIE
from recprism.rule.kernels.worth import DISTANCE

Ints = NDArray[np.int64]
UNIT, KNOWN, SHOWN, PRICES, INTENTS = 3, 4, 5, 6, 9  # places in the goals
Hidden = tuple[int, tuple[int, ...]]
"""Position of a candidate, and numbers of categories that it lacks."""


@dataclass(frozen=True, eq=False)
class Reruns:
    """What the rule needs to make one user's list again.

    Attributes:
        items: Item numbers of the candidates, (n,), without pinned ones.
        relevance: Their relevance, (n,).
        places: Places of the list without pins.
        goals: What the kernels need to value the list; one row of weights of the history.
        at_price_0: The same at price 0.
        repaired: What the constraints make of positions that the search found, (m,).
        by_vectors: Whether distances are those of item vectors, instead of those of categories.
    """

    items: Ints
    relevance: NDArray[np.float64]
    places: int
    goals: tuple[Any, ...]
    at_price_0: Callable[[], tuple[Any, ...]]
    repaired: Callable[[Ints], Ints]
    by_vectors: bool

    def without_price(self) -> set[int]:
        """Return the positions of the list at price 0."""
        return self._lists(self.at_price_0(), self.items[None])[0]

    def without_history(self) -> set[int]:
        """Return the positions of the list if the history counts for nothing."""
        return self._lists(_with(self.goals, {INTENTS: np.zeros_like(self.goals[INTENTS])}), self.items[None])[0]

    def stays_without(self, hidden: Sequence[Hidden]) -> dict[Hidden, bool]:
        """Return whether each candidate is in the list if it lacks some categories.

        Goals and the history see it without them, constraints do not. The candidates are numbered from 0, and each that
        lacks categories gets a row of its own behind them.
        """
        if not hidden:
            return {}
        goals, n, m = self.goals, len(self.items), len(hidden)
        indptr, indices = goals[:2]
        starts, own = indptr[self.items], [indices[indptr[it] : indptr[it + 1]] for it in self._numbers(hidden)]
        bare = [row[~np.isin(row, gone)] for row, (_, gone) in zip(own, hidden, strict=True)]
        counts = np.append(indptr[self.items + 1] - starts, [len(row) for row in bare])
        ends = np.append(0, np.cumsum(counts))
        first = np.arange(ends[n]) + np.repeat(starts - ends[:n], counts[:n])
        changed = {0: ends, 1: np.concatenate([indices[first], *bare]), SHOWN: np.zeros(n + m, np.int64)}
        if goals[PRICES][DISTANCE] > 0:
            changed |= self._vectors(hidden)
        changed[INTENTS] = np.repeat(goals[INTENTS], m, 0)
        items = np.tile(np.arange(n), (m, 1))
        for row, (at, _) in enumerate(hidden):
            items[row, at] = n + row
        lists = self._lists(_with(goals, changed), items)
        return {one: one[0] in some for one, some in zip(hidden, lists, strict=True)}

    def _numbers(self, hidden: Sequence[Hidden]) -> list[int]:
        return [int(self.items[at]) for at, _ in hidden]

    def _vectors(self, hidden: Sequence[Hidden]) -> dict[int, NDArray[Any]]:
        """Return the vectors of the candidates, and of those that lack categories, whose length is 1 again."""
        unit, known = self.goals[UNIT], self.goals[KNOWN]
        numbers = np.append(self.items, self._numbers(hidden))
        vectors, is_known = unit[np.minimum(numbers, len(unit) - 1)], known[numbers]
        for row, (_, gone) in enumerate(hidden, len(self.items)):
            if not self.by_vectors:
                vectors[row, list(gone)] = 0
                length = float(np.sqrt((vectors[row].astype(np.float64) ** 2).sum()))
                vectors[row] /= length or 1.0
                is_known[row] = is_known[row] and length > 0
        return {UNIT: vectors, KNOWN: is_known}

    def _lists(self, goals: tuple[Any, ...], items: Ints) -> list[set[int]]:
        """Return the positions of the lists that the rule makes of candidates, (n_lists, n)."""
        m, n = items.shape
        places = min(self.places, n)
        lists = np.tile(np.arange(places), (m, 1))
        of_lists = (np.tile(self.relevance, (m, 1)), np.full(m, n), lists)
        search_kernel(goals[PRICES], None)(0, m, np.ascontiguousarray(items), *of_lists, *goals, TIE)
        return [set(self.repaired(own).tolist()) for own in lists]


def _with(goals: tuple[Any, ...], changed: dict[int, Any]) -> tuple[Any, ...]:
    return tuple(changed.get(at, it) for at, it in enumerate(goals))
