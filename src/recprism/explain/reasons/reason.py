"""What a reason of the rule holds: codes, comparisons, and its sentences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, is_dataclass
from typing import Any

import numpy as np

from recprism.common.display import Displayed
from recprism.explain.reasons import _sentences as words
from recprism.explain.reasons._sentences import Name, item_name

SCHEMA = 1
"""Version of the keys and codes of :meth:`Reason.to_dict` and its relatives."""

CODES = {
    "pinned": "A constraint pins the item to its place.",
    "share": "A share of categories in the constraints put the item there, or keeps it out.",
    "tail_floor": "The floor for the tail put the item there.",
    "relevance": "Its relevance counts for more.",
    "new_category": "It has categories that no other item of the list has.",
    "less_repetition": "Its categories occur less often in the places before it.",
    "distance": "It is further away from the other items.",
    "shown_nowhere_else": "No other list shows it.",
    "history": "It fits the categories of the user's history better.",
    "only_candidate": "No other candidate could take its place.",
    "tie": "Another list is worth the same; the more relevant item wins.",
    "search": "The search ended at this list although one exchange would be worth more.",
    "seen": "The user has consumed the item.",
    "banned": "A constraint bans the item.",
    "not_candidate": "The item is not among the candidates of the rule.",
    "limit": "The rule's own list for the user could lose more than the limit, so this is the base list.",
}
"""Stable codes of reasons, and what they mean."""

Id = int | str


@dataclass(frozen=True)
class Comparison:
    """The list of the rule against the same list with one item exchanged.

    Attributes:
        item: The other item.
        margin: Value of the list of the rule minus that of the other list.
        parts: Part of the objective -> its share of the margin; they add up to it.
        alike: If distances of vectors count, for an item that left: the place whose item is most like it, and their
            cosine.
    """

    item: Id
    margin: float
    parts: Mapping[str, float]
    alike: tuple[int, float] | None = None

    def __post_init__(self) -> None:
        if self.alike is not None:
            object.__setattr__(self, "alike", tuple(self.alike))


@dataclass(frozen=True)
class Crossing:
    """Where on the path an item enters or leaves, found by running the rule.

    Attributes:
        present: A trade-off at which the item is in the list.
        absent: The nearest tried trade-off at which it is not; None if it is in the list from 0 on. The two are at most
            0.001 apart, or two points of the path if the rule needs the lists of all users.
    """

    present: float
    absent: float | None


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
        codes: Keys of ``CODES``, the strongest first.
        trade_off: The trade-off of this user.
        place: Place in the list, from 1.
        rank: Rank by relevance alone, from 1; None if it is not among the candidates.
        score: Score of the base model; None if it is not among the candidates.
        relevance: The score scaled to 0 .. 1 over the candidates of the rule; None for a pinned item.
        newcomer: Whether the base list lacks it.
        new_categories: Categories that no other item of the list has.
        history_categories: Its categories that count for the user's history, the strongest first.
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
    history_categories: tuple[str, ...] = ()
    adds: Mapping[str, float] | None = None
    replaced: Comparison | None = None
    runner_up: Comparison | None = None
    enters: Crossing | None = None

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> Reason:
        """Read what ``to_dict`` wrote."""
        found = {name: facts[name] for name in cls.__dataclass_fields__}
        for name in ("codes", "new_categories", "history_categories"):
            found[name] = tuple(found[name])
        for name in ("replaced", "runner_up"):
            found[name] = None if found[name] is None else Comparison(**found[name])
        found["enters"] = None if found["enters"] is None else Crossing(**found["enters"])
        return cls(**found)

    def sentence(self, name: Name = item_name) -> str:
        """Describe the reason for engineers; ``name`` returns the words for an item id."""
        return words.why(self, name)

    def for_users(self, name: Name = item_name) -> str:
        """Describe the reason for the user who sees the list."""
        return words.why_for_users(self, name)

    def in_brief(self, name: Name = item_name) -> str:
        """Describe why a new item came: what it adds, what it replaces, and its rank by relevance."""
        return words.why_in_brief(self, name)


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
        return words.why_not(self, name)

    def for_users(self, name: Name = item_name) -> str:
        """Describe what keeps the item out, for the user who sees the list."""
        return words.why_not_for_users(self, name)


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

    def sentence(self, name: Name = item_name) -> str:
        """Describe how the list changes; ``name`` returns the words for an item id."""
        return words.what_if(self, name)


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
