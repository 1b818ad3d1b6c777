"""What a list is worth, and what one item more or fewer means to it, compiled."""

from __future__ import annotations

from typing import Any

from recprism._compile import compiled

# Places in ``prices``.
ACCURACY, SUBTOPIC, ALPHA_DCG, DISTANCE, SHOWN, HISTORY_WEIGHT = range(6)


@compiled
def count(item: int, indptr: Any, indices: Any, counts: Any, sign: int) -> None:
    for at in range(indptr[item], indptr[item + 1]):
        counts[indices[at]] += sign


@compiled
def weigh(counts: Any, goals: Any, more: Any, fewer: Any) -> None:
    """What one item more, or fewer, of each subtopic means to a list that has it so often."""
    prices, intents, filling = goals[5], goals[8], goals[9]
    for subtopic in range(len(counts)):
        n = counts[subtopic]
        more[subtopic] = prices[SUBTOPIC] * int(n == 0)
        fewer[subtopic] = prices[SUBTOPIC] * int(n == 1)
        if prices[HISTORY_WEIGHT] > 0:
            weight = prices[HISTORY_WEIGHT] * intents[subtopic]
            more[subtopic] += weight * (filling[n + 1] - filling[n])
            fewer[subtopic] += weight * (filling[n] - filling[max(n - 1, 0)])


@compiled
def brought(item: int, indptr: Any, indices: Any, more: Any) -> float:
    """What the item's subtopics add."""
    total = 0.0
    for at in range(indptr[item], indptr[item + 1]):
        total += more[indices[at]]
    return total


@compiled
def taken_along(gone: int, item: int, indptr: Any, indices: Any, more: Any, fewer: Any, mark: Any) -> float:
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
def freshness(item: int, indptr: Any, indices: Any, earlier: Any, worth: Any) -> float:
    """What the item's subtopics are worth after what stands before it."""
    total = 0.0
    for at in range(indptr[item], indptr[item + 1]):
        total += worth[earlier[indices[at]]]
    return total


@compiled
def set_worth(items: Any, chosen: Any, goals: Any, state: Any) -> float:
    """What subtopics and distances are worth; ``near`` must speak of this list."""
    indptr, indices, prices, intents, filling = goals[0], goals[1], goals[5], goals[8], goals[9]
    near, times, k = state[1], state[4][1], len(chosen)
    times[:] = 0
    total = 0.0
    for place in range(k):
        count(items[chosen[place]], indptr, indices, times, 1)
        total += prices[DISTANCE] * (k - near[chosen[place]]) / 2
    for subtopic in range(len(times)):
        total += prices[SUBTOPIC] * int(times[subtopic] > 0)
        if prices[HISTORY_WEIGHT] > 0:
            total += prices[HISTORY_WEIGHT] * intents[subtopic] * filling[times[subtopic]]
    return total


@compiled
def ordered_worth(chosen: Any, first: int, last: int, items: Any, relevance: Any, goals: Any, seen: Any) -> float:
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
            count(items[chosen[at]], indptr, indices, seen, -1)
    return total
