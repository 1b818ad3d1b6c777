"""The whole rule again for one list, without a cause: what a sentence about a newcomer is checked against."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from recprism.explain.reasons.codes import TOGETHER, VARIETY, agreed
from recprism.rule.function_search import search_kernel
from recprism.rule.kernels.prices import TIE
from recprism.rule.kernels.worth import ACCURACY, DISTANCE

Ints = NDArray[np.int64]
UNIT, KNOWN, SHOWN, PRICES, DISCOUNT, INTENTS, LEFT = 3, 4, 5, 6, 7, 9, 11  # places in the goals
CATEGORIES = ("for_variety", "for_history")
Hidden = tuple[int, tuple[int, ...]]
"""Position of a candidate, and numbers of categories that it lacks."""


class Boosts(NamedTuple):
    """What the boosts of items are worth in lists.

    Attributes:
        relevance: What its boost adds to the relevance of each candidate, (n,).
        weights: What relevance is worth at each place, (k,).
        by_rank: Whether lists are in the order of rank.
    """

    relevance: NDArray[np.float64]
    weights: NDArray[np.float64]
    by_rank: bool

    @classmethod
    def of(cls, relevance: NDArray[np.float64], goals: tuple[Any, ...], *, by_rank: bool) -> Boosts:
        return cls(relevance, goals[PRICES][ACCURACY] * goals[DISCOUNT], by_rank)

    def difference(self, chosen: Ints, place: int, other: int) -> float:
        """Return what boosts add to a list, (m,), minus what they add with another item, or -1, in one place."""
        own, there = self.relevance[chosen], self.relevance[chosen].copy()
        if other >= 0 and self.by_rank and (chosen[1:] > chosen[:-1]).all():
            there = self.relevance[np.sort([*np.delete(chosen, place), other])]
        else:
            there[place] = self.relevance[other] if other >= 0 else 0.0
        return float((self.weights[: len(chosen)] * (own - there)).sum())


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
        stays_without_boost: Position -> whether the candidate is in the list without its boost, if it has one.
    """

    items: Ints
    relevance: NDArray[np.float64]
    places: int
    goals: tuple[Any, ...]
    at_price_0: Callable[[], tuple[Any, ...]]
    repaired: Callable[[Ints], Ints]
    by_vectors: bool
    stays_without_boost: Callable[[int], bool] = lambda _: True

    def by_relevance(self) -> set[int]:
        """Return the positions of the list by relevance alone."""
        return set(self.repaired(np.arange(min(self.places, len(self.items)))).tolist())

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
        starts, bare = indptr[self.items], list[int]()
        counts = np.empty(n + m, np.int64)
        counts[:n] = indptr[self.items + 1] - starts
        for row, (at, gone) in enumerate(hidden, n):
            left = [it for it in indices[starts[at] : starts[at] + counts[at]].tolist() if it not in gone]
            counts[row] = len(left)
            bare += left
        ends = np.zeros(n + m + 1, np.int64)
        counts.cumsum(out=ends[1:])
        first = np.arange(ends[n]) + (starts - ends[:n]).repeat(counts[:n])
        changed = {
            0: ends,
            1: np.concatenate([indices[first], np.array(bare, indices.dtype)]),
            SHOWN: np.zeros(n + m, np.int64),
        }
        if goals[PRICES][DISTANCE] > 0:
            changed |= self._vectors(hidden)
        changed[INTENTS] = np.repeat(goals[INTENTS], m, 0)
        items = _rows(np.arange(n), m)
        for row, (at, _) in enumerate(hidden):
            items[row, at] = n + row
        lists = self._lists(_with(goals, changed), items)
        return {one: one[0] in some for one, some in zip(hidden, lists, strict=True)}

    def stays_if_shown(self, asked: Sequence[tuple[int, int]], left: float) -> list[bool]:
        """Return whether each candidate is in the list if a category had been on the page before.

        Args:
            asked: Position of a candidate, and number of a category.
            left: The share of the category that is then left.
        """
        m = len(asked)
        fresh = np.repeat(self.goals[LEFT], m, 0)
        fresh[np.arange(m), [category for _, category in asked]] = left
        goals = _with(self.goals, {LEFT: fresh, INTENTS: np.repeat(self.goals[INTENTS], m, 0)})
        lists = self._lists(goals, _rows(self.items, m))
        return [at in some for (at, _), some in zip(asked, lists, strict=True)]

    def _vectors(self, hidden: Sequence[Hidden]) -> dict[int, NDArray[Any]]:
        """Return the vectors of the candidates, and of those that lack categories, whose length is 1 again."""
        unit, known = self.goals[UNIT], self.goals[KNOWN]
        numbers = np.append(self.items, self.items[[at for at, _ in hidden]])
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
        lists = _rows(np.arange(places), m)
        of_lists = (_rows(self.relevance, m), np.full(m, n), lists)
        search_kernel(goals[PRICES], None)(0, m, items, *of_lists, *goals, TIE)
        return [set(self.repaired(own).tolist()) for own in lists]


def _rows(values: NDArray[Any], m: int) -> NDArray[Any]:
    """Return ``m`` rows with these values, (m, n)."""
    return values[None].repeat(m, 0)


def _with(goals: tuple[Any, ...], changed: dict[int, Any]) -> tuple[Any, ...]:
    return tuple(changed.get(at, it) for at, it in enumerate(goals))


class Newcomer(NamedTuple):
    """A new item of a list.

    Attributes:
        at: Its position among the candidates.
        own: What is known of it, in the words of its reason; what decides its exchange.
        numbers: Name -> number of its categories.
    """

    at: int
    own: dict[str, Any]
    numbers: dict[str, int]

    def claims(self, names: Sequence[str] = CATEGORIES) -> list[list[str]]:
        """Return the sets of categories that are causes: each one, or all of them together."""
        found = []
        for name in names:
            some = self.own[name]
            found += [some] if some and name in self.own["together"] else [[it] for it in some]
        return found

    def hidden(self, categories: Sequence[str]) -> Hidden:
        """Return the item without some of its categories."""
        return self.at, tuple(sorted(self.numbers[it] for it in categories))

    def keep(self, name: str, categories: list[str]) -> None:
        """Keep some of the categories that are causes."""
        self.own[name] = categories
        if not categories and name in self.own["together"]:
            self.own["together"].remove(name)
        if name == "for_variety":
            self.own["base_lacks"] = [it for it in self.own["base_lacks"] if it in categories]


def run_again(newcomers: Sequence[Newcomer], reruns: Reruns | None, *, personal: bool) -> None:
    """Keep, of what decides the exchanges of new items, those causes on which the rule run again agrees.

    Args:
        newcomers: The new items of one list; what is known of them is changed.
        reruns: Makes the list again; None if that would change the lists of other users.
        personal: Whether the weights of the user's history differ.
    """
    if not newcomers:
        return
    lists = {}
    if reruns is not None:  # without the price and a history, relevance is left
        lists["price"] = reruns.without_price() if personal else reruns.by_relevance()
        lists |= {"history": reruns.without_history()} if personal else {}
    asked: list[Hidden] = []
    for one in newcomers:
        own = one.own
        if reruns is None and not own["needs"] and TOGETHER not in own["codes"]:
            continue  # it is there by a tie, or the search ended early
        if reruns is None:
            own["goes_without"] = own["needs"]
        else:
            own["goes_without"] = [what for what, some in lists.items() if one.at not in some]
            own["goes_without"] += [] if reruns.stays_without_boost(one.at) else ["boost"]
        own["codes"] = agreed(own["codes"], own["needs"], own["goes_without"])
        for name, codes in zip(CATEGORIES, (VARIETY, ("history",)), strict=True):
            if not {*own["codes"]} & {*codes}:
                one.keep(name, [])
        asked += [one.hidden(some) for some in one.claims()]
    stays = {} if reruns is None else reruns.stays_without([*dict.fromkeys(asked)])
    for one in newcomers:
        for name in CATEGORIES:
            claims = [some for some in one.claims((name,)) if not stays.get(one.hidden(some), False)]
            one.keep(name, [it for some in claims for it in some])
