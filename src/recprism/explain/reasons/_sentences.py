"""Reasons in words, from templates. Every clause states a number or a fact of the reason, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recprism.explain.reasons.reason import Comparison, Id, Reason, ReasonNot, WhatIf

Name = Callable[["Id"], str]

BY_CONSTRAINT = {
    "pinned": "A constraint pins it to this place.",
    "share": "The shares in the constraints put it there.",
    "tail_floor": "The floor for the tail in the constraints put it there.",
    "limit": "This is the base list: the rule's own list for the user could lose more than the limit.",
}
BY_CONSTRAINT_FOR_USERS = {
    "pinned": "Placed here for everyone.",
    "share": "Shown to keep a fixed share of categories.",
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
    "tail_floor": "The floor for the tail in the constraints keeps it out.",
    "limit": "This is the base list: the rule's own list for the user could lose more than the limit.",
}
HINDRANCES_FOR_USERS = {
    "seen": "You know it already.",
    "banned": "It is not available here.",
    **dict.fromkeys(("not_candidate", "limit"), "Other items match you better."),
    "share": "A fixed share of categories keeps it out.",
    "tail_floor": "Less popular items take its place.",
}


def item_name(item: Id) -> str:
    """Return the words for an item without a title."""
    return f"item {item}"


def joined(names: Sequence[str], word: str = "and") -> str:
    """Join names.

    >>> joined(["a"]), joined(["a", "b", "c"]), joined(["a", "b"], "or")
    ('a', 'a, b and c', 'a or b')
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} {word} {names[-1]}"


# -- why --------------------------------------------------------------------------------------------------------------


def why(reason: Reason, name: Name) -> str:
    """Describe a reason for engineers."""
    rank = "is not among the stored candidates" if reason.rank is None else f"has rank {reason.rank} by relevance alone"
    lines = [f"{_upper(name(reason.item))} is at place {reason.place} and {rank}."]
    lines += [BY_CONSTRAINT[code] for code in reason.codes if code in BY_CONSTRAINT]
    if reason.new_categories:
        lines.append(f"No other item of the list has {joined(reason.new_categories, 'or')}.")
    lines.append("The base list lacks it." if reason.newcomer else "The base list has it, too.")
    if reason.replaced is not None:
        lines.append(f"It replaced {name(reason.replaced.item)}{_alike(reason.replaced)}: {_margin(reason.replaced)}.")
    if reason.runner_up is not None:
        lines.append(f"The runner-up for its place is {name(reason.runner_up.item)}: {_margin(reason.runner_up)}.")
    if reason.enters is not None:
        lines.append(_enters(reason.enters.present, reason.enters.absent))
    return " ".join(lines)


def why_for_users(reason: Reason, name: Name) -> str:
    """Describe a reason for the user who sees the list."""
    first, found = reason.codes[0], f"Number {reason.rank} of the best matches for you."
    if first in BY_CONSTRAINT_FOR_USERS:
        found = BY_CONSTRAINT_FOR_USERS[first]
    elif not reason.newcomer:
        found += f" No other item here has {joined(reason.new_categories, 'or')}." if reason.new_categories else ""
    elif first == "new_category" and reason.new_categories:
        found = f"Added for variety: {joined(reason.new_categories)}, which your list lacked."
    elif first == "history" and reason.history_categories:
        found = f"Added to match your history: {joined(reason.history_categories)}."
    elif first == "shown_nowhere_else":
        found = "Added because no other list shows it."
    elif first in ("distance", "less_repetition") and reason.replaced is not None:
        word = "it differs more from the rest of your list" if first == "distance" else "its categories repeat less"
        found = f"Added for variety: {word} than {name(reason.replaced.item)}{_alike(reason.replaced)}."
    return found


def why_in_brief(reason: Reason, name: Name) -> str:
    """Describe why a new item came: what it adds, what it replaces, and its rank by relevance."""
    first = reason.codes[0]
    parts = [BY_CONSTRAINT_FOR_USERS[first].removesuffix(".")] if first in BY_CONSTRAINT_FOR_USERS else []
    if reason.new_categories:
        parts.append(f"adds {joined(reason.new_categories)}")
    elif first in IN_BRIEF:
        what = joined(reason.history_categories) if reason.history_categories else "the history"
        parts.append(IN_BRIEF[first].format(history=what))
    if reason.replaced is not None:
        parts.append(f"replaces {name(reason.replaced.item)}")
    parts.append("is outside the candidates by relevance" if reason.rank is None else _would_be(reason.rank))
    return f"{_upper('; '.join(parts))}."


def _would_be(rank: int) -> str:
    ending = "th" if rank % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(rank % 10, "th")
    return f"would be {rank:,}{ending} by relevance"


# -- why not ----------------------------------------------------------------------------------------------------------


def why_not(reason: ReasonNot, name: Name) -> str:
    """Describe what keeps an item out, for engineers."""
    what = _upper(name(reason.item))
    rank = "is not among the stored candidates" if reason.rank is None else f"has rank {reason.rank} by relevance alone"
    lines = [f"{what} is not in the list and {rank}."]
    lines += [HINDRANCES[code] for code in reason.codes if code in HINDRANCES]
    if reason.codes == ("not_candidate",):
        lines.append("The rule chooses from more relevant items only.")
    if reason.replaces is None:
        return " ".join(lines)
    lines.append(f"Its best exchange is against {name(reason.replaces.item)}, which stays: {_margin(reason.replaces)}.")
    if reason.new_categories:
        lines.append(f"It would bring {joined(reason.new_categories)}.")
    if reason.leaves is not None:
        lines.append(f"It is in at a trade-off of {reason.leaves.present:.4f} and out at {reason.leaves.absent:.4f}.")
    if reason.enters is None:
        lines.append("No higher trade-off that was tried brings it in.")
    else:
        lines.append(_enters(reason.enters.present, reason.enters.absent))
    return " ".join(lines)


def why_not_for_users(reason: ReasonNot, name: Name) -> str:
    """Describe what keeps an item out, for the user who sees the list."""
    first = reason.codes[0]
    if first in HINDRANCES_FOR_USERS or reason.replaces is None:
        return HINDRANCES_FOR_USERS[first]
    other = _upper(name(reason.replaces.item))
    words = {
        "relevance": "matches you better",
        "new_category": "adds more categories to your list",
        "less_repetition": "repeats less of your list",
        "distance": "differs more from the rest of your list",
        "shown_nowhere_else": "is in no other list",
        "history": "fits your history better",
    }
    return f"{other} {words.get(first, 'is worth as much and stays')}."


# -- what if ----------------------------------------------------------------------------------------------------------


CHANGES = {
    "without": "without {}",
    "ban": "with {} banned",
    "price": "at a trade-off of {}",
    "seen": "after the user has consumed {}",
    "forget": "with {} left out of the history",
}


def what_if(found: WhatIf, name: Name) -> str:
    """Describe how the list changes, for engineers."""
    changes = ", ".join(CHANGES[what].format(_named(what, value, name)) for what, value in found.changed.items())
    changes = f"{changes[0].upper()}{changes[1:]}"
    if not found.came and not found.left:
        order = "The list stays the same" if found.before == found.after else "The items stay, in another order"
        return f"{changes}: {order[0].lower()}{order[1:]}."
    came, left = _moves(found.came, "comes in", "come in", name), _moves(found.left, "leaves", "leave", name)
    goals = [f"{goal} goes from {found.goals_before[goal]:.4f} to {it:.4f}" for goal, it in found.goals_after.items()]
    return f"{changes}: {came}, {left}; {joined(goals)}."


def _named(what: str, value: Any, name: Name) -> str:
    if what not in ("without", "seen", "forget"):
        return str(value)
    return joined([name(it) for it in (value if isinstance(value, (list, tuple)) else [value])])


# -- clauses ----------------------------------------------------------------------------------------------------------


def _margin(against: Comparison) -> str:
    """Describe a margin and its parts, the largest first; parts that round to 0 are left out."""
    shown = sorted(against.parts.items(), key=lambda pair: -abs(pair[1]))
    words = [f"{part} {value:+.4f}" for part, value in shown if abs(value) >= 5e-5]
    of_parts = f" ({', '.join(words)})" if words else ""
    return f"this list is worth {against.margin:+.4f} more{of_parts}"


def _alike(left: Comparison) -> str:
    """Say which place an item that left is like."""
    return "" if left.alike is None else f", which is {left.alike[1]:.2f} alike to place {left.alike[0]}"


def _moves(items: Sequence[Id], one: str, many: str, name: Name) -> str:
    if not items:
        return f"nothing {one}"
    return f"{joined([name(item) for item in items])} {one if len(items) == 1 else many}"


def _enters(present: float, absent: float | None) -> str:
    if absent is None:
        return f"It is in the list from a trade-off of {present:g} on."
    return f"It enters at a trade-off of {present:.4f} and is out at {absent:.4f}."


def _upper(words: str) -> str:
    return words[:1].upper() + words[1:]
