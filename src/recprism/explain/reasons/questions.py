"""Reasons of the rule: why an item is in a user's list, why another is not, and what would change the list.

The rule makes the lists, so a reason is read from its objective. Nothing is fitted or estimated.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from recprism.budget.problem import Problem
from recprism.common.ids import as_id_array, id_positions
from recprism.errors import InputError
from recprism.explain.reasons._comparisons import (
    facts_outside,
    first_entry,
    hindrance,
    item_ids,
    kept_out,
    last_exit,
    new_categories_of,
    opened,
    position_of,
    reasons_of,
)
from recprism.explain.reasons._page import Page
from recprism.explain.reasons._words import Id
from recprism.explain.reasons.codes import LIMIT
from recprism.explain.reasons.reason import Reason, ReasonNot, WhatIf, plain
from recprism.rule.rule import Rule


def why(problem: Problem, rule: Rule, user: Id, item: Id) -> Reason:
    """Explain why an item is in a user's list.

    Args:
        problem: What is served.
        rule: What makes the lists.
        user: Id of the user.
        item: Id of an item in the user's list.

    Raises:
        InputError: If an id is unknown, or the item is not in the list.
    """
    page, number = opened(problem, rule, user, item)
    if number not in page.items:
        raise InputError(f"item {item!r} is not in the list of user {user!r}; ask why_not, or take an item of the list")
    listed = page.items[page.items >= 0].tolist()
    found: Reason = reasons_of(page, lambda it: it == number)[listed.index(number)]
    return found


def why_list(problem: Problem, rule: Rule, user: Id) -> tuple[Reason, ...]:
    """Explain every item of a user's list, in the order of the list; faster than :func:`why` for each.

    Args:
        problem: What is served.
        rule: What makes the lists.
        user: Id of the user.
    """
    return reasons_of(Page.of(problem, rule, position_of(user, problem.split.user_ids, "user")), lambda _: True)


def why_newcomers(problem: Problem, rule: Rule, user: Id) -> tuple[Reason, ...]:
    """Explain the items of a user's list that the base list lacks, in the order of the list.

    It does not look for the trade-off at which they enter, so it is several times faster than :func:`why_list`.

    Args:
        problem: What is served.
        rule: What makes the lists.
        user: Id of the user.
    """
    page = Page.of(problem, rule, position_of(user, problem.split.user_ids, "user"))
    return tuple(it for it in reasons_of(page) if it.newcomer)


def reason_codes(problem: Problem, rule: Rule, user: Id) -> dict[Id, tuple[str, ...]]:
    """Return item id -> the codes of its reason, for every item of a user's list; faster than :func:`why_list`.

    Args:
        problem: What is served.
        rule: What makes the lists.
        user: Id of the user.
    """
    page = Page.of(problem, rule, position_of(user, problem.split.user_ids, "user"))
    return {it.item: it.codes for it in reasons_of(page)}


def why_not(problem: Problem, rule: Rule, user: Id, item: Id) -> ReasonNot:
    """Explain why an item is not in a user's list.

    Args:
        problem: What is served.
        rule: What makes the lists.
        user: Id of the user.
        item: Id of an item that is not in the user's list.

    Raises:
        InputError: If an id is unknown, or the item is in the list.
    """
    page, number = opened(problem, rule, user, item)
    if number in page.items:
        raise InputError(f"item {item!r} is in the list of user {user!r}; ask why")
    facts = facts_outside(page, number)
    if page.limited or number not in page.position:
        return ReasonNot(codes=(LIMIT if number in page.position else hindrance(page, number),), **facts)
    codes, replaces = kept_out(page, number)
    new: tuple[str, ...] = ()
    if replaces is not None:
        replaced = position_of(replaces.item, problem.split.item_ids, "item")
        new = new_categories_of(page, number, page.items[(page.items >= 0) & (page.items != replaced)])
    grid = page.grid if rule.boosts is None else ()  # boosts are made for one price
    below, above = [t for t in grid if t < rule.trade_off], [t for t in grid if t > rule.trade_off]
    return ReasonNot(
        codes=codes,
        new_categories=new,
        replaces=replaces,
        leaves=last_exit(page, number, [*below, float(rule.trade_off)]),
        enters=first_entry(page, number, above, absent=float(rule.trade_off)),
        **facts,
    )


def what_if(
    problem: Problem,
    rule: Rule,
    user: Id,
    *,
    without: Id | Sequence[Id] | None = None,
    ban: str | None = None,
    price: float | None = None,
    seen: Id | None = None,
    forget: Id | None = None,
) -> WhatIf:
    """Run the rule again after a change, or after several.

    Args:
        problem: What is served.
        rule: What makes the lists.
        user: Id of the user.
        without: Id of an item that no user can be shown, or several; a pin of it is released.
        ban: Name of a category whose items no user can be shown.
        price: Another trade-off, from 0 to 1.
        seen: Id of an item that the user has consumed in addition. The user's history changes with it; scores do not.
        forget: Id of an item of the user's history that no longer counts. Scores do not change, and it is not shown.

    Raises:
        InputError: If nothing is changed, an id or a category is unknown, or ``forget`` is not in the history.
    """
    given = {"without": without, "ban": ban, "price": price, "seen": seen, "forget": forget}
    changed = {name: value for name, value in given.items() if value is not None}
    if not changed:
        raise InputError("nothing is changed; give without, ban, price, seen or forget")
    if price is not None and rule.boosts is not None:
        raise InputError("this rule boosts items for all users at one price; ask what-if about something else")
    ids = np.array([]) if without is None else np.atleast_1d(np.asarray(without))
    removed = id_positions(as_id_array(ids, "item"), problem.split.item_ids, "item").tolist() if len(ids) else []
    if ban is not None:
        if ban not in problem.categories.names:
            raise InputError(f"there is no category {ban!r}; there are {', '.join(problem.categories.names)}")
        has = problem.categories.items.indices == problem.categories.names.index(ban)
        removed += problem.categories.items.row_of_entry[has].tolist()
    row = position_of(user, problem.split.user_ids, "user")
    consumed = None if seen is None else position_of(seen, problem.split.item_ids, "item")
    forgotten = None if forget is None else position_of(forget, problem.split.item_ids, "item")
    if forgotten is not None and forgotten not in problem.seen.row(row):
        raise InputError(f"item {forget!r} is not in the history of user {user!r}; choose one that is")
    old = Page.of(problem, rule, row)
    new_rule = rule if price is None else rule.at(price)
    new = Page.of(problem, new_rule, row, removed=sorted(set(removed)), seen=consumed, forgotten=forgotten)
    before, after = (item_ids(page, page.items) for page in (old, new))
    parts = [page.named_parts(page.own_parts.tolist(), page.own_boost) for page in (old, new)]
    return WhatIf(
        user=plain(problem.split.user_ids[row]),
        changed=changed,
        before=tuple(before),
        after=tuple(after),
        came=tuple(item for item in after if item not in before),
        left=tuple(item for item in before if item not in after),
        parts_before=parts[0],
        parts_after=parts[1],
        goals_before=old.goal_values(),
        goals_after=new.goal_values(),
        change=old.change_to(new),
    )
