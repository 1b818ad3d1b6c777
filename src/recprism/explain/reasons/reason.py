"""What a reason of the rule holds: codes, comparisons, and its sentences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, is_dataclass
from typing import Any

import numpy as np

from recprism.common.display import Displayed
from recprism.explain.reasons._words import (
    BY_CONSTRAINT,
    BY_CONSTRAINT_FOR_USERS,
    CHANGES,
    ELSEWHERE,
    FOR_USERS,
    HINDRANCES,
    HINDRANCES_FOR_USERS,
    IN_BRIEF,
    Comparison,
    Crossing,
    Id,
    Name,
    alike,
    categories_named,
    enters,
    item_name,
    joined,
    lately,
    margin,
    moves,
    named,
    upper,
    worth,
    would_be,
)
from recprism.explain.reasons.codes import BOOSTED, NO_SINGLE_CAUSE, VARIETY

SCHEMA = 3
"""Version of the keys and codes of :meth:`Reason.to_dict` and its relatives."""

CODES = {
    "pinned": "A constraint pins the item to its place.",
    "share": "A share of categories in the constraints put the item there, or keeps it out.",
    "field": "A limit on a field, such as at most two items of one author, put the item there, or keeps it out.",
    "tail_floor": "The floor for the tail put the item there.",
    "relevance": "It loses the exchange if relevance does not count.",
    "new_category": "It loses the exchange if new categories do not count.",
    "less_repetition": "It loses the exchange if repeated categories do not count.",
    "distance": "It loses the exchange if distances between items do not count.",
    "shown_nowhere_else": "It loses the exchange if it does not count that no other list shows it.",
    "history": "It loses the exchange if the user's history does not count.",
    "together": "The codes after this one decide together: it loses the exchange without all of them, not without one.",
    "variety_elsewhere": "A newcomer that leaves at price 0 because other places change: its exchange needs no price.",
    "history_elsewhere": "The same without the user's history.",
    "lifted_exposure": "It loses the exchange without its boost, which is the same for all users.",
    "boost_elsewhere": "The same without its boost.",
    "no_single_cause": "A newcomer that stays without any one of variety, the history and its boost, not without all.",
    "only_candidate": "No other candidate could take its place.",
    "tie": "Another list is worth the same; the more relevant item wins.",
    "search": "The search ended at this list although one exchange would be worth more.",
    "seen": "The user has consumed the item.",
    "banned": "A constraint bans the item.",
    "not_candidate": "The item is not among the candidates of the rule.",
    "limit": "The rule's own list for the user could lose more than the limit, so this is the base list.",
}
"""Stable codes of reasons, and what they mean.

The exchange is that of the item for the one that it replaced, or for the runner-up of its place. The other places stay
as they are. For an item outside of the list, it is the exchange that the item in the list wins. A cause of a newcomer
also holds if the rule makes the whole list again without it.
"""

NAMES = ("codes", "new_categories", "needs", "goes_without", "for_variety", "for_history", "together", "base_lacks")


class _Result(Displayed):
    def to_dict(self) -> dict[str, Any]:
        """Return plain values only, ready for JSON."""
        facts: dict[str, Any] = plain(self)
        return {"schema": SCHEMA, "kind": type(self).__name__, **facts}


@dataclass(frozen=True, repr=False)
class Reason(_Result):
    """Why an item is in a user's list.

    Attributes:
        user: Id of the user.
        item: Id of the item.
        codes: Keys of ``CODES``: what decides, the strongest first.
        trade_off: The trade-off of this user.
        place: Place in the list, from 1.
        rank: Rank by relevance alone, from 1; None if it is not among the candidates.
        score: Score of the base model; None if it is not among the candidates.
        relevance: The score scaled to 0 .. 1 over the candidates of the rule; None for a pinned item.
        newcomer: Whether the base list lacks it.
        new_categories: Categories that no other item of the list has.
        needs: "price", "history" and "boost": without each of these alone, the item loses the exchange.
        goes_without: The same for a newcomer if the rule makes the whole list again: without each of these alone, it is
            not there.
        for_variety: Categories of a newcomer that add variety, the strongest first. Without each of them it loses the
            exchange, and it is not there if the rule runs again.
        for_history: The same for categories that fit the user's history.
        together: "for_variety" or "for_history" if no single one of its categories decides the exchange, but all do.
        base_lacks: The categories of ``for_variety`` that no item of the base list has.
        not_lately: Category of ``for_variety`` -> on how many of the last pages no item had it. Had one had it on the
            page before, the item would not be in the list.
        after_pages: Whether distances to items of earlier pages count.
        adds: Part of the objective -> what the list loses if the place stays empty.
        replaced: The item of the base list that left for a newcomer, as a comparison of both in this place.
        runner_up: The best other list with a different item instead of this one.
        enters: The smallest trade-off found at which it is in the list.
    """

    user: Id
    item: Id
    codes: tuple[str, ...]
    trade_off: float
    place: int
    rank: int | None
    score: float | None
    relevance: float | None
    newcomer: bool
    new_categories: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    goes_without: tuple[str, ...] = ()
    for_variety: tuple[str, ...] = ()
    for_history: tuple[str, ...] = ()
    together: tuple[str, ...] = ()
    base_lacks: tuple[str, ...] = ()
    not_lately: Mapping[str, int] = field(default_factory=dict)
    after_pages: bool = False
    adds: Mapping[str, float] | None = None
    replaced: Comparison | None = None
    runner_up: Comparison | None = None
    enters: Crossing | None = None

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> Reason:
        """Read what ``to_dict`` wrote."""
        found = {name: facts[name] for name in cls.__dataclass_fields__ if name in facts}
        for name in NAMES:
            found[name] = tuple(found[name])
        for name in ("replaced", "runner_up"):
            found[name] = None if found[name] is None else Comparison(**found[name])
        found["enters"] = None if found["enters"] is None else Crossing(**found["enters"])
        return cls(**found)

    def sentence(self, name: Name = item_name) -> str:
        """Describe the reason for engineers; ``name`` returns the words for an item id."""
        rank = "is not among the stored candidates" if self.rank is None else f"has rank {self.rank} by relevance alone"
        lines = [f"{upper(name(self.item))} is at place {self.place} and {rank}."]
        lines += [BY_CONSTRAINT[code] for code in self.codes if code in BY_CONSTRAINT]
        if self.new_categories:
            lines.append(f"No other item of the list has {joined(self.new_categories, 'or')}.")
        lines.append("The base list lacks it." if self.newcomer else "The base list has it, too.")
        if self.not_lately:
            lines.append(f"{upper(lately(self.not_lately))}; had the last one had it, this item would not be here.")
        if self.replaced is not None:
            lines.append(f"It replaced {name(self.replaced.item)}{alike(self.replaced)}: {margin(self.replaced)}.")
        if self.runner_up is not None:
            lines.append(f"The runner-up for its place is {name(self.runner_up.item)}: {margin(self.runner_up)}.")
        if self.enters is not None:
            lines.append(enters(self.enters.present, self.enters.absent))
        return " ".join(lines)

    def for_users(self, name: Name = item_name) -> str:
        """Describe the reason for the user who sees the list: what decides the exchange, and nothing else."""
        first, best = self.codes[0], f"Number {self.rank} of the best matches for you."
        if first in BY_CONSTRAINT_FOR_USERS:
            return BY_CONSTRAINT_FOR_USERS[first]
        if not self.newcomer:
            return (
                f"{best} No other item here has {joined(self.new_categories, 'or')}." if self.new_categories else best
            )
        causes = self._causes(name)
        elsewhere = [words for code, words in ELSEWHERE.items() if code in self.codes]
        n = len(causes) + len(elsewhere)
        if not n:
            return best
        if n == len(causes) == 1:
            ((why, detail),) = causes.items()
            return f"Added {FOR_USERS[why]}: {detail}." if detail else f"Added {FOR_USERS[why]}."
        clauses = [f"{FOR_USERS[why]} ({detail})" if detail else FOR_USERS[why] for why, detail in causes.items()]
        clauses += [f"because other places changed {joined(elsewhere)}"] if elsewhere else []
        return f"Added {joined(clauses)}{self._how_many(n)}."

    def _how_many(self, n: int) -> str:
        """Say how many of n causes it needs."""
        if self.codes[0] == NO_SINGLE_CAUSE:
            return "; either alone is enough" if n == 2 else "; any two of them are enough"
        return "" if n == 1 else "; it needs both" if n == 2 else "; it needs all of them"

    def in_brief(self, name: Name = item_name) -> str:
        """Describe why a new item came: what decides, what it replaces, and its rank by relevance."""
        first, causes = self.codes[0], self._causes(name) if self.newcomer else {}
        parts = [BY_CONSTRAINT_FOR_USERS[first].removesuffix(".")] if first in BY_CONSTRAINT_FOR_USERS else []
        if "variety" in causes and self.for_variety:
            parts.append(f"adds {categories_named(self.for_variety, 'for_variety' in self.together)}")
        elif "variety" in causes:
            parts += [IN_BRIEF[code] for code in self.codes if code in IN_BRIEF][:1]
        parts += [lately(self.not_lately)] if self.not_lately else []
        if "history" in causes:
            parts.append(f"fits {causes['history'] or 'the categories'} of the user's history")
        elsewhere = [words for code, words in ELSEWHERE.items() if code in self.codes]
        parts += [f"comes because other places changed {joined(elsewhere)}"] if elsewhere else []
        if not parts and not self.newcomer:
            parts.append("stays")
        if first == NO_SINGLE_CAUSE:
            words = {**FOR_USERS, "history": "to match the user's history"}
            parts = [f"comes {joined([words[it] for it in causes])}{self._how_many(len(causes)).replace(';', ',')}"]
        elif "boost" in causes:
            parts.append("is boosted for all users")
        if self.replaced is not None:
            parts.append(f"replaces {name(self.replaced.item)}")
        parts.append("is outside the candidates by relevance" if self.rank is None else would_be(self.rank))
        return f"{upper('; '.join(parts))}."

    def _causes(self, name: Name) -> dict[str, str]:
        """Return what decides a newcomer's own place, and the words for each: variety and history."""
        if self.codes[0] == NO_SINGLE_CAUSE:
            against = self.replaced or self.runner_up
            names = {"price": "variety"}
            return {names.get(it, it): "" for it in (against.without if against and against.without else ())}
        found = {}
        if any(code in VARIETY for code in self.codes):
            found["variety"] = self._of_variety(name)
        if "history" in self.codes:
            found["history"] = categories_named(self.for_history, "for_history" in self.together)
        return {**found, "boost": ""} if BOOSTED in self.codes else found

    def _of_variety(self, name: Name) -> str:
        """Say what a newcomer brings; "lacked" is said of the base list, "lacks" of the list without the newcomer."""
        if self.for_variety:
            lacked = self.base_lacks
            rest = [it for it in self.for_variety if it in self.new_categories and it not in lacked]
            other = [it for it in self.for_variety if it not in lacked and it not in rest]
            clauses = (
                (lacked, ", which the base list lacked"),
                (rest, ", which the rest of your list lacks"),
                (other, ""),
            )
            if "for_variety" in self.together:
                of_all = [clause for some, clause in clauses if len(some) == len(self.for_variety)]
                return f"{joined(self.for_variety)} together{''.join(of_all)}"
            words = ", and ".join(f"{joined(some)}{clause}" for some, clause in clauses if some)
            return f"{words}; {lately(self.not_lately)}" if self.not_lately else words
        far = "distance" in self.codes
        if self.replaced is not None and (far or "less_repetition" in self.codes):
            where = "your list and from earlier pages" if self.after_pages else "your list"
            word = f"it differs more from the rest of {where}" if far else "its categories repeat less"
            return f"{word} than {name(self.replaced.item)}{alike(self.replaced)}"
        return "no other list shows it" if "shown_nowhere_else" in self.codes else ""


@dataclass(frozen=True, repr=False)
class ReasonNot(_Result):
    """Why an item is not in a user's list.

    Attributes:
        user: Id of the user.
        item: Id of the item.
        codes: Keys of ``CODES``: what keeps it out, the strongest first.
        trade_off: The trade-off of this user.
        rank: Rank by relevance alone, from 1; None if it is not among the candidates.
        score: Score of the base model; None if it is not among the candidates.
        relevance: The score scaled to 0 .. 1 over the candidates of the rule; None if it is none of them.
        in_base_list: Whether the base list has it.
        new_categories: Categories that the list would gain if it replaced ``replaces``.
        replaces: The item that it would have to replace, and what this would cost.
        leaves: Where it leaves the list at a trade-off below that of the rule; None if it is in none of these lists.
        enters: The smallest trade-off found above that of the rule at which it is in the list; None if there is none.
    """

    user: Id
    item: Id
    codes: tuple[str, ...]
    trade_off: float
    rank: int | None
    score: float | None
    relevance: float | None
    in_base_list: bool
    new_categories: tuple[str, ...] = ()
    replaces: Comparison | None = None
    leaves: Crossing | None = None
    enters: Crossing | None = None

    def sentence(self, name: Name = item_name) -> str:
        """Describe what keeps the item out, for engineers; ``name`` returns the words for an item id."""
        what = upper(name(self.item))
        rank = "is not among the stored candidates" if self.rank is None else f"has rank {self.rank} by relevance alone"
        lines = [f"{what} is not in the list and {rank}."]
        lines += [HINDRANCES[code] for code in self.codes if code in HINDRANCES]
        if self.codes == ("not_candidate",):
            lines.append("The rule chooses from more relevant items only.")
        if self.replaces is None:
            return " ".join(lines)
        lines.append(f"Its best exchange is against {name(self.replaces.item)}, which stays: {margin(self.replaces)}.")
        if self.new_categories:
            lines.append(f"It would bring {joined(self.new_categories)}.")
        if self.leaves is not None:
            lines.append(f"It is in at a trade-off of {self.leaves.present:.4f} and out at {self.leaves.absent:.4f}.")
        if self.enters is None and "boost" not in self.replaces.parts:  # boosts are made for one price
            lines.append("No higher trade-off that was tried brings it in.")
        elif self.enters is not None:
            lines.append(enters(self.enters.present, self.enters.absent))
        return " ".join(lines)

    def for_users(self, name: Name = item_name) -> str:
        """Describe what keeps the item out, for the user who sees the list."""
        first = self.codes[0]
        if first in HINDRANCES_FOR_USERS or self.replaces is None:
            return HINDRANCES_FOR_USERS[first]
        other = upper(name(self.replaces.item))
        words = {
            "relevance": "matches you better",
            "new_category": "adds more categories to your list",
            "less_repetition": "repeats less of your list",
            "distance": "differs more from the rest of your list",
            "shown_nowhere_else": "is in no other list",
            "history": "fits your history better",
        }
        return f"{other} {words.get(first, 'is worth as much and stays')}."


@dataclass(frozen=True, repr=False)
class WhatIf(_Result):
    """A user's list before and after a change, by running the rule again.

    Attributes:
        user: Id of the user.
        changed: What was changed: without, ban, price, seen or forget.
        before: The list, ids in order.
        after: The new list.
        came: Items of the new list that the old one lacks.
        left: Items of the old list that the new one lacks.
        parts_before: Part of the objective -> its value in the old list.
        parts_after: The same in the new list, under its own prices and candidates.
        goals_before: Goal -> what the old list reaches, as its metric counts it; pins are left out.
        goals_after: The same for the new list.
        change: Part of the objective -> value of the new list minus that of the old one. The rule and the history as
            they are value both. None if the new list has an item without a score, or fills places of pins.
    """

    user: Id
    changed: Mapping[str, Any]
    before: tuple[Id, ...]
    after: tuple[Id, ...]
    came: tuple[Id, ...]
    left: tuple[Id, ...]
    parts_before: Mapping[str, float]
    parts_after: Mapping[str, float]
    goals_before: Mapping[str, float]
    goals_after: Mapping[str, float]
    change: Mapping[str, float] | None = None

    def sentence(self, name: Name = item_name) -> str:
        """Describe how the list changes; ``name`` returns the words for an item id."""
        changes = ", ".join(CHANGES[what].format(named(what, value, name)) for what, value in self.changed.items())
        changes = f"{changes[0].upper()}{changes[1:]}"
        if not self.came and not self.left:
            order = "The list stays the same" if self.before == self.after else "The items stay, in another order"
            return f"{changes}: {order[0].lower()}{order[1:]}."
        came, left = moves(self.came, "comes in", "come in", name), moves(self.left, "leaves", "leave", name)
        goals = [f"{goal} goes from {self.goals_before[goal]:.4f} to {it:.4f}" for goal, it in self.goals_after.items()]
        value = "" if self.change is None else f"; {worth(self.change)}"
        reached = f"; {joined(goals)}" if goals else ""
        return f"{changes}: {came}, {left}{reached}{value}."


def plain(value: Any) -> Any:
    """Return plain values: no numpy numbers, lists instead of tuples, and mappings instead of data classes.

    Ten times as fast as ``dataclasses.asdict``, which copies every number: reasons are made at request time.
    """
    if value is None or type(value) in (str, int, float, bool):
        return value
    if isinstance(value, dict | Mapping):
        return {name: plain(it) for name, it in value.items()}
    if isinstance(value, list | tuple):
        return [plain(it) for it in value]
    if is_dataclass(value):
        return {name: plain(getattr(value, name)) for name in value.__dataclass_fields__}
    return value.item() if isinstance(value, np.generic) else value
