"""Categories of items: genres, categories, or any labels of which an item can have several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recprism.common.checks import finite_array, float32_array, whole_array
from recprism.data.sparse_rows import SparseRows
from recprism.errors import InputError

GROUPS = 10  # deciles of popularity


@dataclass(frozen=True, eq=False)
class Categories:
    """Which item has which category.

    Attributes:
        names: The categories, sorted.
        items: Items x categories.
        weights: ``(n_entries,)`` one per entry of ``items``, or None for 1 each.
    """

    names: tuple[str, ...]
    items: SparseRows
    weights: NDArray[np.float32] | None = None

    @classmethod
    def from_pairs(
        cls,
        item: NDArray[Any],
        category: Sequence[str] | NDArray[Any],
        n_items: int,
        weights: NDArray[Any] | None = None,
    ) -> Categories:
        """Build from parallel arrays; of a repeated pair, the last weight counts, and a weight of 0 means no pair.

        Args:
            item: ``(n,)`` item numbers.
            category: ``(n,)`` category names.
            n_items: Number of items.
            weights: ``(n,)`` weights, or None for 1 each.

        Raises:
            InputError: An item number is outside the catalogue, or a weight is negative or not finite.
        """
        names, number = np.unique(np.asarray(category, dtype=str), return_inverse=True)
        item = whole_array(item, "item numbers")
        items = SparseRows.from_pairs(item, number, (n_items, len(names)))
        aligned = None
        if weights is not None:
            given = float32_array(finite_array(weights, "weights of categories", least=0), "weights of categories")
            if given.shape != item.shape:
                raise InputError(f"weights of categories have shape {given.shape}; pass {len(item)}, one per pair")
            aligned = np.ones(len(items), np.float32)
            aligned[np.searchsorted(items.keys, item * len(names) + number)] = given
            if not aligned.all():
                held = aligned > 0
                return cls.from_pairs(items.row_of_entry[held], names[items.indices[held]], n_items, aligned[held])
        return cls(tuple(str(name) for name in names), items, aligned)

    def __len__(self) -> int:
        return len(self.names)

    @property
    def items_without(self) -> int:
        """Number of items without any category."""
        return int((self.items.row_counts == 0).sum())

    def dense(self) -> NDArray[np.float32]:
        """``(n_items, n_categories)`` weights, 0 where the item does not have the category."""
        full = np.zeros(self.items.shape, np.float32)
        full[self.items.row_of_entry, self.items.indices] = 1.0 if self.weights is None else self.weights
        return full

    def take_items(self, items: NDArray[Any]) -> Categories:
        """Return the categories of the given items; those that no item has are dropped."""
        kept = self.items.take_rows(items)
        weights = None
        if self.weights is not None:
            weights = self.dense()[np.asarray(items)[kept.row_of_entry], kept.indices]
        names = np.asarray(self.names, dtype=object)[kept.indices]
        return Categories.from_pairs(kept.row_of_entry, names, len(items), weights)


def shuffled_within(popularity: NDArray[Any], generator: np.random.Generator) -> NDArray[np.int64]:
    """Return a permutation of items that keeps each among items of similar popularity, (n_items,).

    A shuffle among all items would also change how popular each category is, and controls would differ for that reason
    alone.

    Args:
        popularity: Interactions per item, (n_items,).
        generator: Source of the draws.
    """
    order = np.argsort(popularity, kind="stable")
    found = np.empty(len(order), np.int64)
    for members in np.array_split(order, GROUPS):
        found[members] = generator.permutation(members)
    return found
