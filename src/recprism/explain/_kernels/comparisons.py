"""Kernels of reasons: the list against the same list with one item exchanged, for all places of one list."""

from __future__ import annotations

from typing import Any

import numpy as np

from recprism.common.compile import compiled, compiled_inside, compiled_inside_uncounted
from recprism.explain._kernels.interventions import intervene
from recprism.explain._kernels.matching import cheapest_match
from recprism.rule.kernels.arrays import flags, floats, integers, table
from recprism.rule.kernels.parts import APART, apart, likeness, list_parts, shown_first
from recprism.rule.kernels.worth import (
    ACCURACY,
    ALPHA_DCG,
    DISTANCE,
    brought,
    copy_list,
    count,
    goals_of,
    taken_along,
    weigh,
)


@compiled
def compare_list(
    items: Any,
    relevance: Any,
    chosen: Any,
    base: Any,
    group: Any,
    allowed: Any,
    by_rank: bool,
    personal: bool,
    by_vectors: bool,
    tied: float,
    order: float,
    others: Any,
    differences: Any,
    without: Any,
    together: Any,
    *terms: Any,
) -> None:
    """Compare each item of a list with what it replaced, with the runner-up for its place, and with an empty place.

    Args:
        items: Item numbers of the candidates, (n,).
        relevance: Their relevance, (n,).
        chosen: Positions of the list, (m,), without pinned items.
        base: Positions of the list by relevance alone, (any number,); -1 in empty places.
        group: Group of each candidate under shares of categories, (n,).
        allowed: Whether an item of one group may be replaced by one of another, (n_groups, n_groups) bool.
        by_rank: Whether the list is in the order of rank again after an exchange.
        personal: Whether the weights of the history differ.
        by_vectors: Whether distances are those of item vectors, instead of those of categories.
        tied: Values closer than this count as equal.
        order: What a match pays for each place that it is out of order, squared.
        others: Receives the positions of the item that was replaced and of the runner-up, (2, m) int64; filled with -1,
            which stays where there is none.
        differences: Receives the parts of the list minus those of the other list, (3, m, 6): replaced, runner-up,
            empty; filled with 0.
        without: See :func:`recprism.explain._kernels.interventions.intervene`, (m, 3, most categories of an item); the
            exchange is that against the item that was replaced, or else against the runner-up.
        together: See there, (m, 2).
        *terms: See ``recprism.rule.kernels.optimal.optimal``, without ``tie``; the first row of what users have.
    """
    n_categories, m = terms[2], len(chosen)
    own, other, goals = floats(6, 0.0), floats(6, 0.0), goals_of(terms, 0)
    hidden, inside = flags(n_categories), flags(len(items))
    state = (integers(n_categories), floats(n_categories, 1.0), floats(0, 0.0), integers(m), hidden)
    like = likeness(items, chosen, goals)
    list_parts(chosen, items, relevance, goals, state, -1, hidden, own)
    own[APART] = apart(chosen, -1, -1, like, goals)
    for place in range(m):
        inside[chosen[place]] = True
    worth = table(m, len(items), -np.inf)
    if by_rank and goals[5][ALPHA_DCG] == 0:
        _gains_of_exchanges(
            chosen, inside, base, items, relevance, goals, n_categories, like, group, allowed, tied, worth
        )
    else:
        _worth_of_exchanges(chosen, inside, items, relevance, by_rank, goals, state, like, worth)
    for place in range(m):
        runner_up = _runner_up(place, chosen, group, allowed, worth[place], tied)
        others[1, place] = runner_up
        if runner_up >= 0:
            _exchange(place, runner_up, chosen, items, relevance, by_rank, goals, state, like, other)
            _subtract(own, other, differences[1, place])
        copy_list(chosen, state[3])
        state[3][place] = -1
        list_parts(state[3], items, relevance, goals, state, -1, hidden, other)
        other[APART] = apart(chosen, place, -1, like, goals)
        _subtract(own, other, differences[2, place])
    _replaced(chosen, inside, base, worth, order, others[0])
    for place in range(m):
        if others[0, place] >= 0:
            _exchange(place, others[0, place], chosen, items, relevance, by_rank, goals, state, like, other)
            _subtract(own, other, differences[0, place])
        which = 0 if others[0, place] >= 0 else 1
        if others[which, place] >= 0:
            against, apart_by = items[others[which, place]], differences[which, place]
            of_place = without[place], together[place], other
            known_of = chosen, items, relevance, goals, state, like
            intervene(place, against, *known_of, by_vectors, personal, tied, own, apart_by, of_place)


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


@compiled_inside_uncounted
def _write_near(like: Any, near: Any) -> None:
    """Write the similarities of each candidate to the list; what lies far from earlier pages is less similar."""
    for c in range(len(near)):
        near[c] = -like[len(like) - 1, c]
        for place in range(len(like) - 1):
            near[c] += like[place, c]


@compiled_inside
def _gains_of_exchanges(
    chosen: Any,
    inside: Any,
    base: Any,
    items: Any,
    relevance: Any,
    goals: Any,
    n_categories: int,
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
    times, mark = integers(n_categories), integers(n_categories)
    more, fewer = floats(n_categories, 0.0), floats(n_categories, 0.0)
    up, down, near = floats(m + 1, 0.0), floats(m + 1, 0.0), floats(len(items), 0.0)
    if prices[DISTANCE] > 0:
        _write_near(like, near)
    for place in range(m):
        own = prices[ACCURACY] * relevance[chosen[place]]
        up[place + 1] = up[place] + (own * (discount[place - 1] - discount[place]) if place else 0.0)
        down[place + 1] = down[place] + (own * (discount[place + 1] - discount[place]) if place < m - 1 else 0.0)
        count(items[chosen[place]], indptr, indices, times, 1)
    weigh(times, goals, more, fewer)
    best, needed = floats(m, -np.inf), flags(len(items))
    for place in range(len(base)):
        if base[place] >= 0:
            needed[base[place]] = True
    before = 0  # items of the list that rank above the candidate
    for c in range(len(items)):
        if inside[c]:
            before += 1
            continue
        new = brought(items[c], indptr, indices, more) + shown_first(items[c], goals)
        value = prices[ACCURACY] * relevance[c]
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
            gain -= shown_first(items[gone], goals)
            worth[place, c] = gain
            if gain > best[place] and allowed[group[gone], group[c]]:
                best[place] = gain


@compiled_inside
def _replaced(chosen: Any, inside: Any, base: Any, worth: Any, order: float, replaced: Any) -> None:
    """Match the newcomers with the items that left the base list; all pairs together keep the largest value."""
    left, in_base = integers(len(base)), flags(len(inside))
    n_left = n_new = 0
    for at in range(len(base)):
        if base[at] < 0:
            continue
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
    trial = state[3]
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
    list_parts(trial, items, relevance, goals, state, -1, state[4], out)
    out[APART] = apart(chosen, place, arriving, like, goals)
