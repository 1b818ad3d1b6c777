"""The reasons of one list, as plain values, from what the kernels compared: offline and at request time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from recprism.common.ids import Id
from recprism.explain._kernels.comparisons import compare_list
from recprism.explain.reasons.codes import (
    OF_HISTORY,
    ORDER,
    PINNED,
    TIED,
    bar_of,
    causes_of,
    deciding,
)
from recprism.explain.reasons.earlier import EarlierPages, name_pages
from recprism.explain.reasons.reason import SCHEMA
from recprism.explain.reasons.reruns import Boosts, Newcomer, Reruns, run_again
from recprism.rule.kernels.parts import PARTS

Ints = NDArray[np.int64]


class Differences(NamedTuple):
    """What the items of one list were compared with.

    Attributes:
        others: Positions of the replaced items and of the runners-up, (2, m); -1 for none.
        parts: Parts of the list minus those of the other list, (3, m, 6): replaced, runner-up, empty place.
        without: For the exchange against the replaced item, or else the runner-up: margins without each category of the
            item, and what the category adds for variety and for the history, (m, 3, most categories of an item).
        together: Margins without all categories that add for variety, and without all that add for the history, (m, 2).
        personal: Whether the weights of the user's history differ. Equal ones only spread the categories.
    """

    others: Ints
    parts: NDArray[np.float64]
    without: NDArray[np.float64]
    together: NDArray[np.float64]
    personal: bool


Groups = tuple[Ints, NDArray[np.bool_]]
"""Group of each candidate under shares of categories, (n,), and which group may replace which."""
INTENTS = 9  # the place of the weights of histories in the goals
Enters = Callable[[int], tuple[float, float | None] | None]
"""Position -> a trade-off at which the item is in the list, and the nearest one at which it is not."""


def compare(
    items: Ints,
    relevance: NDArray[np.float64],
    chosen: Ints,
    base: Ints,
    goals: tuple[Any, ...],
    *,
    by_rank: bool,
    by_vectors: bool,
    groups: Groups | None = None,
) -> Differences:
    """Compare each item of a list with others.

    Args:
        items: Item numbers of the candidates, (n,).
        relevance: Their relevance, (n,).
        chosen: Positions of the list, (m,), without pinned items.
        base: Positions of the list by relevance alone.
        goals: What the kernels need to value the list.
        by_rank: Whether no goal looks at the order inside a list.
        by_vectors: Whether distances are those of item vectors.
        groups: The groups; without them every item may replace every other.
    """
    if groups is None:
        groups = np.zeros(len(items), np.int64), np.ones((1, 1), np.bool_)
    in_order, numbers = by_rank and bool((chosen[1:] > chosen[:-1]).all()), items[chosen]
    personal, m = bool((goals[INTENTS][0] != goals[INTENTS][0, :1]).any()), len(chosen)
    most = int((goals[0][numbers + 1] - goals[0][numbers]).max(initial=0))
    others, differences = np.full((2, m), -1), np.zeros((3, m, len(PARTS)))
    without, together = np.zeros((m, 3, most)), np.zeros((m, 2))
    how = (*groups, in_order, personal, by_vectors, TIED, ORDER)
    compare_list(items, relevance, chosen, base, *how, others, differences, without, together, *goals)
    return Differences(others, differences, without, together, personal)


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
        base: Item numbers of the whole list by relevance alone.
        enters: Position -> where the item enters the list.
        repaired_by: Position -> the code of the constraint that put the item there.
        boosts: What boosts are worth in lists; None without them.
        reruns: Makes the list again without a cause; None if the lists of other users would change with it.
        vectors: Item numbers of the candidates, (n,), vectors and what they are multiplied by to have length 1; None if
            no goal looks at distances of vectors.
        pages: The earlier pages; None if there are none.
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
    base: Sequence[int]
    enters: Enters | None = None
    repaired_by: Callable[[int], str] = lambda _: "share"
    boosts: Boosts | None = None
    reruns: Reruns | None = None
    vectors: tuple[Ints, NDArray[Any], NDArray[Any]] | None = None
    pages: EarlierPages | None = None

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
        new, base_has = self._new(), {category for number in self.base for category in self.categories(number)}
        in_base, of_search = set(base), self._of_search()
        found, decided, newcomers = [], [], []
        for place, item in enumerate(ids):
            pinned, newcomer, score = self.pinned[place], item not in in_base, scores[place]
            own = self._of_pin(item) if pinned else next(of_search)
            if not pinned:
                at, categories = own["exchange"][1], self.categories(self.numbers[place]) if newcomer else None
                if self._explain(own, categories, base_has) and categories is not None:
                    newcomers.append(Newcomer(at, own, {self.names[it]: it for it in categories}))
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
                }
            )
            decided.append(own)
        run_again(newcomers, self.reruns, personal=self.differences.personal)
        name_pages(newcomers, self.pages, self.reruns)
        return [{**one, **own} for one, own in zip(found, decided, strict=True)]

    def _of_pin(self, item: Id) -> dict[str, Any]:
        """Return what is known of a pinned item."""
        nothing = dict.fromkeys(("relevance", "adds", "replaced", "runner_up", "enters"))
        return {"codes": list(PINNED), **_decided(), "rank": self.pinned_ranks[item], **nothing}

    def _of_search(self) -> Iterator[dict[str, Any]]:
        """Yield what is known of each item that the search placed, in order."""
        chosen, found = self.chosen, self.differences
        columns = (chosen, self.ranks[chosen], self.relevance[chosen], *found.others, *found.parts)
        for place, (
            at,
            rank,
            relevance,
            replaced,
            runner_up,
            from_replaced,
            from_runner_up,
            from_empty,
            without,
            together,
        ) in enumerate(zip(*(column.tolist() for column in (*columns, found.without, found.together)), strict=True)):
            first = self._comparison(place, replaced, from_replaced)
            if first is not None:
                first["alike"] = self._alike(replaced)
            second = self._comparison(place, runner_up, from_runner_up)
            decides = (replaced, first, from_replaced) if first else (runner_up, second, from_runner_up)
            yield {
                "exchange": (place, at, *decides, without, together),
                "rank": rank or None,
                "relevance": relevance,
                "adds": self._named(place, -1, from_empty),
                "replaced": first,
                "runner_up": second,
                "enters": None if self.enters is None else self._crossing(at, self.enters),
            }

    def _named(self, place: int, other: int, parts: list[float]) -> dict[str, float]:
        """Name the parts of a difference to the list with another item, or -1, in one place."""
        found = dict(zip(PARTS, parts, strict=True))
        if self.boosts is not None:  # the search knows relevance with boosts
            found["boost"] = self.boosts.difference(self.chosen, place, other)
            found["relevance"] -= found["boost"]
        return found

    def _comparison(self, place: int, other: int, parts: list[float]) -> dict[str, Any] | None:
        if other < 0:
            return None
        return {
            "item": self.id_at(other),
            "margin": sum(parts),
            "parts": self._named(place, other, parts),
            "alike": None,
            "without": None,
            "without_categories": None,
        }

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

    def _explain(self, own: dict[str, Any], categories: list[int] | None, base_has: set[int]) -> bool:
        """Write what decides an item's exchange: the codes, and of a newcomer the categories and margins without them.

        It returns whether an exchange decides, and not a constraint.

        Args:
            own: What is known of the item.
            categories: Its categories if it is a newcomer; None for an item of the base list.
            base_has: The categories of the base list.
        """
        place, at, other, against, parts, (without, for_variety, for_history), together = own.pop("exchange")
        own.update(_decided())
        if self.unrepaired is not self.chosen and at not in self.unrepaired:
            own["codes"] = [self.repaired_by(at)]
            return False
        if against is None:
            own["codes"] = [self.repaired_by(at)] if len(self.relevance) > len(self.chosen) else ["only_candidate"]
            return False
        margin, bar, personal = against["margin"], bar_of(at, other), self.differences.personal
        own["codes"] = self.codes(at, other, parts)
        against["without"] = {"price": margin - sum(parts[1:OF_HISTORY] if personal else parts[1:])}
        if personal:
            against["without"]["history"] = margin - parts[OF_HISTORY]
        boost = 0.0 if self.boosts is None else self.boosts.relevance[at] * self.boosts.weights[place]
        if boost > 0:
            against["without"]["boost"] = float(margin - boost)
        if margin > TIED:
            own["needs"] = [what for what, value in against["without"].items() if value <= bar]
        if categories is None:
            return True
        named = [self.names[it] for it in categories]
        margins = zip(named, without, for_variety, for_history, strict=False)
        against["without_categories"] = {it: value for it, value, one, two in margins if one > TIED or two > TIED}
        if margin <= TIED:
            return True
        decide = {
            "for_variety": deciding(for_variety, without, together[0], bar),
            "for_history": deciding(for_history, without, together[1], bar),
        }
        for name, (some, jointly) in decide.items():
            own[name] = [named[it] for it in some]
            own["together"] += [name] if jointly else []
        own["base_lacks"] = [named[it] for it in decide["for_variety"][0] if categories[it] not in base_has]
        return True

    def codes(self, at: int, other: int, parts: Sequence[float]) -> list[str]:
        """Return why an item stays, or stays out: what decides its exchange, or why it loses none.

        Args:
            at: Position of the item that stays.
            other: Position of the other one.
            parts: The parts of the margin.
        """
        margin = sum(parts)
        if margin > TIED:
            return causes_of(parts, bar_of(at, other), personal=self.differences.personal) or ["tie"]
        if margin >= -TIED:
            return ["tie"]
        return ["search" if list(self.unrepaired) == list(self.chosen) else self.repaired_by(at)]

    def _new(self) -> list[list[str]]:
        """Return, for each place, the categories that no other item has."""
        own, names = [self.categories(number) for number in self.numbers], self.names
        times = [0] * len(names)
        for categories in own:
            for category in categories:
                times[category] += 1
        return [[names[it] for it in sorted(some) if times[it] == 1] for some in own]


def _decided() -> dict[str, Any]:
    """Return what decides nothing."""
    causes: dict[str, Any] = {"needs": [], "goes_without": [], "for_variety": [], "for_history": [], "together": []}
    return {**causes, "base_lacks": [], "not_lately": {}, "after_pages": False}
