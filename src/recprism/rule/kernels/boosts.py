"""Kernels that find one boost per item: lists by boosted score, the boost that an item needs, and a rule's margins."""

from __future__ import annotations

from typing import Any

import numpy as np

from recprism.common.compile import compiled, compiled_inside_uncounted
from recprism.rule.kernels.optimal import _begin, _stand, _working_memory
from recprism.rule.kernels.worth import ACCURACY, DISTANCE, brought, count, goals_of, taken_along, weigh


@compiled
def serve(first: int, last: int, items: Any, scores: Any, boost: Any, touched: Any, lists: Any, bars: Any) -> None:
    """List the k candidates with the largest score + boost; of equal ones, the first.

    Args:
        first: First user.
        last: User after the last one.
        items: Candidates, (n_users, n_candidates); -1 in empty places.
        scores: Their scores, (n_users, n_candidates).
        boost: Boost of each item, (n_items,).
        touched: Users whose list is to be made, (n_users,) bool; False afterwards.
        lists: Receives the items, the best first, (n_users, k); -1 in empty places.
        bars: Receives the smallest value in the list, and the largest outside, (n_users, 2); -inf where there is none.
    """
    k, most = lists.shape[1], boost.max()
    top, at = np.empty(k + 1), np.empty(k + 1, np.int64)  # one more place: the best candidate outside
    for u in range(first, last):
        if not touched[u]:
            continue
        touched[u] = False
        n = 0
        for c in range(items.shape[1]):
            if items[u, c] < 0 or (n > k and scores[u, c] + most <= top[k]):
                continue
            value = scores[u, c] + boost[items[u, c]]
            if n > k and value <= top[k]:
                continue
            place = min(n, k)
            n = min(n + 1, k + 1)
            while place > 0 and top[place - 1] < value:
                top[place], at[place] = top[place - 1], at[place - 1]
                place -= 1
            top[place], at[place] = value, items[u, c]
        for place in range(k):
            lists[u, place] = at[place] if place < n else -1
        bars[u, 0] = top[k - 1] if n >= k else -np.inf
        bars[u, 1] = top[k] if n > k else -np.inf


@compiled
def serve_in_turn(items: Any, scores: Any, worth: Any, boost: Any, touched: Any, lists: Any, bars: Any) -> None:
    """List the k candidates with the largest score + worth of the item's next showing, one user after another.

    Args:
        items: See ``serve``, like the others.
        scores: Of the candidates.
        worth: What the m-th showing of an item is worth, falling, (m,).
        boost: Worth of the next showing of each item, (n_items,); changed in place.
        touched: All True, (n_users,).
        lists: Receives the items.
        bars: Working memory.
    """
    shown = np.zeros(len(boost), np.int64)
    for u in range(len(items)):
        serve(u, u + 1, items, scores, boost, touched, lists, bars)
        for place in range(lists.shape[1]):
            item = lists[u, place]
            if item >= 0:
                shown[item] += 1
                boost[item] = worth[shown[item]] if shown[item] < len(worth) else 0.0


@compiled
def touch(
    first: int, last: int, starts: Any, users: Any, scores: Any, bars: Any, boost: Any, new: Any, touched: Any
) -> None:
    """Mark the users whose list or bars change with the boosts; the order of a list does not count.

    Args:
        first: First item.
        last: Item after the last one.
        starts: See ``respond``, like the others.
        users: Users by item.
        scores: Scores by item.
        bars: Of the present lists.
        boost: Present boosts.
        new: The next boosts.
        touched: Receives True, (n_users,).
    """
    for i in range(first, last):
        if new[i] == boost[i]:
            continue
        low, high = min(boost[i], new[i]), max(boost[i], new[i])
        for at in range(starts[i], starts[i + 1]):
            user = users[at]
            if scores[at] + low <= bars[user, 0] and scores[at] + high >= bars[user, 1]:
                touched[user] = True


@compiled
def respond(
    first: int,
    last: int,
    starts: Any,
    users: Any,
    scores: Any,
    bars: Any,
    shown: Any,
    worth: Any,
    whole: bool,
    step: float,
    rising: bool,
    given_up: Any,
    near: Any,
    nearest: Any,
    boost: Any,
    new: Any,
) -> None:
    """Set the boost of items to the smallest one that shows them as often as it is worth, with other boosts as they
    are.

    A user's list needs a boost of the item that never falls while other boosts rise. So the lists with the smallest
    needs are looked for again only when one of them exceeds what the others needed at that time.

    Args:
        first: First item.
        last: Item after the last one.
        starts: Item i is a candidate of users[starts[i]:starts[i + 1]].
        users: Users by item.
        scores: Scores by item, without boosts.
        bars: See ``serve``.
        shown: Number of lists that show the item, (n_items,).
        worth: Largest boost that the m-th showing of an item is worth, falling, (m,).
        whole: Whether fewer than m showings are worth nothing. An item that cannot be shown m times is given up.
        step: Added to every boost, so that no list depends on a tie.
        rising: Only raise boosts; otherwise only lower them.
        given_up: Items without a boost, (n_items,) bool; changed in place.
        near: Places in ``users`` with the smallest needs, at least m, (n_items, n) int64; -1 in empty places.
        nearest: The smallest need of all others when ``near`` was filled, (n_items,); -inf where it is not filled.
        boost: Present boosts, (n_items,).
        new: Receives the boosts, (n_items,).
    """
    needs, all_needs = np.empty(len(worth)), np.empty(near.shape[1])
    for i in range(first, last):
        new[i] = boost[i]
        if given_up[i] or (shown[i] >= len(worth) if rising else boost[i] == 0):
            continue
        n = 0
        for c in range(near.shape[1]):
            if near[i, c] < 0:
                break
            need = _need(near[i, c], users, scores, bars, boost[i])
            if n < len(worth) or need < needs[n - 1]:
                n = _insert(needs, n, need)
        if (needs[n - 1] if n == len(worth) else np.inf) > nearest[i]:
            nearest[i] = _fill(near[i], all_needs, starts[i], starts[i + 1], users, scores, bars, boost[i])
            n = 0
            while n < len(worth) and near[i, n] >= 0:
                needs[n] = all_needs[n]
                n += 1
        free = 0  # lists that show the item without a boost
        while free < n and needs[free] < 0:
            free += 1
        times = free
        while times < n and needs[times] + step <= worth[times]:
            times += 1
        if whole and times < len(worth):
            given_up[i] = True
            new[i] = 0.0
            continue
        wanted = needs[times - 1] + step if times > free else 0.0
        new[i] = max(boost[i], wanted) if rising else min(boost[i], wanted)


@compiled
def _need(at: int, users: Any, scores: Any, bars: Any, boost: float) -> float:
    """Return the boost at which the item ties with the last one of a list that does not have it."""
    inside = scores[at] + boost > bars[users[at], 1]
    need: float = bars[users[at], int(inside)] - scores[at]
    return need


@compiled
def _insert(values: Any, n: int, value: float) -> int:
    """Insert into n values in order; the largest one makes room. Return the number of values."""
    place = min(n, len(values) - 1)
    n = place + 1
    while place > 0 and values[place - 1] > value:
        values[place] = values[place - 1]
        place -= 1
    values[place] = value
    return n


@compiled
def _fill(near: Any, needs: Any, start: int, end: int, users: Any, scores: Any, bars: Any, boost: float) -> float:
    """Find the lists with the smallest needs, in order; return the smallest need of the others."""
    n, others = 0, np.inf
    for at in range(start, end):
        need = _need(at, users, scores, bars, boost)
        if not need < np.inf:
            continue
        if n == len(near):
            if need >= needs[n - 1]:
                others = min(others, need)
                continue
            others = needs[n - 1]
        place = min(n, len(near) - 1)
        n = place + 1
        while place > 0 and needs[place - 1] > need:
            needs[place], near[place] = needs[place - 1], near[place - 1]
            place -= 1
        needs[place], near[place] = need, at
    near[n:] = -1
    return others


@compiled
def margins(first: int, last: int, items: Any, relevance: Any, lengths: Any, positions: Any, *terms: Any) -> None:
    """Measure how far each candidate is from leaving or entering the list that the rule made.

    Args:
        first: First user.
        last: User after the last one.
        items: See ``optimal``, like the others.
        relevance: Also below 0, for candidates that the rule did not look at.
        lengths: Candidates of each user, (n_users,).
        positions: The lists, (n_users, k), by rank.
        *terms: As in ``optimal`` up to ``past``; exposure and the order have no price here. The last one, ``out``,
            receives the relevance that a listed item could lose, or minus what another lacks, (n_users, n_candidates).
    """
    n_categories, unit, prices, out = terms[2], terms[3], terms[6], terms[13]
    state = _working_memory(items.shape[1], positions.shape[1], n_categories, unit, prices)
    for u in range(first, last):
        n = lengths[u]
        goals = goals_of(terms, u)
        _begin(items[u, :n], goals, state)
        k = min(positions.shape[1], n)
        _stand(items[u, :n], positions[u, :k], goals, state)
        _margins_of(items[u, :n], relevance[u], positions[u, :k], goals, state, out[u])


@compiled_inside_uncounted
def _margins_of(items: Any, relevance: Any, chosen: Any, goals: Any, state: Any, out: Any) -> None:
    """Measure one user's candidates: by the gain of the best exchange, per relevance at the place of the item."""
    indptr, indices, prices, discount = goals[0], goals[1], goals[5], goals[6]
    inside, near, like, counts, (more, fewer) = state[0], state[1], state[2], state[4], state[6]
    k, times, mark = len(chosen), counts[0], counts[1]
    times[:] = 0
    for place in range(k):
        count(items[chosen[place]], indptr, indices, times, 1)
        out[chosen[place]] = np.inf
    weigh(times, goals, more, fewer)
    price = prices[ACCURACY]
    before = 0
    for c in range(len(items)):
        if inside[c]:
            before += 1
            continue
        new = brought(items[c], indptr, indices, more)
        best = -np.inf
        for place in range(k):
            gone = chosen[place]
            gain = new - taken_along(items[gone], items[c], indptr, indices, more, fewer, mark)
            if prices[DISTANCE] > 0:
                gain += prices[DISTANCE] * (near[gone] - 1 - near[c] + like[gone, c])
            at = before - 1 if c > gone else before
            gain += price * (relevance[c] * discount[at] - relevance[gone] * discount[place])
            for between in range(min(at, place), max(at, place)):  # these move by one place
                if c > gone:
                    gain += price * relevance[chosen[between + 1]] * (discount[between] - discount[between + 1])
                else:
                    gain += price * relevance[chosen[between]] * (discount[between + 1] - discount[between])
            out[gone] = min(out[gone], -gain / (price * discount[place]))
            best = max(best, gain / (price * discount[at]))
        out[c] = best
