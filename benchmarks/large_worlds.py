"""What large.py, cost.py and million.py rank: made vectors in clusters of themes, and made interactions in Parquet."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from recprism.data import Categories
from recprism.models import Factors

CATEGORIES, CLUSTERS, HISTORY_WEIGHTS = 20, 4000, 4
BLOCK = 250_000
Vectors = NDArray[np.float32]


@dataclass(frozen=True)
class Catalogue:
    """Not trained: later factors count for less, some items are far more popular (longer) than others, as in trained.

    A block of users or of interactions hangs on the seed and on its own number alone.
    """

    n_users: int
    n_items: int
    dim: int
    seed: int = 0
    also: float = 0.06  # chance of each theme that is not the item's own

    @cached_property
    def _themes(self) -> tuple[NDArray[np.int64], Vectors]:
        """The theme of each cluster, and the clusters' centres."""
        rng = np.random.default_rng(self.seed)
        theme_of = rng.integers(0, CATEGORIES, CLUSTERS)
        normal = rng.standard_normal((CLUSTERS, self.dim), np.float32)
        return theme_of, np.float32(0.7) * rng.standard_normal((CATEGORIES, self.dim), np.float32)[theme_of] + normal

    @cached_property
    def _clusters(self) -> NDArray[np.int64]:
        """(n_items,) the cluster of each."""
        return np.random.default_rng([self.seed, 1]).integers(0, CLUSTERS, self.n_items)

    def items(self) -> Vectors:
        rng = np.random.default_rng([self.seed, 2])
        fading = np.arange(1, self.dim + 1, dtype=np.float32) ** -0.5
        length = np.exp(0.35 * rng.standard_normal((self.n_items, 1), np.float32)) / np.sqrt(np.square(fading).sum())
        near = self._themes[1][self._clusters] + 0.5 * rng.standard_normal((self.n_items, self.dim), np.float32)
        return np.asarray(near * fading * length, np.float32)

    def users(self) -> Vectors:
        made = np.empty((self.n_users, self.dim), np.float32)
        for start in range(0, self.n_users, BLOCK):
            rng = np.random.default_rng([self.seed, 3, start])
            some = made[start : start + BLOCK]
            rng.standard_normal(out=some, dtype=np.float32)
            some *= np.float32(0.3)
            some += self._themes[1][rng.integers(0, CLUSTERS, (len(some), HISTORY_WEIGHTS))].mean(1)
        return made

    def factors(self) -> Factors:
        return Factors.from_arrays(self.users(), self.items(), settings={"model": "made, not trained"})

    def categories(self) -> Categories:
        """The item's theme, and some by chance."""
        about = np.random.default_rng([self.seed, 4]).random((self.n_items, CATEGORIES), np.float32) < self.also
        about[np.arange(self.n_items), self._themes[0][self._clusters]] = True
        rows, categories = np.nonzero(about)
        return Categories.from_pairs(
            rows, np.array([f"category {at:02}" for at in range(CATEGORIES)])[categories], self.n_items
        )

    def write_interactions(self, folder: Path, n: int, per_file: int = 5_000_000) -> None:
        """Files of interactions in no order; a few items are popular, pairs may stand twice."""
        import polars as pl  # noqa: PLC0415 - not installed where the GPU is

        folder.mkdir(parents=True)
        catalogue = np.random.default_rng([self.seed, 5]).permutation(self.n_items)
        for number, start in enumerate(range(0, n, per_file)):
            rng = np.random.default_rng([self.seed, 6, number])
            size = min(per_file, n - start)
            rank = (self.n_items * rng.random(size) ** 2).astype(np.int64)
            columns = {"user_id": rng.integers(0, self.n_users, size), "item_id": catalogue[rank]}
            pl.DataFrame(columns).write_parquet(folder / f"part-{number:03}.parquet", compression="lz4")
