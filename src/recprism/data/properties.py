"""Named properties of items: the columns that named weights, reasons and choice models speak about."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from recprism.common.checks import finite_array, random_generator
from recprism.data.categories import Categories
from recprism.errors import InputError

Kind = Literal["category", "numeric", "popularity", "array", "cluster"]
RANGED: tuple[Kind, ...] = ("numeric", "popularity", "array")
"""Kinds of columns that a list newly covers where its largest value grows; the others where it has none so far."""
ROUNDS = 50
GROUPS = 10  # deciles of popularity
TYPICAL = 2


@dataclass(frozen=True, eq=False)
class Properties:
    """Named columns of numbers about items.

    Attributes:
        names: Names of the m columns, all distinct.
        values: ``(n_items, m)`` float32.
        kinds: What each column was made from.

    Stability: provisional.
    """

    names: tuple[str, ...]
    values: NDArray[np.float32]
    kinds: tuple[Kind, ...]

    def __post_init__(self) -> None:
        if self.values.ndim != 2 or not self.values.shape[1] == len(self.names) == len(self.kinds):
            raise InputError(
                f"properties have shape {self.values.shape}, {len(self.names)} names and {len(self.kinds)} kinds; "
                "pass one row per item, and one name and one kind per column"
            )
        twice = sorted(first for first, second in pairwise(sorted(self.names)) if first == second)
        if twice:
            raise InputError(f"two properties have the name {twice[0]!r}; rename one of them")

    def __len__(self) -> int:
        return len(self.names)

    @property
    def n_items(self) -> int:
        return len(self.values)

    @classmethod
    def from_categories(cls, categories: Categories) -> Properties:
        """Build one column per category, with its weight."""
        return cls(categories.names, categories.dense(), _all_of("category", len(categories)))

    @classmethod
    def from_array(cls, values: ArrayLike, names: Sequence[str], kind: Kind = "array") -> Properties:
        """Build from the caller's own ``(n_items, m)`` array and m names."""
        array = np.asarray(finite_array(values, "properties"), np.float32)
        return cls(tuple(str(name) for name in names), array, (kind,) * len(names))

    @classmethod
    def from_column(cls, name: str, values: Sequence[Any] | Any) -> Properties:
        """Build from one column of an item table.

        Numbers become two columns, scaled to 0 .. 1 and -1 .. 0, so that weights of at least 0 can go both ways. Items
        without a number get the mean. Text and lists of text become one column per value.

        Args:
            name: The name of the column, which begins the names of the properties.
            values: n_items numbers, texts, or lists of texts; None where an item has no value.

        Raises:
            InputError: The column has no values, holds infinity, or mixes numbers with text.
        """
        given = values.to_list() if hasattr(values, "to_list") else list(values)
        given = [None if isinstance(value, float) and math.isnan(value) else value for value in given]
        known = [value for value in given if value is not None]
        if not known:
            raise InputError(f"column {name!r} has no values; choose another column")
        numeric = [isinstance(value, int | float | np.number) and not isinstance(value, bool) for value in known]
        if all(numeric):
            numbers = np.array([np.nan if value is None else value for value in given], np.float64)
            if np.isinf(numbers).any():
                raise InputError(f"column {name!r} holds infinity; replace it by a number, or leave it empty")
            return _both_ways(name, numbers, "numeric")
        if any(numeric):
            raise InputError(f"column {name!r} mixes numbers with text; convert it to one of them")
        return _one_per_value(name, given)

    @classmethod
    def from_popularity(cls, counts: ArrayLike) -> Properties:
        """Build two columns, for popular and for rare items, from the ``(n_items,)`` numbers of interactions."""
        numbers = np.asarray(finite_array(counts, "counts", least=0), np.float64)
        return _both_ways("popularity", np.log1p(numbers), "popularity")

    @classmethod
    def from_clusters(
        cls,
        vectors: ArrayLike,
        titles: Sequence[str],
        n: int = 20,
        *,
        seed: int | np.random.Generator | None = 0,
    ) -> Properties:
        """Build one column per cluster of item vectors, for items without any metadata.

        The clusters are those of k-means on the directions of the vectors. Each is named by its most typical items.

        Args:
            vectors: ``(n_items, d)``.
            titles: n_items titles or ids.
            n: Number of clusters.
            seed: Of the first centres.

        Raises:
            InputError: There are fewer items than clusters, or the titles do not belong to the vectors.
        """
        points = np.asarray(finite_array(vectors, "item vectors"), np.float64)
        if points.ndim != 2 or len(titles) != len(points):
            raise InputError(f"{len(titles)} titles for item vectors of shape {points.shape}; pass one per item")
        if not 1 <= n <= len(points):
            raise InputError(f"{n} clusters of {len(points)} items; ask for 1 to {len(points)}")
        length = np.linalg.norm(points, axis=1, keepdims=True)
        points = points / np.where(length > 0, length, 1)
        centres = _k_means(points, n, random_generator(seed))
        near = points @ centres.T - (centres**2).sum(1) / 2
        cluster = near.argmax(1)
        held = [c for c in range(n) if (cluster == c).any()]
        names = []
        for c in held:
            typical = np.argsort(np.where(cluster == c, -near[:, c], np.inf), kind="stable")[:TYPICAL]
            names.append("like " + ", ".join(str(titles[i]) for i in typical if cluster[i] == c))
        names = [name if names.count(name) == 1 else f"{name} ({at + 1})" for at, name in enumerate(names)]
        values = (cluster[:, None] == np.array(held)).astype(np.float32)
        return cls(tuple(names), values, _all_of("cluster", len(held)))

    def joined(self, *others: Properties) -> Properties:
        """Return these columns and those of others, about the same items."""
        parts = (self, *others)
        if len({part.n_items for part in parts}) > 1:
            raise InputError(
                f"properties of {' and '.join(str(part.n_items) for part in parts)} items; pass the same items"
            )
        return Properties(
            tuple(name for part in parts for name in part.names),
            np.hstack([part.values for part in parts]),
            tuple(kind for part in parts for kind in part.kinds),
        )

    def of_columns(self, columns: Sequence[int]) -> Properties:
        """Return some columns, given by number."""
        kept = np.asarray(columns, np.int64)
        return Properties(tuple(self.names[j] for j in kept), self.values[:, kept], tuple(self.kinds[j] for j in kept))

    def of_items(self, items: ArrayLike) -> Properties:
        """Return the rows of items, given by number; -1 is an item that is not known.

        An unknown item has no category and no cluster, and the mean of every number.
        """
        rows = np.asarray(items, np.int64)
        ranged = np.array([kind in RANGED for kind in self.kinds], bool)
        unknown = np.where(ranged, self.values.mean(0), 0).astype(np.float32)
        return Properties(self.names, np.where(rows[:, None] >= 0, self.values[rows], unknown), self.kinds)

    def supported(self, candidates: ArrayLike, min_support: int = 2) -> Properties:
        """Drop columns that too few of the candidate items have.

        Args:
            candidates: Item numbers of any shape, such as the candidates of all users; -1 in empty places.
            min_support: How many distinct candidates must differ from the column's most frequent value.
        """
        items = np.unique(np.asarray(candidates))
        values = self.values[items[items >= 0]]
        support = np.array([len(column) - np.unique(column, return_counts=True)[1].max() for column in values.T])
        return self.of_columns(np.flatnonzero(support >= min_support).tolist() if len(values) else [])

    def newly_covered(self, lists: ArrayLike, base_lists: ArrayLike) -> NDArray[np.bool_]:
        """Tell which properties each list covers and its base list does not.

        A list covers a category if one of its items has it. A column of numbers counts as newly covered where the
        largest value of the list grows; as numbers have two columns, this is where their range grows.

        Args:
            lists: ``(n, k)`` item numbers; -1 in empty places.
            base_lists: ``(n, k)`` item numbers; -1 in empty places.

        Returns:
            ``(n, m)`` bool.
        """
        new, old = self._largest(np.asarray(lists)), self._largest(np.asarray(base_lists))
        ranged = np.array([kind in RANGED for kind in self.kinds], bool)
        return np.where(ranged, new > old, (new > 0) & ~(old > 0))

    def _largest(self, lists: NDArray[Any]) -> NDArray[np.float32]:
        largest = np.full((len(lists), len(self)), -np.inf, np.float32)
        for place in range(lists.shape[1]):
            there = lists[:, place] >= 0
            largest[there] = np.maximum(largest[there], self.values[lists[there, place]])
        return largest


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


def _all_of(kind: Kind, n: int) -> tuple[Kind, ...]:
    return (kind,) * n


def _both_ways(name: str, numbers: NDArray[np.float64], kind: Kind) -> Properties:
    low, high = np.nanmin(numbers), np.nanmax(numbers)
    scaled = (numbers - low) / (high - low if high > low else 1.0)
    scaled = np.where(np.isnan(scaled), np.nanmean(scaled), scaled).astype(np.float32)
    return Properties((f"{name}: high", f"{name}: low"), np.stack([scaled, -scaled], 1), (kind, kind))


def _one_per_value(name: str, given: list[Any]) -> Properties:
    held = [[] if it is None else list(it) if isinstance(it, list | tuple | set) else [it] for it in given]
    pairs = [(row, str(value)) for row, values in enumerate(held) for value in values]
    found = Categories.from_pairs(np.array([row for row, _ in pairs]), [value for _, value in pairs], len(given))
    return Properties(
        tuple(f"{name}: {value}" for value in found.names), found.dense(), _all_of("category", len(found))
    )


def _k_means(points: NDArray[np.float64], n: int, generator: np.random.Generator) -> NDArray[np.float64]:
    """Return ``(n, d)`` centres; the first ones are spread out as in k-means++."""
    centres: NDArray[np.float64] = points[generator.integers(len(points))][None]
    nearest = ((points - centres[0]) ** 2).sum(1)
    while len(centres) < n:
        share = nearest / nearest.sum() if nearest.sum() > 0 else None
        centres = np.vstack([centres, points[generator.choice(len(points), p=share)]])
        nearest = np.minimum(nearest, ((points - centres[-1]) ** 2).sum(1))
    before = None
    for _ in range(ROUNDS):
        cluster = (points @ centres.T - (centres**2).sum(1) / 2).argmax(1)
        if before is not None and (cluster == before).all():
            break
        before = cluster
        for c in np.unique(cluster):
            centres[c] = points[cluster == c].mean(0)
    return centres
