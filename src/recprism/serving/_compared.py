"""The reasons of one list, as plain values, from what the kernels compared."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isnan, log1p
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recprism.data._ids import Id
from recprism.explain.reasons._codes import PINNED, TIED, codes_of
from recprism.explain.reasons.reason import SCHEMA
from recprism.serving._pool import Pool

Enters = Callable[[int], tuple[float, float | None] | None]
"""Position -> a trade-off at which the item is in the list, and the nearest one at which it is not."""
PARTS = ("relevance", "coverage", "alpha_dcg", "distance", "exposure", "history")


@dataclass(frozen=True, eq=False)
class Compared:
    """What the reasons of a list are read from, as the kernels left it.

    Attributes:
        numbers: Item numbers of the whole list, with pins.
        pinned: Whether each of them is pinned.
        chosen: Positions of the others among the candidates, (m,).
        unrepaired: The same before exchanges for shares.
        pool: Candidates without pinned ones; positions are numbers in it.
        pinned_ranks: Id of a pinned item -> its rank by relevance alone; None if it is no candidate.
        others: Positions of the replaced item and of the runner-up, (2, m); -1 for none.
        differences: Parts of the list minus those of the other list, (3, m, 6): replaced, runner-up, empty place.
        categories: Item number -> numbers of its categories.
        names: Names of the categories.
        weights: The user's weights of categories from a history, (n_categories,); None without one.
        enters: Position -> where the item enters the list.
    """

    numbers: Sequence[int]
    pinned: Sequence[bool]
    chosen: NDArray[np.int64]
    unrepaired: NDArray[np.int64]
    pool: Pool
    pinned_ranks: Mapping[Id, int | None]
    others: NDArray[np.int64]
    differences: NDArray[np.float64]
    categories: Callable[[int], list[int]]
    names: Sequence[str]
    weights: NDArray[np.float64] | None
    enters: Enters | None = None

    def reasons(
        self, user: Id | None, trade_off: float, ids: Sequence[Id], scores: Sequence[float], base: Sequence[Id]
    ) -> list[dict[str, Any]]:
        """Return one reason for each place, as :meth:`recprism.explain.Reason.to_dict` writes it."""
        new, history = self._new_and_history()
        in_base, of_search = set(base), self._of_search()
        found = []
        for place, item in enumerate(ids):
            pinned, newcomer, score = self.pinned[place], item not in in_base, scores[place]
            own = self._of_pin(item) if pinned else next(of_search)
            if not pinned:
                replaced = own["replaced"] = own["replaced"] if newcomer else None
                own["codes"] = self._codes(own.pop("at"), replaced or own["runner_up"], bool(new[place]))
            found.append(
                {
                    "schema": SCHEMA,
                    "kind": "Reason",
                    "user": "" if user is None else user,
                    "item": item,
                    "trade_off": trade_off,
                    "place": place + 1,
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
        pool, chosen = self.pool, self.chosen
        columns = (chosen, pool.ranks[chosen], pool.relevance[chosen], *self.others, *self.differences)
        for at, rank, relevance, replaced, runner_up, from_replaced, from_runner_up, from_empty in zip(
            *(column.tolist() for column in columns), strict=True
        ):
            yield {
                "at": at,
                "rank": rank,
                "relevance": relevance,
                "adds": dict(zip(PARTS, from_empty, strict=True)),
                "replaced": self._comparison(replaced, from_replaced),
                "runner_up": self._comparison(runner_up, from_runner_up),
                "enters": None if self.enters is None else self._crossing(at, self.enters),
            }

    def _comparison(self, other: int, parts: list[float]) -> dict[str, Any] | None:
        if other < 0:
            return None
        return {"item": self.pool.id_at(other), "margin": sum(parts), "parts": dict(zip(PARTS, parts, strict=True))}

    @staticmethod
    def _crossing(at: int, enters: Enters) -> dict[str, float | None] | None:
        found = enters(at)
        return None if found is None else {"present": found[0], "absent": found[1]}

    def _codes(self, at: int, against: dict[str, Any] | None, has_new: bool) -> list[str]:
        repaired = self.unrepaired is not self.chosen
        if repaired and at not in self.unrepaired:
            return ["share"]
        if against is None:
            return ["share"] if len(self.pool) > len(self.chosen) else ["only_candidate"]
        codes = list(codes_of(against["parts"], has_new=has_new))
        if self.weights is None and "history" in codes:  # the same term, with equal weights: it spreads categories
            spread = "new_category" if has_new else "less_repetition"
            codes = list(dict.fromkeys(spread if code == "history" else code for code in codes))
        if against["margin"] > TIED:
            return codes
        if against["margin"] >= -TIED:
            return [*codes, "tie"]
        return [*codes, "share" if repaired and set(self.unrepaired) != set(self.chosen) else "search"]

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
