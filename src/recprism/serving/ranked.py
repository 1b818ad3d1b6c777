"""The answer to one request: the list, its reasons, and the list by relevance alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import isnan, log1p
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recprism.data._ids import canonical_text
from recprism.explain.reasons._codes import GRID, PINNED, PRECISION, TIED, codes_of, first_present
from recprism.explain.reasons.reason import Comparison, Crossing, Reason
from recprism.serving.constraints import Id, Unmet

PARTS = ("relevance", "coverage", "alpha_dcg", "distance", "exposure", "history")


@dataclass(frozen=True, eq=False)
class Compared:
    """What the reasons of a list are read from, as the kernels left it.

    Attributes:
        numbers: Item numbers of the whole list, (k,), with pins.
        pinned: Whether each of them is pinned, (k,) bool.
        chosen: Positions of the others among the candidates, (m,).
        unrepaired: The same before exchanges for shares.
        relevance: Relevance of the candidates, (n,).
        candidates: Ids of all candidates, the best first.
        positions: Ids of the candidates without pinned ones; positions are numbers in this list.
        others: Positions of the replaced item and of the runner-up, (2, m); -1 for none.
        differences: Parts of the list minus those of the other list, (3, m, 6): replaced, runner-up, empty place.
        categories: Item number -> numbers of its categories.
        names: Names of the categories.
        weights: The user's weights of categories by price of history, (n_categories,); None if they do not count.
        enters: Position -> where the item enters the list.
    """

    numbers: NDArray[np.int64]
    pinned: NDArray[np.bool_]
    chosen: NDArray[np.int64]
    unrepaired: frozenset[int]
    relevance: NDArray[np.float64]
    candidates: Sequence[Id]
    positions: Sequence[Id]
    others: NDArray[np.int64]
    differences: NDArray[np.float64]
    categories: Any
    names: Sequence[str]
    weights: NDArray[np.float64] | None
    enters: Any = None

    def rank_of(self, item: Id) -> int | None:
        """Return the rank by relevance alone, from 1; None if the item is no candidate."""
        if item in self.candidates:
            return self.candidates.index(item) + 1
        texts = [canonical_text(one) for one in self.candidates]  # a pin may be written in another way
        return texts.index(canonical_text(item)) + 1 if canonical_text(item) in texts else None

    def new_and_history(self) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
        """Return, for each place, the categories that no other item has, and those that count for the history."""
        own = [self.categories(number) for number in self.numbers.tolist()]
        times: dict[int, int] = {}
        for categories in own:
            for category in categories:
                times[category] = times.get(category, 0) + 1
        new = [tuple(self.names[it] for it in sorted(some) if times[it] == 1) for some in own]
        return new, [()] * len(own) if self.weights is None else self._of_history(own, self.weights.tolist())

    def _of_history(self, own: list[list[int]], weights: list[float]) -> list[tuple[str, ...]]:
        """Return the categories of each place that count for the user's history, the strongest first."""
        before: dict[int, int] = {}
        found = []
        for categories, pinned in zip(own, self.pinned.tolist(), strict=True):
            gain = [(-weights[it] * log1p(1 / (1 + before.get(it, 0))), it) for it in categories if weights[it] > 0]
            found.append(tuple(self.names[it] for _, it in sorted(gain)))
            for category in () if pinned else categories:
                before[category] = before.get(category, 0) + 1
        return found


@dataclass(frozen=True, eq=False)
class Ranked:
    """The list of one request.

    Attributes:
        ids: Ids of the items, the first place first.
        scores: Their scores as given, (k,); NaN for a pinned item that is no candidate.
        base: The list by relevance alone under the same constraints, for shadow logs.
        trade_off: The trade-off that made the list.
        fallback: Why the list is in the base order: "disabled" or "time limit"; None if the rule made it.
        unmet: Constraints that the candidates could not meet.
        unknown: Ids of candidates that the export does not know. They have no categories, and compete by score.
        user: Id of the user, if it was given.

    Stability: provisional.
    """

    ids: tuple[Id, ...]
    scores: NDArray[np.float64]
    base: tuple[Id, ...]
    trade_off: float
    fallback: str | None = None
    unmet: tuple[Unmet, ...] = ()
    unknown: tuple[Id, ...] = ()
    user: Id | None = None
    _compared: Compared | None = field(default=None, repr=False)

    @cached_property
    def reasons(self) -> tuple[Reason, ...]:
        """The reason of each item, in the order of the list.

        There are none if they were not asked for, for a fallback, and for rules with lifts: these are the same for
        every user, and `recprism explain RUN` says why each item has its lift.
        """
        if self._compared is None:
            return ()
        facts, own, found = self._compared, 0, []
        new, history = facts.new_and_history()
        for place, item in enumerate(self.ids):
            pinned = bool(facts.pinned[place])
            about = {"new_categories": new[place], "history_categories": () if pinned else history[place]}
            found.append(_reason(self, facts, place, item, None if pinned else own, about))
            own += not pinned
        return tuple(found)

    @property
    def swaps(self) -> int:
        """How many items of the list the base list lacks."""
        return len(set(self.ids) - set(self.base))

    def to_dict(self, *, reasons: bool = True) -> dict[str, Any]:
        """Return plain values only, ready for JSON."""
        return {
            "ids": list(self.ids),
            "scores": [None if np.isnan(it) else float(it) for it in self.scores],
            "base": list(self.base),
            "trade_off": self.trade_off,
            "fallback": self.fallback,
            "unmet": [{"constraint": it.constraint, "places": it.places} for it in self.unmet],
            "unknown": list(self.unknown),
            **({"reasons": [it.to_dict() for it in self.reasons]} if reasons else {}),
        }


def _reason(
    ranked: Ranked, facts: Compared, place: int, item: Id, own: int | None, categories: dict[str, tuple[str, ...]]
) -> Reason:
    """Return the reason of an item; ``own`` is its place among those that the search placed, None for a pin."""
    newcomer, score = item not in ranked.base, float(ranked.scores[place])
    about: dict[str, Any] = {
        "user": "" if ranked.user is None else ranked.user,
        "item": item,
        "trade_off": ranked.trade_off,
        "place": place + 1,
        "newcomer": newcomer,
        "score": None if isnan(score) else score,
        "rank": facts.rank_of(item),
        **categories,
    }
    if own is None:
        return Reason(codes=PINNED, relevance=None, **about)
    at = int(facts.chosen[own])
    replaced = _comparison(facts, 0, own) if newcomer else None
    runner_up = _comparison(facts, 1, own)
    has_new = bool(categories["new_categories"])
    return Reason(
        codes=_codes(facts, at, runner_up if replaced is None else replaced, has_new),
        relevance=float(facts.relevance[at]),
        adds=dict(zip(PARTS, facts.differences[2, own].tolist(), strict=True)),
        replaced=replaced,
        runner_up=runner_up,
        enters=None if facts.enters is None else facts.enters(at),
        **about,
    )


def _comparison(facts: Compared, kind: int, own: int) -> Comparison | None:
    other = int(facts.others[kind, own])
    if other < 0:
        return None
    parts = dict(zip(PARTS, facts.differences[kind, own].tolist(), strict=True))
    return Comparison(facts.positions[other], sum(parts.values()), parts)


def _codes(facts: Compared, at: int, against: Comparison | None, has_new: bool) -> tuple[str, ...]:
    if at not in facts.unrepaired:
        return ("share",)
    if against is None:
        return ("share",) if len(facts.relevance) > len(facts.chosen) else ("only_candidate",)
    codes = codes_of(against.parts, has_new=has_new)
    if against.margin > TIED:
        return codes
    if against.margin >= -TIED:
        return (*codes, "tie")
    repaired = facts.unrepaired != frozenset(facts.chosen.tolist())
    return (*codes, "share" if repaired else "search")


def entry_price(is_in: Any, trade_off: float) -> Crossing | None:
    """Return the smallest trade-off found at which an item is in the list, by running the rule again."""
    found = first_present(is_in, [*(t for t in GRID if t < trade_off), trade_off], None, PRECISION)
    return None if found is None else Crossing(*found)
