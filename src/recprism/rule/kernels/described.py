"""Kernel that describes the items of a list, for goals that are functions of it."""

from __future__ import annotations

from typing import Any

from recprism.common.compile import compiled
from recprism.rule.kernels.arrays import table


@compiled
def describe(items: Any, indptr: Any, indices: Any, n_categories: int, unit: Any, known: Any) -> Any:
    """Return the categories of m items, (m, n_categories) of 0.0 and 1.0, and their unit vectors, (m, d).

    Args:
        items: Item numbers, (k,); -1 leaves a place empty.
        indptr: See ``recprism.rule.kernels.optimal.optimal``, like the others.
        indices: Categories of all items.
        n_categories: Number of categories.
        unit: Vectors.
        known: What each vector is multiplied by.
    """
    m = 0
    for place in range(len(items)):
        m += int(items[place] >= 0)
    categories, vectors = table(m, n_categories, 0.0), table(m, unit.shape[1], 0.0)
    row = 0
    for place in range(len(items)):
        item = items[place]
        if item < 0:
            continue
        for at in range(indptr[item], indptr[item + 1]):
            categories[row, indices[at]] = 1.0
        if item < len(unit):  # an item that an export does not know has no vector
            for f in range(unit.shape[1]):
                vectors[row, f] = unit[item, f] * known[item]
        row += 1
    return categories, vectors
