"""The value of any list under the rule, split into parts that add up to what the search maximises."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recprism.rerank._kernels.worth import (
    ACCURACY,
    ALPHA_DCG,
    BY_RELEVANCE,
    DISTANCE,
    HISTORY_WEIGHT,
    REPEATS,
    SHOWN,
    SUBTOPIC,
)
from recprism.rerank._pool import Pool
from recprism.rerank._terms import Terms
from recprism.rerank.features import Features
from recprism.rerank.optimal import Optimal, terms_of

PARTS = ("relevance", "coverage", "alpha_dcg", "distance", "exposure", "history")
MAX_CELLS = 1 << 22  # float64 values of the largest temporary array

Ints = NDArray[np.int64]
Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Parts:
    """The parts of the value of lists; all of them together are the objective.

    A subtopic of an item is an entry. It is credited with what it adds to the entries of earlier places: the first item
    of a subtopic brings it.

    Attributes:
        relevance: Discounted relevance of each place, (n, k).
        distance: Half of the distances of each item to the others, (n, k), so that a pair counts once.
        exposure: Value of each item that no other list shows, (n, k).
        row: The list of each entry, (m,).
        place: Its place, (m,), from 0.
        subtopic: Its subtopic, (m,).
        coverage: Value of a subtopic that no earlier place has, (m,).
        alpha_dcg: Value of the entry in alpha-DCG or ERR-IA, (m,).
        history: Value of the entry for the user's history, (m,).
    """

    relevance: Array
    distance: Array
    exposure: Array
    row: Ints
    place: Ints
    subtopic: Ints
    coverage: Array
    alpha_dcg: Array
    history: Array

    def of(self, part: str) -> Array:
        """Return one part of each list, (n,)."""
        values: Array = getattr(self, part)
        if values.ndim == 2:
            return np.asarray(values.sum(1))
        return np.asarray(np.bincount(self.row, weights=values, minlength=len(self.relevance)), np.float64)

    def by_list(self) -> dict[str, Array]:
        """Return part -> its value in each list, (n,)."""
        return {part: self.of(part) for part in PARTS}

    @property
    def total(self) -> Array:
        """The objective of each list, (n,)."""
        return np.asarray(sum(self.by_list().values()))

    def by_subtopic(self, part: str, n_subtopics: int) -> Array:
        """Return what each subtopic is worth in coverage, alpha_dcg or history over all lists, (n_subtopics,)."""
        found = np.bincount(self.subtopic, weights=getattr(self, part), minlength=n_subtopics)
        return np.asarray(found, np.float64)


@dataclass(frozen=True, eq=False)
class Objective:
    """What the search of a rule maximises, for any list.

    Attributes:
        terms: Data and prices, as the search uses them.
    """

    terms: Terms

    @classmethod
    def of(cls, method: Optimal, pool: Pool, k: int, features: Features) -> Objective:
        """Return the objective of lists of k places for the users of a pool."""
        return cls(terms_of(method, pool, k, features))

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
        items, real = np.asarray(items, np.int64), np.asarray(items) >= 0
        users = np.arange(len(items)) if users is None else users
        prices, discount = self.terms.prices, self.terms.discount[: items.shape[1]]
        alone = real if shown is None else real & (shown[items] == 0)
        row, place, subtopic, earlier, order = self._entries(items)
        coverage = prices[SUBTOPIC] * (earlier == 0)
        gain = 1 - prices[BY_RELEVANCE] * (1 - np.where(real, relevance, 0.0)[row, place])
        left = _left(1 - prices[REPEATS] * gain, earlier, order)
        alpha_dcg = prices[ALPHA_DCG] * gain * left * self.terms.fading[place]
        history = np.zeros(len(row))
        if prices[HISTORY_WEIGHT] > 0:
            step = self.terms.filling[earlier + 1] - self.terms.filling[earlier]
            history = prices[HISTORY_WEIGHT] * self.terms.intents[users[row], subtopic] * step
        return Parts(
            relevance=prices[ACCURACY] * np.where(real, relevance, 0.0) * discount,
            distance=prices[DISTANCE] * self._distances(items, real) if prices[DISTANCE] > 0 else np.zeros(items.shape),
            exposure=prices[SHOWN] * alone,
            row=row,
            place=place,
            subtopic=subtopic,
            coverage=coverage,
            alpha_dcg=alpha_dcg,
            history=history,
        )

    def distance_by_subtopic(self, items: NDArray[Any]) -> Array:
        """Split the distances of all pairs by the dimensions of their unit vectors, (n, d).

        The distance of two unit vectors a and b is the sum over dimensions of (a - b) ** 2 / 2. For distances between
        subtopics, the dimensions are the subtopics.

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

    def _entries(self, items: Ints) -> tuple[Ints, Ints, Ints, Ints, Ints]:
        """Describe the entries, (m,) each.

        Returns:
            List, place and subtopic of each entry; how often the list has the subtopic before; and the entries in the
            order of list, subtopic and place.
        """
        indptr, indices, n_subtopics = self.terms.subtopics
        first = np.where(items >= 0, indptr[items], 0).ravel()
        count = np.where(items >= 0, indptr[items + 1] - indptr[items], 0).ravel()
        owner = np.repeat(np.arange(items.size), count)
        start = np.cumsum(count) - count
        subtopic = indices[first[owner] + np.arange(len(owner)) - start[owner]].astype(np.int64)
        row, place = owner // items.shape[1], owner % items.shape[1]
        key = row * n_subtopics + subtopic
        order = np.argsort(key, kind="stable")  # entries of one list and subtopic, in the order of places
        sorted_keys = key[order]
        new = np.append(True, sorted_keys[1:] != sorted_keys[:-1])[: len(key)]
        at = np.arange(len(key))
        earlier = np.empty(len(key), np.int64)
        earlier[order] = at - np.maximum.accumulate(np.where(new, at, 0))
        return row, place, subtopic, earlier, order

    def _distances(self, items: Ints, real: NDArray[np.bool_]) -> Array:
        """Return half the sum of distances of each item to the others of its list, (n, k)."""
        unit, known = self.terms.directions
        found = np.empty(items.shape)
        for rows in _blocks(len(items), items.shape[1] * unit.shape[1]):
            use = real[rows] & known[items[rows]]
            vectors = unit[items[rows]]
            apart = (1 - vectors @ vectors.transpose(0, 2, 1)) * (use[:, :, None] & use[:, None, :])
            apart[:, np.arange(items.shape[1]), np.arange(items.shape[1])] = 0.0
            found[rows] = apart.sum(2) / 2
        return found


def _left(factors: Array, earlier: Ints, order: Ints) -> Array:
    """Return what earlier entries of the same list and subtopic leave of it, (m,): the product of their factors."""
    left = np.ones(len(factors))
    position = np.empty(len(order), np.int64)
    position[order] = np.arange(len(order))
    for times in range(1, int(earlier.max(initial=0)) + 1):
        entries = np.flatnonzero(earlier == times)
        before = order[position[entries] - 1]
        left[entries] = left[before] * factors[before]
    return left


def _blocks(n: int, cells: int) -> list[slice]:
    step = max(1, MAX_CELLS // max(1, cells))
    return [slice(first, first + step) for first in range(0, n, step)]
