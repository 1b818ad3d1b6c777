"""Kernels of the choice model: what every alternative would add to a list, and the likelihood of the choices made.

A slot is one place of one user's list, with its item removed. Its alternatives are the user's candidates that are not
in the other places. Arrays over slots have the shape (n_slots, n_features, n_candidates); only the first
``n_alternatives[slot]`` columns are used, so that inner loops have no branches.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from recprism.common.compile import compiled, compiled_loosely

TIE = 1e-9  # utilities this close are equal


@compiled
def are_candidates(items: Any, lists: Any, slots: Any, inside: Any) -> None:
    """Fill whether the item of each slot is among the user's candidates.

    Args:
        items: ``(n_users, n)`` ranked candidates, -1 at the end.
        lists: ``(n_users, k)`` lists.
        slots: ``(n_slots, 2)`` user and place.
        inside: ``(n_slots,)`` bool, filled.
    """
    for s in range(len(slots)):
        u, item = slots[s, 0], lists[slots[s, 0], slots[s, 1]]
        inside[s] = False
        for c in range(items.shape[1]):
            if items[u, c] == item:
                inside[s] = True
                break


@compiled
def find_alternatives(items: Any, lists: Any, slots: Any, alternatives: Any, counts: Any, chosen: Any) -> None:
    """Fill the positions of the alternatives of each slot, their number, and which one the list has.

    Args:
        items: ``(n_users, n)`` ranked candidates, -1 at the end.
        lists: ``(n_users, k)`` lists, -1 in empty places.
        slots: ``(n_slots, 2)`` user and place.
        alternatives: ``(n_slots, n)``, filled.
        counts: ``(n_slots,)``, filled.
        chosen: ``(n_slots,)``, filled; -1 if the item of the slot is no candidate.
    """
    for s in range(len(slots)):
        u, place = slots[s, 0], slots[s, 1]
        n, chosen[s] = 0, -1
        for c in range(items.shape[1]):
            item = items[u, c]
            if item < 0:
                break
            elsewhere = False
            for other in range(lists.shape[1]):
                if lists[u, other] == item:
                    elsewhere = other != place
                    if not elsewhere:
                        chosen[s] = n
                    break
            if not elsewhere:
                alternatives[s, n] = c
                n += 1
        counts[s] = n


@compiled
def fill_features(
    about_slots: Any, about_users: Any, about_items: Any, categories: Any, n_levels: int, alpha: float, out: Any
) -> None:
    """Fill the features of all alternatives, in the order of ``recprism.explain.choice._places.FEATURES``.

    Args:
        about_slots: ``(n_slots, 2)`` user and place, the slots of one user one after another; ``(n_slots, n)``
            positions of the alternatives among the candidates; ``(n_slots,)`` their number.
        about_users: ``(n_users, n)`` candidates; ``(n_users, n)`` scores scaled to 0 .. 1; ``(n_users, k)`` lists;
            ``(n_users, n_categories)`` shares of the user's history.
        about_items: ``(n_items,)`` the row of categories of each item, where a permutation shuffles the categories;
            ``(n_items,)`` logarithms of popularity.
        categories: The arrays of ``CategoryRows``: indptr, indices, unit, shares, levels.
        n_levels: 1 + the largest level.
        alpha: How much of the history is mixed into a list's distribution, so that logarithms are finite.
        out: ``(n_slots, n_features, n)``, filled.
    """
    (slots, alternatives, n_alternatives), (row_of, popularity) = about_slots, about_items
    (items, relevance, lists, history), (indptr, indices, unit, shares, levels) = about_users, categories
    n_categories, n = history.shape[1], items.shape[1]
    held, amount, before = np.zeros(n_categories, np.int64), np.zeros(n_categories), np.zeros(n_categories)
    similar, total, best, second = np.zeros((n, lists.shape[1])), np.zeros(n), np.zeros(n), np.zeros(n)
    vectors = np.zeros((n_categories, lists.shape[1]))
    known, gains = np.full((n_categories, n_levels), -1), np.zeros((n_categories, n_levels))
    counts = np.arange(lists.shape[1] + 1)
    room = np.log2(
        (counts + 2) / (counts + 1)
    )  # what one more item adds to a category that so many have; 1 for the first
    user = -1
    for s in range(len(slots)):
        u, place = slots[s, 0], slots[s, 1]
        if u != user:
            user = u
            _compare(items[u], lists[u], row_of, indptr, indices, unit, vectors, similar, total, best, second)
        others, described = _hold_others(place, lists[u], row_of, indptr, indices, shares, held, amount)
        per_other = 1.0 / max(others, 1)
        unchanged = _logarithms(history[u], amount, described, alpha, before)
        for a in range(n_alternatives[s]):
            at = alternatives[s, a]
            item = items[u, at]
            row = row_of[item]
            new, redundant, match, new_match, filling, calibrated = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
            if indptr[row] == indptr[row + 1]:
                calibrated = unchanged
            for e in range(indptr[row], indptr[row + 1]):
                c = indices[e]
                wanted = history[u, c]
                redundant += held[c]
                match += wanted
                filling += wanted * room[held[c]]
                if held[c] == 0:
                    new += 1.0
                    new_match += wanted
                if wanted > 0:
                    level = levels[e]
                    if known[c, level] != s or level == 0:  # logarithms are the slowest part: each is computed once
                        mixed = (1 - alpha) * (amount[c] + shares[e]) / (described + 1) + alpha * wanted
                        known[c, level], gains[c, level] = s, wanted * (np.log(mixed) - before[c])
                    calibrated += gains[c, level]
            nearest = second[at] if similar[at, place] == best[at] else best[at]
            out[s, 0, a] = relevance[u, at]
            out[s, 1, a] = relevance[u, at] * relevance[u, at]
            out[s, 2, a] = popularity[item]
            out[s, 3, a] = new
            out[s, 4, a] = redundant * per_other
            out[s, 5, a] = (total[at] - similar[at, place]) * per_other
            out[s, 6, a] = nearest
            out[s, 7, a] = match
            out[s, 8, a] = new_match
            out[s, 9, a] = filling
            out[s, 10, a] = calibrated


@compiled
def _logarithms(wanted: Any, amount: Any, described: int, alpha: float, before: Any) -> float:
    """Fill the logarithms of a list's distribution, as it is with one more item of other categories.

    Args:
        wanted: ``(n_categories,)`` shares of the user's history.
        amount: ``(n_categories,)`` the sum of shares in the other places.
        described: Number of other items with categories.
        alpha: How much of the history is mixed in.
        before: ``(n_categories,)``, filled where the history is not 0.

    Returns:
        The calibration of an item without categories, which leaves the distribution as it is.
    """
    unchanged = 0.0
    for c in range(len(wanted)):
        if wanted[c] > 0:
            before[c] = np.log((1 - alpha) * amount[c] / (described + 1) + alpha * wanted[c])
            without = np.log((1 - alpha) * amount[c] / max(described, 1) + alpha * wanted[c])
            unchanged += wanted[c] * (without - before[c])
    return unchanged


@compiled
def _hold_others(
    place: int, listed: Any, row_of: Any, indptr: Any, indices: Any, shares: Any, held: Any, amount: Any
) -> tuple[int, int]:
    """Count the categories in the other places of a list.

    Args:
        place: The free place.
        listed: ``(k,)`` the list.
        row_of: ``(n_items,)``.
        indptr: ``(n_items + 1,)``.
        indices: ``(n_entries,)``.
        shares: ``(n_entries,)``.
        held: ``(n_categories,)``, filled: how many items have the category.
        amount: ``(n_categories,)``, filled: the sum of their shares.

    Returns:
        The number of other items, and the number of those with categories.
    """
    held[:] = 0
    amount[:] = 0.0
    others, described = 0, 0
    for other in range(len(listed)):
        if listed[other] < 0 or other == place:
            continue
        row = row_of[listed[other]]
        others += 1
        described += indptr[row + 1] > indptr[row]
        for e in range(indptr[row], indptr[row + 1]):
            held[indices[e]] += 1
            amount[indices[e]] += shares[e]
    return others, described


@compiled
def _compare(
    items: Any,
    listed: Any,
    row_of: Any,
    indptr: Any,
    indices: Any,
    unit: Any,
    vectors: Any,
    similar: Any,
    total: Any,
    best: Any,
    second: Any,
) -> None:
    """Compare a user's candidates with the list by cosines of categories.

    Args:
        items: ``(n,)`` candidates.
        listed: ``(k,)`` the list.
        row_of: ``(n_items,)``.
        indptr: ``(n_items + 1,)``.
        indices: ``(n_entries,)``.
        unit: ``(n_entries,)``.
        vectors: ``(n_categories, k)``, filled: the list's categories.
        similar: ``(n, k)``, filled.
        total: ``(n,)``, filled: the sum over the list.
        best: ``(n,)``, filled: the largest similarity.
        second: ``(n,)``, filled: the second largest.
    """
    vectors[:] = 0.0
    for place in range(len(listed)):
        if listed[place] >= 0:
            mine = row_of[listed[place]]
            for e in range(indptr[mine], indptr[mine + 1]):
                vectors[indices[e], place] = unit[e]
    for c in range(len(items)):
        if items[c] < 0:
            break
        mine = row_of[items[c]]
        cosines = similar[c]
        cosines[:] = 0.0
        for e in range(indptr[mine], indptr[mine + 1]):
            with_category, weight = vectors[indices[e]], unit[e]
            for place in range(len(listed)):
                cosines[place] += weight * with_category[place]
        all_of_them, first, next_one = 0.0, 0.0, 0.0
        for place in range(len(listed)):
            all_of_them += cosines[place]
            next_one = max(next_one, min(first, cosines[place]))
            first = max(first, cosines[place])
        total[c], best[c], second[c] = all_of_them, first, next_one


@compiled_loosely
def add_slots(
    rows: Any, values: Any, n_alternatives: Any, chosen: Any, weights: Any, gradient: Any, hessian: Any
) -> float:
    """Add the gradient and the negative Hessian of the log-likelihood of some slots, and return the log-likelihood.

    Args:
        rows: ``(n,)`` the slots.
        values: ``(n_slots, n_features, n)`` features.
        n_alternatives: ``(n_slots,)``.
        chosen: ``(n_slots,)`` the alternative that the list has.
        weights: ``(p,)`` coefficients of the first p features.
        gradient: ``(p,)``, added to.
        hessian: ``(p, p)``, added to in its lower triangle.
    """
    p, total = len(weights), 0.0
    chance, weighed, mean = np.empty(values.shape[2]), np.empty(values.shape[2]), np.empty(p)
    for r in range(len(rows)):
        s = rows[r]
        n = n_alternatives[s]
        total += _chances(values[s], n, weights, chance, chosen[s])
        for f in range(p):
            x = values[s, f]
            at = 0.0
            for a in range(n):
                weighed[a] = chance[a] * x[a]
                at += weighed[a]
            mean[f] = at
            gradient[f] += x[chosen[s]] - at
            for g in range(f + 1):
                y = values[s, g]
                product = 0.0
                for a in range(n):
                    product += weighed[a] * y[a]
                hessian[f, g] += product - at * mean[g]
    return total


@compiled_loosely
def _chances(values: Any, n: int, weights: Any, chance: Any, chosen: int) -> float:
    """Fill the probabilities of one slot's alternatives, and return the log-probability of the chosen one."""
    for a in range(n):
        chance[a] = 0.0
    for f in range(len(weights)):
        x, weight = values[f], weights[f]
        for a in range(n):
            chance[a] += weight * x[a]
    highest = chance[0]
    for a in range(n):
        highest = max(highest, chance[a])
    mine = chance[chosen] - highest if chosen >= 0 else 0.0
    total = 0.0
    for a in range(n):
        chance[a] = np.exp(chance[a] - highest)
        total += chance[a]
    for a in range(n):
        chance[a] /= total
    return float(mine - np.log(total))


@compiled
def judge_slots(
    rows: Any, values: Any, n_alternatives: Any, chosen: Any, weights: Any, likelihood: Any, right: Any
) -> None:
    """Fill the log-likelihood of some slots, and the chance that a guess of the most probable item is right.

    Args:
        rows: ``(n,)`` the slots.
        values: ``(n_slots, n_features, n)`` features.
        n_alternatives: ``(n_slots,)``.
        chosen: ``(n_slots,)`` the alternative that the list has.
        weights: ``(p,)`` coefficients of the first p features.
        likelihood: ``(n_slots,)``, filled.
        right: ``(n_slots,)``, filled: 1 / the number of most probable items if the chosen one is among them, else 0.
    """
    chance = np.empty(values.shape[2])
    for r in range(len(rows)):
        s = rows[r]
        n = n_alternatives[s]
        likelihood[s] = _chances(values[s], n, weights, chance, chosen[s])
        highest = chance[:n].max() * (1 - TIE)
        right[s] = 1.0 / (chance[:n] >= highest).sum() if chance[chosen[s]] >= highest else 0.0
