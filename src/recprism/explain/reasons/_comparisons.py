"""The reasons of a page, and what only offline reasons say: an item that is not in the list, and the path."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recprism.budget.problem import Problem
from recprism.common.ids import as_id_array, id_positions
from recprism.explain.reasons._page import Page
from recprism.explain.reasons._words import Comparison, Crossing, Id
from recprism.explain.reasons.codes import LIMIT, PINNED, TIED, crossing, first_present
from recprism.explain.reasons.compared import Compared, compare
from recprism.explain.reasons.reason import Reason, plain
from recprism.explain.reasons.reruns import Reruns
from recprism.rule.kernels.prices import compares_vectors
from recprism.rule.rule import Rule


def opened(problem: Problem, rule: Rule, user: Id, item: Id) -> tuple[Page, int]:
    """Return the user's page and the number of the item."""
    row = position_of(user, problem.split.user_ids, "user")
    number = position_of(item, problem.split.item_ids, "item")
    return Page.of(problem, rule, row), number


def position_of(wanted: Id, known: NDArray[Any], side: str) -> int:
    return int(id_positions(as_id_array([wanted], side), known, side)[0])


def item_id(page: Page, number: int) -> Id:
    found: Id = plain(page.problem.split.item_ids[number])
    return found


def item_ids(page: Page, numbers: NDArray[np.int64]) -> list[Id]:
    """Return the ids of a list, (k,), without empty places."""
    return [item_id(page, number) for number in numbers.tolist() if number >= 0]


# -- items of the list ------------------------------------------------------------------------------------------------


def reasons_of(page: Page, entries_of: Callable[[int], bool] = lambda _: False) -> tuple[Reason, ...]:
    """Return the reason of each item of the list.

    Args:
        page: The user's page.
        entries_of: Item number -> whether to look for the trade-off at which it enters, by running the rule again.
    """
    places, user = np.flatnonzero(page.items >= 0), plain(page.problem.split.user_ids[page.user])
    ids, base = (item_ids(page, items) for items in (page.items, page.problem.base_lists[page.user]))
    scores = [page.ranked[number][1] for number in page.items[places].tolist()]
    found = _compared(page, entries_of).reasons(user, page.trade_off, ids, scores, base, places.tolist())
    for one in found:
        if page.limited and one["codes"] != [*PINNED]:
            one["codes"].append(LIMIT)
    return tuple(map(Reason.from_dict, found))


def _compared(page: Page, entries_of: Callable[[int], bool] = lambda _: False) -> Compared:
    """Compare the list of a page with others, as at request time."""
    pool, categories, terms = page.candidates, page.problem.categories, page.objective.terms
    base, goals = page.positions(page.problem.base_lists[page.user]), page.objective.arrays(page.shown_elsewhere)
    by_vectors = compares_vectors(page.rule.goal.searched)
    how: dict[str, Any] = {"by_rank": page.by_rank, "by_vectors": by_vectors, "groups": page.groups}
    differences = compare(pool, page.relevance, page.chosen, base, goals, **how)
    real, pinned = page.items >= 0, page.pins[page.row] >= 0
    below = [*(it for it in page.grid if it < page.rule.trade_off), page.rule.trade_off]

    def enters(at: int) -> tuple[float, float | None] | None:
        number = int(pool[at])
        if page.limited or page.rule.boosts is not None or not entries_of(number):  # boosts are made for one price
            return None
        return first_present(lambda it: page.is_in(number, it), below, None, page.precision)

    return Compared(
        numbers=page.items[real].tolist(),
        pinned=pinned[real].tolist(),
        chosen=page.chosen,
        unrepaired=page.chosen if page.unrepaired is page.items else page.positions(page.unrepaired),
        relevance=page.relevance,
        ranks=np.array([page.ranked[number][0] for number in pool.tolist()], np.int64),
        id_at=lambda at: item_id(page, int(pool[at])),
        pinned_ranks={item_id(page, number): page.ranked[number][0] or None for number in page.items[pinned].tolist()},
        differences=differences,
        categories=lambda number: categories.items.row(number).tolist() if len(categories) else [],
        names=categories.names,
        base=[number for number in page.problem.base_lists[page.user].tolist() if number >= 0],
        enters=enters,
        repaired_by=lambda at: _repaired_by(page, int(pool[at])),
        boosts=page.boosts,
        reruns=None if page.tied else _reruns(page, goals, by_vectors),
        vectors=(pool, *terms.directions) if by_vectors else None,
    )


def _reruns(page: Page, goals: tuple[Any, ...], by_vectors: bool) -> Reruns:
    return Reruns(
        items=page.candidates,
        relevance=page.relevance,
        places=page.free,
        goals=goals,
        at_price_0=lambda: page.objective_at(0.0).arrays(),
        repaired=page.repaired,
        by_vectors=by_vectors,
        stays_without_boost=page.stays_without_boost,
    )


def _repaired_by(page: Page, number: int) -> str:
    """Return which constraint put an item in or out: a share, the floor for the tail after it, or a field at last."""
    if (number in page.without_fields) != (number in page.items):
        return "field"
    if not page.method.constraints.shares:
        return "tail_floor"
    return "share" if (number in page.with_shares) == (number in page.without_fields) else "tail_floor"


# -- items outside of the list ----------------------------------------------------------------------------------------


def facts_outside(page: Page, number: int) -> dict[str, Any]:
    """Return what the reason states about any item that is not in the list."""
    (rank, score), at = page.ranked[number], page.position.get(number)
    return {
        "user": plain(page.problem.split.user_ids[page.user]),
        "item": item_id(page, number),
        "trade_off": page.trade_off,
        "rank": rank or None,
        "score": score if rank else None,
        "relevance": None if at is None else float(page.relevance[at]),
        "in_base_list": bool(number in page.problem.base_lists[page.user]),
    }


def kept_out(page: Page, number: int) -> tuple[tuple[str, ...], Comparison | None]:
    """Return what keeps a candidate out, and the best list within the shares with it in one of the places."""
    at, own = page.position[number], page.own_parts
    lists = np.where(np.eye(len(page.chosen), dtype=np.bool_), at, page.chosen)
    if page.by_rank and bool((np.diff(page.chosen) > 0).all()):
        lists = np.sort(lists, 1)
    parts = page.parts(lists)
    value = worth = parts.total
    if page.groups is not None:
        group, allowed = page.groups
        value = np.where(allowed[group[page.chosen], group[at]], worth, -np.inf)
    if not np.isfinite(value.max(initial=-np.inf)):
        return (_repaired_by(page, number),), None
    best = int(np.flatnonzero(value >= value.max() - TIED)[0])  # of equal ones the most relevant
    stays, apart = int(page.chosen[best]), (own - parts.values[best]).tolist()
    boost = 0.0 if page.boosts is None else page.boosts.difference(page.chosen, best, at)
    named = page.named_parts(apart, boost)
    found = Comparison(item_id(page, int(page.candidates[stays])), sum(apart), named)
    if number in page.unrepaired:
        return (_repaired_by(page, number),), found
    codes = _compared(page).codes(stays, at, apart)
    if page.groups is not None and worth.max() > own.sum() + TIED:
        return (*codes, "share" if page.method.constraints.fields is None else "field"), found
    return tuple(codes), found


def new_categories_of(page: Page, number: int, items: NDArray[np.int64]) -> tuple[str, ...]:
    """Return the names of an item's categories that none of these items has."""
    categories = page.problem.categories
    if not len(categories):
        return ()
    new = set(categories.items.row(number).tolist()).difference(
        *(categories.items.row(it).tolist() for it in items.tolist())
    )
    return tuple(categories.names[at] for at in sorted(new))


def hindrance(page: Page, number: int) -> str:
    """Return why an item is not among the candidates of the search."""
    if number in page.problem.seen.row(page.user):
        return "seen"
    return "banned" if number in page.problem.resolved.banned else "not_candidate"


def first_entry(page: Page, number: int, trade_offs: Sequence[float], absent: float) -> Crossing | None:
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
