"""Kernels of reasons: the list against the same list with one item exchanged, for all places of one list.

They value lists exactly as :class:`recprism.rerank.objective.Objective` does.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from recprism._compile import compiled, compiled_inside, compiled_inside_uncounted
from recprism.rerank._kernels.arrays import flags, floats, integers, table
from recprism.rerank._kernels.worth import (
    ACCURACY,
    ALPHA_DCG,
    DISTANCE,
    HISTORY_WEIGHT,
    SUBTOPIC,
    brought,
    copy_list,
    count,
    gain_of,
    left_by,
    taken_along,
    weigh,
)
from recprism.serving._kernels.matching import cheapest_match

RELEVANCE, COVERAGE, ORDERED, APART, _, HISTORY = range(6)  # the order of recprism.rerank.objective.PARTS


@compiled
def compare_lists(
    items: Any,
    relevance: Any,
    lengths: Any,
    chosen: Any,
    base: Any,
    sizes: Any,
    group: Any,
    allowed: Any,
    by_rank: Any,
    indptr: Any,
    indices: Any,
    n_subtopics: int,
    unit: Any,
    known: Any,
    shown: Any,
    prices: Any,
    discount: Any,
    fading: Any,
    intents: Any,
    filling: Any,
    tied: float,
    order: float,
    others: Any,
    differences: Any,
) -> None:
    """Compare each item of lists with what it replaced, with the runner-up for its place, and with an empty place.

    Args:
        items: Item numbers of the candidates, (n_lists, n).
        relevance: Their relevance, (n_lists, n).
        lengths: Candidates of each list, (n_lists,).
        chosen: Positions of the lists, (n_lists, k), without pinned items.
        base: Positions of the lists by relevance alone, (n_lists, k).
        sizes: Places of each list, (n_lists,).
        group: Group of each candidate under shares of subtopics, (n,), the same for all lists.
        allowed: Whether an item of one group may be replaced by one of another, (n_groups, n_groups) bool.
        by_rank: Whether a list is in the order of rank again after an exchange, (n_lists,) bool.
        indptr: See ``recprism.rerank._kernels.optimal.optimal`` for this and the following.
        indices: ...
        n_subtopics: ...
        unit: ...
        known: ...
        shown: ...
        prices: ...
        discount: ...
        fading: ...
        intents: The users' weights of subtopics, (n_lists, n_subtopics).
        filling: ...
        tied: Values closer than this count as equal.
        order: What a match pays for each place that it is out of order, squared.
        others: Receives the positions of the item that was replaced and of the runner-up, (n_lists, 2, k) int64; filled
            with -1, which stays where there is none.
        differences: Receives the parts of the list minus those of the other list, (n_lists, 3, k, 6): replaced,
            runner-up, empty; filled with 0.
    """
    own, other = floats(6, 0.0), floats(6, 0.0)
    for u in range(len(items)):
        n, m = lengths[u], sizes[u]
        goals = (indptr, indices, unit, known, shown, prices, discount, fading, intents[u], filling)
        state = (integers(n_subtopics), floats(n_subtopics, 1.0), integers(m))
        pool, given, listed, in_order = items[u, :n], relevance[u], chosen[u, :m], by_rank[u]
        like = _likeness(pool, listed, goals)
        _list_parts(listed, pool, given, goals, state, own)
        own[APART] = _apart(listed, -1, -1, like, goals)
        inside = flags(n)
        for place in range(m):
            inside[listed[place]] = True
        worth = table(m, n, -np.inf)
        if in_order and prices[ALPHA_DCG] == 0:
            _gains_of_exchanges(
                listed, inside, base[u, :m], pool, given, goals, n_subtopics, like, group, allowed, tied, worth
            )
        else:
            _worth_of_exchanges(listed, inside, pool, given, in_order, goals, state, like, worth)
        for place in range(m):
            runner_up = _runner_up(place, listed, group, allowed, worth[place], tied)
            others[u, 1, place] = runner_up
            if runner_up >= 0:
                _exchange(place, runner_up, listed, pool, given, in_order, goals, state, like, other)
                _subtract(own, other, differences[u, 1, place])
            copy_list(listed, state[2])
            state[2][place] = -1
            _list_parts(state[2], pool, given, goals, state, other)
            other[APART] = _apart(listed, place, -1, like, goals)
            _subtract(own, other, differences[u, 2, place])
        _replaced(listed, inside, base[u, :m], worth, order, others[u, 0])
        for place in range(m):
            if others[u, 0, place] >= 0:
                _exchange(place, others[u, 0, place], listed, pool, given, in_order, goals, state, like, other)
                _subtract(own, other, differences[u, 0, place])


@compiled_inside_uncounted
def _subtract(own: Any, other: Any, out: Any) -> None:
    """Write ``own - other``; expressions of whole arrays take long to compile."""
    for part in range(len(own)):
        out[part] = own[part] - other[part]


@compiled_inside_uncounted
def _runner_up(place: int, chosen: Any, group: Any, allowed: Any, worth: Any, tied: float) -> int:
    """Return the candidate whose list is worth most if it takes this place, of equal ones the most relevant, or -1."""
    best = -np.inf
    for c in range(len(worth)):
        if worth[c] > best and allowed[group[chosen[place]], group[c]]:
            best = worth[c]
    if best > -np.inf:
        for c in range(len(worth)):
            if worth[c] >= best - tied and allowed[group[chosen[place]], group[c]]:
                return c
    return -1


@compiled_inside
def _worth_of_exchanges(
    chosen: Any, inside: Any, items: Any, relevance: Any, by_rank: bool, goals: Any, state: Any, like: Any, worth: Any
) -> None:
    """Write the value of the list with each candidate in each place, (m, n); -inf stays for its own items."""
    other = floats(6, 0.0)
    for place in range(len(chosen)):
        for c in range(len(items)):
            if not inside[c]:
                _exchange(place, c, chosen, items, relevance, by_rank, goals, state, like, other)
                worth[place, c] = 0.0
                for part in range(len(other)):
                    worth[place, c] += other[part]


@compiled_inside
def _gains_of_exchanges(
    chosen: Any,
    inside: Any,
    base: Any,
    items: Any,
    relevance: Any,
    goals: Any,
    n_subtopics: int,
    like: Any,
    group: Any,
    allowed: Any,
    tied: float,
    worth: Any,
) -> None:
    """Do the same, up to a constant, for lists in the order of rank under goals that do not look at the order.

    Items between the vacated and the new place move by one; the effect is a difference of two cumulative sums. A
    candidate that neither is the runner-up of a place nor left the base list may keep -inf.
    """
    indptr, indices, prices, discount = goals[0], goals[1], goals[5], goals[6]
    m = len(chosen)
    times, mark = integers(n_subtopics), integers(n_subtopics)
    more, fewer = floats(n_subtopics, 0.0), floats(n_subtopics, 0.0)
    up, down, near = floats(m + 1, 0.0), floats(m + 1, 0.0), floats(len(items), 0.0)
    for place in range(m):
        own = prices[ACCURACY] * relevance[chosen[place]]
        up[place + 1] = up[place] + (own * (discount[place - 1] - discount[place]) if place else 0.0)
        down[place + 1] = down[place] + (own * (discount[place + 1] - discount[place]) if place < m - 1 else 0.0)
        count(items[chosen[place]], indptr, indices, times, 1)
        if prices[DISTANCE] > 0:
            for c in range(len(items)):
                near[c] += like[place, c]
    weigh(times, goals, more, fewer)
    best, needed = floats(m, -np.inf), flags(len(items))
    for place in range(len(base)):
        needed[base[place]] = True
    before = 0  # items of the list that rank above the candidate
    for c in range(len(items)):
        if inside[c]:
            before += 1
            continue
        new, value = brought(items[c], indptr, indices, more), prices[ACCURACY] * relevance[c]
        for place in range(m):
            gone = chosen[place]
            at = before - 1 if c > gone else before
            moving = up[at + 1] - up[place + 1] if c > gone else down[place] - down[at]
            gain = new + value * discount[at] - prices[ACCURACY] * relevance[gone] * discount[place] + moving
            if prices[DISTANCE] > 0:
                gain += prices[DISTANCE] * (near[gone] - 1 - near[c] + like[place, c])
            if gain < best[place] - tied and not needed[c]:  # the item that leaves can only lower the gain
                continue
            gain -= taken_along(items[gone], items[c], indptr, indices, more, fewer, mark)
            worth[place, c] = gain
            if gain > best[place] and allowed[group[gone], group[c]]:
                best[place] = gain


@compiled_inside
def _replaced(chosen: Any, inside: Any, base: Any, worth: Any, order: float, replaced: Any) -> None:
    """Match the newcomers with the items that left the base list; all pairs together keep the largest value."""
    left, in_base = integers(len(base)), flags(len(inside))
    n_left = n_new = 0
    for at in range(len(base)):
        in_base[base[at]] = True
        if not inside[base[at]]:
            left[n_left] = base[at]
            n_left += 1
    new = integers(len(chosen))
    for place in range(len(chosen)):
        if not in_base[chosen[place]]:
            new[n_new] = place
            n_new += 1
    if n_left == 0 or n_new == 0:
        return
    cost, match = table(n_new, n_left, 0.0), integers(n_new)
    for a in range(n_new):
        for b in range(n_left):
            cost[a, b] = order * (a - b) ** 2 - worth[new[a], left[b]]
    cheapest_match(cost, match)
    for a in range(n_new):
        if match[a] >= 0:
            replaced[new[a]] = left[match[a]]


@compiled_inside_uncounted
def _exchange(
    place: int,
    arriving: int,
    chosen: Any,
    items: Any,
    relevance: Any,
    by_rank: bool,
    goals: Any,
    state: Any,
    like: Any,
    out: Any,
) -> None:
    """Write the parts of the list with another candidate in one place."""
    trial = state[2]
    if not by_rank:
        copy_list(chosen, trial)
        trial[place] = arriving
    else:
        to, waiting = 0, True
        for at in range(len(chosen)):
            if at == place:
                continue
            if waiting and chosen[at] > arriving:
                trial[to] = arriving
                to, waiting = to + 1, False
            trial[to] = chosen[at]
            to += 1
        if waiting:
            trial[to] = arriving
    _list_parts(trial, items, relevance, goals, state, out)
    out[APART] = _apart(chosen, place, arriving, like, goals)


@compiled_inside_uncounted
def _list_parts(positions: Any, items: Any, relevance: Any, goals: Any, state: Any, out: Any) -> None:
    """Write the parts of a list without distances; -1 leaves a place empty."""
    indptr, indices, prices, discount, fading, intents, filling = (
        goals[0],
        goals[1],
        goals[5],
        goals[6],
        goals[7],
        goals[8],
        goals[9],
    )
    times, left = state[0], state[1]
    for s in range(len(times)):
        times[s], left[s] = 0, 1.0
    for part in range(len(out)):
        out[part] = 0.0
    for place in range(len(positions)):
        if positions[place] < 0:
            continue
        item, own = items[positions[place]], relevance[positions[place]]
        gain, leaves = gain_of(own, prices), left_by(own, prices)
        out[RELEVANCE] += prices[ACCURACY] * own * discount[place]
        for at in range(indptr[item], indptr[item + 1]):
            s = indices[at]
            n = times[s]
            out[COVERAGE] += prices[SUBTOPIC] * int(n == 0)
            if prices[ALPHA_DCG] > 0:
                out[ORDERED] += prices[ALPHA_DCG] * gain * left[s] * fading[place]
                left[s] *= leaves
            if prices[HISTORY_WEIGHT] > 0:
                out[HISTORY] += prices[HISTORY_WEIGHT] * intents[s] * (filling[n + 1] - filling[n])
            times[s] = n + 1


@compiled_inside
def _likeness(items: Any, chosen: Any, goals: Any) -> Any:
    """Return the cosine of each item of the list to all candidates, (m, n); 1 if a vector is zero."""
    unit, known, prices = goals[2], goals[3], goals[5]
    if prices[DISTANCE] == 0:
        return table(0, 0, 1.0)
    like = table(len(chosen), len(items), 1.0)
    for place in range(len(chosen)):
        a = items[chosen[place]]
        for c in range(len(items)):
            if known[a] and known[items[c]]:
                total = 0.0
                for f in range(unit.shape[1]):
                    total += unit[a, f] * unit[items[c], f]
                like[place, c] = total
    return like


@compiled_inside_uncounted
def _apart(chosen: Any, place: int, arriving: int, like: Any, goals: Any) -> float:
    """Return the value of the distances of all pairs, without the item at ``place`` and with ``arriving`` or -1."""
    if goals[5][DISTANCE] == 0:
        return 0.0
    total = 0.0
    for a in range(len(chosen)):
        if a == place:
            continue
        for b in range(a):
            if b != place:
                total += 1.0 - like[a, chosen[b]]
        if arriving >= 0:
            total += 1.0 - like[a, arriving]
    return float(goals[5][DISTANCE] * total)
