"""What pages shown before leave to the next list: a context of the rule, as the history is; numpy alone.

A category that was shown ``age`` pages ago is covered by 0.5 ** (age / half-life), so that a new item brings only the
rest. An item that was shown counts with the same weight as a neighbour of every item of the list.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from recprism.errors import InputError

HALF_LIFE = 1.0
"""Pages after which what was shown counts half, by default."""


class Earlier(NamedTuple):
    """What the kernels take of earlier pages.

    Attributes:
        left: Share of each category that is not covered, (n_users, n_categories), or one row for all users.
        past: Weighted sum of the unit vectors of the items shown, then the sum of the weights, (n_users, d + 1), or one
            row for all users; (1, 0) if no goal looks at distances, or nothing was shown.
    """

    left: NDArray[np.float64]
    past: NDArray[np.float64]

    def of_users(self, users: Any) -> Earlier:
        """Return the rows of some users."""
        return Earlier(*(rows[users] if len(rows) > 1 else rows for rows in self))


@cache
def nothing_earlier(n_categories: int) -> Earlier:
    """Return what a first page gets: all of each category is left."""
    return Earlier(np.ones((1, n_categories)), np.zeros((1, 0)))


def stacked_earlier(pages: Sequence[Earlier | None], n_categories: int) -> Earlier:
    """Return the rows of several lists as one; None is a first page."""
    given = [one for one in pages if one is not None]
    if not given:
        return nothing_earlier(n_categories)
    width = max(one.past.shape[1] for one in given)
    nothing = Earlier(np.ones((1, n_categories)), np.zeros((1, width)))
    rows = [nothing if one is None else one for one in pages]
    past = [nothing.past if not one.past.shape[1] else one.past for one in rows]
    return Earlier(np.concatenate([one.left for one in rows]), np.concatenate(past))


def half_life_of(given: bool, no_repeat: Any, half_life: Any) -> float:
    """Return the half-life, checked together with the number of pages without repeats.

    Args:
        given: Whether there are earlier pages, or at least an empty list of them.
        no_repeat: Pages after which a shown item may come again; None for never.
        half_life: Pages after which what was shown counts half; None for the default.

    Raises:
        InputError: If an option is out of range, or there are options without pages.
    """
    for name, value in (("no_repeat", no_repeat), ("half_life", half_life)):
        if value is not None and not given:
            raise InputError(f"{name} is about earlier pages; give shown=[(id, age), ...], [] for a first page")
    if no_repeat is not None and (not is_amount(no_repeat) or no_repeat % 1):
        raise InputError(f"no_repeat is a number of pages, 0 or more, not {no_repeat!r}")
    if half_life is not None and (not is_amount(half_life) or half_life == 0):
        raise InputError(f"half_life is a number of pages above 0, not {half_life!r}")
    return HALF_LIFE if half_life is None else float(half_life)


def is_amount(value: Any) -> bool:
    """Whether a value is a number from 0 up."""
    return not isinstance(value, bool) and isinstance(value, int | float | np.number) and bool(value >= 0)


def weights_of(ages: NDArray[np.float64], half_life: float) -> NDArray[np.float64]:
    """Return how much items count that were shown so many pages ago."""
    return np.asarray(0.5 ** (ages / half_life))


def earlier_of(
    users: NDArray[np.int64],
    items: NDArray[np.int64],
    weights: NDArray[np.float64],
    n_users: int,
    categories: tuple[NDArray[Any], NDArray[Any], int],
    directions: tuple[NDArray[Any], NDArray[Any]] | None,
) -> Earlier:
    """Return what the items that users were shown leave.

    Args:
        users: The user of each item shown, (n,).
        items: Its number, (n,).
        weights: How much it counts, (n,).
        n_users: Number of users.
        categories: Categories of the items in compressed rows, and their number.
        directions: Vectors of the items, (n_items, d), and what each is multiplied by to have length 1, (n_items,);
            None if no goal looks at distances.
    """
    order = np.lexsort((weights, items, users))  # sums must not depend on the order in which items are given
    users, items, weights = users[order], items[order], weights[order]
    indptr, indices, n_categories = categories
    sizes = np.diff(indptr)[items]
    first = np.repeat(np.cumsum(sizes) - sizes, sizes)
    entry = np.repeat(indptr[items], sizes) + np.arange(len(first)) - first
    covered = np.zeros((n_users, n_categories))
    np.maximum.at(covered, (np.repeat(users, sizes), indices[entry]), np.repeat(weights, sizes))
    if directions is None:
        return Earlier(1 - covered, np.zeros((1, 0)))
    unit, known = directions
    past = np.zeros((n_users, unit.shape[1] + 1))
    for user, item, weight in zip(users.tolist(), items.tolist(), weights.tolist(), strict=True):
        if known[item]:  # a zero vector has no distance
            past[user, :-1] += weight * (unit[item] * float(known[item]))
            past[user, -1] += weight
    return Earlier(1 - covered, past)
