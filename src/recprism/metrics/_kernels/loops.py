"""Compiled loops over users. An item has few categories, so a loop over them is faster than dense arrays.

A loop handles the users from ``first`` up to ``last`` and releases the interpreter lock. The loops index by hand and
reuse work arrays, because slices inside them cost more than the arithmetic. Apart from ``first_fault`` they do not
check item numbers. See :class:`recprism.metrics.operations.Kernels` for what each one computes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from recprism.common.compile import compiled, compiled_loosely

SIDE_BY_SIDE = 4
SAME_DIRECTION = np.float32(1.0 - 2e-7)  # equal within float32; no pair can be nearer


@compiled
def first_fault(items: Any, n_items: int) -> int:
    seen_by = np.full(n_items, -1)
    for user in range(len(items)):
        for place in range(items.shape[1]):
            item = items[user, place]
            if item < -1 or item >= n_items:
                return user
            if item >= 0:
                if seen_by[item] == user:
                    return user
                seen_by[item] = user
    return -1


# The index -1 of an empty place finds the last entry of a table, which is blank.


@compiled
def totals(first: int, last: int, items: Any, of_item: Any, out: Any) -> None:
    for user in range(first, last):
        total = 0.0
        for place in range(items.shape[1]):
            total += of_item[items[user, place]]
            out[place, user] = total


@compiled
def exposure(items: Any, of_user: Any, out: Any) -> None:
    for user in range(len(items)):
        for place in range(items.shape[1]):
            out[items[user, place]] += of_user[user]


@compiled
def found(first: int, last: int, items: Any, indptr: Any, indices: Any, n_items: int, discount: Any, out: Any) -> None:
    wanted_by = np.full(n_items + 1, -1)
    for user in range(first, last):
        for entry in range(indptr[user], indptr[user + 1]):
            wanted_by[indices[entry]] = user
        hits, dcg, reciprocal = 0, 0.0, 0.0
        for place in range(items.shape[1]):
            if wanted_by[items[user, place]] == user:
                hits += 1
                dcg += discount[place]
                reciprocal = max(reciprocal, 1.0 / (place + 1))
            out[0, place, user] = hits
            out[1, place, user] = dcg
            out[2, place, user] = reciprocal


@compiled
def alpha_dcg(
    first: int, last: int, items: Any, indptr: Any, indices: Any, open_to: Any, worth: Any, discount: Any, out: Any
) -> None:
    """``worth`` is indexed by how often a category came before; it is 0 from k + 1 on, where closed ones start."""
    times = np.empty(open_to.shape[1], np.int64)
    for user in range(first, last):
        for category in range(len(times)):
            times[category] = 0 if open_to[user % len(open_to), category] else items.shape[1] + 1
        dcg = 0.0
        for place in range(items.shape[1]):
            item = items[user, place]
            if item >= 0:
                for entry in range(indptr[item], indptr[item + 1]):
                    category = indices[entry]
                    dcg += worth[times[category]] * discount[place]
                    times[category] += 1
            out[place, user] = dcg


@compiled
def best_alpha_dcg(
    first: int,
    last: int,
    items: Any,
    indptr: Any,
    indices: Any,
    open_to: Any,
    worth: Any,
    discount: Any,
    parts: Any,
    out: Any,
) -> None:
    """``offers`` holds what each item would add; taking one lowers the offers of items that share a category with it.

    ``parts`` is ``worth`` in whole numbers. With the place in their lowest bits, one maximum over the offers finds the
    best item and, among equals, the earliest. Several users are interleaved, so that the processor need not wait for a
    maximum.
    """
    n_categories, k = open_to.shape[1], items.shape[1]
    place_bits = np.int64(np.ceil(np.log2(k)))
    last_place = (1 << place_bits) - 1
    worth_in_bits = parts << place_bits
    lost_in_bits = worth_in_bits[:-1] - worth_in_bits[1:]
    times = np.empty((SIDE_BY_SIDE, n_categories), np.int64)
    has = np.empty((SIDE_BY_SIDE, n_categories, k), np.int64)  # all bits set where the item has the category
    offers = np.empty((SIDE_BY_SIDE, k), np.int64)
    dcg = np.empty(SIDE_BY_SIDE)
    for block in range(first, last, SIDE_BY_SIDE):
        sides = min(SIDE_BY_SIDE, last - block)
        for side in range(sides):
            for category in range(n_categories):
                times[side, category] = 0 if open_to[(block + side) % len(open_to), category] else k + 1
            has[side] = 0
            dcg[side] = 0.0
            for place in range(k):
                offers[side, place] = last_place - place
                item = items[block + side, place]
                if item >= 0:
                    for entry in range(indptr[item], indptr[item + 1]):
                        has[side, indices[entry], place] = -1
                        offers[side, place] += worth_in_bits[times[side, indices[entry]]]
        for rank in range(k):
            for side in range(sides):
                highest = offers[side, 0]
                for place in range(1, k):
                    highest = max(highest, offers[side, place])
                best = last_place - (highest & last_place)
                item = items[block + side, best]
                if item >= 0:
                    for entry in range(indptr[item], indptr[item + 1]):
                        category = indices[entry]
                        dcg[side] += worth[times[side, category]] * discount[rank]
                        lost = lost_in_bits[times[side, category]]
                        times[side, category] += 1
                        for place in range(k):
                            offers[side, place] -= lost & has[side, category, place]
                offers[side, best] = -1  # taken
                out[rank, block + side] = dcg[side]


@compiled
def growth(
    first: int, last: int, items: Any, indptr: Any, indices: Any, shares: Any, n_categories: int, out: Any
) -> None:
    amount, amount_log = np.empty(n_categories), np.empty(n_categories)
    log = np.log(np.arange(1, items.shape[1] + 1))  # of 1, 2, ...
    for user in range(first, last):
        amount[:] = 0.0
        amount_log[:] = 0.0
        covered, shared, total_log = 0, 0.0, 0.0
        n_items = 0  # with categories; their shares add up to 1 each
        for place in range(items.shape[1]):
            item = items[user, place]
            if item >= 0 and indptr[item] < indptr[item + 1]:
                n_items += 1
                for entry in range(indptr[item], indptr[item + 1]):
                    category = indices[entry]
                    before, before_log = amount[category], amount_log[category]
                    after = before + shares[entry]
                    after_log = after * np.log(after)
                    amount[category], amount_log[category] = after, after_log
                    covered += before == 0.0
                    shared += min(1.0, after) - min(1.0, before)
                    total_log += after_log - before_log
            out[0, place, user] = covered
            out[1, place, user] = shared
            out[2, place, user] = max(0.0, log[n_items - 1] - total_log / n_items) if n_items else 0.0


@compiled
def divergence(
    first: int, last: int, items: Any, indptr: Any, indices: Any, shares: Any, wanted: Any, alpha: float, out: Any
) -> None:
    """An item with categories changes all logarithms; other items leave the value as it is."""
    amount = np.empty(wanted.shape[1])
    for user in range(first, last):
        amount[:] = 0.0
        n_items, value = 0, 0.0  # items with categories; their shares add up to 1 each
        for category in range(len(amount)):
            value -= wanted[user, category] * np.log(alpha)  # only the mixed part so far
        for place in range(items.shape[1]):
            item = items[user, place]
            if item >= 0 and indptr[item] < indptr[item + 1]:
                n_items += 1
                for entry in range(indptr[item], indptr[item + 1]):
                    amount[indices[entry]] += shares[entry]
                value = 0.0
                for category in range(len(amount)):
                    p = wanted[user, category]
                    if p > 0:
                        value -= p * np.log((1 - alpha) * amount[category] / n_items / p + alpha)
            out[place, user] = max(0.0, value)


@compiled_loosely
def distance_sums(first: int, last: int, items: Any, unit: Any, known: Any, out: Any) -> None:
    earlier = np.empty(unit.shape[1], np.float32)
    for user in range(first, last):
        earlier[:] = 0.0
        n_earlier, total = 0, 0.0
        for place in range(items.shape[1]):
            item = items[user, place]
            cosines = np.float32(0.0)
            for i in range(len(earlier)):
                cosines += unit[item, i] * earlier[i]
                earlier[i] += unit[item, i]
            total += max(0.0, known[item] * n_earlier - cosines)
            n_earlier += known[item]
            out[place, user] = total


@compiled_loosely
def nearest(first: int, last: int, items: Any, unit: Any, known: Any, out: Any) -> None:
    """Compare with four earlier items at a time, so that the item's own vector is loaded once for all of them."""
    earlier = np.empty(items.shape[1] + 4, np.int64)
    for user in range(first, last):
        n_earlier, all_known = 0, True
        highest = np.float32(-1.0)
        for place in range(items.shape[1]):
            item = items[user, place]
            if item >= 0:
                if n_earlier == 0:
                    earlier[:] = item  # the last four are filled with the first item, which changes nothing
                for i in range(0, n_earlier if highest < SAME_DIRECTION else 0, 4):
                    a, b, c, d = earlier[i], earlier[i + 1], earlier[i + 2], earlier[i + 3]
                    cos_a, cos_b, cos_c, cos_d = np.float32(0.0), np.float32(0.0), np.float32(0.0), np.float32(0.0)
                    for column in range(unit.shape[1]):
                        value = unit[item, column]
                        cos_a += value * unit[a, column]
                        cos_b += value * unit[b, column]
                        cos_c += value * unit[c, column]
                        cos_d += value * unit[d, column]
                    highest = max(highest, cos_a, cos_b, cos_c, cos_d)
                earlier[n_earlier] = item
                n_earlier += 1
                all_known &= known[item]
            out[place, user] = max(0.0, 1.0 - highest) if n_earlier > 1 and all_known else 0.0
