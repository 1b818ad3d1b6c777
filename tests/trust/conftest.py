"""A small world with tastes in it, and the same world with its test labels replaced by random ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest

from recprism.data import Dataset, load_files
from recprism.data.sparse_rows import SparseRows
from recprism.data.split import Split

USERS, ITEMS, KINDS = 90, 70, 5


@dataclass(frozen=True)
class Files:
    """What the world is as files: rows of text, header first."""

    interactions: list[str]
    categories: list[str]


@pytest.fixture(scope="session")
def files() -> Files:
    """Every user likes two of five kinds, mostly; every item is of one kind or two."""
    luck = np.random.default_rng(7)
    kinds = [sorted({int(i % KINDS), int(luck.integers(KINDS))}) for i in range(ITEMS)]
    rows = []
    for user in range(USERS):
        liked = luck.choice(KINDS, 2, replace=False)
        weight = np.array([6.0 if set(kinds[i]) & set(liked.tolist()) else 0.5 for i in range(ITEMS)])
        weight *= np.linspace(2.0, 0.5, ITEMS)
        taken = luck.choice(ITEMS, 20, replace=False, p=weight / weight.sum())
        rows += [f"{100 + user},{500 + item}" for item in taken.tolist()]
    categories = [f"{500 + item},k{kind}" for item in range(ITEMS) for kind in kinds[item]]
    return Files(["user_id,item_id", *rows], ["item_id,category", *categories])


@pytest.fixture(scope="session")
def world(files: Files, tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    folder = tmp_path_factory.mktemp("world")
    (folder / "a.csv").write_text("\n".join(files.interactions) + "\n", encoding="utf-8")
    (folder / "s.csv").write_text("\n".join(files.categories) + "\n", encoding="utf-8")
    return load_files(folder / "a.csv", categories=folder / "s.csv")


@pytest.fixture(scope="session")
def split(world: Dataset) -> Split:
    return world.split(seed=0)


@pytest.fixture(scope="session")
def with_random_test() -> Callable[[Split], Split]:
    """As many test labels for every user, drawn at random from what the user did not take before."""

    def scrambled(split: Split) -> Split:
        luck = np.random.default_rng(11)
        seen = split.seen_before_test
        pairs: list[tuple[int, int]] = []
        for user, count in enumerate(split.test.row_counts.tolist()):
            free = np.setdiff1d(np.arange(split.n_items), seen.indices[seen.indptr[user] : seen.indptr[user + 1]])
            pairs += [(user, int(item)) for item in luck.choice(free, count, replace=False)]
        user, item = np.array(pairs).T
        return replace(split, test=SparseRows.from_pairs(user, item, split.test.shape))

    return scrambled


@pytest.fixture(scope="session")
def other(split: Split, with_random_test: Callable[[Split], Split]) -> Split:
    found = with_random_test(split)
    assert len(found.test) == len(split.test)
    assert not np.array_equal(found.test.indices, split.test.indices)
    return found
