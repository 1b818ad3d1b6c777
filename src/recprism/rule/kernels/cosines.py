"""Cosines of items, the same bits wherever they are computed: each sum runs over the dimensions in order.

The vectors are kept as columns, so that the loop over items is the inner one. It has no sum over itself that a
processor could reorder. Four dimensions, or four items, in one pass of a loop take fewer reads and writes.
"""

from __future__ import annotations

from typing import Any

from recprism.common.compile import compiled_inside_uncounted


@compiled_inside_uncounted
def write_columns(items: Any, unit: Any, known: Any, columns: Any) -> None:
    """Write the vectors of items as columns.

    Args:
        items: Item numbers, (n,); n_items is an item without a vector.
        unit: Vectors, (n_items, d).
        known: What each vector is multiplied by to have length 1, (n_items,): 1 or True for one that has it, 0 or False
            for one that is zero.
        columns: Receives the vectors, (d, at least n).
    """
    n, last, c = len(items), len(unit) - 1, 0
    while c + 4 <= n:
        a, by_a = min(items[c], last), known[items[c]]
        b, by_b = min(items[c + 1], last), known[items[c + 1]]
        third, by_third = min(items[c + 2], last), known[items[c + 2]]
        fourth, by_fourth = min(items[c + 3], last), known[items[c + 3]]
        for f in range(unit.shape[1]):
            columns[f, c] = unit[a, f] * by_a
            columns[f, c + 1] = unit[b, f] * by_b
            columns[f, c + 2] = unit[third, f] * by_third
            columns[f, c + 3] = unit[fourth, f] * by_fourth
        c += 4
    while c < n:
        row, by = min(items[c], last), known[items[c]]
        for f in range(unit.shape[1]):
            columns[f, c] = unit[row, f] * by
        c += 1


@compiled_inside_uncounted
def write_distances(items: Any, known: Any, columns: Any, past: Any, out: Any) -> None:
    """Write the sum of the weighted distances of each item to the items of earlier pages; 0 if its vector is zero.

    Args:
        items: Item numbers, (n,).
        known: See :func:`write_columns`.
        columns: What it wrote.
        past: Weighted sum of the unit vectors of earlier pages, then the sum of the weights, (d + 1,); (0,) for none.
        out: Receives the sums, (at least n,).
    """
    for c in range(len(items)):
        total = 0.0
        if len(past) > 0 and known[items[c]] != 0:
            total = past[len(columns)]
            for f in range(len(columns)):
                total -= columns[f, c] * past[f]
        out[c] = total


@compiled_inside_uncounted
def write_cosines(position: int, items: Any, known: Any, columns: Any, out: Any) -> None:
    """Write the cosines of one item and each of n; 1 if a vector is zero, so that the pair has no distance.

    Args:
        position: Position of the item in ``items``.
        items: Item numbers, (n,).
        known: See :func:`write_columns`.
        columns: What it wrote.
        out: Receives the cosines, (at least n,).
    """
    n, d, f = len(items), len(columns), 0
    out[:n] = 0.0
    while f + 4 <= d:
        a0, a1, a2, a3 = (
            columns[f, position],
            columns[f + 1, position],
            columns[f + 2, position],
            columns[f + 3, position],
        )
        for c in range(n):
            first = (out[c] + a0 * columns[f, c]) + a1 * columns[f + 1, c]
            out[c] = (first + a2 * columns[f + 2, c]) + a3 * columns[f + 3, c]
        f += 4
    while f < d:
        own = columns[f, position]
        for c in range(n):
            out[c] += own * columns[f, c]
        f += 1
    for c in range(n):
        if known[items[c]] == 0 or known[items[position]] == 0:
            out[c] = 1.0
    out[position] = 1.0
