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
    personal: Any,
    by_vectors: bool,
    tied: float,
    order: float,
    others: Any,
    differences: Any,
    without: Any,
    together: Any,
    *terms: Any,
) -> None:
    """Compare each item of lists with what it replaced, with the runner-up for its place, and with an empty place.

    Args:
        items: Item numbers of the candidates, (n_lists, n).
        relevance: Their relevance, (n_lists, n).
        lengths: Candidates of each list, (n_lists,).
        chosen: Positions of the lists, (n_lists, k), without pinned items.
        base: Positions of the lists by relevance alone, (n_lists, any number); -1 in empty places.
        sizes: Places of each list, (n_lists,).
        group: Group of each candidate under shares of categories, (n,), the same for all lists.
        allowed: Whether an item of one group may be replaced by one of another, (n_groups, n_groups) bool.
        by_rank: Whether a list is in the order of rank again after an exchange, (n_lists,) bool.
        personal: Whether the weights of each list's history differ, (n_lists,) bool.
        by_vectors: Whether distances are those of item vectors, instead of those of categories.
        tied: Values closer than this count as equal.
        order: What a match pays for each place that it is out of order, squared.
        others: Receives the positions of the item that was replaced and of the runner-up, (n_lists, 2, k) int64; filled
            with -1, which stays where there is none.
        differences: Receives the parts of the list minus those of the other list, (n_lists, 3, k, 6): replaced,
            runner-up, empty; filled with 0.
        without: See :func:`recprism.explain._kernels.interventions.intervene`, (n_lists, k, 3, most categories of an
            item); the exchange is that against the item that was replaced, or else against the runner-up.
        together: See there, (n_lists, k, 2).
        *terms: See ``recprism.rule.kernels.optimal.optimal``, without ``tie``; row i of what users have is for list i.
    """
    n_categories, prices = terms[2], terms[6]
    own, other, no_category = floats(6, 0.0), floats(6, 0.0), floats(0, 0.0)
    hidden = flags(n_categories)
    for u in range(len(items)):
        n, m = lengths[u], sizes[u]
        goals = goals_of(terms, u)
        state = (integers(n_categories), floats(n_categories, 1.0), no_category, integers(m), hidden)
        pool, given, listed, in_order = items[u, :n], relevance[u], chosen[u, :m], by_rank[u]
        like = likeness(pool, listed, goals)
        list_parts(listed, pool, given, goals, state, -1, hidden, own)
        own[APART] = apart(listed, -1, -1, like, goals)
        inside = flags(n)
        for place in range(m):
            inside[listed[place]] = True
        worth = table(m, n, -np.inf)
        if in_order and prices[ALPHA_DCG] == 0:
            _gains_of_exchanges(
                listed, inside, base[u], pool, given, goals, n_categories, like, group, allowed, tied, worth
            )
        else:
            _worth_of_exchanges(listed, inside, pool, given, in_order, goals, state, like, worth)
        for place in range(m):
            runner_up = _runner_up(place, listed, group, allowed, worth[place], tied)
            others[u, 1, place] = runner_up
            if runner_up >= 0:
                _exchange(place, runner_up, listed, pool, given, in_order, goals, state, like, other)
                _subtract(own, other, differences[u, 1, place])
            copy_list(listed, state[3])
            state[3][place] = -1
            list_parts(state[3], pool, given, goals, state, -1, hidden, other)
            other[APART] = apart(listed, place, -1, like, goals)
            _subtract(own, other, differences[u, 2, place])
        _replaced(listed, inside, base[u], worth, order, others[u, 0])
        for place in range(m):
            if others[u, 0, place] >= 0:
                _exchange(place, others[u, 0, place], listed, pool, given, in_order, goals, state, like, other)
                _subtract(own, other, differences[u, 0, place])
            which = 0 if others[u, 0, place] >= 0 else 1
            if others[u, which, place] >= 0:
                against, apart_by = pool[others[u, which, place]], differences[u, which, place]
                of_place = without[u, place], together[u, place], other
                known_of = listed, pool, given, goals, state, like
                intervene(place, against, *known_of, by_vectors, personal[u], tied, own, apart_by, of_place)


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
