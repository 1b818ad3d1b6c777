"""Kernels of reasons: the margin of one exchange if the item of the list had fewer categories."""

from __future__ import annotations

from math import sqrt
from typing import Any

from recprism.common.compile import compiled_inside_uncounted
from recprism.rule.kernels.parts import APART, COVERAGE, ORDERED, list_parts
from recprism.rule.kernels.worth import DISTANCE, HISTORY_WEIGHT

MARGIN, VARIETY, OF_HISTORY = range(3)  # rows of ``without``
NO_LENGTH = 1e-9  # of a squared unit vector without some of its categories


@compiled_inside_uncounted
def intervene(
    place: int,
    against: int,
    chosen: Any,
    items: Any,
    relevance: Any,
    goals: Any,
    state: Any,
    like: Any,
    by_vectors: bool,
    personal: bool,
    tied: float,
    own: Any,
    difference: Any,
    of_place: Any,
) -> None:
    """Value one exchange again without each category of the item of the list.

    Args:
        place: The place of the item.
        against: Number of the item that it is exchanged for.
        chosen: Positions of the list, (m,).
        items: Item numbers of the candidates, (n,).
        relevance: Their relevance.
        goals: Data and prices of the goals.
        state: Working memory of ``list_parts``; its last entry are the hidden categories, all False.
        like: What ``likeness`` returns, (m + 1, n).
        by_vectors: Whether distances are those of item vectors, instead of those of categories.
        personal: Whether the weights of the history differ; equal ones do no more than to spread the categories.
        tied: Smaller effects count as none.
        own: Parts of the list, (6,).
        difference: Parts of the list minus those of the exchanged one, (6,).
        of_place: What is written. For each category of the item: the margin of the exchange without it, what it adds to
            coverage, alpha-DCG and spread, and what the history adds to the margin by it, (3, most categories). The
            margin without all categories of the second kind, and without all of the third, (2,). Working memory, (6,).
    """
    indptr, indices, prices, intents, filling = goals[0], goals[1], goals[5], goals[8], goals[9]
    without, together, parts = of_place
    item, hidden, times = items[chosen[place]], state[4], state[0]
    margin = 0.0
    for part in range(len(difference)):
        margin += difference[part]
    for at in range(indptr[item], indptr[item + 1]):
        s, j = indices[at], at - indptr[item]
        hidden[s] = True
        _value(place, chosen, items, relevance, goals, state, like, by_vectors, own, parts)
        hidden[s] = False
        without[MARGIN, j] = margin
        for part in range(len(own)):
            without[MARGIN, j] -= own[part] - parts[part]
        without[VARIETY, j] = own[COVERAGE] - parts[COVERAGE] + own[ORDERED] - parts[ORDERED]
        if prices[HISTORY_WEIGHT] > 0 and not _has(against, s, indptr, indices):
            filled = filling[times[s] + 1] - filling[times[s]]
            without[OF_HISTORY if personal else VARIETY, j] += prices[HISTORY_WEIGHT] * intents[s] * filled
    for why in (VARIETY, OF_HISTORY):
        for at in range(indptr[item], indptr[item + 1]):
            hidden[indices[at]] = without[why, at - indptr[item]] > tied
        _value(place, chosen, items, relevance, goals, state, like, by_vectors, own, parts)
        together[why - 1] = margin
        for part in range(len(own)):
            together[why - 1] -= own[part] - parts[part]
        for at in range(indptr[item], indptr[item + 1]):
            hidden[indices[at]] = False


@compiled_inside_uncounted
def _has(item: int, category: int, indptr: Any, indices: Any) -> bool:
    found = False
    for at in range(indptr[item], indptr[item + 1]):
        found = found or indices[at] == category
    return found


@compiled_inside_uncounted
def _value(
    place: int,
    chosen: Any,
    items: Any,
    relevance: Any,
    goals: Any,
    state: Any,
    like: Any,
    by_vectors: bool,
    own: Any,
    parts: Any,
) -> None:
    """Write the parts of the list whose item at ``place`` has no hidden category."""
    list_parts(chosen, items, relevance, goals, state, place, state[4], parts)
    parts[APART] = own[APART]
    if goals[5][DISTANCE] > 0 and not by_vectors:
        parts[APART] -= goals[5][DISTANCE] * _nearer(place, chosen, items, goals, state[4], like)


@compiled_inside_uncounted
def _nearer(place: int, chosen: Any, items: Any, goals: Any, hidden: Any, like: Any) -> float:
    """Return by how much the cosines to others, also of earlier pages, rise if the item loses hidden categories."""
    indptr, indices, unit, known, past = goals[0], goals[1], goals[2], goals[3], goals[11]
    item, last, total = items[chosen[place]], len(unit) - 1, 0.0
    if known[item] == 0:
        return 0.0
    length = 1.0
    for at in range(indptr[item], indptr[item + 1]):
        if hidden[indices[at]]:
            length -= (unit[min(item, last), indices[at]] * known[item]) ** 2
    for b in range(len(chosen)):
        other = items[chosen[b]]
        if b == place or known[other] == 0:
            continue
        before, after = like[place, chosen[b]], 1.0  # a zero vector has no distance
        if length > NO_LENGTH:
            common = 0.0
            for at in range(indptr[item], indptr[item + 1]):
                if hidden[indices[at]]:
                    common += unit[min(item, last), indices[at]] * unit[min(other, last), indices[at]]
            after = (before - common * known[item] * known[other]) / sqrt(length)
        total += after - before
    if len(past) > 0:
        before = after = past[unit.shape[1]] - like[len(chosen), chosen[place]]
        for at in range(indptr[item], indptr[item + 1]):
            if hidden[indices[at]]:
                after -= unit[min(item, last), indices[at]] * known[item] * past[indices[at]]
        after = after / sqrt(length) if length > NO_LENGTH else past[unit.shape[1]]
        total += after - before
    return total
