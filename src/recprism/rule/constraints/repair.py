"""Exchanges that make lists meet limits on categories (per list) and on items of the tail (over all lists).

Candidates with the same limited categories form a class. Only the least relevant item of a class inside a list and the
most relevant one outside can be part of the cheapest exchange.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

MAX_STATES = 2_000  # of the exact search for one list; beyond it, the result of the exchanges is kept
ROUNDING = 1e-9  # so that 0.3 of 10 places are 3 in spite of rounding errors
PENALTY = 4.0  # of one item too many or too few; above any loss of relevance, which is at most 1

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Limits:
    """The least and the most items of each of m limited categories that the chosen part of a list may have.

    Attributes:
        class_of: Class of each candidate, (n_users, n_candidates) int64; -1 in empty places.
        member: 1 if items of the class have the category, (n_classes, m) int64.
        low: Least number of items, (n_users, m) int64; never above what the candidates allow.
        high: Largest number of items, (n_users, m) int64; never below what the candidates allow.
    """

    class_of: Ints
    member: Ints
    low: Ints
    high: Ints

    def counts(self, inside: Bools) -> Ints:
        """Count the items of each category, (n_users, m), among the chosen ones, (n_users, n_candidates)."""
        blank = np.vstack([self.member, np.zeros((1, self.member.shape[1]), np.int64)])  # class -1 is the last row
        counts = np.zeros((len(inside), self.member.shape[1]), np.int64)
        for s, has in enumerate(blank.T > 0):
            counts[:, s] = (inside & has[self.class_of]).sum(1)
        return counts

    def excess(self, counts: Ints) -> Ints:
        """Count items too few or too many over all categories, (n_users,)."""
        outside: Ints = np.maximum(self.low - counts, 0) + np.maximum(counts - self.high, 0)
        total: Ints = outside.sum(1)
        return total

    def of(self, users: Ints) -> Limits:
        return Limits(self.class_of[users], self.member, self.low[users], self.high[users])

    def groups(self, inside: Bools) -> tuple[Ints, Bools]:
        """Return the class of each candidate of one list, (n,), and which class may replace which without more misses.

        Args:
            inside: The chosen candidates, (1, n).
        """
        return self.class_of[0], self.change(self.counts(inside))[0] <= 0

    def change(self, counts: Ints) -> Ints:
        """Compute the change of the excess if an item of one class is replaced by one of another class.

        Returns:
            (n_users, n_classes that leave, n_classes that arrive).
        """
        now, after = self.excess(counts), np.zeros((len(counts), len(self.member), len(self.member)), np.int64)
        for s in range(self.member.shape[1]):
            step = self.member[None, :, s] - self.member[:, None, s]
            there = counts[:, s, None, None] + step[None]
            after += np.maximum(self.low[:, s, None, None] - there, 0) + np.maximum(
                there - self.high[:, s, None, None], 0
            )
        return after - now[:, None, None]


def limits_of(
    items: Ints,
    inside: Bools,
    pins: Ints,
    has: Bools,
    shares: tuple[Mapping[int, float], Mapping[int, float]],
    counts: Mapping[int, int] = MappingProxyType({}),
) -> Limits:
    """Turn shares of categories into numbers of items; what the candidates cannot meet is lowered or raised.

    Args:
        items: Item numbers of the candidates, (n_users, n_candidates); -1 in empty places.
        inside: The chosen candidates, (n_users, n_candidates) bool.
        pins: Pinned items, (n_users, k); -1 where nothing is pinned.
        has: Whether each item has each limited category, (n_items + 1, m) in the order of their columns.
        shares: The least and the largest share, by column.
        counts: The least number of items, by column.
    """
    low, high = shares
    columns = sorted(low.keys() | high.keys() | counts.keys())
    code = has @ (1 << np.arange(len(columns)))
    codes, number = np.unique(code, return_inverse=True)
    class_of = np.where(items >= 0, number[items] if columns else 0, -1)
    member = (codes[:, None] >> np.arange(len(columns))) & 1
    size, real, pinned = inside.sum(1), (items >= 0).sum(1), pins >= 0
    bounds = np.zeros((2, len(items), len(columns)), np.int64)
    for at, column in enumerate(columns):
        there = (has[items, at] & (items >= 0)).sum(1)
        by_pins = (has[pins, at] & pinned).sum(1)
        wanted = whole_places(low.get(column, 0.0), size + pinned.sum(1), up=True)
        least = np.maximum(wanted, counts.get(column, 0)) - by_pins
        most = whole_places(high.get(column, 1.0), size + pinned.sum(1), up=False) - by_pins
        bounds[0, :, at] = np.minimum(least, np.minimum(there, size))
        bounds[1, :, at] = np.maximum(most, size - (real - there))  # other items may be too few
    return Limits(class_of, member, *bounds)


@dataclass(frozen=True, eq=False)
class Exchange:
    """The best exchange of each user.

    Attributes:
        leaving: Position of the item that leaves, (n_users,).
        arriving: Position of the item that arrives, (n_users,).
        loss: Loss of relevance, (n_users,).
        possible: Whether there is an exchange, (n_users,) bool.
    """

    leaving: Ints
    arriving: Ints
    loss: NDArray[np.float64]
    possible: Bools


def best_exchange(
    inside: Bools, relevance: NDArray[np.float64], limits: Limits, *, tail: Bools | None = None
) -> Exchange:
    """Find the exchange that brings a list nearest to its limits; of equal ones the one that loses least relevance.

    Args:
        inside: The chosen candidates, (n_users, n_candidates) bool.
        relevance: (n_users, n_candidates).
        limits: The limits of each list.
        tail: Candidates of the tail, (n_users, n_candidates) bool. If given, an item of the tail must replace one that
            is not, and no limit may be missed by more than before.
    """
    n_classes = len(limits.member)
    may_go, may_come = (inside, ~inside) if tail is None else (inside & ~tail, ~inside & tail)
    last, first = np.full((2, len(inside), n_classes), -1)
    for number in range(n_classes):
        own = limits.class_of == number
        last[:, number], first[:, number] = _last(own & may_go), _first(own & may_come)
    rows = np.arange(len(inside))[:, None]
    loss = relevance[rows, last][:, :, None] - relevance[rows, first][:, None, :]
    change = limits.change(limits.counts(inside))
    allowed = (last >= 0)[:, :, None] & (first >= 0)[:, None, :] & (change < 0 if tail is None else change <= 0)
    cost = np.where(allowed, (PENALTY * change if tail is None else 0.0) + np.where(allowed, loss, 0.0), np.inf)
    flat = cost.reshape(len(cost), -1).argmin(1)
    out, come = flat // n_classes, flat % n_classes
    at = rows[:, 0]
    return Exchange(last[at, out], first[at, come], loss[at, out, come], np.isfinite(cost[at, out, come]))


def repair(inside: Bools, relevance: NDArray[np.float64], limits: Limits) -> None:
    """Exchange items, in place, until each list is within its limits or as near as possible."""
    users = np.flatnonzero(limits.excess(limits.counts(inside)) > 0)
    while len(users):
        some = inside[users]
        move = best_exchange(some, relevance[users], limits.of(users))
        moved = np.flatnonzero(move.possible)
        some[moved, move.leaving[moved]] = False
        some[moved, move.arriving[moved]] = True
        inside[users] = some
        stuck = users[~move.possible]
        for user in stuck:
            _repair_exactly(inside[user], relevance[user], limits.of(np.array([user])))
        still = limits.of(users).excess(limits.of(users).counts(inside[users])) > 0
        users = users[still & move.possible]


def _repair_exactly(inside: Bools, relevance: NDArray[np.float64], limits: Limits) -> None:
    """Find the list within all limits that needs fewest exchanges, of those the most relevant; in place.

    A state is the number of items taken and the number of each category. Of a class, the best items are taken first. If
    there is no such list, nothing changes.
    """
    size, class_of, low, high = int(inside.sum()), limits.class_of[0], limits.low[0], limits.high[0]
    value = np.where(inside, 2.0 * size + 2, 0.0) + relevance
    own = [np.flatnonzero(class_of == number) for number in range(len(limits.member))]
    own = [some[np.argsort(-value[some], kind="stable")] for some in own]
    sizes = np.array([len(some) for some in own])
    states: _States = {(0, *([0] * len(low))): (0.0, ())}
    for number, some in enumerate(own):
        later = (sizes[number + 1 :, None] * limits.member[number + 1 :]).sum(0)  # items of later classes
        bounds = (size, int(sizes[number + 1 :].sum()), (low - later).tolist(), low.tolist(), high.tolist())
        states = _taken(states, np.append(0.0, np.cumsum(value[some])).tolist(), limits.member[number].tolist(), bounds)
        if not 0 < len(states) <= MAX_STATES:
            return
    inside[:] = False
    for some, take in zip(own, max(states.values())[1], strict=True):
        inside[some[:take]] = True


_States = dict[tuple[int, ...], tuple[float, tuple[int, ...]]]


def _taken(states: _States, worth: list[float], member: list[int], bounds: Any) -> _States:
    """Extend each state by 0, 1, ... items of one class, if it can still become a list within its limits.

    Args:
        states: Value and items taken per class, by state.
        worth: Value of the best 0, 1, ... items of the class.
        member: The categories of the class.
        bounds: Length of the list, items of later classes, least counts now, least counts, largest counts.
    """
    size, to_come, needed, low, high = bounds
    following: _States = {}
    for (used, *counts), (total, takes) in states.items():
        for take in range(max(0, size - used - to_come), min(len(worth) - 1, size - used) + 1):
            there = [count + take * has for count, has in zip(counts, member, strict=True)]
            room = size - used - take
            if any(n > most for n, most in zip(there, high, strict=True)):
                break
            if any(n < least or n + room < end for n, least, end in zip(there, needed, low, strict=True)):
                continue
            # Without an upper limit, counts above the least are equivalent, which saves states.
            same = (min(n, least) if most >= size else n for n, least, most in zip(there, low, high, strict=True))
            key, reached = (used + take, *same), total + worth[take]
            if key not in following or following[key][0] < reached:
                following[key] = (reached, (*takes, take))
    return following


def raise_tail(inside: Bools, relevance: NDArray[np.float64], limits: Limits, tail: Bools, missing: int) -> None:
    """Bring ``missing`` more items of the tail into the lists, in place, by the cheapest exchanges over all users.

    Each exchange of a user counts at least as much as the one before. The cheapest exchanges of all users together are
    therefore the first ones of each user.
    """
    trial, users = inside.copy(), np.arange(len(inside))
    floor = np.full(len(inside), -np.inf)
    made: list[tuple[Any, ...]] = []
    while len(users) and missing > 0:
        move = best_exchange(trial[users], relevance[users], limits.of(users), tail=tail[users])
        ok = np.flatnonzero(move.possible)
        users, out, come = users[ok], move.leaving[ok], move.arriving[ok]
        floor[users] = np.maximum(floor[users], move.loss[ok])
        trial[users, out] = False
        trial[users, come] = True
        made.append((floor[users], users, out, come))
        costs = np.concatenate([some[0] for some in made])
        if len(costs) >= missing:  # users whose next exchange costs more than those found need no further search
            users = users[floor[users] < np.partition(costs, missing - 1)[missing - 1]]
    if made:
        cost, user, out, come = (np.concatenate(parts) for parts in zip(*made, strict=True))
        for at in np.argsort(cost, kind="stable")[
            : max(missing, 0)
        ]:  # stable, so that a user's exchanges keep their order
            inside[user[at], out[at]], inside[user[at], come[at]] = False, True


def _first(mask: Bools) -> Ints:
    """Return the position of the first True in each row, (n,); -1 if there is none."""
    return np.where(mask.any(1), mask.argmax(1), -1)


def _last(mask: Bools) -> Ints:
    return np.where(mask.any(1), mask.shape[1] - 1 - mask[:, ::-1].argmax(1), -1)


def with_pins(items: NDArray[np.int64], pins: NDArray[np.int64]) -> NDArray[np.int64]:
    """Put the items, in their order, into the places without a pin, (n_users, k)."""
    free = pins < 0
    turn = np.cumsum(free, 1) - 1
    padded = np.pad(items, ((0, 0), (0, max(0, pins.shape[1] - items.shape[1]))), constant_values=-1)
    return np.where(free, np.take_along_axis(padded, np.maximum(turn, 0), 1), pins)


def in_the_places_left(positions: NDArray[np.int64], inside: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Keep remaining items at their places, and put new items, best rank first, into the vacant places."""
    result = positions.copy()
    rows = np.arange(len(positions))[:, None]
    stayed = inside[rows, positions] & (positions >= 0)
    old = np.zeros_like(inside)
    user, place = np.nonzero(positions >= 0)
    old[user, positions[user, place]] = True
    # Both are sorted by row, and each row has as many new items as vacant places.
    vacant, newcomers = np.nonzero((positions >= 0) & ~stayed), np.nonzero(inside & ~old)
    result[vacant] = newcomers[1]
    return result


def whole_places(share: float, size: NDArray[Any], *, up: bool) -> NDArray[np.int64]:
    """Return the number of places that meets a share of ``size``, rounded up or down."""
    return (np.ceil(share * size - ROUNDING) if up else np.floor(share * size + ROUNDING)).astype(np.int64)
