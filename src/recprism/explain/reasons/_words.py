"""What the sentences of reasons are made of. Every clause states a number or a fact, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Id = int | str
Name = Callable[[Id], str]

BY_CONSTRAINT = {
    "pinned": "A constraint pins it to this place.",
    "share": "The shares in the constraints put it there.",
    "field": "A limit on a field in the constraints put it there.",
    "tail_floor": "The floor for the tail in the constraints put it there.",
    "limit": "This is the base list: the rule's own list for the user could lose more than the limit.",
}
BY_CONSTRAINT_FOR_USERS = {
    "pinned": "Placed here for everyone.",
    "share": "Shown to keep a fixed share of categories.",
    "field": "Shown to keep items of one kind apart.",
    "tail_floor": "Shown to give less popular items a place.",
}
IN_BRIEF = {
    "less_repetition": "repeats fewer categories of the list",
    "distance": "differs more from the rest of the list",
    "shown_nowhere_else": "is in no other list",
    "history": "fits {history} of the user's history",
    "relevance": "matches the user better",
}
HINDRANCES = {
    "seen": "The user has consumed it already.",
    "banned": "A constraint bans it.",
    "share": "The shares in the constraints keep it out.",
    "field": "A limit on a field in the constraints keeps it out.",
    "tail_floor": "The floor for the tail in the constraints keeps it out.",
    "limit": "This is the base list: the rule's own list for the user could lose more than the limit.",
}
HINDRANCES_FOR_USERS = {
    "seen": "You know it already.",
    "banned": "It is not available here.",
    **dict.fromkeys(("not_candidate", "limit"), "Other items match you better."),
    "share": "A fixed share of categories keeps it out.",
    "field": "Enough items of its kind are shown.",
    "tail_floor": "Less popular items take its place.",
}


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


def item_name(item: Id) -> str:
    """Return the words for an item without a title."""
    return f"item {item}"


def joined(names: Sequence[str], word: str = "and") -> str:
    """Join names.

    >>> joined(["a"]), joined(["a", "b", "c"]), joined(["a", "b"], "or")
    ('a', 'a, b and c', 'a or b')
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} {word} {names[-1]}"


# -- clauses -----------------------------------------------------------------------------------------------------------


def would_be(rank: int) -> str:
    ending = "th" if rank % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(rank % 10, "th")
    return f"would be {rank:,}{ending} by relevance"


CHANGES = {
    "without": "without {}",
    "ban": "with {} banned",
    "price": "at a trade-off of {}",
    "seen": "after the user has consumed {}",
    "forget": "with {} left out of the history",
}


def named(what: str, value: Any, name: Name) -> str:
    if what not in ("without", "seen", "forget"):
        return str(value)
    return joined([name(it) for it in (value if isinstance(value, (list, tuple)) else [value])])


def margin(against: Comparison) -> str:
    """Describe a margin and its parts, the largest first; parts that round to 0 are left out."""
    shown = sorted(against.parts.items(), key=lambda pair: -abs(pair[1]))
    words = [f"{part} {value:+.4f}" for part, value in shown if abs(value) >= 5e-5]
    of_parts = f" ({', '.join(words)})" if words else ""
    return f"this list is worth {against.margin:+.4f} more{of_parts}"


def alike(left: Comparison) -> str:
    """Say which place an item that left is like."""
    return "" if left.alike is None else f", which is {left.alike[1]:.2f} alike to place {left.alike[0]}"


def moves(items: Sequence[Id], one: str, many: str, name: Name) -> str:
    if not items:
        return f"nothing {one}"
    return f"{joined([name(item) for item in items])} {one if len(items) == 1 else many}"


def enters(present: float, absent: float | None) -> str:
    if absent is None:
        return f"It is in the list from a trade-off of {present:g} on."
    return f"It enters at a trade-off of {present:.4f} and is out at {absent:.4f}."


def upper(words: str) -> str:
    return words[:1].upper() + words[1:]
