"""Exchanges that make lists keep limits: how many items of some subtopics a list holds, how many of the tail all hold.

Candidates fall into classes: those of one class have the same limited subtopics, so of each class only the least
relevant item inside a list and the most relevant one outside can be part of the cheapest exchange.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from recprism.errors import InputError

MAX_STATES = 2_000  # of the exact search for one list; beyond it the list stays as near as exchanges brought it
ROUNDING = 1e-9  # 0.3 of 10 places are 3, whatever the computer says
PENALTY = 4.0  # one item too many or too few outweighs any loss of relevance, which is at most 1

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Limits:
    """How many items of each of m limited subtopics the chosen part of a list must and may hold.

    class_of: (n_users, n_candidates) int64, -1 in empty places
    member: (n_classes, m) int64, 1 where items of the class have the subtopic
    low, high: (n_users, m) int64; low is never above what the candidates allow, high never below
    """

    class_of: Ints
    member: Ints
    low: Ints
    high: Ints

    def counts(self, inside: Bools) -> Ints:
        """(n_users, m) items of each subtopic; inside: (n_users, n_candidates)."""
        blank = np.vstack([self.member, np.zeros((1, self.member.shape[1]), np.int64)])  # -1 finds the last row
        counts = np.zeros((len(inside), self.member.shape[1]), np.int64)
        for s, has in enumerate(blank.T > 0):
            counts[:, s] = (inside & has[self.class_of]).sum(1)
        return counts

    def excess(self, counts: Ints) -> Ints:
        """(n_users,) items too few or too many, over all subtopics."""
        outside: Ints = np.maximum(self.low - counts, 0) + np.maximum(counts - self.high, 0)
        total: Ints = outside.sum(1)
        return total

    def of(self, users: Ints) -> Limits:
        return Limits(self.class_of[users], self.member, self.low[users], self.high[users])

    def change(self, counts: Ints) -> Ints:
        """(n_users, n_classes, n_classes) change of excess if one of a class goes and one of another comes."""
        now, after = self.excess(counts), np.zeros((len(counts), len(self.member), len(self.member)), np.int64)
        for s in range(self.member.shape[1]):
            step = self.member[None, :, s] - self.member[:, None, s]
            there = counts[:, s, None, None] + step[None]
            after += np.maximum(self.low[:, s, None, None] - there, 0) + np.maximum(
                there - self.high[:, s, None, None], 0
            )
        return after - now[:, None, None]


@dataclass(frozen=True, eq=False)
class Exchange:
    """The best exchange of each user: positions that go and come, what relevance it loses; possible or not."""

    leaving: Ints
    arriving: Ints
    loss: NDArray[np.float64]
    possible: Bools


def best_exchange(
    inside: Bools, relevance: NDArray[np.float64], limits: Limits, *, tail: Bools | None = None
) -> Exchange:
    """The exchange that brings a list nearest to its limits, of equals the one that loses least relevance.

    tail: (n_users, n_candidates) bool; if given, an item of the tail must come for one that is not, and no limit may
        be missed by more than before
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
    """Exchange, in place, until every list is within its limits or as near as it gets."""
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
    """The list within all limits with fewest exchanges, of those the most relevant; left alone if there is none.

    States are the number of items taken and of each subtopic; of a class, the best items are taken first.
    """
    size, class_of, low, high = int(inside.sum()), limits.class_of[0], limits.low[0], limits.high[0]
    value = np.where(inside, 2.0 * size + 2, 0.0) + relevance
    own = [np.flatnonzero(class_of == number) for number in range(len(limits.member))]
    own = [some[np.argsort(-value[some], kind="stable")] for some in own]
    sizes = np.array([len(some) for some in own])
    states: _States = {(0, *([0] * len(low))): (0.0, ())}
    for number, some in enumerate(own):
        later = (sizes[number + 1 :, None] * limits.member[number + 1 :]).sum(0)  # that are still to come
        bounds = (size, int(sizes[number + 1 :].sum()), (low - later).tolist(), low.tolist(), high.tolist())
        states = _taken(states, np.append(0.0, np.cumsum(value[some])).tolist(), limits.member[number].tolist(), bounds)
        if not 0 < len(states) <= MAX_STATES:
            return
    inside[:] = False
    for some, take in zip(own, max(states.values())[1], strict=True):
        inside[some[:take]] = True


_States = dict[tuple[int, ...], tuple[float, tuple[int, ...]]]


def _taken(states: _States, worth: list[float], member: list[int], bounds: Any) -> _States:
    """Every state with 0, 1, ... items of one more class, if it can still become a list within its limits.

    worth: of the best 0, 1, ... items; member: the subtopics of the class
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
            # Beyond the least, where there is no most, it does not matter how many there are: fewer states.
            same = (min(n, least) if most >= size else n for n, least, most in zip(there, low, high, strict=True))
            key, reached = (used + take, *same), total + worth[take]
            if key not in following or following[key][0] < reached:
                following[key] = (reached, (*takes, take))
    return following


def raise_tail(inside: Bools, relevance: NDArray[np.float64], limits: Limits, tail: Bools, missing: int) -> None:
    """Bring ``missing`` more items of the tail into the lists, in place, by the cheapest exchanges over all users.

    A user's exchanges come one after another, each dearer than the last (or counted as dear): the cheapest ones of all
    users together are then a beginning of everybody's own.
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
        if len(costs) >= missing:  # who is dearer than what is enough already need not go on
            users = users[floor[users] < np.partition(costs, missing - 1)[missing - 1]]
    if made:
        cost, user, out, come = (np.concatenate(parts) for parts in zip(*made, strict=True))
        for at in np.argsort(cost, kind="stable")[: max(missing, 0)]:  # stable: a user's own stay in their order
            inside[user[at], out[at]], inside[user[at], come[at]] = False, True


def _first(mask: Bools) -> Ints:
    """(n,) where in each row the first True stands, -1 without one."""
    return np.where(mask.any(1), mask.argmax(1), -1)


def _last(mask: Bools) -> Ints:
    return np.where(mask.any(1), mask.shape[1] - 1 - mask[:, ::-1].argmax(1), -1)


def with_pins(items: NDArray[np.int64], pins: NDArray[np.int64]) -> NDArray[np.int64]:
    """(n_users, k): the items in the places that the pins leave, in their order."""
    free = pins < 0
    turn = np.cumsum(free, 1) - 1
    padded = np.pad(items, ((0, 0), (0, max(0, pins.shape[1] - items.shape[1]))), constant_values=-1)
    return np.where(free, np.take_along_axis(padded, np.maximum(turn, 0), 1), pins)


def in_the_places_left(positions: NDArray[np.int64], inside: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Those who stayed where they were; newcomers, the best rank first, in the places that have become free."""
    result = positions.copy()
    rows = np.arange(len(positions))[:, None]
    stayed = inside[rows, positions] & (positions >= 0)
    old = np.zeros_like(inside)
    user, place = np.nonzero(positions >= 0)
    old[user, positions[user, place]] = True
    # Row by row, both in rising order: as many come as go.
    vacant, newcomers = np.nonzero((positions >= 0) & ~stayed), np.nonzero(inside & ~old)
    result[vacant] = newcomers[1]
    return result


def whole_places(share: float, size: NDArray[Any], *, up: bool) -> NDArray[np.int64]:
    """Whole places that keep the share of ``size``."""
    return (np.ceil(share * size - ROUNDING) if up else np.floor(share * size + ROUNDING)).astype(np.int64)


def require_possible(has: NDArray[np.bool_], columns: list[int], low: Mapping[int, float]) -> None:
    """Minimum shares may add up to more than 1 only as far as items have several of the subtopics."""
    wanted = [at for at, column in enumerate(columns) if low.get(column, 0) > 0]
    most, total = int(has[:, wanted].sum(1).max(initial=0)), sum(low.values())
    if wanted and most > 0 and total > most + ROUNDING:
        raise InputError(
            f"the minimum shares add up to {total:g} and no item has more than {most} of their subtopics; ask for less"
        )


def pinned_items(pinned: Mapping[int, int] | ArrayLike) -> NDArray[np.int64]:
    """(rows, places): one row for all users if they share their pins, none if there are no pins."""
    if not isinstance(pinned, Mapping):
        table = np.asarray(pinned, np.int64)
        if table.ndim != 2:
            raise InputError(f"pinned must be {{place: item}} or (n_users, places) items, got shape {table.shape}")
        rows = np.sort(table, 1)
        twice = (rows[:, 1:] == rows[:, :-1]) & (rows[:, 1:] >= 0)
        if twice.any():
            raise InputError(f"an item is pinned twice in the list of user {int(twice.any(1).argmax())}")
        return table
    if not pinned:
        return np.empty((0, 0), np.int64)
    if min(pinned) < 1 or min(pinned.values()) < 0:
        raise InputError(f"pinned is {{place: item}}, places from 1 and items from 0; got {dict(pinned)!r}")
    if len(set(pinned.values())) < len(pinned):
        raise InputError(f"an item is pinned to two places: {dict(pinned)!r}")
    row = np.full((1, max(pinned)), -1)
    for place, item in pinned.items():
        row[0, place - 1] = item
    return row
