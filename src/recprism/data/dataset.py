"""A data set ready to be split: interactions, subtopics and item attributes that agree on the items."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from recprism.data._categories import CategorySummary, summarise
from recprism.data._ids import id_series
from recprism.data.frames import (
    attributes_from_frame,
    interactions_from_frame,
    subtopics_from_frame,
)
from recprism.data.interactions import (
    DuplicatePolicy,
    Interactions,
    drop_duplicates,
    keep_frequent,
    keep_positives,
)
from recprism.data.split import Split, split_interactions
from recprism.data.subtopics import Subtopics
from recprism.errors import InputError


@dataclass(frozen=True)
class Preparation:
    """What is done to raw interactions before they are split.

    threshold: ratings from here on are positives, lower ones are dropped; None takes every interaction
    duplicates: which of several interactions of one user with one item is kept
    min_user, min_item: users and items with fewer positives are dropped, again and again until nothing changes
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

    interactions: user_id, item_id[, rating, timestamp]
    subtopics: item_id, subtopic[, weight], or None
    items: item_id and any further columns (title, year, tags, ...), or None
    where, subtopics_where, items_where: what each is called in errors, a file's name where there is one
    category_source: how the subtopics were read from a file, in words
    """

    interactions: pl.DataFrame
    subtopics: pl.DataFrame | None = None
    items: pl.DataFrame | None = None
    where: str = "interactions"
    subtopics_where: str = "subtopics"
    items_where: str = "items"
    category_source: str = ""


@dataclass(frozen=True, eq=False)
class Dataset:
    """Interactions with the subtopics and attributes of the same items, in the order of ``interactions.item_ids``."""

    name: str
    interactions: Interactions
    subtopics: Subtopics
    attributes: pl.DataFrame
    preparation: Preparation
    category_source: str = ""

    @property
    def categories(self) -> CategorySummary:
        """What is known of the items' subtopics, and how they were read."""
        return summarise(self.subtopics, self.category_source)

    @classmethod
    def from_tables(cls, name: str, tables: Tables, preparation: Preparation | None = None) -> Dataset:
        """Interpret, clean and align the tables of a loader."""
        raw = interactions_from_frame(tables.interactions, where=tables.where)
        found = cls.from_interactions(
            *(name, raw, tables.subtopics, tables.items, preparation),
            where=tables.where,
            subtopics_where=tables.subtopics_where,
            items_where=tables.items_where,
        )
        return replace(found, category_source=tables.category_source)

    @classmethod
    def from_interactions(
        cls,
        name: str,
        raw: Interactions,
        subtopics: Any = None,
        items: Any = None,
        preparation: Preparation | None = None,
        *,
        where: str = "interactions",
        subtopics_where: str = "subtopics",
        items_where: str = "items",
    ) -> Dataset:
        """Clean interactions of any origin and align the long subtopic table and the item table to them.

        where, subtopics_where, items_where: what each is called in errors
        """
        preparation = preparation or Preparation()
        kept = prepare(raw, preparation)
        if not len(kept):
            raise InputError(
                f"{where}: nothing is left of {len(raw)} interactions after {_in_words(preparation)}; ask for less"
            )
        ids = kept.item_ids
        empty = Subtopics.from_pairs(np.empty(0, np.int64), np.empty(0, str), len(ids))
        return cls(
            name,
            kept,
            empty if subtopics is None else subtopics_from_frame(subtopics, ids, where=subtopics_where),
            attributes_from_frame(
                pl.DataFrame({"item_id": id_series(ids)}) if items is None else items, ids, where=items_where
            ),
            preparation,
        )

    def split(self, method: str = "random", *, seed: int = 0, **options: Any) -> Split:
        """See :func:`recprism.data.split.split_interactions`."""
        return split_interactions(self.interactions, method, seed=seed, **options)

    def stats(self) -> dict[str, Any]:
        """Counts that say what kind of data this is."""
        users = np.bincount(self.interactions.user, minlength=self.interactions.n_users)
        items = np.bincount(self.interactions.item, minlength=self.interactions.n_items)
        n_users, n_items, n = len(users), len(items), len(self.interactions)
        return {
            "users": n_users,
            "items": n_items,
            "interactions": n,
            "subtopics": len(self.subtopics),
            "density": round(n / (n_users * n_items), 6),
            "items_without_subtopics": self.subtopics.items_without,
            "subtopics_per_item": round(len(self.subtopics.items) / n_items, 3),
            "interactions_per_user": _quartiles(users),
            "interactions_per_item": _quartiles(items),
            "users_with_one_interaction": int((users == 1).sum()),
            "attributes": [name for name in self.attributes.columns if name != "item_id"],
            "preparation": asdict(self.preparation),
        }


def prepare(raw: Interactions, preparation: Preparation) -> Interactions:
    """Positives only, one per pair, users and items frequent enough."""
    positives = keep_positives(raw, preparation.threshold)
    return keep_frequent(drop_duplicates(positives, preparation.duplicates), preparation.min_user, preparation.min_item)


def _quartiles(counts: Any) -> dict[str, float]:
    low, middle, high = np.percentile(counts, [25, 50, 75]).tolist()
    return {"min": int(counts.min()), "q25": low, "median": middle, "q75": high, "max": int(counts.max())}


def _in_words(preparation: Preparation) -> str:
    rating = "" if preparation.threshold is None else f"ratings >= {preparation.threshold:g}, "
    return f"{rating}at least {preparation.min_user} per user and {preparation.min_item} per item"
