"""Lists with one place free: who could fill it, and what each candidate would add."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from recprism.common.checks import finite_array, whole_array
from recprism.data.categories import Categories
from recprism.data.sparse_rows import SparseRows
from recprism.errors import InputError
from recprism.explain._kernels.choice import fill_features, find_alternatives
from recprism.rule.pool import Pool

Array = NDArray[np.float64]
IntArray = NDArray[np.int64]

FEATURES = (
    "score",
    "score_squared",
    "popularity",
    "new_categories",
    "redundancy",
    "mean_similarity",
    "largest_similarity",
    "history",
    "new_history",
    "unfilled_history",
    "calibration",
)
"""The columns that ``_kernels.choice.fill_features`` fills."""
SCORES = 2  # the first features: those of the model with scores alone
PLAIN = 3  # the first features that need no categories: scores and popularity
ALPHA = 0.01  # as in calibrated re-ranking
MOST_LEVELS = 32  # different shares of an item among its categories, for which logarithms are kept


@dataclass(frozen=True, eq=False)
class CategoryRows:
    """The categories of items in compressed rows.

    Attributes:
        names: ``(n_categories,)`` names.
        indptr: ``(n_items + 1,)``.
        indices: ``(n_entries,)``.
        unit: ``(n_entries,)`` weights, scaled so that the squares of a row sum to 1.
        shares: ``(n_entries,)`` weights, scaled so that a row sums to 1.
        levels: ``(n_entries,)`` the number of the value of ``shares``, from 1. All are 0 if there are many values.
    """

    names: tuple[str, ...]
    indptr: IntArray
    indices: IntArray
    unit: Array
    shares: Array
    levels: IntArray

    @property
    def n_items(self) -> int:
        return len(self.indptr) - 1

    @classmethod
    def of(cls, categories: Categories | SparseRows | Any) -> CategoryRows:
        """Take categories, a sparse matrix (entries count 1), or ``(n_items, n_categories)`` weights of at least 0."""
        if isinstance(categories, Categories):
            names, rows, weights = categories.names, categories.items, categories.weights
        else:
            rows = SparseRows.coerce(categories, "categories")
            names = tuple(str(number) for number in range(rows.n_cols))
            dense = (
                None if isinstance(categories, SparseRows) or hasattr(categories, "tocoo") else np.asarray(categories)
            )
            weights = None if dense is None else dense[rows.row_of_entry, rows.indices]
        if not len(rows):
            raise InputError("no item has a category, so categories explain no list; pass categories of the items")
        weight = np.ones(len(rows)) if weights is None else weights.astype(np.float64)
        sums, squares = (np.bincount(rows.row_of_entry, it, rows.n_rows) for it in (weight, weight**2))
        entry = rows.row_of_entry
        unit, shares = weight / np.sqrt(squares[entry]), weight / sums[entry]
        values, levels = np.unique(shares, return_inverse=True)
        levels = levels + 1 if len(values) <= MOST_LEVELS else np.zeros(len(shares), np.int64)
        return cls(names, rows.indptr, rows.indices.astype(np.int64), unit, shares, levels.astype(np.int64))


@dataclass(frozen=True, eq=False)
class Places:
    """Lists of some users and all that features are computed from.

    Attributes:
        items: ``(n_users, n)`` candidates, best first, -1 at the end.
        relevance: ``(n_users, n)`` scores scaled to 0 .. 1 per user.
        lists: ``(n_users, k)`` item numbers, -1 in empty places.
        history: ``(n_users, n_categories)`` shares of the user's history; zeros if not known.
        popularity: ``(n_items,)`` log2 of 1 + popularity; zeros if not known.
        categories: The categories of the items.
    """

    items: IntArray
    relevance: Array
    lists: IntArray
    history: Array
    popularity: Array
    categories: CategoryRows

    @classmethod
    def of(
        cls,
        candidates: NDArray[Any],
        scores: NDArray[Any],
        lists: NDArray[Any],
        categories: CategoryRows,
        history: NDArray[Any] | None,
        popularity: NDArray[Any] | None,
    ) -> Places:
        """Check the arrays; see :func:`recprism.explain.fit_choice_model`."""
        pool = Pool.of(candidates, scores, torch.device("cpu"), categories.n_items)
        checked = check_lists(lists, "new lists", pool.n_users, categories.n_items)
        shape = (pool.n_users, len(categories.names))
        taste = np.zeros(shape) if history is None else finite_array(history, "history over categories", least=0)
        if taste.shape != shape:
            raise InputError(f"history has shape {taste.shape}; pass {shape}, a row per user and a column per category")
        total = taste.sum(1, keepdims=True)
        taste = np.divide(taste, total, out=np.zeros(shape), where=total > 0)
        known = np.zeros(categories.n_items)
        if popularity is not None:
            known = np.log2(1 + finite_array(popularity, "popularity", least=0).astype(np.float64))
        if known.shape != (categories.n_items,):
            raise InputError(f"popularity has shape {known.shape}; pass ({categories.n_items},), one value per item")
        return cls(pool.items.numpy(), pool.relevance.numpy(), checked, taste, known, categories)

    def of_users(self, users: IntArray) -> Places:
        per_user = (self.items[users], self.relevance[users], self.lists[users], self.history[users])
        return Places(*per_user, self.popularity, self.categories)

    def slots(self, which: IntArray) -> Slots:
        """Find the alternatives of ``(n_slots, 2)`` slots: user and place, ordered by user."""
        alternatives = np.zeros((len(which), self.items.shape[1]), np.int64)
        counts, chosen = np.zeros((2, len(which)), np.int64)
        find_alternatives(self.items, self.lists, which, alternatives, counts, chosen)
        return Slots(which, alternatives, counts, chosen)

    def features(self, slots: Slots, row_of: IntArray | None = None, out: Array | None = None) -> Array:
        """Compute ``(n_slots, n_features, n)`` features.

        Args:
            slots: The slots.
            row_of: ``(n_items,)`` whose categories each item has; its own by default.
            out: Where to write them; a new array by default.
        """
        rows = np.arange(self.categories.n_items) if row_of is None else row_of
        own = self.categories
        out = np.empty((len(slots.which), len(FEATURES), self.items.shape[1])) if out is None else out
        about_slots = (slots.which, slots.alternatives, slots.counts)
        about_users = (self.items, self.relevance, self.lists, self.history)
        categories = (own.indptr, own.indices, own.unit, own.shares, own.levels)
        n_levels = int(own.levels.max()) + 1
        fill_features(about_slots, about_users, (rows, self.popularity), categories, n_levels, ALPHA, out)
        return out


@dataclass(frozen=True, eq=False)
class Slots:
    """Places that are free, and their alternatives.

    Attributes:
        which: ``(n_slots, 2)`` user and place.
        alternatives: ``(n_slots, n)`` positions among the user's candidates.
        counts: ``(n_slots,)`` number of alternatives.
        chosen: ``(n_slots,)`` the alternative that the list has; -1 if its item is no candidate.
    """

    which: IntArray
    alternatives: IntArray
    counts: IntArray
    chosen: IntArray


def check_lists(lists: NDArray[Any], name: str, n_users: int, n_items: int) -> IntArray:
    """Return lists as whole numbers; refuse wrong shapes, unknown items, and an item twice in one list."""
    found = whole_array(lists, name)
    if found.ndim != 2 or len(found) != n_users:
        raise InputError(f"{name} have shape {found.shape}; pass ({n_users}, k), a row per user with candidates")
    if found.size and (found.min() < -1 or found.max() >= n_items):
        raise InputError(f"{name}: item numbers go from 0 to {n_items - 1}, and -1 is an empty place")
    ordered = np.sort(found, axis=1)
    twice = ((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)).any(1)
    if twice.any():
        raise InputError(f"{name}: the list of user {int(np.argmax(twice))} has an item twice; each may occur once")
    return np.ascontiguousarray(found, np.int64)
