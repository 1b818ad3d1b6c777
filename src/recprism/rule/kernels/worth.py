"""Kernels for the value of a list, and for the effect of one item more or fewer."""

from __future__ import annotations

from typing import Any

from recprism.common.compile import compiled_inside, compiled_inside_uncounted

# Positions in ``prices``.
ACCURACY, CATEGORY, ALPHA_DCG, DISTANCE, SHOWN, HISTORY_WEIGHT, REPEATS, BY_RELEVANCE, OF_FUNCTION = range(9)


@compiled_inside
def goals_of(terms: Any, user: int) -> Any:
    """Return the data and prices of the goals of one user; see ``recprism.rule.kernels.optimal.optimal``."""
    indptr, indices, unit, known, shown, prices = terms[0], terms[1], terms[3], terms[4], terms[5], terms[6]
    discount, fading, intents, filling, left, past = terms[7], terms[8], terms[9], terms[10], terms[11], terms[12]
    user_left, user_past = left[user % len(left)], past[user % len(past)]
    of_user = intents[user], filling, user_left, user_past
    return (indptr, indices, unit, known, shown, prices, discount, fading, *of_user)


@compiled_inside_uncounted
def copy_list(source: Any, target: Any) -> None:
    """Copy a list of places. A slice assignment would take numba seconds to compile."""
    for place in range(len(source)):
        target[place] = source[place]


@compiled_inside_uncounted
def count(item: int, indptr: Any, indices: Any, counts: Any, sign: int) -> None:
    for at in range(indptr[item], indptr[item + 1]):
        counts[indices[at]] += sign


@compiled_inside_uncounted
def weigh(counts: Any, goals: Any, more: Any, fewer: Any) -> None:
    """Write the gain of one more and the loss of one fewer item of each category, given the counts of a list."""
    prices, intents, filling, left = goals[5], goals[8], goals[9], goals[10]
    for category in range(len(counts)):
        n = counts[category]
        more[category] = prices[CATEGORY] * left[category] * int(n == 0)
        fewer[category] = prices[CATEGORY] * left[category] * int(n == 1)
        if prices[HISTORY_WEIGHT] > 0:
            weight = prices[HISTORY_WEIGHT] * intents[category]
            more[category] += weight * (filling[n + 1] - filling[n])
            fewer[category] += weight * (filling[n] - filling[max(n - 1, 0)])


@compiled_inside_uncounted
def brought(item: int, indptr: Any, indices: Any, more: Any) -> float:
    """Return the gain from the item's categories."""
    total = 0.0
    for at in range(indptr[item], indptr[item + 1]):
        total += more[indices[at]]
    return total


@compiled_inside_uncounted
def taken_along(gone: int, item: int, indptr: Any, indices: Any, more: Any, fewer: Any, mark: Any) -> float:
    """Return the loss from removing ``gone`` after ``item`` was counted as an additional item.

    A category of both does not change, so the gain that ``item`` was credited with is lost again. ``mark`` is working
    memory.
    """
    count(item, indptr, indices, mark, 1)
    lost: float = taken_with(gone, indptr, indices, more, fewer, mark)
    count(item, indptr, indices, mark, -1)
    return lost


@compiled_inside_uncounted
def taken_with(gone: int, indptr: Any, indices: Any, more: Any, fewer: Any, mark: Any) -> float:
    """Return the same, where ``mark`` is above 0 for the categories of the additional item."""
    lost = 0.0
    for at in range(indptr[gone], indptr[gone + 1]):
        lost += more[indices[at]] if mark[indices[at]] > 0 else fewer[indices[at]]
    return lost


@compiled_inside_uncounted
def freshness(item: int, indptr: Any, indices: Any, left: Any) -> float:
    """Return the value of the item's categories, given what earlier items left of each."""
    total = 0.0
    for at in range(indptr[item], indptr[item + 1]):
        total += left[indices[at]]
    return total


@compiled_inside_uncounted
def fade(item: int, indptr: Any, indices: Any, left: Any, factor: float) -> None:
    """Multiply what is left of the item's categories."""
    for at in range(indptr[item], indptr[item + 1]):
        left[indices[at]] *= factor


@compiled_inside_uncounted
def gain_of(relevance: float, prices: Any) -> float:
    """Return what an item gains of each of its categories: 1, or its relevance if the goal looks at it."""
    gain: float = 1.0 - prices[BY_RELEVANCE] * (1.0 - relevance)
    return gain


@compiled_inside_uncounted
def left_by(relevance: float, prices: Any) -> float:
    """Return the share of a category that an item leaves to later items; above 0."""
    share: float = 1.0 - prices[REPEATS] * gain_of(relevance, prices)
    return share


@compiled_inside_uncounted
def set_worth(items: Any, chosen: Any, goals: Any, state: Any) -> float:
    """Return the value of categories and distances; ``near`` must belong to this list."""
    indptr, indices, prices, intents, filling = goals[0], goals[1], goals[5], goals[8], goals[9]
    left, near, far, times, k = goals[10], state[1], state[3][2], state[4][0], len(chosen)
    times[:] = 0
    total = 0.0
    for place in range(k):
        count(items[chosen[place]], indptr, indices, times, 1)
        if prices[DISTANCE] > 0:
            total += prices[DISTANCE] * (k - near[chosen[place]] + far[chosen[place]]) / 2
    for category in range(len(times)):
        total += prices[CATEGORY] * left[category] * int(times[category] > 0)
        if prices[HISTORY_WEIGHT] > 0:
            total += prices[HISTORY_WEIGHT] * intents[category] * filling[times[category]]
    return total


@compiled_inside_uncounted
def ordered_worth(chosen: Any, items: Any, relevance: Any, goals: Any, left: Any) -> float:
    """Return discounted relevance, plus alpha-DCG or ERR-IA if it has a price.

    Args:
        chosen: Positions of the list.
        items: Item numbers of the candidates.
        relevance: Their relevance.
        goals: Data and prices of the goals.
        left: Working memory, (n_categories,) float64.
    """
    indptr, indices, prices, discount, fading = goals[0], goals[1], goals[5], goals[6], goals[7]
    total = 0.0
    copy_list(goals[10], left)
    for at in range(len(chosen)):
        item, own = items[chosen[at]], relevance[chosen[at]]
        total += prices[ACCURACY] * own * discount[at]
        if prices[ALPHA_DCG] > 0:
            total += prices[ALPHA_DCG] * gain_of(own, prices) * freshness(item, indptr, indices, left) * fading[at]
            fade(item, indptr, indices, left, left_by(own, prices))
    return total
