"""Kernels for the parts of what a list is worth: the definition that reasons, accounts and requests share."""

from __future__ import annotations

from typing import Any

import numpy as np

from recprism.common.compile import compiled, compiled_inside, compiled_inside_uncounted
from recprism.rule.kernels.arrays import flags, floats, integers
from recprism.rule.kernels.cosines import write_columns, write_cosines, write_distances
from recprism.rule.kernels.worth import (
    ACCURACY,
    ALPHA_DCG,
    CATEGORY,
    DISTANCE,
    HISTORY_WEIGHT,
    SHOWN,
    gain_of,
    goals_of,
    left_by,
)

PARTS = ("relevance", "coverage", "alpha_dcg", "distance", "exposure", "history")
RELEVANCE, COVERAGE, ORDERED, APART, EXPOSURE, HISTORY = range(6)  # their positions


@compiled
def value_lists(items: Any, relevance: Any, users: Any, parts: Any, by_category: Any, *terms: Any) -> None:
    """Write the parts of lists.

    Args:
        items: Item numbers, (n_lists, k); -1 leaves a place empty.
        relevance: Their relevance, (n_lists, k); ignored in empty places.
        users: The user of each list, a row of ``intents``, (n_lists,).
        parts: Receives the parts in the order of ``PARTS``, (n_lists, 6).
        by_category: Receives what each category is worth over all lists, in coverage and in alpha-DCG,
            (2, n_categories); filled with 0.
        *terms: See ``recprism.rule.kernels.optimal.optimal``, without ``tie``.
    """
    n_categories, prices = terms[2], terms[6]
    positions, listed = integers(items.shape[1]), integers(items.shape[1])
    state, nothing = (integers(n_categories), floats(n_categories, 1.0), by_category[1]), flags(0)
    for row in range(len(items)):
        goals = goals_of(terms, users[row])
        m = 0
        for place in range(len(positions)):
            positions[place] = -1
            if items[row, place] >= 0:
                positions[place] = listed[m] = place
                m += 1
        list_parts(positions, items[row], relevance[row], goals, state, -1, nothing, parts[row])
        parts[row, APART] = apart(listed[:m], -1, -1, likeness(items[row], listed[:m], goals), goals)
        for s in range(n_categories):
            by_category[0, s] += prices[CATEGORY] * goals[10][s] * int(state[0][s] > 0)


@compiled_inside_uncounted
def list_parts(
    positions: Any, items: Any, relevance: Any, goals: Any, state: Any, bare: int, hidden: Any, out: Any
) -> None:
    """Write the parts of a list without distances.

    An item is credited with what it adds to earlier places: the first item of a category brings it.

    Args:
        positions: Positions of the list; -1 leaves a place empty.
        items: Item numbers of the candidates.
        relevance: Their relevance.
        goals: Data and prices of the goals.
        state: How often the list has each category, and what it leaves of each, both written here, (n_categories,);
            what each is worth in alpha-DCG, which is added to, (n_categories,), or (0,) if it is not needed.
        bare: The place whose item is valued without the hidden categories; -1 for none.
        hidden: Which categories these are, (n_categories,) bool; not read if there is no such place.
        out: Receives the parts, (6,).
    """
    indptr, indices, prices, discount = goals[0], goals[1], goals[5], goals[6]
    fading, intents, filling = goals[7], goals[8], goals[9]
    times, left, earned = state[0], state[1], state[2]
    for s in range(len(times)):
        times[s], left[s] = 0, goals[10][s]
    for part in range(len(out)):
        out[part] = 0.0
    for place in range(len(positions)):
        if positions[place] < 0:
            continue
        item, own = items[positions[place]], relevance[positions[place]]
        gain, leaves = gain_of(own, prices), left_by(own, prices)
        out[RELEVANCE] += prices[ACCURACY] * own * discount[place]
        out[EXPOSURE] += shown_first(item, goals)
        for at in range(indptr[item], indptr[item + 1]):
            s = indices[at]
            if place == bare and hidden[s]:
                continue
            n = times[s]
            out[COVERAGE] += prices[CATEGORY] * goals[10][s] * int(n == 0)
            if prices[ALPHA_DCG] > 0:
                fresh = prices[ALPHA_DCG] * gain * left[s] * fading[place]
                out[ORDERED] += fresh
                left[s] *= leaves
                if len(earned) > 0:
                    earned[s] += fresh
            if prices[HISTORY_WEIGHT] > 0:
                out[HISTORY] += prices[HISTORY_WEIGHT] * intents[s] * (filling[n + 1] - filling[n])
            times[s] = n + 1


@compiled_inside_uncounted
def shown_first(item: int, goals: Any) -> float:
    """Return the value of an item that no other list shows."""
    shown, prices = goals[4], goals[5]
    return float(prices[SHOWN] * int(shown[item] == 0)) if prices[SHOWN] > 0 else 0.0


@compiled_inside
def likeness(items: Any, chosen: Any, goals: Any) -> Any:
    """Return the cosine of each item of the list to all candidates, and their distances to earlier pages, (m + 1, n).

    The cosine is 1, and the distance 0, if a vector is zero.
    """
    unit, known, prices = goals[2], goals[3], goals[5]
    if prices[DISTANCE] == 0:
        return np.empty((0, 0), unit.dtype)
    columns = np.empty((unit.shape[1], len(items)), unit.dtype)
    write_columns(items, unit, known, columns)
    like = np.empty((len(chosen) + 1, len(items)), unit.dtype)
    for place in range(len(chosen)):
        write_cosines(chosen[place], items, known, columns, like[place])
    write_distances(items, known, columns, goals[11], like[len(chosen)])
    return like


@compiled_inside_uncounted
def apart(chosen: Any, place: int, arriving: int, like: Any, goals: Any) -> float:
    """Return the value of the distances of pairs and to earlier pages, without ``place``, with ``arriving`` or -1."""
    if goals[5][DISTANCE] == 0:
        return 0.0
    total, far = 0.0, like[len(chosen)]
    if arriving >= 0:
        total += far[arriving]
    for a in range(len(chosen)):
        if a == place:
            continue
        total += far[chosen[a]]
        for b in range(a):
            if b != place:
                total += 1.0 - like[a, chosen[b]]
        if arriving >= 0:
            total += 1.0 - like[a, arriving]
    return float(goals[5][DISTANCE] * total)
