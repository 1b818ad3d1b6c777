"""Permutations of items for controls."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

GROUPS = 10  # deciles of popularity


def shuffled_within(
    popularity: NDArray[Any], generator: np.random.Generator, groups: int = GROUPS
) -> NDArray[np.int64]:
    """Return a permutation of items that keeps each among items of similar popularity, (n_items,).

    A shuffle among all items would also change how popular each category is, and controls would differ for that reason
    alone.

    Args:
        popularity: Interactions per item, (n_items,).
        generator: Source of the draws.
        groups: Number of groups of equal size.
    """
    order = np.argsort(popularity, kind="stable")
    found = np.empty(len(order), np.int64)
    for members in np.array_split(order, groups):
        found[members] = generator.permutation(members)
    return found
