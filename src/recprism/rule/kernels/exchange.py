"""Kernels that find the best exchange of one item of a list, by the value of the set or by that of the whole order.

The gain of an exchange follows from counts and sums of the current list. Only its effect on the alpha-DCG of later
places is summed explicitly, and only for exchanges that a bound does not exclude.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from recprism.common.compile import compiled_inside_uncounted, compiled_uncounted
from recprism.rule.kernels.worth import (
    ACCURACY,
    ALPHA_DCG,
    DISTANCE,
    SHOWN,
    brought,
    copy_list,
    count,
    fade,
    freshness,
    gain_of,
    left_by,
    taken_with,
    weigh,
)

# Far above rounding errors, relative to the values that are compared: a bound never excludes the best exchange, and an
# exchange whose gain minus this is to be beaten is found again.
ROUNDING = 1e-9


@compiled_inside_uncounted
def best_by_set(
    items: Any, relevance: Any, chosen: Any, goals: Any, state: Any, to_beat: float, tie: float, best_list: Any
) -> tuple[float, int, int]:
    """Find the best exchange for a list in the order of rank, and write the new list to ``best_list``.

    Items between the vacated and the new place move by one. The effect on accuracy is a difference of two cumulative
    sums.

    Returns:
        The gain and the positions that arrive and leave; -1 and -1 if no exchange gains more than ``to_beat``.
    """
    weigh_exchanges(items, relevance, chosen, goals, state)
    found: tuple[float, int, int] = best_weighed(items, relevance, chosen, goals, state, to_beat, tie, best_list)
    return found


@compiled_inside_uncounted
def weigh_exchanges(items: Any, relevance: Any, chosen: Any, goals: Any, state: Any) -> None:
    """Write to the state what bounds the exchanges of a list."""
    _weigh_places(items, relevance, chosen, goals, state)
    cheapest, cheapest_apart, farthest = _bounds(items, relevance, chosen, goals, state)
    state[11][0], state[11][1] = cheapest, cheapest_apart
    state[12][0] = _bound_candidates(items, relevance, goals, state, cheapest, farthest)


@compiled_inside_uncounted
def best_weighed(
    items: Any, relevance: Any, chosen: Any, goals: Any, state: Any, to_beat: float, tie: float, best_list: Any
) -> tuple[float, int, int]:
    """Find the best exchange after ``weigh_exchanges``; see ``best_by_set``."""
    indptr, indices, most, back = goals[0], goals[1], state[10][2], state[8][3]
    cheapest, cheapest_apart, first = state[11][0], state[11][1], state[12][0]
    arriving, leaving = -1, -1
    if first < 0:
        return to_beat, arriving, leaving
    margin = ROUNDING * max(1.0, abs(most[first]) + abs(cheapest) + abs(cheapest_apart))
    if most[first] < to_beat - margin:
        return to_beat, arriving, leaving
    at_first, _ = best_to_leave(first, items, relevance, chosen, goals, state, to_beat, tie)
    to_beat = max(to_beat, at_first - margin)  # this excludes most of the others; the first of equal ones still wins
    for c in range(len(items)):
        if most[c] < to_beat - margin:  # whichever item leaves
            continue
        if most[c] + cheapest - cheapest_apart + brought(items[c], indptr, indices, back) < to_beat - margin:
            continue
        to_beat, gone = best_to_leave(c, items, relevance, chosen, goals, state, to_beat, tie)
        if gone >= 0:
            arriving, leaving = c, gone
    if arriving >= 0:
        _exchanged(chosen, leaving, arriving, best_list)
    return to_beat, arriving, leaving


@compiled_inside_uncounted
def _weigh_places(items: Any, relevance: Any, chosen: Any, goals: Any, state: Any) -> None:
    """Write what an exchange changes, whichever item arrives.

    That is the gain of the first places if they move up or down by one, and what leaves at least with the categories of
    each item (see ``taken_along``). The last is what comes back of it at most with each category of the new item.
    """
    indptr, indices, prices, discount = goals[0], goals[1], goals[5], goals[6]
    times, (more, fewer), (up, down, least, back) = state[4][0], state[6], state[8]
    k = len(chosen)
    up[0] = down[0] = 0.0
    times[:] = 0
    for place in range(k):
        own = prices[ACCURACY] * relevance[chosen[place]]
        up[place + 1] = up[place] + (own * (discount[place - 1] - discount[place]) if place else 0.0)
        down[place + 1] = down[place] + (own * (discount[place + 1] - discount[place]) if place < k - 1 else 0.0)
        count(items[chosen[place]], indptr, indices, times, 1)
    weigh(times, goals, more, fewer)
    for place in range(k):
        item, least[place] = items[chosen[place]], 0.0
        for at in range(indptr[item], indptr[item + 1]):
            least[place] += min(more[indices[at]], fewer[indices[at]])
    for category in range(len(back)):
        back[category] = max(fewer[category] - more[category], 0.0)


@compiled_inside_uncounted
def _bounds(items: Any, relevance: Any, chosen: Any, goals: Any, state: Any) -> tuple[float, float, float]:
    """Return two bounds of what is lost if an item leaves, and the largest similarity of an item to the list.

    The first is the smallest loss, whichever item arrives. The second is the smallest loss if the new item has no
    category of the one that leaves.
    """
    indptr, indices, prices, discount = goals[0], goals[1], goals[5], goals[6]
    near, (_, fewer), (up, _, least, _) = state[1], state[6], state[8]
    k, cheapest, cheapest_apart, farthest = len(chosen), np.inf, np.inf, 0.0
    for place in range(k):
        gone = chosen[place]
        accuracy = prices[ACCURACY] * relevance[gone] * discount[place] - (up[k] - up[place + 1])
        cheapest = min(cheapest, accuracy + least[place])
        cheapest_apart = min(cheapest_apart, accuracy + brought(items[gone], indptr, indices, fewer))
        farthest = max(farthest, near[gone])
    return cheapest, cheapest_apart, farthest


@compiled_inside_uncounted
def _bound_candidates(items: Any, relevance: Any, goals: Any, state: Any, cheapest: float, farthest: float) -> int:
    """Write the most that each candidate can gain, whichever item leaves; return the one with the largest, or -1."""
    indptr, indices, shown, prices, discount = goals[0], goals[1], goals[4], goals[5], goals[6]
    inside, near, barred, more, (new, above, most) = state[0], state[1], state[5], state[6][0], state[10]
    before, first = 0, -1
    for c in range(len(items)):
        before += int(inside[c])
        above[c], most[c] = before, -np.inf
        if inside[c] or barred[c]:
            continue
        new[c] = brought(items[c], indptr, indices, more) + prices[SHOWN] * int(shown[items[c]] == 0)
        at_best = prices[ACCURACY] * relevance[c] * discount[max(before - 1, 0)]
        most[c] = new[c] + at_best - cheapest + prices[DISTANCE] * (farthest - near[c])
        if first < 0 or most[c] > most[first]:
            first = c
    return first


@compiled_inside_uncounted
def best_to_leave(
    c: int, items: Any, relevance: Any, chosen: Any, goals: Any, state: Any, to_beat: float, tie: float
) -> tuple[float, int]:
    """Find the item that candidate c should replace.

    Returns:
        The gain and the position of the item; ``to_beat`` and -1 if no gain is above it by more than ``tie``.
    """
    indptr, indices, shown, prices, discount = goals[0], goals[1], goals[4], goals[5], goals[6]
    near, like, mark, barred, (more, fewer) = state[1], state[2], state[4][1], state[5], state[6]
    (up, down, least, _), (new, above, _) = state[8], state[10]
    value, leaving, marked = prices[ACCURACY] * relevance[c], -1, False
    for place in range(len(chosen)):
        gone = chosen[place]
        if barred[gone]:
            continue
        at = above[c] - 1 if c > gone else above[c]
        moving = up[at + 1] - up[place + 1] if c > gone else down[place] - down[at]
        gain = new[c] + value * discount[at] - prices[ACCURACY] * relevance[gone] * discount[place] + moving
        if prices[DISTANCE] > 0:
            gain += prices[DISTANCE] * (near[gone] - 1 - near[c] + like[gone, c])
        if gain - least[place] <= to_beat:  # the categories of the item that leaves lower the gain at least by this
            continue
        if not marked:
            marked = True
            count(items[c], indptr, indices, mark, 1)
        gain -= taken_with(items[gone], indptr, indices, more, fewer, mark)
        gain -= prices[SHOWN] * int(shown[items[gone]] == 1)
        if gain > to_beat + tie:  # of exchanges that differ by rounding errors, the first
            to_beat, leaving = gain, gone
    if marked:
        count(items[c], indptr, indices, mark, -1)
    return to_beat, leaving


@compiled_inside_uncounted
def best_by_order(
    items: Any, relevance: Any, chosen: Any, goals: Any, state: Any, tie: float, best_list: Any
) -> tuple[int, int]:
    """Find the best exchange or move, and write the new list to ``best_list``.

    A new item takes the place of the one that leaves; later moves can improve its place.

    Returns:
        The positions that arrive and leave; both are the same for a move, and -1 if nothing helps.
    """
    indptr, indices, shown, prices = goals[0], goals[1], goals[4], goals[5]
    (more, fewer), (before, own, later, differs) = state[6], state[7]
    elsewhere = state[4][0]  # counts without the item that leaves
    k, arriving, leaving, best = len(chosen), -1, -1, tie
    _stand_in_order(items, relevance, chosen, goals, before, own, later)
    elsewhere[:] = 0
    differs[:] = 1.0
    for place in range(k):
        count(items[chosen[place]], indptr, indices, elsewhere, 1)
    for place in range(k):
        gone = chosen[place]
        out = items[gone]
        count(out, indptr, indices, elsewhere, -1)
        fade(out, indptr, indices, differs, 1 / left_by(relevance[gone], prices))
        weigh(elsewhere, goals, more, fewer)
        lost = brought(out, indptr, indices, more) + prices[SHOWN] * int(shown[out] == 1) + own[k] - own[place]
        best, newcomer = _best_newcomer(place, lost, items, relevance, chosen, goals, state, best)
        if newcomer >= 0:
            arriving, leaving = newcomer, gone
            copy_list(chosen, best_list)
            best_list[place] = newcomer
        best, moving, to = _best_move(place, items, relevance, chosen, goals, state, best)
        if moving >= 0:
            arriving, leaving = chosen[moving], chosen[moving]
            _moved(chosen, moving, to, best_list)
        count(out, indptr, indices, elsewhere, 1)
        differs[:] = 1.0  # rounding does not add up
    return arriving, leaving


@compiled_uncounted
def _stand_in_order(items: Any, relevance: Any, chosen: Any, goals: Any, before: Any, own: Any, later: Any) -> None:
    """Compute the value of the current list.

    Args:
        items: Item numbers of the candidates.
        relevance: Their relevance.
        chosen: Positions of the list, (k,).
        goals: Data and prices of the goals.
        before: Receives what is left of each category at a place, (k + 1, n_categories).
        own: Receives the value of the places before each place, (k + 1,).
        later: Receives the same if each item were one place further down, (k + 1,).
    """
    indptr, indices, prices, discount, fading = goals[0], goals[1], goals[5], goals[6], goals[7]
    copy_list(goals[10], before[0])
    own[0] = later[0] = 0.0
    for place in range(len(chosen)):
        item, of_item = items[chosen[place]], relevance[chosen[place]]
        fresh = prices[ALPHA_DCG] * gain_of(of_item, prices) * freshness(item, indptr, indices, before[place])
        value = prices[ACCURACY] * of_item
        own[place + 1] = own[place] + discount[place] * value + fading[place] * fresh
        further = discount[place + 1] * value + fading[place + 1] * fresh if place + 1 < len(chosen) else 0.0
        later[place + 1] = later[place] + further
        copy_list(before[place], before[place + 1])
        fade(item, indptr, indices, before[place + 1], left_by(of_item, prices))


@compiled_inside_uncounted
def _best_newcomer(
    place: int, lost: float, items: Any, relevance: Any, chosen: Any, goals: Any, state: Any, to_beat: float
) -> tuple[float, int]:
    """Find the best new item for the place of an item that leaves, which ``differs`` already omits.

    Returns:
        The gain minus ``lost`` and the position of the new item; -1 if no gain is above ``to_beat``.
    """
    indptr, indices, shown, prices, discount, fading = goals[0], goals[1], goals[4], goals[5], goals[6], goals[7]
    inside, near, like, more, before, differs = state[0], state[1], state[2], state[6][0], state[7][0], state[7][3]
    gone, best = chosen[place], -1
    behind = _behind(place, items, relevance, chosen, goals, before, differs)  # with an empty place
    for c in range(len(items)):
        if inside[c]:
            continue
        fresh = gain_of(relevance[c], prices) * freshness(items[c], indptr, indices, before[place])
        gain = discount[place] * prices[ACCURACY] * relevance[c] + fading[place] * prices[ALPHA_DCG] * fresh - lost
        gain += prices[SHOWN] * int(shown[items[c]] == 0) + brought(items[c], indptr, indices, more)
        if prices[DISTANCE] > 0:
            gain += prices[DISTANCE] * (near[gone] - 1 - near[c] + like[gone, c])
        if gain + behind <= to_beat:  # a new item can only lower the value of later places
            continue
        leaves = left_by(relevance[c], prices)
        fade(items[c], indptr, indices, differs, leaves)
        gain += _behind(place, items, relevance, chosen, goals, before, differs)
        fade(items[c], indptr, indices, differs, 1 / leaves)
        if gain > to_beat:
            to_beat, best = gain, c
    return to_beat, best


@compiled_inside_uncounted
def _best_move(
    place: int, items: Any, relevance: Any, chosen: Any, goals: Any, state: Any, to_beat: float
) -> tuple[float, int, int]:
    """Find the best move of the item at ``place`` down, or of a later item up to it.

    Only the items between the two places change their value. ``differs`` omits the item at ``place``.

    Returns:
        The gain, and the places from and to which an item moves; -1 and -1 if no gain is above ``to_beat``.
    """
    indptr, indices, prices = goals[0], goals[1], goals[5]
    before, own, later, differs = state[7]
    gone = chosen[place]
    leaves = left_by(relevance[gone], prices)
    moving, target = -1, -1
    passed = 0.0  # value of the items that it passes on its way down
    for to in range(place + 1, len(chosen)):
        now = own[to + 1] - own[place]
        passed += _worth_at(to - 1, chosen[to], items, relevance, goals, before[to], differs)
        down = passed + _worth_at(to, gone, items, relevance, goals, before[to + 1], differs) - now
        if down > to_beat:
            to_beat, moving, target = down, place, to
        riser = items[chosen[to]]
        fade(items[gone], indptr, indices, differs, leaves)  # for a move up, no item is missing
        up = _worth_at(place, chosen[to], items, relevance, goals, before[place], differs) - now
        if up + later[to] - later[place] > to_beat:  # otherwise not even this bound suffices
            leaves_of_riser = left_by(relevance[chosen[to]], prices)
            fade(riser, indptr, indices, differs, leaves_of_riser)
            for at in range(place, to):
                up += _worth_at(at + 1, chosen[at], items, relevance, goals, before[at], differs)
            fade(riser, indptr, indices, differs, 1 / leaves_of_riser)
            if up > to_beat:
                to_beat, moving, target = up, to, place
        fade(items[gone], indptr, indices, differs, 1 / leaves)
    return to_beat, moving, target


@compiled_inside_uncounted
def _behind(place: int, items: Any, relevance: Any, chosen: Any, goals: Any, before: Any, differs: Any) -> float:
    """Return the value of the places after one."""
    total = 0.0
    for at in range(place + 1, len(chosen)):
        total += _worth_at(at, chosen[at], items, relevance, goals, before[at], differs)
    return total


@compiled_uncounted
def _worth_at(place: int, position: int, items: Any, relevance: Any, goals: Any, before: Any, differs: Any) -> float:
    """Return the value of a candidate at a place; ``before`` * ``differs`` is left of each category there."""
    indptr, indices, prices, discount, fading = goals[0], goals[1], goals[5], goals[6], goals[7]
    item, fresh, own = items[position], 0.0, relevance[position]
    for at in range(indptr[item], indptr[item + 1]):
        fresh += before[indices[at]] * differs[indices[at]]
    value: float = (
        discount[place] * prices[ACCURACY] * own + fading[place] * prices[ALPHA_DCG] * gain_of(own, prices) * fresh
    )
    return value


@compiled_inside_uncounted
def _exchanged(chosen: Any, leaving: int, arriving: int, out: Any) -> None:
    """Write to ``out`` the list with one item exchanged, in the order of rank."""
    for place in range(len(chosen)):
        out[place] = arriving if chosen[place] == leaving else chosen[place]
    sort_places(out)


@compiled_inside_uncounted
def sort_places(places: Any) -> None:
    """Sort a short list in place; numpy's sort takes seconds to compile."""
    for at in range(1, len(places)):
        value, to = places[at], at
        while to > 0 and places[to - 1] > value:
            places[to] = places[to - 1]
            to -= 1
        places[to] = value


@compiled_inside_uncounted
def _moved(chosen: Any, place: int, to: int, trial: Any) -> None:
    """Write to ``trial`` the list with the item at ``place`` moved to ``to``."""
    step = 1 if to > place else -1
    copy_list(chosen, trial)
    for at in range(place, to, step):
        trial[at] = chosen[at + step]
    trial[to] = chosen[place]
