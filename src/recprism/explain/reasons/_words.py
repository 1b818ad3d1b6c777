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
WITHOUT = {"price": "at price 0", "history": "without the user's history", "boost": "without its boost"}
FOR_USERS = {
    "variety": "for variety",
    "history": "to match your history",
    "boost": "because it is boosted for all users",
}
ELSEWHERE = {
    "variety_elsewhere": "for variety",
    "history_elsewhere": "to match your history",
    "boost_elsewhere": "with its boost",
}
IN_BRIEF = {
    "less_repetition": "repeats fewer categories of the list",
    "distance": "differs more from the rest of the list",
    "shown_nowhere_else": "is in no other list",
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


NUMBERS = dict(enumerate(["two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"], 2))


@dataclass(frozen=True)
class Comparison:
    """The list of the rule against the same list with one item exchanged.

    Attributes:
        item: The other item.
        margin: Value of the list of the rule minus that of the other list.
        parts: Part of the objective -> its share of the margin; they add up to it.
        alike: If distances of vectors count, for an item that left: the place whose item is most like it, and their
            cosine.
        without: The margin at price 0 ("price") and without the user's history ("history"), if this exchange is the
            reason; below 0, the item loses it.
        without_categories: Name -> the margin if a newcomer had not this category; only categories that add something.
    """

    item: Id
    margin: float
    parts: Mapping[str, float]
    alike: tuple[int, float] | None = None
    without: Mapping[str, float] | None = None
    without_categories: Mapping[str, float] | None = None

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


def points(value: float) -> str:
    """Print a value of lists in points: hundredths of what the rule maximises.

    >>> points(0.0163), points(-0.00001)
    ('1.63', '0.00')
    """
    return f"{round(100 * value, 2) + 0.0:.2f}"


def margin(against: Comparison) -> str:
    """Describe a margin and its parts, the largest first, and the margins without causes; 0.00 is left out."""
    changes = {WITHOUT[what]: value for what, value in (against.without or {}).items()}
    changes |= {f"without {name}": value for name, value in (against.without_categories or {}).items()}
    otherwise = "".join(f"; {what} {points(value)}" for what, value in changes.items())
    return f"it is worth {points(against.margin)} points more to the list{of_parts(against.parts)}{otherwise}"


def of_parts(parts: Mapping[str, float]) -> str:
    """Name the parts of a value in points, the largest first; 0.00 is left out."""
    shown = sorted(parts.items(), key=lambda pair: -abs(pair[1]))
    words = [f"{part} {'+' if value > 0 else ''}{points(value)}" for part, value in shown if points(value) != "0.00"]
    return f" ({', '.join(words)})" if words else ""


def worth(change: Mapping[str, float]) -> str:
    """Describe what a new list is worth against the old one, by the rule as it is."""
    value = sum(change.values())
    than = (
        "as much as the old one"
        if points(value) == "0.00"
        else f"{points(abs(value))} points {'more' if value > 0 else 'less'}"
    )
    return f"by the rule as it is, the new list is worth {than}{of_parts(change)}"


def categories_named(names: Sequence[str], together: bool) -> str:
    """Return the names of categories that decide; ``together`` if no single one of them does."""
    return "" if not names else joined(names) + (" together" if together else "")


def alike(left: Comparison) -> str:
    """Say which place an item that left is like."""
    return "" if left.alike is None else f", which is {left.alike[1]:.2f} alike to place {left.alike[0]}"


def lately(pages: Mapping[str, int]) -> str:
    """Say on how many of the last pages no item had some categories.

    >>> lately({"jazz": 3}), lately({"jazz": 1, "folk": 2, "rock": 1})
    ('no jazz on your last three pages', 'no folk on your last two pages, no jazz or rock on your last page')
    """
    said = []
    for n in sorted({*pages.values()}, reverse=True):
        some = joined([name for name, number in pages.items() if number == n], "or")
        said.append(f"no {some} on your last {'page' if n == 1 else f'{NUMBERS.get(n, n)} pages'}")
    return ", ".join(said)


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
