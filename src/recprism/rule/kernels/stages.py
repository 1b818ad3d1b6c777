"""The search where the lists of users are tied together by the price of an item that no list shows.

The price rises in stages. In most of them nothing helps most users, and a bound from their last search says so.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from recprism.common.compile import compiled, compiled_inside_uncounted
from recprism.rule.kernels.arrays import floats, integers
from recprism.rule.kernels.exchange import best_to_leave
from recprism.rule.kernels.optimal import _begin, _improve, _working_memory
from recprism.rule.kernels.worth import SHOWN, copy_list, goals_of


@compiled
def optimal_in_stages(stages: int, items: Any, relevance: Any, lengths: Any, positions: Any, *terms: Any) -> None:
    """Improve existing lists in place, those of one user after another, once in each stage.

    A user is left out where the search would find nothing: the list is as the last search left it, no candidate has
    lost its only list since, and what it said about the others holds at the higher price.

    Args:
        stages: How many; the price of an item that no list shows reaches its own value in the last one.
        items: See ``recprism.rule.kernels.optimal.optimal``, like the others.
        relevance: Of the candidates.
        lengths: Candidates of each user.
        positions: The lists; changed in place.
        *terms: Data and prices.
    """
    n_categories, unit, shown, prices, tie = terms[2], terms[3], terms[5], terms[6], terms[13]
    own = floats(len(prices), 0.0)
    copy_list(prices, own)
    staged = (*terms[:6], own, *terms[7:])
    state = _working_memory(items.shape[1], positions.shape[1], n_categories, unit, prices)
    before = integers(positions.shape[1])
    reach, searched = floats(len(items), np.inf), integers(len(items))
    left = integers(len(shown))  # at which search an item lost its only list
    search = 0
    for stage in range(1, stages + 1):
        own[SHOWN] = prices[SHOWN] * (stage / stages)
        for u in range(len(items)):
            n = lengths[u]
            k = min(positions.shape[1], n)
            if k in (0, n):
                continue
            if reach[u] + own[SHOWN] <= tie and not _has_left(items[u, :n], shown, left, searched[u]):
                continue
            search += 1
            copy_list(positions[u, :k], before[:k])
            goals = goals_of(staged, u)
            _begin(items[u, :n], goals, state)
            _improve(items[u, :n], relevance[u], positions[u, :k], positions[u, :0], goals, state, tie)
            for place in range(k):
                if shown[items[u, before[place]]] == 0:
                    left[items[u, before[place]]] = search
            reach[u], searched[u] = _reach(items[u, :n], relevance[u], positions[u, :k], goals, state, tie), search


@compiled_inside_uncounted
def _has_left(items: Any, shown: Any, left: Any, since: int) -> bool:
    """Whether a candidate has lost its only list since a search."""
    found = False
    for c in range(len(items)):
        found = found or (left[items[c]] > since and shown[items[c]] == 0)
    return found


@compiled_inside_uncounted
def _reach(items: Any, relevance: Any, chosen: Any, goals: Any, state: Any, tie: float) -> float:
    """Return the most that an exchange gains for an item that no list shows, without the price of that.

    It is infinite if the search did not end, or if nothing but the price of the item that leaves stops an exchange.
    """
    shown, prices, inside, most = goals[4], goals[5], state[0], state[10][2]
    price, reach = prices[SHOWN], -np.inf
    if not state[12][1]:
        return np.inf
    prices[SHOWN] = 0.0
    for c in range(len(items)):
        is_new = shown[items[c]] == 0
        to_beat = reach + price if is_new else tie
        if inside[c] or most[c] <= to_beat:
            continue
        gain, gone = best_to_leave(c, items, relevance, chosen, goals, state, to_beat, 0.0)
        if gone >= 0:
            reach = gain - price if is_new else np.inf
        if reach == np.inf:
            break
    prices[SHOWN] = price
    return reach
