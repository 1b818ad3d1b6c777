"""The search for optimal lists, compiled: exchanges of one item, the best one first, until none helps.

What an exchange brings to goals that hang on the set alone is read off counts and sums that are kept up to date; what
hangs on the order is added up anew.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from recprism.metrics.loops import compiled, compiled_loosely

MOVES = 60  # of one list, at most: in practice a handful

# Places in ``prices``.
ACCURACY, SUBTOPIC, ALPHA_DCG, DISTANCE, SHOWN = range(5)


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
    shown: Any,
    prices: Any,
    discount: Any,
    worth: Any,
    tie: float,
) -> None:
    """Improve ``positions`` (n_users, k), which hold lists already, in place.

    indptr, indices: the subtopics of item i are indices[indptr[i]:indptr[i + 1]]
    unit: (n_items, d) directions whose distances count; an item without one earns nothing
    shown: (n_items,) int64 lists that hold the item, kept up to date; users must then be served by one thread
    prices: (5,) of accuracy, one more subtopic, alpha-DCG, the distance of one pair, one more item shown
    worth: (k + 1,) of a subtopic by how often it came before
    """
    counts = np.zeros((3, n_subtopics), np.int64)
    for u in range(first, last):
        k = min(positions.shape[1], lengths[u])
        if k > 0:
            goals = (indptr, indices, unit, shown, prices, discount, worth)
            _improve(items[u, : lengths[u]], relevance[u], positions[u, :k], goals, counts, tie)


@compiled
def _improve(items: Any, relevance: Any, chosen: Any, goals: Any, counts: Any, tie: float) -> None:
    prices = goals[4]
    n, k = len(items), len(chosen)
    inside = np.zeros(n, np.bool_)
    near = np.zeros(n)  # sum of similarities to the list
    for place in range(k):
        inside[chosen[place]] = True
        _joins(items[chosen[place]], 1, items, near, goals)
    trial, best_list = np.empty(k, np.int64), np.empty(k, np.int64)
    for _ in range(MOVES):
        now = _ordered_worth(chosen, -1, items, relevance, goals, counts[0])
        best, arriving, leaving = _best_exchange(
            items, relevance, chosen, inside, near, goals, counts, now + tie, trial, best_list
        )
        if prices[ALPHA_DCG] > 0:
            moved = _best_move(items, relevance, chosen, goals, counts[0], best, trial, best_list)
            if moved > best:
                best, arriving, leaving = moved, -1, -1
        if best <= now + tie:
            return
        if arriving >= 0:
            inside[arriving], inside[leaving] = True, False
            _joins(items[arriving], 1, items, near, goals)
            _joins(items[leaving], -1, items, near, goals)
            if prices[SHOWN] > 0:
                goals[3][items[arriving]] += 1
                goals[3][items[leaving]] -= 1
        chosen[:] = best_list


@compiled
def _best_exchange(
    items: Any,
    relevance: Any,
    chosen: Any,
    inside: Any,
    near: Any,
    goals: Any,
    counts: Any,
    to_beat: float,
    trial: Any,
    best_list: Any,
) -> tuple[float, int, int]:
    """The worth of the best list with one item exchanged, who comes and who goes; ``best_list`` holds it.

    The worth of goals that hang on the set is counted against the list as it is.
    """
    indptr, indices, unit, shown, prices, discount, worth = goals
    scratch, elsewhere, earlier = counts
    by_order, now = prices[ALPHA_DCG] > 0, to_beat
    arriving, leaving = -1, -1
    elsewhere[:] = 0
    earlier[:] = 0
    for place in range(len(chosen)):
        _count(items[chosen[place]], indptr, indices, elsewhere, 1)
    for place in range(len(chosen)):
        gone = chosen[place]
        out = items[gone]
        _count(out, indptr, indices, elsewhere, -1)
        lost = prices[SUBTOPIC] * _uncounted(out, indptr, indices, elsewhere) + prices[SHOWN] * int(shown[out] == 1)
        others = _ordered_worth(chosen, place, items, relevance, goals, scratch) if by_order else 0.0
        for c in range(len(items)):
            if inside[c]:
                continue
            gain = prices[SUBTOPIC] * _uncounted(items[c], indptr, indices, elsewhere) - lost
            gain += prices[SHOWN] * int(shown[items[c]] == 0)
            if prices[DISTANCE] > 0:
                gain += prices[DISTANCE] * (near[gone] - 1 - near[c] + _similarity(items[c], out, unit))
            # Most exchanges are passed over by a bound. The new item cannot earn more than it does in its place, and
            # others only lose by it; where order earns nothing, a less relevant item must bring more by itself.
            if by_order:
                fresh = _freshness(items[c], indptr, indices, earlier, worth)
                most = others + discount[place] * (prices[ACCURACY] * relevance[c] + prices[ALPHA_DCG] * fresh)
                hopeless = gain + most <= to_beat
            else:
                hopeless = c > gone and gain <= to_beat - now
            if hopeless:
                continue
            _exchanged(chosen, place, c, by_order, trial)
            value = gain + _ordered_worth(trial, -1, items, relevance, goals, scratch)
            if value > to_beat:
                to_beat, arriving, leaving = value, c, gone
                best_list[:] = trial
        _count(out, indptr, indices, elsewhere, 1)
        _count(out, indptr, indices, earlier, 1)
    return to_beat, arriving, leaving


@compiled
def _best_move(
    items: Any, relevance: Any, chosen: Any, goals: Any, seen: Any, to_beat: float, trial: Any, best_list: Any
) -> float:
    """The worth of the best list with one item at another place, if that is above ``to_beat``."""
    for place in range(len(chosen)):
        for to in range(len(chosen)):
            if to != place:
                _moved(chosen, place, to, trial)
                value = _ordered_worth(trial, -1, items, relevance, goals, seen)
                if value > to_beat:
                    to_beat = value
                    best_list[:] = trial
    return to_beat


@compiled
def _joins(item: int, sign: int, items: Any, near: Any, goals: Any) -> None:
    _, _, unit, _, prices, _, _ = goals
    if prices[DISTANCE] > 0:
        for c in range(len(items)):
            near[c] += sign * (1.0 if items[c] == item else _similarity(items[c], item, unit))


@compiled_loosely
def _similarity(a: int, b: int, unit: Any) -> float:
    """The cosine; 1 if either has no direction: nothing is known, so no distance is earned."""
    total, one, other = 0.0, 0.0, 0.0
    for f in range(unit.shape[1]):
        total += unit[a, f] * unit[b, f]
        one += unit[a, f] * unit[a, f]
        other += unit[b, f] * unit[b, f]
    return total if one > 0 and other > 0 else 1.0


@compiled
def _count(item: int, indptr: Any, indices: Any, counts: Any, sign: int) -> None:
    for at in range(indptr[item], indptr[item + 1]):
        counts[indices[at]] += sign


@compiled
def _uncounted(item: int, indptr: Any, indices: Any, counts: Any) -> int:
    """How many of the item's subtopics nobody else in the list has."""
    new = 0
    for at in range(indptr[item], indptr[item + 1]):
        new += counts[indices[at]] == 0
    return new


@compiled
def _freshness(item: int, indptr: Any, indices: Any, earlier: Any, worth: Any) -> float:
    """What the item's subtopics are worth after what stands before it."""
    total = 0.0
    for at in range(indptr[item], indptr[item + 1]):
        total += worth[earlier[indices[at]]]
    return total


@compiled
def _exchanged(chosen: Any, place: int, candidate: int, in_place: bool, trial: Any) -> None:
    """The list with the candidate in it: in that place, or, where order earns nothing, where its rank puts it."""
    if in_place:
        trial[:] = chosen
        trial[place] = candidate
        return
    at, waiting = 0, True
    for other in range(len(chosen)):
        if other == place:
            continue
        if waiting and chosen[other] > candidate:
            trial[at] = candidate
            at, waiting = at + 1, False
        trial[at] = chosen[other]
        at += 1
    if waiting:
        trial[at] = candidate


@compiled
def _moved(chosen: Any, place: int, to: int, trial: Any) -> None:
    """The list with the item at ``place`` taken out and put in at ``to``."""
    step = 1 if to > place else -1
    trial[:] = chosen
    for at in range(place, to, step):
        trial[at] = chosen[at + step]
    trial[to] = chosen[place]


@compiled
def _ordered_worth(chosen: Any, without: int, items: Any, relevance: Any, goals: Any, seen: Any) -> float:
    """Discounted relevance, and alpha-DCG where it has a price; the place ``without`` stands empty.

    seen: (n_subtopics,) zeros to count on; zeros again afterwards
    """
    indptr, indices, _, _, prices, discount, worth = goals
    total = 0.0
    for at in range(len(chosen)):
        if at != without:
            total += prices[ACCURACY] * relevance[chosen[at]] * discount[at]
    if prices[ALPHA_DCG] > 0:
        for at in range(len(chosen)):
            if at != without:
                gain = _freshness(items[chosen[at]], indptr, indices, seen, worth)
                _count(items[chosen[at]], indptr, indices, seen, 1)
                total += prices[ALPHA_DCG] * gain * discount[at]
        for at in range(len(chosen)):
            if at != without:
                _count(items[chosen[at]], indptr, indices, seen, -1)
    return total
