"""The search for optimal lists, compiled: exchanges of one item, the best one first, until none helps."""

from __future__ import annotations

from typing import Any

import numpy as np

from recprism._compile import compiled, compiled_loosely
from recprism.rerank._kernels.exchange import best_by_order, best_by_set
from recprism.rerank._kernels.worth import (
    ACCURACY,
    ALPHA_DCG,
    DISTANCE,
    SHOWN,
    brought,
    count,
    freshness,
    ordered_worth,
    set_worth,
    weigh,
)

MOVES = 60  # of one list, at most: in practice a handful
CHAIN = 3  # exchanges tried in a row where no single one helps


@compiled
def optimal(
    first: int,
    last: int,
    items: Any,
    relevance: Any,
    lengths: Any,
    positions: Any,
    indptr: Any,
    indices: Any,
    n_subtopics: int,
    unit: Any,
    known: Any,
    shown: Any,
    prices: Any,
    discount: Any,
    worth: Any,
    intents: Any,
    filling: Any,
    tie: float,
) -> None:
    """Improve ``positions`` (n_users, k), which hold lists already, in place.

    indptr, indices: the subtopics of item i are indices[indptr[i]:indptr[i + 1]]
    unit, known: (n_items, d) directions whose distances count, (n_items,) who has one; the others earn nothing
    shown: (n_items,) int64 lists that hold the item, kept up to date; users must then be served by one thread
    prices: (6,) of accuracy, one more subtopic, alpha-DCG, the distance of one pair, one more item shown, and of all
        that a user's subtopics can be filled with
    worth: (k + 1,) of a subtopic by how often it came before
    intents: (n_users, n_subtopics) the weight of a subtopic for the user; filling: (k + 2,) how much n items fill it

    Where users do not hang together, a greedy list is improved as well, and the better of the two is kept: the most
    relevant list alone gets stuck where two items would have to come together.
    """
    counts = np.zeros((3, n_subtopics), np.int64)
    depth = items.shape[1] if prices[DISTANCE] > 0 else 0
    near, like, compared = np.empty(items.shape[1]), np.empty((depth, depth)), np.empty(depth, np.bool_)
    inside, barred = np.empty(items.shape[1], np.bool_), np.empty(items.shape[1], np.bool_)
    steps = np.zeros((2, n_subtopics))  # what one more item of a subtopic brings, what one fewer takes
    k = positions.shape[1]
    in_order = (np.zeros((k + 1, n_subtopics), np.int64), np.zeros(k + 1), np.zeros(k + 1))  # of best_by_order
    state = (inside, near, like, compared, counts, barred, steps, in_order)
    greedy = np.empty(positions.shape[1], np.int64)
    for u in range(first, last):
        n = lengths[u]
        k = min(positions.shape[1], n)
        if k == 0 or (k == n and prices[ALPHA_DCG] == 0):
            continue  # nothing to choose
        compared[:] = False
        goals = (indptr, indices, unit, known, shown, prices, discount, worth, intents[u], filling)
        found = _improve(items[u, :n], relevance[u], positions[u, :k], goals, state, tie)
        if prices[SHOWN] == 0:
            _start_greedily(items[u, :n], relevance[u], greedy[:k], goals, state, tie)
            if _improve(items[u, :n], relevance[u], greedy[:k], goals, state, tie) > found + tie:
                positions[u, :k] = greedy[:k]


@compiled
def _improve(items: Any, relevance: Any, chosen: Any, goals: Any, state: Any, tie: float) -> float:
    """Make exchanges until none helps; the worth of the list that is left, apart from items shown."""
    prices, counts = goals[5], state[4]
    _stand(items, chosen, goals, state)
    best_list = np.empty_like(chosen)
    for _ in range(MOVES):
        if prices[ALPHA_DCG] > 0:
            arriving, leaving = best_by_order(items, relevance, chosen, goals, state, tie, best_list)
        else:
            _, arriving, leaving = best_by_set(items, relevance, chosen, goals, state, tie, best_list)
        if arriving >= 0:
            _make(arriving, leaving, items, chosen, goals, state, best_list)
        elif prices[ALPHA_DCG] > 0 or prices[SHOWN] > 0 or not _chain(items, relevance, chosen, goals, state, tie):
            break
    in_order: float = ordered_worth(chosen, 0, len(chosen), items, relevance, goals, counts[0])
    return in_order + float(set_worth(items, chosen, goals, state))


@compiled
def _chain(items: Any, relevance: Any, chosen: Any, goals: Any, state: Any, tie: float) -> bool:
    """Some exchanges in a row, the best each time though it may lose; True if the list has become better on the way.

    So two items can come that help only together (Kernighan and Lin, 1970). Who came stays, who left does not return.
    """
    barred = state[5]
    best_list, kept = np.empty_like(chosen), chosen.copy()
    total, best = 0.0, tie
    for _ in range(min(CHAIN, len(chosen), len(items) - len(chosen))):
        gain, arriving, leaving = best_by_set(items, relevance, chosen, goals, state, -np.inf, best_list)
        if arriving == -1:
            break
        barred[arriving] = barred[leaving] = True
        _make(arriving, leaving, items, chosen, goals, state, best_list)
        total += gain
        if total > best:
            best = total
            kept[:] = chosen
    chosen[:] = kept
    _stand(items, chosen, goals, state)
    return best > tie


@compiled
def _stand(items: Any, chosen: Any, goals: Any, state: Any) -> None:
    """Make the state speak of this list."""
    inside, near, barred = state[0], state[1], state[5]
    inside[: len(items)] = False
    barred[: len(items)] = False
    near[: len(items)] = 0.0
    for place in range(len(chosen)):
        inside[chosen[place]] = True
        _joins(chosen[place], 1, items, goals, state)


@compiled
def _make(arriving: int, leaving: int, items: Any, chosen: Any, goals: Any, state: Any, best_list: Any) -> None:
    """The exchange that led to ``best_list``; twice the same where an item only moved."""
    shown, prices, inside = goals[4], goals[5], state[0]
    if arriving != leaving:
        inside[arriving], inside[leaving] = True, False
        _joins(arriving, 1, items, goals, state)
        _joins(leaving, -1, items, goals, state)
        if prices[SHOWN] > 0:
            shown[items[arriving]] += 1
            shown[items[leaving]] -= 1
    chosen[:] = best_list


@compiled
def _start_greedily(items: Any, relevance: Any, chosen: Any, goals: Any, state: Any, tie: float) -> None:
    """Fill ``chosen`` place by place with what adds most; where order earns nothing, in the order of rank."""
    indptr, indices, _, _, _, prices, discount, worth, _, _ = goals
    inside, near, _, _, counts, _, (more, fewer), _ = state
    times = counts[1]
    times[:] = 0
    inside[: len(items)] = False
    near[: len(items)] = 0.0
    for place in range(len(chosen)):
        best, pick = -np.inf, -1
        weigh(times, goals, more, fewer)
        for c in range(len(items)):
            if not inside[c]:
                value = prices[ACCURACY] * relevance[c] * discount[place] + prices[DISTANCE] * (place - near[c])
                value += brought(items[c], indptr, indices, more)
                if prices[ALPHA_DCG] > 0:
                    value += prices[ALPHA_DCG] * discount[place] * freshness(items[c], indptr, indices, times, worth)
                if value > best + tie:
                    best, pick = value, c
        chosen[place] = pick
        inside[pick] = True
        count(items[pick], indptr, indices, times, 1)
        _joins(pick, 1, items, goals, state)
    if prices[ALPHA_DCG] == 0:
        chosen.sort()


@compiled
def _joins(position: int, sign: int, items: Any, goals: Any, state: Any) -> None:
    """Add the similarities of all candidates to one that joins the list, or take them off; each is computed once."""
    unit, known, prices = goals[2], goals[3], goals[5]
    near, like, compared = state[1], state[2], state[3]
    if prices[DISTANCE] == 0:
        return
    if not compared[position]:
        compared[position] = True
        for c in range(len(items)):
            like[position, c] = _similarity(items[c], items[position], unit, known)
        like[position, position] = 1.0
    for c in range(len(items)):
        near[c] += sign * like[position, c]


@compiled_loosely
def _similarity(a: int, b: int, unit: Any, known: Any) -> float:
    """The cosine; 1 if either has no direction: nothing is known, so no distance is earned."""
    total = 0.0
    for f in range(unit.shape[1]):
        total += unit[a, f] * unit[b, f]
    return total if known[a] and known[b] else 1.0
