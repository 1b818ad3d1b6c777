"""The search for lists whose value has a part that a Python function computes. It values whole lists only."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recprism.rule.kernels.list_function import ListFunction
from recprism.rule.kernels.optimal import MOVES, optimal, optimal_in_order
from recprism.rule.kernels.parts import PARTS, value_lists
from recprism.rule.kernels.prices import PRICES
from recprism.rule.kernels.worth import ALPHA_DCG, OF_FUNCTION

SHORTLIST = 10  # items that may arrive, until none of them helps

Ints = NDArray[np.int64]


def search_kernel(prices: NDArray[np.float64], function: ListFunction | None) -> Any:
    """Return the search for these prices: one for a function, one for goals that look at the order, or that of sets."""
    if function is not None and prices[OF_FUNCTION] > 0:
        return partial(search_with, function)
    return optimal_in_order if prices[ALPHA_DCG] > 0 else optimal


def search_with(
    function: ListFunction,
    first: int,
    last: int,
    items: Ints,
    relevance: NDArray[np.float64],
    lengths: Ints,
    positions: Ints,
    *terms: Any,
) -> None:
    """Improve lists in place: from the most relevant list and from a greedy one, until no exchange or move helps.

    Args:
        function: A part of the value.
        first: First user; the others are those of :func:`recprism.rule.kernels.optimal.optimal`.
        last: User after the last one.
        items: Item numbers of the candidates.
        relevance: Their relevance.
        lengths: Candidates of each user.
        positions: The lists, (n_users, k); changed in place.
        *terms: Data and prices.
    """
    *goals, tie = terms

    def values(user: int, lists: Ints) -> NDArray[np.float64]:
        listed, parts = items[user, lists], np.zeros((len(lists), len(PARTS)))
        users, by_category = np.full(len(lists), user), np.zeros((2, goals[2]))
        value_lists(listed, relevance[user, lists], users, parts, by_category, *goals)
        return np.asarray(parts.sum(1) + goals[PRICES][OF_FUNCTION] * function.values(listed, *goals[:5]))

    for user in range(first, last):
        n = int(lengths[user])
        k = min(positions.shape[1], n)
        if k == 0:
            continue
        of_user = partial(values, user)
        ranked, greedy = positions[user, :k].copy(), _greedy(n, k, of_user, tie)
        few = [_improved(start, n, of_user, tie, SHORTLIST) for start in (ranked, greedy)]
        best = few[int(few[1][1] > few[0][1] + tie)]
        positions[user, :k] = _improved(best[0], n, of_user, tie, n)[0]


def _improved(chosen: Ints, n: int, values: Any, tie: float, arriving: int) -> tuple[Ints, float]:
    """Make the best exchange or move until none helps; return the list and its value.

    Only some items may arrive: those whose addition to the list has the largest value.
    """
    value = float(values(chosen[None])[0])
    for _ in range(MOVES):
        others = np.concatenate([_exchanged(chosen, n, values, arriving), chosen[_moves(len(chosen))]])
        if not len(others):
            break
        found = values(others)
        best = _first_best(found, tie)
        if found[best] <= value + tie:
            break
        chosen, value = others[best], float(found[best])
    return chosen, value


def _greedy(n: int, k: int, values: Any, tie: float) -> Ints:
    """Fill a list place by place with the item that adds most."""
    chosen = np.empty(0, np.int64)
    for _ in range(k):
        longer = _longer(chosen, n)
        chosen = longer[_first_best(values(longer), tie)]
    return chosen


def _longer(chosen: Ints, n: int) -> Ints:
    """Return all lists with one item more, (n_lists, k + 1)."""
    left = np.delete(np.arange(n), chosen)
    return np.concatenate([np.tile(chosen, (len(left), 1)), left[:, None]], 1)


def _first_best(values: NDArray[np.float64], tie: float) -> int:
    """Return the first of the largest values; those closer than ``tie`` count as equal."""
    return int((values >= values.max() - tie).argmax())


def _exchanged(chosen: Ints, n: int, values: Any, arriving: int) -> Ints:
    """Return lists with one other item, (n_lists, k): it goes before the first item of a worse rank."""
    k, longer = len(chosen), _longer(chosen, n)
    if len(longer) > arriving:
        longer = longer[np.sort(np.argsort(-values(longer), kind="stable")[:arriving])]
    new = longer[:, -1:, None]
    rest = np.column_stack([chosen[_others(k)], np.full(k, n)])  # without each item
    at = (rest > new).argmax(2)[:, :, None]
    places = np.arange(k)
    found = np.where(places < at, rest, np.where(places == at, new, np.roll(rest, 1, 1)))
    return found.reshape(-1, k)


@cache
def _others(k: int) -> Ints:
    """Return the places of a list without each one, (k, k - 1)."""
    return np.array([np.delete(np.arange(k), place) for place in range(k)], np.int64).reshape(k, -1)


@cache
def _moves(k: int) -> Ints:
    """Return the places of a list after one item moved to another place, (k * (k - 1), k)."""
    every = np.arange(k)
    moved = [np.insert(np.delete(every, old), to, old) for old in every for to in every if old != to]
    return np.array(moved, np.int64).reshape(-1, k)
