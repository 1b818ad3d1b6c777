"""The reasons of one list, as plain values, from what the kernels compared: offline and at request time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isnan, log1p
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recprism.common.ids import Id
from recprism.explain._kernels.comparisons import compare_lists
from recprism.explain.reasons.codes import ORDER, PINNED, TIED, codes_of
from recprism.explain.reasons.reason import SCHEMA
from recprism.rule.kernels.parts import PARTS

Ints = NDArray[np.int64]
Candidates = tuple[Ints, NDArray[np.float64], Ints]
"""Item numbers and relevance of the candidates of lists, (n_lists, n) each, and how many each has."""
Differences = tuple[Ints, NDArray[np.float64]]
"""Positions of the replaced items and of the runners-up, (2, m), -1 for none; parts of the list minus those of the
other list, (3, m, 6): replaced, runner-up, empty place."""
Groups = tuple[Ints, NDArray[np.bool_]]
"""Group of each candidate under shares of categories, (n,), and which group may replace which."""
Enters = Callable[[int], tuple[float, float | None] | None]
"""Position -> a trade-off at which the item is in the list, and the nearest one at which it is not."""


def compare(
    candidates: Candidates,
    chosen: Sequence[Ints],
    base: Sequence[Ints],
    goals: tuple[Any, ...],
    *,
    by_rank: bool,
    groups: Groups | None = None,
) -> list[Differences]:
    """Compare each item of lists with others, under the same groups for all lists.

    Args:
        candidates: The candidates of all lists.
        chosen: Positions of each list, (m,), without pinned items.
        base: Positions of each list by relevance alone.
        goals: What the kernels need to value the lists.
        by_rank: Whether no goal looks at the order inside a list.
        groups: The groups; without them every item may replace every other.
    """
    sizes = np.array([len(own) for own in chosen])
    places = max(1, int(sizes.max(initial=0)))
    if groups is None:
        groups = np.zeros(candidates[0].shape[1], np.int64), np.ones((1, 1), np.bool_)
    in_order = np.array([by_rank and bool((own[1:] > own[:-1]).all()) for own in chosen])
    others, differences = np.full((len(chosen), 2, places), -1), np.zeros((len(chosen), 3, places, len(PARTS)))
    lists = (*candidates, as_rows(chosen), as_rows(base), sizes, *groups, in_order)
    compare_lists(*lists, TIED, ORDER, others, differences, *goals)
    return [(others[at, :, :m], differences[at, :, :m]) for at, m in enumerate(sizes.tolist())]


def as_rows(lists: Sequence[Ints]) -> Ints:
    """Return lists of different lengths as rows, (n_lists, longest); -1 in empty places."""
    found = np.full((len(lists), max([1, *map(len, lists)])), -1)
    for row, own in zip(found, lists, strict=True):
        row[: len(own)] = own
    return found


@dataclass(frozen=True, eq=False)
class Compared:
    """What the reasons of a list are read from, as the kernels left it.

    Attributes:
        numbers: Item numbers of the whole list, with pins.
        pinned: Whether each of them is pinned.
        chosen: Positions of the others among the candidates, (m,).
        unrepaired: The same before exchanges for shares and for the tail.
        relevance: Relevance of the candidates, (n,), without pinned ones; positions are numbers in it.
        ranks: Their ranks by relevance alone, (n,); 0 for none.
        id_at: Position -> id of the candidate.
        pinned_ranks: Id of a pinned item -> its rank by relevance alone; None if it is no candidate.
        differences: The other lists, and the differences to them.
        categories: Item number -> numbers of its categories.
        names: Names of the categories.
        weights: The user's weights of categories from a history, (n_categories,); None without one.
        enters: Position -> where the item enters the list.
        repaired_by: Position -> the code of the constraint that put the item there.
        vectors: Item numbers of the candidates, (n,), vectors and what they are multiplied by to have length 1; None if
            no goal looks at distances of vectors.
    """

    numbers: Sequence[int]
    pinned: Sequence[bool]
    chosen: Ints
    unrepaired: Ints
    relevance: NDArray[np.float64]
    ranks: Ints
    id_at: Callable[[int], Id]
    pinned_ranks: Mapping[Id, int | None]
    differences: Differences
    categories: Callable[[int], list[int]]
    names: Sequence[str]
    weights: NDArray[np.float64] | None
    enters: Enters | None = None
    repaired_by: Callable[[int], str] = lambda _: "share"
    vectors: tuple[Ints, NDArray[Any], NDArray[Any]] | None = None

    def reasons(
        self,
        user: Id | None,
        trade_off: float,
        ids: Sequence[Id],
        scores: Sequence[float],
        base: Sequence[Id],
        places: Sequence[int] | None = None,
    ) -> list[dict[str, Any]]:
        """Return one reason for each item, as :meth:`recprism.explain.Reason.to_dict` writes it.

        Args:
            user: Id of the user.
            trade_off: The trade-off of this user.
            ids: Ids of the whole list.
            scores: Their scores; NaN for none.
            base: Ids of the list by relevance alone.
            places: Their places, from 0; without gaps by default.
        """
        new, history = self._new_and_history()
        in_base, of_search = set(base), self._of_search()
        found = []
        for place, item in enumerate(ids):
            pinned, newcomer, score = self.pinned[place], item not in in_base, scores[place]
            own = self._of_pin(item) if pinned else next(of_search)
            if not pinned:
                replaced = own["replaced"] = own["replaced"] if newcomer else None
                if replaced is not None:
                    replaced["alike"] = self._alike(own.pop("left"))
                own.pop("left", None)
                own["codes"] = self._codes(own.pop("at"), replaced or own["runner_up"], bool(new[place]))
            found.append(
                {
                    "schema": SCHEMA,
                    "kind": "Reason",
                    "user": "" if user is None else user,
                    "item": item,
                    "trade_off": trade_off,
                    "place": (place if places is None else places[place]) + 1,
                    "score": None if isnan(score) else score,
                    "newcomer": newcomer,
                    "new_categories": new[place],
                    "history_categories": [] if pinned else history[place],
                    **own,
                }
            )
        return found

    def _of_pin(self, item: Id) -> dict[str, Any]:
        """Return what is known of a pinned item."""
        nothing = dict.fromkeys(("relevance", "adds", "replaced", "runner_up", "enters"))
        return {"codes": list(PINNED), "rank": self.pinned_ranks[item], **nothing}

    def _of_search(self) -> Iterator[dict[str, Any]]:
        """Yield what is known of each item that the search placed, in order."""
        chosen, (others, differences) = self.chosen, self.differences
        columns = (chosen, self.ranks[chosen], self.relevance[chosen], *others, *differences)
        for at, rank, relevance, replaced, runner_up, from_replaced, from_runner_up, from_empty in zip(
            *(column.tolist() for column in columns), strict=True
        ):
            yield {
                "at": at,
                "left": replaced,
                "rank": rank or None,
                "relevance": relevance,
                "adds": dict(zip(PARTS, from_empty, strict=True)),
                "replaced": self._comparison(replaced, from_replaced),
                "runner_up": self._comparison(runner_up, from_runner_up),
                "enters": None if self.enters is None else self._crossing(at, self.enters),
            }

    def _comparison(self, other: int, parts: list[float]) -> dict[str, Any] | None:
        if other < 0:
            return None
        named = dict(zip(PARTS, parts, strict=True))
        return {"item": self.id_at(other), "margin": sum(parts), "parts": named, "alike": None}

    def _alike(self, position: int) -> list[float] | None:
        """Return the place whose item is most like a candidate, from 1, and their cosine."""
        if self.vectors is None:
            return None
        numbers, unit, known = self.vectors
        own, listed = numbers[position], np.array(self.numbers)
        rows = np.minimum(listed, len(unit) - 1)  # an item that the export does not know has no vector
        cosines = (unit[rows] @ unit[own]).astype(np.float64) * known[listed] * known[own]
        place = int(cosines.argmax())
        return [place + 1, round(float(cosines[place]), 6)]

    @staticmethod
    def _crossing(at: int, enters: Enters) -> dict[str, float | None] | None:
        found = enters(at)
        return None if found is None else {"present": found[0], "absent": found[1]}

    def _codes(self, at: int, against: dict[str, Any] | None, has_new: bool) -> list[str]:
        if self.unrepaired is not self.chosen and at not in self.unrepaired:
            return [self.repaired_by(at)]
        if against is None:
            return [self.repaired_by(at)] if len(self.relevance) > len(self.chosen) else ["only_candidate"]
        codes = list(codes_of(against["parts"], has_new=has_new))
        if self.weights is None and "history" in codes:  # the same term, with equal weights: it spreads categories
            spread = "new_category" if has_new else "less_repetition"
            codes = list(dict.fromkeys(spread if code == "history" else code for code in codes))
        return self.with_margin(codes, at, against["margin"])

    def with_margin(self, codes: list[str], at: int, margin: float) -> list[str]:
        """Append why an item stays, or stays out, if the other list is worth as much or more."""
        if margin > TIED:
            return codes
        if margin >= -TIED:
            return [*codes, "tie"]
        return [*codes, "search" if list(self.unrepaired) == list(self.chosen) else self.repaired_by(at)]

    def _new_and_history(self) -> tuple[list[list[str]], list[list[str]]]:
        """Return, for each place, the categories that no other item has, and those that count for the history."""
        own, names = [self.categories(number) for number in self.numbers], self.names
        times = [0] * len(names)
        for categories in own:
            for category in categories:
                times[category] += 1
        new = [[names[it] for it in sorted(some) if times[it] == 1] for some in own]
        return new, [[] for _ in own] if self.weights is None else self._of_history(own, self.weights.tolist())

    def _of_history(self, own: list[list[int]], weights: list[float]) -> list[list[str]]:
        """Return the categories of each place that count for the user's history, the strongest first."""
        before, found = [0] * len(weights), []
        fills = [-log1p(1 / (1 + n)) for n in range(len(own) + 1)]  # what the next item fills, negative for sorting
        for categories, pinned in zip(own, self.pinned, strict=True):
            gain = [(weights[it] * fills[before[it]], it) for it in categories if weights[it] > 0]
            gain.sort()
            found.append([self.names[it] for _, it in gain])
            for category in () if pinned else categories:
                before[category] += 1
        return found
