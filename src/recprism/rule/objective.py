"""The value of any list under the rule, split into parts that add up to what the search maximises."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recprism.rule.features import Features
from recprism.rule.kernels.parts import PARTS, value_lists
from recprism.rule.kernels.worth import DISTANCE, OF_FUNCTION
from recprism.rule.list_search import ListSearch, terms_of
from recprism.rule.pool import Pool
from recprism.rule.terms import Terms

OF_FUNCTION_PART = "function"
MAX_CELLS = 1 << 22  # float64 values of the largest temporary array

Ints = NDArray[np.int64]
Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Parts:
    """The parts of the value of lists; all of them together are the objective.

    Attributes:
        values: Relevance, coverage, alpha_dcg (or ERR-IA), distance, exposure and history of each list, (n, 6), and
            what a function of the list adds, if there is one, (n, 7).
        by_category: Coverage and alpha_dcg by name: what each category is worth over all lists, (n_categories,).
    """

    values: Array
    by_category: Mapping[str, Array]

    def of(self, part: str) -> Array:
        """Return one part of each list, (n,)."""
        return np.asarray(self.values[:, (*PARTS, OF_FUNCTION_PART).index(part)])

    @property
    def total(self) -> Array:
        """The objective of each list, (n,)."""
        return np.asarray(self.values.sum(1))


@dataclass(frozen=True, eq=False)
class Objective:
    """What the search of a rule maximises, for any list.

    Attributes:
        terms: Data and prices, as the search uses them.
    """

    terms: Terms

    @classmethod
    def of(cls, method: ListSearch, pool: Pool, k: int, features: Features) -> Objective:
        """Return the objective of lists of k places for the users of a pool."""
        return cls(terms_of(method, pool, k, features))

    def arrays(self, shown: Ints | None = None) -> tuple[Any, ...]:
        """Return what kernels need to value lists; ``shown``: see :meth:`parts`."""
        return self.terms.arrays(np.zeros(len(self.terms.categories[0]), np.int64) if shown is None else shown)

    def parts(
        self, items: NDArray[Any], relevance: NDArray[Any], *, users: Ints | None = None, shown: Ints | None = None
    ) -> Parts:
        """Split the value of lists.

        Args:
            items: Item numbers, (n, k) with k up to the objective's length; -1 leaves a place empty.
            relevance: Their relevance from 0 to 1 as in the pool, (n, k); ignored in empty places.
            users: The user of each list, (n,), a row of the pool; list i belongs to user i by default.
            shown: How many other lists show each item, (n_items,); 0 by default.
        """
        rows = np.arange(len(items)) if users is None else users
        values, by_category = np.zeros((len(items), len(PARTS))), np.zeros((2, self.terms.categories[2]))
        lists = np.ascontiguousarray(items, np.int64), np.ascontiguousarray(relevance, np.float64)
        value_lists(*lists, rows, values, by_category, *self.arrays(shown))
        if (function := self.terms.function) is not None:
            priced = self.terms.prices[OF_FUNCTION] * function.values(lists[0], *self.terms.data)
            values = np.column_stack([values, priced])
        return Parts(values, dict(zip(("coverage", "alpha_dcg"), by_category, strict=True)))

    def distance_by_category(self, items: NDArray[Any]) -> Array:
        """Split the distances of all pairs by the dimensions of their unit vectors, (n, d).

        The distance of two unit vectors a and b is the sum over dimensions of (a - b) ** 2 / 2. For distances between
        categories, the dimensions are the categories.

        Args:
            items: Item numbers, (n, k); -1 in empty places.
        """
        unit, known = self.terms.directions
        found = np.empty((len(items), unit.shape[1]))
        for rows in _blocks(len(items), items.shape[1] * unit.shape[1]):
            use = (items[rows] >= 0) & known[items[rows]]
            vectors = unit[items[rows]] * use[:, :, None]
            found[rows] = (use.sum(1)[:, None] * (vectors**2).sum(1) - vectors.sum(1) ** 2) / 2
        return np.asarray(self.terms.prices[DISTANCE] * found)


def _blocks(n: int, cells: int) -> list[slice]:
    step = max(1, MAX_CELLS // max(1, cells))
    return [slice(first, first + step) for first in range(0, n, step)]
