"""What a reason is read from: facts about an item, other lists next to the list of the rule, and the path."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recprism.budget.scenario import Scenario
from recprism.data._ids import as_id_array, id_positions
from recprism.explain.reasons._codes import ORDER, PINNED, TIED, codes_of, crossing, first_present
from recprism.explain.reasons._page import Page
from recprism.explain.reasons.reason import Comparison, Crossing, Id, plain
from recprism.rerank.objective import PARTS
from recprism.rerank.rule import Rule


def opened(scenario: Scenario, rule: Rule, user: Id, item: Id) -> tuple[Page, int]:
    """Return the user's page and the number of the item."""
    row = position_of(user, scenario.split.user_ids, "user")
    number = position_of(item, scenario.split.item_ids, "item")
    return Page.of(scenario, rule, row), number


def position_of(wanted: Id, known: NDArray[Any], side: str) -> int:
    return int(id_positions(as_id_array([wanted], side), known, side)[0])


def item_id(page: Page, number: int) -> Id:
    found: Id = plain(page.scenario.split.item_ids[number])
    return found


def item_number(page: Page, item: Id) -> int:
    return position_of(item, page.scenario.split.item_ids, "item")


def facts_about(page: Page, number: int, **more: Any) -> dict[str, Any]:
    """Return what every reason states about an item."""
    ranked, scores = (array[page.user] for array in page.scenario.candidates)
    at = np.flatnonzero(ranked == number)
    own = page.position.get(number)
    return {
        "user": plain(page.scenario.split.user_ids[page.user]),
        "item": item_id(page, number),
        "trade_off": page.trade_off,
        "rank": int(at[0]) + 1 if len(at) else None,
        "score": float(scores[at[0]]) if len(at) else None,
        "relevance": None if own is None else float(page.relevance[own]),
        **more,
    }


def _categories(page: Page, number: int) -> set[int]:
    return set(page.scenario.subtopics.items.row(number).tolist()) if len(page.scenario.subtopics) else set()


def new_categories_of(page: Page, number: int, items: NDArray[np.int64]) -> tuple[str, ...]:
    """Return the names of an item's categories that no other of these items has."""
    others = [_categories(page, other) for other in items.tolist() if other >= 0 and other != number]
    new = _categories(page, number).difference(*others)
    return tuple(page.scenario.subtopics.names[at] for at in sorted(new))


def history_categories_of(page: Page, place: int) -> tuple[str, ...]:
    parts = page.own_parts
    own = (parts.place == place) & (parts.history > 0)
    order = np.argsort(-parts.history[own], kind="stable")
    return tuple(page.scenario.subtopics.names[at] for at in parts.subtopic[own][order].tolist())


# -- comparisons ------------------------------------------------------------------------------------------------------


def compared(page: Page, number: int) -> tuple[tuple[str, ...], Comparison | None, Comparison | None]:
    """Return the codes of an item in the list, what it replaced, and the runner-up for its place."""
    if number in page.pins[page.row]:
        return PINNED, None, None
    place = place_of(page, number)
    runner_up = nearest(page, page.exchanged(np.full(len(page.outside), place), page.outside), page.outside)
    replaced = replaced_by(page, place) if is_newcomer(page, number) else None
    has_new = bool(new_categories_of(page, number, page.items))
    return codes_in(page, number, runner_up if replaced is None else replaced, has_new), replaced, runner_up


def is_newcomer(page: Page, number: int) -> bool:
    return bool(number not in page.scenario.base_lists[page.user])


def place_of(page: Page, number: int) -> int:
    """Return the place of an item among those that the search placed."""
    return int(np.flatnonzero(page.chosen == page.position[number])[0])


def parts_of(page: Page) -> dict[str, float]:
    return {name: float(values[0]) for name, values in page.own_parts.by_list().items()}


def differences(page: Page, lists: NDArray[np.int64]) -> list[dict[str, float]]:
    """Return, for each other list, part -> its value in the list of the rule minus that in the other list."""
    own, others = parts_of(page), page.parts(lists).by_list()
    return [{name: own[name] - float(others[name][at]) for name in PARTS} for at in range(len(lists))]


def nearest(page: Page, lists: NDArray[np.int64], others: NDArray[np.int64]) -> Comparison | None:
    """Return the most valuable of other lists within the shares; ``others``: positions of the items to name, (n,)."""
    value = page.parts(lists).total
    if page.method.constraints.shares:
        value = np.where(page.within_shares(lists), value, -np.inf)
    if not len(value) or not np.isfinite(value.max()):
        return None
    best = int(np.flatnonzero(value >= value.max() - TIED)[0])  # of equal ones the most relevant
    return _comparison(page, lists[best], int(others[best]))


def _comparison(page: Page, other_list: NDArray[np.int64], other: int) -> Comparison:
    parts = differences(page, other_list[None])[0]
    return Comparison(item_id(page, int(page.candidates[other])), sum(parts.values()), parts)


def replaced_by(page: Page, place: int) -> Comparison | None:
    """Match the items that left the base list with the newcomers, and compare the one at a place with its match.

    All pairs together keep the largest value if every newcomer gives its place back. Many matches may be worth the
    same; then the first newcomers replaced the most relevant items.
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
    apart = np.subtract.outer(np.arange(len(new)), np.arange(len(left)))
    rows, columns = linear_sum_assignment(ORDER * apart**2 - worth)
    match = dict(zip(new[rows].tolist(), columns.tolist(), strict=True))
    if place not in match:
        return None
    at = int(np.flatnonzero(new == place)[0]) * len(left) + match[place]
    return _comparison(page, lists[at], int(left[match[place]]))


# -- codes ------------------------------------------------------------------------------------------------------------


def codes_in(page: Page, number: int, against: Comparison | None, has_new: bool) -> tuple[str, ...]:
    """Return what brought an item in, or keeps it in, against another one."""
    if number not in page.unrepaired:
        return (_repair_code(page, number),)
    if against is None:
        return ("share",) if len(page.outside) else ("only_candidate",)
    return _with_margin(page, number, codes_of(against.parts, has_new=has_new), against)


def codes_out(page: Page, number: int, lists: NDArray[np.int64], best: Comparison | None) -> tuple[str, ...]:
    """Return what keeps a candidate out; ``lists``: those with the item in one of the places."""
    if best is None or number in page.unrepaired:
        return (_repair_code(page, number),)
    codes = codes_of(best.parts)
    if page.method.constraints.shares and page.parts(lists).total.max() > sum(parts_of(page).values()) + TIED:
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


def _repair_code(page: Page, number: int) -> str:
    """Return which constraint changed the list of the search: a share, or the floor for the tail after it."""
    if not page.method.constraints.shares:
        return "tail_floor"
    return "share" if (number in page.with_shares) == (number in page.items) else "tail_floor"


def hindrance(page: Page, number: int) -> str:
    """Return why an item is not among the candidates of the search."""
    if number in page.scenario.seen.row(page.user):
        return "seen"
    return "banned" if number in page.scenario.resolved.banned else "not_candidate"


# -- the path ---------------------------------------------------------------------------------------------------------


def first_entry(page: Page, number: int, trade_offs: Sequence[float], absent: float | None = None) -> Crossing | None:
    """Return the first of rising trade-offs with the item, bisected; ``absent``: one below them without it."""
    found = first_present(lambda it: page.is_in(number, it), trade_offs, absent, page.precision)
    return None if found is None else Crossing(*found)


def last_exit(page: Page, number: int, trade_offs: Sequence[float]) -> Crossing | None:
    """Return where an item leaves for the last time before the end of rising trade-offs, at which it is absent."""
    absent = trade_offs[-1]
    for trade_off in reversed(trade_offs[:-1]):
        if page.is_in(number, trade_off):
            return Crossing(*crossing(lambda it: page.is_in(number, it), trade_off, absent, page.precision))
        absent = trade_off
    return None
