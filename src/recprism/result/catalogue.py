"""Titles, years and categories of items, and how the places of a list changed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import polars as pl
from numpy.typing import NDArray

from recprism.data.categories import Categories

State = Literal["new", "gone", "moved", "stayed"]


@dataclass(frozen=True)
class Card:
    """Title, year ("" if unknown) and categories of an item."""

    id: Any
    title: str
    year: str
    categories: tuple[str, ...]


@dataclass(frozen=True)
class Place:
    """One place of a list: rank from 1, item number, and its state compared with the other list."""

    rank: int
    item: int
    state: State


class Catalogue:
    """The cards of all items, by item number.

    Args:
        items: item_id and, if known, title and year.
        categories: The categories of the items.
    """

    def __init__(self, items: pl.DataFrame, categories: Categories) -> None:
        self.categories = categories
        self.ids: list[Any] = items["item_id"].to_list()
        self.titles = titles_of(items)
        self.years = items["year"].cast(pl.String).to_list() if "year" in items.columns else [None] * len(items)

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, item: int) -> Card:
        year = self.years[item] or ""
        title = self.titles[item].removesuffix(f"({year})").strip() if year else self.titles[item]
        about = tuple(str(self.categories.names[it]) for it in self.categories.items.row(item))
        return Card(self.ids[item], title, year, about)

    def search(self, words: str, n: int = 10) -> list[int]:
        """Return up to ``n`` items whose title contains the words, in any case; first those that begin with them."""
        wanted = words.casefold().strip()
        found = [item for item, title in enumerate(self._folded) if wanted in title] if wanted else []
        return sorted(found, key=lambda item: (not self._folded[item].startswith(wanted), self._folded[item]))[:n]

    @cached_property
    def title_of(self) -> dict[Any, str]:
        """Item id -> title."""
        return dict(zip(self.ids, self.titles, strict=True))

    @cached_property
    def _folded(self) -> list[str]:
        return [title.casefold() for title in self.titles]


def places(items: NDArray[Any], others: NDArray[Any], alone: State) -> Iterator[Place]:
    """Compare a list with another one, place by place.

    Args:
        items: ``(k,)`` item numbers, -1 in empty places.
        others: The other list.
        alone: The state of an item that the other list lacks.
    """
    elsewhere = {int(item): at for at, item in enumerate(others)}
    for at, item in enumerate(int(it) for it in items if it >= 0):
        state: State = alone if item not in elsewhere else "stayed" if elsewhere[item] == at else "moved"
        yield Place(at + 1, item, state)


def titles_of(items: pl.DataFrame) -> list[str]:
    """Return titles; ids for items without one."""
    column = "title" if "title" in items.columns else "item_id"
    ids = items["item_id"].cast(pl.String)
    return items[column].cast(pl.String).fill_null(ids).to_list()
