"""Reasons of the rule: why an item is in a user's list, why another is not, and what would change the list.

The rule makes the lists, so a reason is read from its objective. Nothing is fitted or estimated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recprism._display import Displayed
from recprism.budget.scenario import Scenario
from recprism.data._ids import as_id_array, id_positions
from recprism.errors import InputError
from recprism.explain import _reason_sentences as words
from recprism.explain._page import Page
from recprism.explain._reason_sentences import Name, item_name
from recprism.rerank.objective import PARTS
from recprism.rerank.rule import Rule

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
}
"""Stable codes of reasons, and what they mean."""

CODE_OF_PART = {
    "relevance": "relevance",
    "coverage": "new_category",
    "alpha_dcg": "less_repetition",
    "distance": "distance",
    "exposure": "shown_nowhere_else",
    "history": "history",
}
PINNED = ("pinned",)
TIED = 1e-10  # differences of the objective that do not count, relative to 1

Id = int | str


@dataclass(frozen=True)
class Comparison:
    """The list of the rule against the same list with one item exchanged.

    Attributes:
        item: The other item.
        margin: Value of the list of the rule minus that of the other list.
        parts: Part of the objective -> its share of the margin; they add up to it.

    Stability: provisional.
    """

    item: Id
    margin: float
    parts: Mapping[str, float]


@dataclass(frozen=True)
class Crossing:
    """Where on the path an item enters or leaves, found by running the rule.

    Attributes:
        present: A trade-off at which the item is in the list.
        absent: The nearest tried trade-off at which it is not; None if it is in the list from 0 on. The two are at most
            0.001 apart, or two points of the path if the rule needs the lists of all users.

    Stability: provisional.
    """

    present: float
    absent: float | None


class _Result(Displayed):
    def to_dict(self) -> dict[str, Any]:
        """Return plain values only, ready for JSON."""
        return {"schema": SCHEMA, "kind": type(self).__name__, **_plain(asdict(self))}  # type: ignore[call-overload]


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

    Stability: provisional.
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

    def sentence(self, name: Name = item_name) -> str:
        """Describe the reason for engineers; ``name`` returns the words for an item id."""
        return words.why(self, name)

    def for_users(self, name: Name = item_name) -> str:
        """Describe the reason for the user who sees the list."""
        return words.why_for_users(self, name)


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

    Stability: provisional.
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
        changed: What was changed: without, ban, price or seen.
        before: The list, ids in order.
        after: The new list.
        came: Items of the new list that the old one lacks.
        left: Items of the old list that the new one lacks.
        parts_before: Part of the objective -> its value in the old list.
        parts_after: The same in the new list, under its own prices and candidates.
        goals_before: Goal -> what the old list reaches, as its metric counts it; pins are left out.
        goals_after: The same for the new list.

    Stability: provisional.
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


def why(scenario: Scenario, rule: Rule, user: Id, item: Id) -> Reason:
    """Explain why an item is in a user's list.

    Args:
        scenario: What is served.
        rule: What makes the lists.
        user: Id of the user.
        item: Id of an item in the user's list.

    Raises:
        InputError: If an id is unknown, or the item is not in the list.

    Stability: provisional.
    """
    page, number = _opened(scenario, rule, user, item)
    if number not in page.items:
        raise InputError(f"item {item!r} is not in the list of user {user!r}; ask why_not, or take an item of the list")
    return _why(page, number)


def why_list(scenario: Scenario, rule: Rule, user: Id) -> tuple[Reason, ...]:
    """Explain every item of a user's list, in the order of the list; faster than :func:`why` for each.

    Args:
        scenario: What is served.
        rule: What makes the lists.
        user: Id of the user.

    Stability: provisional.
    """
    page = Page.of(scenario, rule, _position(user, scenario.split.user_ids, "user"))
    return tuple(_why(page, number) for number in page.items[page.items >= 0].tolist())


def reason_codes(scenario: Scenario, rule: Rule, user: Id) -> dict[Id, tuple[str, ...]]:
    """Return item id -> the codes of its reason, for every item of a user's list; faster than :func:`why_list`.

    Args:
        scenario: What is served.
        rule: What makes the lists.
        user: Id of the user.

    Stability: provisional.
    """
    page = Page.of(scenario, rule, _position(user, scenario.split.user_ids, "user"))
    return {_id(page, number): _compared(page, number)[0] for number in page.items[page.items >= 0].tolist()}


def _why(page: Page, number: int) -> Reason:
    newcomer = _is_newcomer(page, number)
    facts = _facts(page, number, place=int(np.flatnonzero(page.items == number)[0]) + 1, newcomer=newcomer)
    facts["new_categories"] = _new_categories(page, number, page.items)
    codes, replaced, runner_up = _compared(page, number)
    if codes == PINNED:
        return Reason(codes=codes, **facts)
    place = _place(page, number)
    without = page.chosen.copy()
    without[place] = -1
    return Reason(
        codes=codes,
        history_categories=_history_categories(page, place),
        adds=_difference(page, without[None])[0],
        replaced=replaced,
        runner_up=runner_up,
        enters=_enters(page, number, [*(t for t in page.grid if t < page.rule.trade_off), page.rule.trade_off]),
        **facts,
    )


def _compared(page: Page, number: int) -> tuple[tuple[str, ...], Comparison | None, Comparison | None]:
    """Return the codes of an item in the list, what it replaced, and the runner-up for its place."""
    if number in page.pins[page.row]:
        return PINNED, None, None
    place = _place(page, number)
    runner_up = _nearest(page, page.exchanged(np.full(len(page.outside), place), page.outside), page.outside)
    replaced = _replaced(page, place) if _is_newcomer(page, number) else None
    has_new = bool(_new_categories(page, number, page.items))
    return _codes_in(page, number, runner_up if replaced is None else replaced, has_new), replaced, runner_up


def _is_newcomer(page: Page, number: int) -> bool:
    return bool(number not in page.scenario.base_lists[page.user])


def _place(page: Page, number: int) -> int:
    """Return the place of an item among those that the search placed."""
    return int(np.flatnonzero(page.chosen == page.position[number])[0])


def why_not(scenario: Scenario, rule: Rule, user: Id, item: Id) -> ReasonNot:
    """Explain why an item is not in a user's list.

    Args:
        scenario: What is served.
        rule: What makes the lists.
        user: Id of the user.
        item: Id of an item that is not in the user's list.

    Raises:
        InputError: If an id is unknown, or the item is in the list.

    Stability: provisional.
    """
    page, number = _opened(scenario, rule, user, item)
    if number in page.items:
        raise InputError(f"item {item!r} is in the list of user {user!r}; ask why")
    facts = _facts(page, number, in_base_list=bool(number in scenario.base_lists[page.user]))
    if number not in page.position:
        return ReasonNot(codes=(_hindrance(page, number),), **facts)
    places = np.arange(len(page.chosen))
    lists = page.exchanged(places, np.full(len(places), page.position[number]))
    replaces = _nearest(page, lists, page.chosen)
    new: tuple[str, ...] = ()
    if replaces is not None:
        rest = page.items[page.items != _number(page, replaces.item)]
        new = _new_categories(page, number, rest)
    below = [t for t in page.grid if t < rule.trade_off]
    above = [t for t in page.grid if t > rule.trade_off]
    return ReasonNot(
        codes=_codes_out(page, number, lists, replaces),
        new_categories=new,
        replaces=replaces,
        leaves=_leaves(page, number, [*below, float(rule.trade_off)]),
        enters=_enters(page, number, above, absent=float(rule.trade_off)),
        **facts,
    )


def what_if(
    scenario: Scenario,
    rule: Rule,
    user: Id,
    *,
    without: Id | Sequence[Id] | None = None,
    ban: str | None = None,
    price: float | None = None,
    seen: Id | None = None,
) -> WhatIf:
    """Run the rule again after a change, or after several.

    Args:
        scenario: What is served.
        rule: What makes the lists.
        user: Id of the user.
        without: Id of an item that no user can be shown, or several; a pin of it is released.
        ban: Name of a category whose items no user can be shown.
        price: Another trade-off, from 0 to 1.
        seen: Id of an item that the user has consumed in addition. The user's history changes with it; scores do not.

    Raises:
        InputError: If nothing is changed, or an id or a category is unknown.

    Stability: provisional.
    """
    given = {"without": without, "ban": ban, "price": price, "seen": seen}
    changed = {name: value for name, value in given.items() if value is not None}
    if not changed:
        raise InputError("nothing is changed; give without, ban, price or seen")
    ids = np.array([]) if without is None else np.atleast_1d(np.asarray(without))
    removed = id_positions(as_id_array(ids, "item"), scenario.split.item_ids, "item").tolist() if len(ids) else []
    if ban is not None:
        if ban not in scenario.subtopics.names:
            raise InputError(f"there is no category {ban!r}; there are {', '.join(scenario.subtopics.names)}")
        has = scenario.subtopics.items.indices == scenario.subtopics.names.index(ban)
        removed += scenario.subtopics.items.row_of_entry[has].tolist()
    row = _position(user, scenario.split.user_ids, "user")
    consumed = None if seen is None else _position(seen, scenario.split.item_ids, "item")
    old = Page.of(scenario, rule, row)
    new_rule = rule if price is None else rule.at(price)
    new = Page.of(scenario, new_rule, row, removed=sorted(set(removed)), seen=consumed)
    before, after = ([_id(page, item) for item in page.items.tolist() if item >= 0] for page in (old, new))
    return WhatIf(
        user=_plain(scenario.split.user_ids[row]),
        changed=changed,
        before=tuple(before),
        after=tuple(after),
        came=tuple(item for item in after if item not in before),
        left=tuple(item for item in before if item not in after),
        parts_before=_own_parts(old),
        parts_after=_own_parts(new),
        goals_before=old.goal_values(),
        goals_after=new.goal_values(),
    )


# -- ids and facts ----------------------------------------------------------------------------------------------------


def _opened(scenario: Scenario, rule: Rule, user: Id, item: Id) -> tuple[Page, int]:
    """Return the user's page and the number of the item."""
    row = _position(user, scenario.split.user_ids, "user")
    number = _position(item, scenario.split.item_ids, "item")
    return Page.of(scenario, rule, row), number


def _position(wanted: Id, known: NDArray[Any], side: str) -> int:
    return int(id_positions(as_id_array([wanted], side), known, side)[0])


def _id(page: Page, number: int) -> Id:
    found: Id = _plain(page.scenario.split.item_ids[number])
    return found


def _number(page: Page, item: Id) -> int:
    return _position(item, page.scenario.split.item_ids, "item")


def _plain(value: Any) -> Any:
    """Return plain values: no numpy numbers, lists instead of tuples."""
    if isinstance(value, Mapping):
        return {name: _plain(it) for name, it in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(it) for it in value]
    return value.item() if isinstance(value, np.generic) else value


def _facts(page: Page, number: int, **more: Any) -> dict[str, Any]:
    """Return what every reason states about an item."""
    ranked, scores = (array[page.user] for array in page.scenario.candidates)
    at = np.flatnonzero(ranked == number)
    own = page.position.get(number)
    return {
        "user": _plain(page.scenario.split.user_ids[page.user]),
        "item": _id(page, number),
        "trade_off": page.trade_off,
        "rank": int(at[0]) + 1 if len(at) else None,
        "score": float(scores[at[0]]) if len(at) else None,
        "relevance": None if own is None else float(page.relevance[own]),
        **more,
    }


def _categories(page: Page, number: int) -> set[int]:
    return set(page.scenario.subtopics.items.row(number).tolist()) if len(page.scenario.subtopics) else set()


def _new_categories(page: Page, number: int, items: NDArray[np.int64]) -> tuple[str, ...]:
    """Return the names of an item's categories that no other of these items has."""
    others = [_categories(page, other) for other in items.tolist() if other >= 0 and other != number]
    new = _categories(page, number).difference(*others)
    return tuple(page.scenario.subtopics.names[at] for at in sorted(new))


def _history_categories(page: Page, place: int) -> tuple[str, ...]:
    parts = page.own_parts
    own = (parts.place == place) & (parts.history > 0)
    order = np.argsort(-parts.history[own], kind="stable")
    return tuple(page.scenario.subtopics.names[at] for at in parts.subtopic[own][order].tolist())


# -- comparisons ------------------------------------------------------------------------------------------------------


def _own_parts(page: Page) -> dict[str, float]:
    return {name: float(values[0]) for name, values in page.own_parts.by_list().items()}


def _difference(page: Page, lists: NDArray[np.int64]) -> list[dict[str, float]]:
    """Return, for each other list, part -> its value in the list of the rule minus that in the other list."""
    own, others = _own_parts(page), page.parts(lists).by_list()
    return [{name: own[name] - float(others[name][at]) for name in PARTS} for at in range(len(lists))]


def _nearest(page: Page, lists: NDArray[np.int64], others: NDArray[np.int64]) -> Comparison | None:
    """Return the most valuable of other lists within the shares; ``others``: positions of the items to name, (n,)."""
    value = page.parts(lists).total
    if any(page.method.share_limits):
        value = np.where(page.within_shares(lists), value, -np.inf)
    if not len(value) or not np.isfinite(value.max()):
        return None
    best = int(np.flatnonzero(value >= value.max() - TIED)[0])  # of equal ones the most relevant
    return _comparison(page, lists[best], int(others[best]))


def _comparison(page: Page, other_list: NDArray[np.int64], other: int) -> Comparison:
    parts = _difference(page, other_list[None])[0]
    return Comparison(_id(page, int(page.candidates[other])), sum(parts.values()), parts)


def _replaced(page: Page, place: int) -> Comparison | None:
    """Match the items that left the base list with the newcomers, and compare the one at a place with its match.

    All pairs together keep the largest value if every newcomer gives its place back.
    """
    from scipy.optimize import linear_sum_assignment

    base = page.scenario.base_lists[page.user]
    inside = page.candidates[page.chosen]
    gone = base[~np.isin(base, page.items) & np.isin(base, page.candidates)]
    left = np.array([page.position[item] for item in gone.tolist()], np.int64)
    new = np.flatnonzero(~np.isin(inside, base))
    if not len(left):
        return None
    lists = page.exchanged(np.repeat(new, len(left)), np.tile(left, len(new)))
    worth = page.parts(lists).total.reshape(len(new), len(left))
    rows, columns = linear_sum_assignment(-worth)
    match = dict(zip(new[rows].tolist(), columns.tolist(), strict=True))
    if place not in match:
        return None
    at = int(np.flatnonzero(new == place)[0]) * len(left) + match[place]
    return _comparison(page, lists[at], int(left[match[place]]))


# -- codes ------------------------------------------------------------------------------------------------------------


def _codes_in(page: Page, number: int, against: Comparison | None, has_new: bool) -> tuple[str, ...]:
    """Return what brought an item in, or keeps it in, against another one."""
    if number not in page.unrepaired:
        return (_repair_code(page, number),)
    if against is None:
        return ("share",) if len(page.outside) else ("only_candidate",)
    codes = _codes(against.parts)
    if has_new and "new_category" not in codes:
        codes = tuple("new_category" if code == "less_repetition" else code for code in codes)
    return _with_margin(page, number, codes, against)


def _codes_out(page: Page, number: int, lists: NDArray[np.int64], best: Comparison | None) -> tuple[str, ...]:
    """Return what keeps a candidate out; ``lists``: those with the item in one of the places."""
    if best is None or number in page.unrepaired:
        return (_repair_code(page, number),)
    codes = _codes(best.parts)
    if any(page.method.share_limits) and page.parts(lists).total.max() > sum(_own_parts(page).values()) + TIED:
        return (*codes, "share")
    return _with_margin(page, number, codes, best)


def _with_margin(page: Page, number: int, codes: tuple[str, ...], against: Comparison) -> tuple[str, ...]:
    """Append why an item stays, or stays out, if the other list is worth as much or more."""
    if against.margin > TIED:
        return codes
    if against.margin >= -TIED:
        return (*codes, "tie")
    repaired = set(page.items.tolist()) != set(page.unrepaired.tolist())
    return (*codes, _repair_code(page, number) if repaired else "search")


def _codes(parts: Mapping[str, float]) -> tuple[str, ...]:
    strong = sorted((name for name in parts if parts[name] > TIED), key=lambda name: -parts[name])
    return tuple(CODE_OF_PART[name] for name in strong)


def _repair_code(page: Page, number: int) -> str:
    """Return which constraint changed the list of the search: a share, or the floor for the tail after it."""
    if not any(page.method.share_limits):
        return "tail_floor"
    return "share" if (number in page.with_shares) == (number in page.items) else "tail_floor"


def _hindrance(page: Page, number: int) -> str:
    """Return why an item is not among the candidates of the search."""
    if number in page.scenario.seen.row(page.user):
        return "seen"
    return "banned" if number in np.asarray(page.scenario.constraints.get("banned", ())) else "not_candidate"


# -- the path ---------------------------------------------------------------------------------------------------------


def _enters(page: Page, number: int, trade_offs: Sequence[float], absent: float | None = None) -> Crossing | None:
    """Return the first of rising trade-offs with the item, bisected; ``absent``: one below them without it."""
    for trade_off in trade_offs:
        if page.is_in(number, trade_off):
            return Crossing(trade_off, None) if absent is None else Crossing(*page.crossing(number, trade_off, absent))
        absent = trade_off
    return None


def _leaves(page: Page, number: int, trade_offs: Sequence[float]) -> Crossing | None:
    """Return where an item leaves for the last time before the end of rising trade-offs, at which it is absent."""
    absent = trade_offs[-1]
    for trade_off in reversed(trade_offs[:-1]):
        if page.is_in(number, trade_off):
            return Crossing(*page.crossing(number, trade_off, absent))
        absent = trade_off
    return None
