"""The search for optimal lists, compiled: exchanges of one item, the best one first, until none helps.

What an exchange brings is read off counts and sums that are kept up to date; only alpha-DCG, which hangs on the whole
order, is added up anew, and only for exchanges that a bound does not rule out.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from recprism.metrics.loops import compiled, compiled_loosely

MOVES = 60  # of one list, at most: in practice a handful
CHAIN = 3  # exchanges tried in a row where no single one helps

# Places in ``prices``.
ACCURACY, SUBTOPIC, ALPHA_DCG, DISTANCE, SHOWN, TASTE = range(6)


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
    state = (inside, near, like, compared, counts, barred, steps)
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
    trial, best_list = np.empty_like(chosen), np.empty_like(chosen)
    for _ in range(MOVES):
        if prices[ALPHA_DCG] > 0:
            arriving, leaving = _best_by_order(items, relevance, chosen, goals, state, tie, trial, best_list)
        else:
            _, arriving, leaving = _best_by_set(items, relevance, chosen, goals, state, tie, best_list)
        if arriving >= 0:
            _make(arriving, leaving, items, chosen, goals, state, best_list)
        elif prices[ALPHA_DCG] > 0 or prices[SHOWN] > 0 or not _chain(items, relevance, chosen, goals, state, tie):
            break
    in_order: float = _ordered_worth(chosen, 0, len(chosen), items, relevance, goals, counts[0])
    return in_order + float(_set_worth(items, chosen, goals, state))


@compiled
def _chain(items: Any, relevance: Any, chosen: Any, goals: Any, state: Any, tie: float) -> bool:
    """Some exchanges in a row, the best each time though it may lose; True if the list has become better on the way.

    So two items can come that help only together (Kernighan and Lin, 1970). Who came stays, who left does not return.
    """
    barred = state[5]
    best_list, kept = np.empty_like(chosen), chosen.copy()
    total, best = 0.0, tie
    for _ in range(min(CHAIN, len(chosen), len(items) - len(chosen))):
        gain, arriving, leaving = _best_by_set(items, relevance, chosen, goals, state, -np.inf, best_list)
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
def _best_by_set(
    items: Any, relevance: Any, chosen: Any, goals: Any, state: Any, to_beat: float, best_list: Any
) -> tuple[float, int, int]:
    """What the best exchange brings, who comes and who goes, and ``best_list``; -1 if none brings over ``to_beat``.

    The list stands in the order of rank. Those between the place given up and the place taken move by one: what that
    does to accuracy is a difference of two cumulated sums.
    """
    indptr, indices, _, _, shown, prices, discount, _, _, _ = goals
    inside, near, like, _, counts, barred, (more, fewer) = state
    k, times, mark = len(chosen), counts[1], counts[2]
    up, down = np.zeros(k + 1), np.zeros(k + 1)  # what the first places gain by moving up, or down, by one
    for place in range(k):
        own = prices[ACCURACY] * relevance[chosen[place]]
        up[place + 1] = up[place] + (own * (discount[place - 1] - discount[place]) if place else 0.0)
        down[place + 1] = down[place] + (own * (discount[place + 1] - discount[place]) if place < k - 1 else 0.0)
    times[:] = 0
    for place in range(k):
        _count(items[chosen[place]], indptr, indices, times, 1)
    _weigh(times, goals, more, fewer)
    arriving, leaving = -1, -1
    before = 0  # items of the list that rank above the candidate
    for c in range(len(items)):
        if inside[c]:
            before += 1
        if inside[c] or barred[c]:
            continue
        item = items[c]
        new = _brought(item, indptr, indices, more) + prices[SHOWN] * int(shown[item] == 0)
        value = prices[ACCURACY] * relevance[c]
        for place in range(k):
            gone = chosen[place]
            if barred[gone]:
                continue
            at = before - 1 if c > gone else before
            moving = up[at + 1] - up[place + 1] if c > gone else down[place] - down[at]
            gain = new + value * discount[at] - prices[ACCURACY] * relevance[gone] * discount[place] + moving
            if prices[DISTANCE] > 0:
                gain += prices[DISTANCE] * (near[gone] - 1 - near[c] + like[gone, c])
            if gain <= to_beat:  # what leaves can only take subtopics along
                continue
            gain -= _taken_along(items[gone], item, indptr, indices, more, fewer, mark)
            gain -= prices[SHOWN] * int(shown[items[gone]] == 1)
            if gain > to_beat:
                to_beat, arriving, leaving = gain, c, gone
    if arriving >= 0:
        _exchanged(chosen, leaving, arriving, best_list)
    return to_beat, arriving, leaving


@compiled
def _best_by_order(
    items: Any, relevance: Any, chosen: Any, goals: Any, state: Any, tie: float, trial: Any, best_list: Any
) -> tuple[int, int]:
    """Who comes and who goes in the best exchange, or twice the same if it is best to move an item; -1 if none helps.

    The newcomer takes the place of the one that goes: moves put it right. ``best_list`` is the list with it made.
    """
    indptr, indices, _, _, shown, prices, discount, worth, _, _ = goals
    inside, near, like, _, counts, _, (more, fewer) = state
    _, elsewhere, earlier = counts
    k, arriving, leaving, to_beat = len(chosen), -1, -1, tie
    elsewhere[:] = 0
    earlier[:] = 0  # what stands before the place
    for place in range(k):
        _count(items[chosen[place]], indptr, indices, elsewhere, 1)
    for place in range(k):
        gone = chosen[place]
        out = items[gone]
        _count(out, indptr, indices, elsewhere, -1)
        _weigh(elsewhere, goals, more, fewer)
        lost = _brought(out, indptr, indices, more) + prices[SHOWN] * int(shown[out] == 1)
        lost += _ordered_worth(chosen, place, k, items, relevance, goals, earlier)
        behind = _ordered_worth(chosen, place + 1, k, items, relevance, goals, earlier)  # if the place were empty
        for c in range(len(items)):
            if inside[c]:
                continue
            fresh = _freshness(items[c], indptr, indices, earlier, worth)
            gain = discount[place] * (prices[ACCURACY] * relevance[c] + prices[ALPHA_DCG] * fresh) - lost
            gain += prices[SHOWN] * int(shown[items[c]] == 0) + _brought(items[c], indptr, indices, more)
            if prices[DISTANCE] > 0:
                gain += prices[DISTANCE] * (near[gone] - 1 - near[c] + like[gone, c])
            if gain + behind <= to_beat:  # those behind can only lose by a newcomer
                continue
            _count(items[c], indptr, indices, earlier, 1)
            gain += _ordered_worth(chosen, place + 1, k, items, relevance, goals, earlier)
            _count(items[c], indptr, indices, earlier, -1)
            if gain > to_beat:
                to_beat, arriving, leaving = gain, c, gone
                best_list[:] = chosen
                best_list[place] = c
        for to in range(place + 1, k):  # only what stands between the two places changes its worth
            now = _ordered_worth(chosen, place, to + 1, items, relevance, goals, earlier)
            for way in range(2):
                moving = place if way == 0 else to
                _moved(chosen, moving, to if way == 0 else place, trial)
                gain = _ordered_worth(trial, place, to + 1, items, relevance, goals, earlier) - now
                if gain > to_beat:
                    to_beat, arriving, leaving = gain, chosen[moving], chosen[moving]
                    best_list[:] = trial
        _count(out, indptr, indices, elsewhere, 1)
        _count(out, indptr, indices, earlier, 1)
    return arriving, leaving


@compiled
def _start_greedily(items: Any, relevance: Any, chosen: Any, goals: Any, state: Any, tie: float) -> None:
    """Fill ``chosen`` place by place with what adds most; where order earns nothing, in the order of rank."""
    indptr, indices, _, _, _, prices, discount, worth, _, _ = goals
    inside, near, _, _, counts, _, (more, fewer) = state
    times = counts[1]
    times[:] = 0
    inside[: len(items)] = False
    near[: len(items)] = 0.0
    for place in range(len(chosen)):
        best, pick = -np.inf, -1
        _weigh(times, goals, more, fewer)
        for c in range(len(items)):
            if not inside[c]:
                value = prices[ACCURACY] * relevance[c] * discount[place] + prices[DISTANCE] * (place - near[c])
                value += _brought(items[c], indptr, indices, more)
                if prices[ALPHA_DCG] > 0:
                    value += prices[ALPHA_DCG] * discount[place] * _freshness(items[c], indptr, indices, times, worth)
                if value > best + tie:
                    best, pick = value, c
        chosen[place] = pick
        inside[pick] = True
        _count(items[pick], indptr, indices, times, 1)
        _joins(pick, 1, items, goals, state)
    if prices[ALPHA_DCG] == 0:
        chosen.sort()


@compiled
def _joins(position: int, sign: int, items: Any, goals: Any, state: Any) -> None:
    """Add the similarities of all candidates to one that joins the list, or take them off; each is computed once."""
    unit, known, prices = goals[2], goals[3], goals[5]
    _, near, like, compared, _, _, _ = state
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


@compiled
def _count(item: int, indptr: Any, indices: Any, counts: Any, sign: int) -> None:
    for at in range(indptr[item], indptr[item + 1]):
        counts[indices[at]] += sign


@compiled
def _weigh(counts: Any, goals: Any, more: Any, fewer: Any) -> None:
    """What one item more, or fewer, of each subtopic means to a list that has it so often."""
    prices, intents, filling = goals[5], goals[8], goals[9]
    for subtopic in range(len(counts)):
        n = counts[subtopic]
        more[subtopic] = prices[SUBTOPIC] * int(n == 0)
        fewer[subtopic] = prices[SUBTOPIC] * int(n == 1)
        if prices[TASTE] > 0:
            weight = prices[TASTE] * intents[subtopic]
            more[subtopic] += weight * (filling[n + 1] - filling[n])
            fewer[subtopic] += weight * (filling[n] - filling[max(n - 1, 0)])


@compiled
def _brought(item: int, indptr: Any, indices: Any, more: Any) -> float:
    """What the item's subtopics add."""
    total = 0.0
    for at in range(indptr[item], indptr[item + 1]):
        total += more[indices[at]]
    return total


@compiled
def _taken_along(gone: int, item: int, indptr: Any, indices: Any, more: Any, fewer: Any, mark: Any) -> float:
    """What the list loses with ``gone`` where ``item`` takes its place and was counted as if it came in addition.

    A subtopic of both stays as it was: what the newcomer was counted to add goes again. ``mark`` is for notes.
    """
    for at in range(indptr[item], indptr[item + 1]):
        mark[indices[at]] = 1
    lost = 0.0
    for at in range(indptr[gone], indptr[gone + 1]):
        lost += more[indices[at]] if mark[indices[at]] == 1 else fewer[indices[at]]
    for at in range(indptr[item], indptr[item + 1]):
        mark[indices[at]] = 0
    return lost


@compiled
def _freshness(item: int, indptr: Any, indices: Any, earlier: Any, worth: Any) -> float:
    """What the item's subtopics are worth after what stands before it."""
    total = 0.0
    for at in range(indptr[item], indptr[item + 1]):
        total += worth[earlier[indices[at]]]
    return total


@compiled
def _exchanged(chosen: Any, leaving: int, arriving: int, out: Any) -> None:
    """``out`` is the list in the order of rank with one item exchanged."""
    for place in range(len(chosen)):
        out[place] = arriving if chosen[place] == leaving else chosen[place]
    out.sort()


@compiled
def _moved(chosen: Any, place: int, to: int, trial: Any) -> None:
    """The list with the item at ``place`` taken out and put in at ``to``."""
    step = 1 if to > place else -1
    trial[:] = chosen
    for at in range(place, to, step):
        trial[at] = chosen[at + step]
    trial[to] = chosen[place]


@compiled
def _set_worth(items: Any, chosen: Any, goals: Any, state: Any) -> float:
    """What subtopics and distances are worth; ``near`` must speak of this list."""
    indptr, indices, prices, intents, filling = goals[0], goals[1], goals[5], goals[8], goals[9]
    near, times, k = state[1], state[4][1], len(chosen)
    times[:] = 0
    total = 0.0
    for place in range(k):
        _count(items[chosen[place]], indptr, indices, times, 1)
        total += prices[DISTANCE] * (k - near[chosen[place]]) / 2
    for subtopic in range(len(times)):
        total += prices[SUBTOPIC] * int(times[subtopic] > 0)
        if prices[TASTE] > 0:
            total += prices[TASTE] * intents[subtopic] * filling[times[subtopic]]
    return total


@compiled
def _ordered_worth(chosen: Any, first: int, last: int, items: Any, relevance: Any, goals: Any, seen: Any) -> float:
    """Discounted relevance of the places from ``first`` up to ``last``, and their alpha-DCG where it has a price.

    seen: (n_subtopics,) how often each came before; the same again afterwards
    """
    indptr, indices, _, _, _, prices, discount, worth, _, _ = goals
    total = 0.0
    for at in range(first, last):
        total += prices[ACCURACY] * relevance[chosen[at]] * discount[at]
    if prices[ALPHA_DCG] > 0:
        for at in range(first, last):
            gain, item = 0.0, items[chosen[at]]
            for entry in range(indptr[item], indptr[item + 1]):
                gain += worth[seen[indices[entry]]]
                seen[indices[entry]] += 1
            total += prices[ALPHA_DCG] * gain * discount[at]
        for at in range(first, last):
            _count(items[chosen[at]], indptr, indices, seen, -1)
    return total
