"""Kernels of the search for optimal lists (exchanges of one item until none helps), and of greedy lists.

Goals that look at the order inside a list have a search of their own, so that a rule without them compiles less.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from recprism.common.compile import compiled, compiled_inside, compiled_inside_uncounted
from recprism.rule.kernels.arrays import flags, floats, integers, table
from recprism.rule.kernels.cosines import write_columns, write_cosines, write_distances
from recprism.rule.kernels.exchange import (
    ROUNDING,
    best_by_order,
    best_by_set,
    best_weighed,
    sort_places,
    weigh_exchanges,
)
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
    goals_of,
    left_by,
    ordered_worth,
    set_worth,
    weigh,
)

MOVES = 60  # largest number of exchanges of one list; about five are usual
CHAIN = 3  # exchanges tried in sequence if no single one helps


@compiled
def optimal(first: int, last: int, items: Any, relevance: Any, lengths: Any, positions: Any, *terms: Any) -> None:
    """Improve existing lists in place, for goals that do not look at the order inside a list.

    If users are independent, a greedy list is improved as well, and the better of the two is kept. From the most
    relevant list alone, the search gets stuck where two items only help together.

    Args:
        first: First user.
        last: User after the last one.
        items: Item numbers of the candidates, (n_users, n_candidates).
        relevance: Their relevance, (n_users, n_candidates).
        lengths: Candidates of each user, (n_users,).
        positions: The lists, (n_users, k); changed in place.
        *terms: In this order:

            - indptr: The categories of item i are indices[indptr[i]:indptr[i + 1]].
            - indices: Categories of all items.
            - n_categories: Number of categories.
            - unit: Unit vectors whose distances count, (n_items, d).
            - known: Whether a vector is not zero, (n_items,); zero vectors have no distance. Or, for vectors of other
              lengths, one divided by the length, and 0 for zero vectors.
            - shown: Number of lists that show the item, (n_items,) int64; updated in place. If it has a price, one
              thread must serve all users.
            - prices: Value of accuracy, one more category, alpha-DCG or ERR-IA, the distance of one pair, one more
              item, and the match with a user's history, (9,). The seventh is the share of a category that one item
              takes away from later ones. The eighth is 1 if an item gains as much as its relevance, else 0. The last
              is that of a function of the list, which no kernel looks at; see ``recprism.rule.function_search``.
            - discount: Discount of each place for accuracy, (k,).
            - fading: The same for alpha-DCG or ERR-IA, (k,).
            - intents: Weights of categories, (n_users, n_categories).
            - filling: How far n items fill a category, (k + 2,).
            - left: Share of each category that earlier pages left, (n_users, n_categories); one row may be for all.
            - past: Weighted sum of the unit vectors of earlier pages, then the sum of the weights, (n_users, d + 1);
              one row may be for all, (1, 0) if there are none.
            - tie: Gains up to this do not count.
    """
    n_categories, unit, prices, tie = terms[2], terms[3], terms[6], terms[13]
    state = _working_memory(items.shape[1], positions.shape[1], n_categories, unit, prices)
    greedy = integers(positions.shape[1])
    for u in range(first, last):
        n = lengths[u]
        k = min(positions.shape[1], n)
        if k in (0, n):
            continue  # nothing to choose
        goals = goals_of(terms, u)
        _begin(items[u, :n], goals, state)
        found = _improve(items[u, :n], relevance[u], positions[u, :k], positions[u, :0], goals, state, tie)
        if prices[SHOWN] == 0:
            _start_greedily(items[u, :n], relevance[u], greedy[:k], goals, state, tie)
            if _improve(items[u, :n], relevance[u], greedy[:k], positions[u, :k], goals, state, tie) > found + tie:
                copy_list(greedy[:k], positions[u])


@compiled
def optimal_in_order(
    first: int, last: int, items: Any, relevance: Any, lengths: Any, positions: Any, *terms: Any
) -> None:
    """Improve existing lists in place, for goals that look at the order; the arguments are those of ``optimal``."""
    n_categories, unit, prices, tie = terms[2], terms[3], terms[6], terms[13]
    state = _working_memory(items.shape[1], positions.shape[1], n_categories, unit, prices)
    greedy = integers(positions.shape[1])
    for u in range(first, last):
        n = lengths[u]
        k = min(positions.shape[1], n)
        if k == 0:
            continue
        goals = goals_of(terms, u)
        _begin(items[u, :n], goals, state)
        found = _improve_in_order(items[u, :n], relevance[u], positions[u, :k], positions[u, :0], goals, state, tie)
        if prices[SHOWN] == 0:
            _start_greedily(items[u, :n], relevance[u], greedy[:k], goals, state, tie)
            value = _improve_in_order(items[u, :n], relevance[u], greedy[:k], positions[u, :k], goals, state, tie)
            if value > found + tie:
                copy_list(greedy[:k], positions[u])


@compiled
def fill_greedily(first: int, last: int, items: Any, relevance: Any, lengths: Any, positions: Any, *terms: Any) -> None:
    """Fill lists place by place with the item that adds most to the same value; see ``optimal`` for the arguments."""
    n_categories, unit, prices, tie = terms[2], terms[3], terms[6], terms[13]
    state = _working_memory(items.shape[1], positions.shape[1], n_categories, unit, prices)
    for u in range(first, last):
        n = lengths[u]
        k = min(positions.shape[1], n)
        if k == 0 or (k == n and prices[ALPHA_DCG] == 0):
            continue  # nothing to choose
        goals = goals_of(terms, u)
        _begin(items[u, :n], goals, state)
        _start_greedily(items[u, :n], relevance[u], positions[u, :k], goals, state, tie)
        for place in range(k):
            goals[4][items[u, positions[u, place]]] += int(prices[SHOWN] > 0)


@compiled_inside
def _working_memory(n_candidates: int, k: int, n_categories: int, unit: Any, prices: Any) -> Any:
    """Return the arrays that describe a list: see ``_begin`` and ``_stand``."""
    counts = (integers(n_categories), integers(n_categories))
    depth = n_candidates if prices[DISTANCE] > 0 else 0
    near, like = floats(n_candidates, 0.0), np.empty((depth, depth), unit.dtype)  # few rows are used: see ``_joins``
    compared = (flags(depth), np.empty((unit.shape[1], depth), unit.dtype), np.empty(depth, unit.dtype))
    inside, barred = flags(n_candidates), flags(n_candidates)
    # Gain of one more item of a category, and loss of one fewer.
    steps = (floats(n_categories, 0.0), floats(n_categories, 0.0))
    in_order = (table(k + 1, n_categories, 1.0), floats(k + 1, 0.0), floats(k + 1, 0.0), floats(n_categories, 1.0))
    # What is known about the exchanges of a list: see ``weigh_exchanges``.
    sums = (floats(k + 1, 0.0), floats(k + 1, 0.0), floats(k, 0.0), floats(n_categories, 0.0))
    lists = (integers(k), integers(k))  # the best exchange, and the best list of a chain
    # What a candidate's categories bring, how many listed items rank above it, and the most that it can gain.
    bounds = (floats(n_candidates, 0.0), integers(n_candidates), floats(n_candidates, 0.0))
    # Two bounds of what is lost if an item leaves; the candidate with the largest bound, and whether the search ended.
    of_list = (floats(2, 0.0), integers(2))
    return inside, near, like, compared, counts, barred, steps, in_order, sums, lists, bounds, *of_list


@compiled_inside_uncounted
def _begin(items: Any, goals: Any, state: Any) -> None:
    """Set the state to a user's candidates, none of them compared."""
    compared, columns, far = state[3]
    if goals[5][DISTANCE] > 0:
        compared[:] = False
        write_columns(items, goals[2], goals[3], columns)
        write_distances(items, goals[3], columns, goals[11], far)


@compiled_inside_uncounted
def _improve(items: Any, relevance: Any, chosen: Any, improved: Any, goals: Any, state: Any, tie: float) -> float:
    """Make exchanges until none helps; return the value of the list without the part for items shown.

    ``improved`` is an earlier result, or empty. The search ends with -inf when it reaches that list again: its value is
    known.
    """
    prices, left, best_list, has_ended = goals[5], state[7][0][0], state[9][0][: len(chosen)], state[12]
    has_ended[1] = 0
    _stand(items, chosen, goals, state)
    for _ in range(MOVES):
        if _is_same(chosen, improved):
            return -np.inf
        _, arriving, leaving = best_by_set(items, relevance, chosen, goals, state, tie, tie, best_list)
        if arriving >= 0:
            _make(arriving, leaving, items, chosen, goals, state, best_list)
        elif prices[SHOWN] > 0 or not _chain(items, relevance, chosen, goals, state, tie):
            has_ended[1] = 1
            break
    in_order: float = ordered_worth(chosen, items, relevance, goals, left)
    return in_order + float(set_worth(items, chosen, goals, state))


@compiled_inside_uncounted
def _improve_in_order(
    items: Any, relevance: Any, chosen: Any, improved: Any, goals: Any, state: Any, tie: float
) -> float:
    """Make exchanges and moves until none helps, by the value of the whole order; see ``_improve``."""
    left, best_list = state[7][0][0], state[9][0][: len(chosen)]
    _stand(items, chosen, goals, state)
    for _ in range(MOVES):
        if _is_same(chosen, improved):
            return -np.inf
        arriving, leaving = best_by_order(items, relevance, chosen, goals, state, tie, best_list)
        if arriving < 0:
            break
        _make(arriving, leaving, items, chosen, goals, state, best_list)
    in_order: float = ordered_worth(chosen, items, relevance, goals, left)
    return in_order + float(set_worth(items, chosen, goals, state))


@compiled_inside_uncounted
def _is_same(chosen: Any, other: Any) -> bool:
    same = len(chosen) == len(other)
    for place in range(len(chosen)):
        same = same and chosen[place] == other[place]
    return same


@compiled_inside_uncounted
def _chain(items: Any, relevance: Any, chosen: Any, goals: Any, state: Any, tie: float) -> bool:
    """Try a sequence of exchanges, each the best one even if it loses; return whether the list improved.

    This finds items that only help together (Kernighan and Lin, 1970). New items stay, and removed ones do not return.
    """
    barred = state[5]
    best_list, kept = state[9][0][: len(chosen)], state[9][1][: len(chosen)]
    copy_list(chosen, kept)
    total, best = 0.0, tie
    steps = min(CHAIN, len(chosen), len(items) - len(chosen))
    for step in range(steps):
        to_beat = -np.inf
        if step == steps - 1:  # the last one must make up for all losses
            to_beat = best - total - ROUNDING * max(1.0, abs(total))
        if step > 0:  # the first exchange is that of a list whose exchanges are weighed
            weigh_exchanges(items, relevance, chosen, goals, state)
        gain, arriving, leaving = best_weighed(items, relevance, chosen, goals, state, to_beat, tie, best_list)
        if arriving == -1:
            break
        barred[arriving] = barred[leaving] = True
        _make(arriving, leaving, items, chosen, goals, state, best_list)
        total += gain
        if total > best:
            best = total
            copy_list(chosen, kept)
    copy_list(kept, chosen)
    _stand(items, chosen, goals, state)
    return best > tie


@compiled_inside_uncounted
def _begin_near(items: Any, goals: Any, state: Any) -> None:
    """Set the similarities of all candidates to an empty list: what lies far from earlier pages is less similar."""
    near, far = state[1], state[3][2]
    for c in range(len(items)):
        near[c] = -far[c] if goals[5][DISTANCE] > 0 else 0.0


@compiled_inside_uncounted
def _stand(items: Any, chosen: Any, goals: Any, state: Any) -> None:
    """Set the state to this list."""
    inside, barred = state[0], state[5]
    inside[: len(items)] = False
    barred[: len(items)] = False
    _begin_near(items, goals, state)
    for place in range(len(chosen)):
        inside[chosen[place]] = True
        _joins(chosen[place], 1, items, goals, state)


@compiled_inside_uncounted
def _make(arriving: int, leaving: int, items: Any, chosen: Any, goals: Any, state: Any, best_list: Any) -> None:
    """Make the exchange that leads to ``best_list``; ``arriving`` equals ``leaving`` if an item only moved."""
    shown, prices, inside = goals[4], goals[5], state[0]
    if arriving != leaving:
        inside[arriving], inside[leaving] = True, False
        _joins(arriving, 1, items, goals, state)
        _joins(leaving, -1, items, goals, state)
        if prices[SHOWN] > 0:
            shown[items[arriving]] += 1
            shown[items[leaving]] -= 1
    copy_list(best_list, chosen)


@compiled_inside_uncounted
def _start_greedily(items: Any, relevance: Any, chosen: Any, goals: Any, state: Any, tie: float) -> None:
    """Fill ``chosen`` place by place with the best item; if order has no value, sort by rank.

    What the categories of a candidate bring can only shrink as the list grows. A candidate whose value cannot be the
    best with what they brought when it was last looked at is skipped (Minoux, 1978).
    """
    indptr, indices, shown, prices, discount, fading = goals[0], goals[1], goals[4], goals[5], goals[6], goals[7]
    inside, near, times, left, (more, fewer) = state[0], state[1], state[4][0], state[7][0][0], state[6]
    most = state[10][0]  # what the categories brought when a candidate was last looked at
    times[:] = 0
    copy_list(goals[10], left)
    inside[: len(items)] = False
    _begin_near(items, goals, state)
    most[: len(items)] = np.inf
    shrinks = prices[ALPHA_DCG] == 0
    for place in range(len(chosen)):
        best, pick = -np.inf, -1
        weigh(times, goals, more, fewer)
        for c in range(len(items)):
            if inside[c]:
                continue
            value = prices[ACCURACY] * relevance[c] * discount[place] + prices[DISTANCE] * (place - near[c])
            if shrinks and value + most[c] <= best + tie:
                continue
            most[c] = brought(items[c], indptr, indices, more) + prices[SHOWN] * int(shown[items[c]] == 0)
            value += most[c]
            if prices[ALPHA_DCG] > 0:
                fresh = gain_of(relevance[c], prices) * freshness(items[c], indptr, indices, left)
                value += prices[ALPHA_DCG] * fading[place] * fresh
            if value > best + tie:
                best, pick = value, c
        chosen[place] = pick
        inside[pick] = True
        count(items[pick], indptr, indices, times, 1)
        fade(items[pick], indptr, indices, left, left_by(relevance[pick], prices))
        _joins(pick, 1, items, goals, state)
    if prices[ALPHA_DCG] == 0:
        sort_places(chosen)


@compiled_inside_uncounted
def _joins(position: int, sign: int, items: Any, goals: Any, state: Any) -> None:
    """Add or subtract the similarities of all candidates to an item of the list; each is computed once."""
    prices, near, like, compared = goals[5], state[1], state[2], state[3][0]
    if prices[DISTANCE] == 0:
        return
    if not compared[position]:
        compared[position] = True
        write_cosines(position, items, goals[3], state[3][1], like[position])
    for c in range(len(items)):
        near[c] += sign * like[position, c]
