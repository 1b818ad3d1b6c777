"""A data set ready to be split: interactions, categories and attributes of the same items."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from recprism.common.display import Displayed
from recprism.common.ids import id_series
from recprism.data.categories import Categories
from recprism.data.frames import attributes_from_frame, categories_from_frame, interactions_from_frame
from recprism.data.interactions import DuplicatePolicy, Interactions, drop_duplicates, keep_frequent, keep_positives
from recprism.data.readers.categories import CategorySummary, summarise
from recprism.data.split import Split, split_interactions
from recprism.errors import InputError


@dataclass(frozen=True)
class Preparation:
    """How raw interactions are cleaned before they are split.

    Attributes:
        threshold: The lowest rating that counts as a positive; lower ratings are dropped. None keeps every interaction.
        duplicates: Which of several interactions of one user with one item is kept.
        min_user: Users with fewer positives are dropped.
        min_item: Items with fewer positives are dropped. The two rules repeat until nothing changes.
    """

    threshold: float | None = None
    duplicates: DuplicatePolicy = "last"
    min_user: int = 1
    min_item: int = 1

    def __post_init__(self) -> None:
        if self.min_user < 1 or self.min_item < 1:
            raise InputError(f"min_user={self.min_user} and min_item={self.min_item} must be at least 1")


@dataclass(frozen=True)
class Tables:
    """What a loader reads, before any of it is interpreted.

    Attributes:
        interactions: The columns user_id, item_id[, rating, timestamp].
        categories: The columns item_id, category[, weight], or None.
        items: The column item_id and any others (title, year, tags, ...), or None.
        where: What errors call the interactions, such as the name of a file.
        categories_where: What errors call the categories.
        items_where: What errors call the items.
        category_source: How the categories were read from a file, in words.
    """

    interactions: pl.DataFrame
    categories: pl.DataFrame | None = None
    items: pl.DataFrame | None = None
    where: str = "interactions"
    categories_where: str = "categories"
    items_where: str = "items"
    category_source: str = ""


@dataclass(frozen=True, eq=False, repr=False)
class Dataset(Displayed):
    """Interactions with the categories and attributes of the same items.

    Attributes:
        name: What reports call the data set.
        interactions: The interactions after cleaning.
        categories: Categories of the items, in the order of ``interactions.item_ids``.
        attributes: One row per item, in the same order: item_id and any other columns.
        preparation: How the interactions were cleaned.
        category_source: How the categories were read from a file, in words.
    """

    name: str
    interactions: Interactions
    categories: Categories
    attributes: pl.DataFrame
    preparation: Preparation
    category_source: str = ""

    @property
    def category_summary(self) -> CategorySummary:
        """Summary of the items' categories and of how they were read."""
        return summarise(self.categories, self.category_source)

    @classmethod
    def from_tables(cls, name: str, tables: Tables, preparation: Preparation | None = None) -> Dataset:
        """Interpret, clean and align the tables of a loader."""
        raw = interactions_from_frame(tables.interactions, where=tables.where)
        found = cls.from_interactions(
            *(name, raw, tables.categories, tables.items, preparation),
            where=tables.where,
            categories_where=tables.categories_where,
            items_where=tables.items_where,
        )
        return replace(found, category_source=tables.category_source)

    @classmethod
    def from_interactions(
        cls,
        name: str,
        raw: Interactions,
        categories: Any = None,
        items: Any = None,
        preparation: Preparation | None = None,
        *,
        where: str = "interactions",
        categories_where: str = "categories",
        items_where: str = "items",
    ) -> Dataset:
        """Clean interactions, and align the category table and the item table to them.

        Args:
            name: What reports call the data set.
            raw: The interactions.
            categories: A long table item_id, category[, weight].
            items: A table with item_id and any other columns.
            preparation: How the interactions are cleaned.
            where: What errors call the interactions.
            categories_where: What errors call the categories.
            items_where: What errors call the items.

        Raises:
            InputError: No interaction is left, or a table does not fit.
        """
        preparation = preparation or Preparation()
        kept = prepare(raw, preparation)
        if not len(kept):
            raise InputError(
                f"{where}: nothing is left of {len(raw)} interactions after {_in_words(preparation)}; ask for less"
            )
        ids = kept.item_ids
        empty = Categories.from_pairs(np.empty(0, np.int64), np.empty(0, str), len(ids))
        return cls(
            name,
            kept,
            empty if categories is None else categories_from_frame(categories, ids, where=categories_where),
            attributes_from_frame(
                pl.DataFrame({"item_id": id_series(ids)}) if items is None else items, ids, where=items_where
            ),
            preparation,
        )

    def split(self, method: str = "random", *, seed: int = 0, **options: Any) -> Split:
        """Split the interactions; see :func:`recprism.data.split.split_interactions`."""
        return split_interactions(self.interactions, method, seed=seed, **options)

    def to_dict(self) -> dict[str, Any]:
        """Return the name and the counts of :meth:`stats`."""
        return {"name": self.name, **self.stats()}

    def stats(self) -> dict[str, Any]:
        """Return the counts that describe the data set."""
        users = np.bincount(self.interactions.user, minlength=self.interactions.n_users)
        items = np.bincount(self.interactions.item, minlength=self.interactions.n_items)
        n_users, n_items, n = len(users), len(items), len(self.interactions)
        return {
            "users": n_users,
            "items": n_items,
            "interactions": n,
            "categories": len(self.categories),
            "density": round(n / (n_users * n_items), 6),
            "items_without_categories": self.categories.items_without,
            "categories_per_item": round(len(self.categories.items) / n_items, 3),
            "interactions_per_user": _quartiles(users),
            "interactions_per_item": _quartiles(items),
            "users_with_one_interaction": int((users == 1).sum()),
            "attributes": [name for name in self.attributes.columns if name != "item_id"],
            "preparation": asdict(self.preparation),
        }


def prepare(raw: Interactions, preparation: Preparation) -> Interactions:
    """Keep positives, one per pair, of users and items that are frequent enough."""
    positives = keep_positives(raw, preparation.threshold)
    return keep_frequent(drop_duplicates(positives, preparation.duplicates), preparation.min_user, preparation.min_item)


def _quartiles(counts: Any) -> dict[str, float]:
    low, middle, high = np.percentile(counts, [25, 50, 75]).tolist()
    return {"min": int(counts.min()), "q25": low, "median": middle, "q75": high, "max": int(counts.max())}


def _in_words(preparation: Preparation) -> str:
    rating = "" if preparation.threshold is None else f"ratings >= {preparation.threshold:g}, "
    return f"{rating}at least {preparation.min_user} per user and {preparation.min_item} per item"
