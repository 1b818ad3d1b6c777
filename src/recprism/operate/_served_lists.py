"""Served lists from a log: users and items unknown to the run are counted and skipped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from recprism.common.ids import known_positions, show
from recprism.data.readers.tables import TableReader
from recprism.errors import InputError
from recprism.runs.jobs.list_files import LISTS, lists_of

DAY_COLUMNS = ("day", "date")
ONE_DAY = "the file"

Items = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ServedLists:
    """Served lists, in the row and item numbers of a run.

    Attributes:
        days: The days in order; a single one, called ``ONE_DAY``, without a day column.
        users: Day -> (n,) row numbers of the users with a list, ascending.
        items: Day -> (n, k) item numbers, -1 in empty places and for items that the run does not know.
        unknown_users: Number of skipped lists of users that the run does not know.
        unknown_items: Number of places within k with an item that the run does not know.
        places: Number of all places within k.
        short: Number of lists with fewer than k places.
    """

    days: tuple[str, ...]
    users: dict[str, Items]
    items: dict[str, Items]
    unknown_users: int
    unknown_items: int
    places: int
    short: int

    def notes(self, k: int) -> tuple[str, ...]:
        """Describe what was skipped."""
        counted = (
            (self.unknown_users, f"{self.unknown_users:,} lists are of users that the run does not know: left out"),
            (
                self.unknown_items,
                f"{self.unknown_items:,} of {self.places:,} places hold items that the run does not know: they count "
                "as empty",
            ),
            (self.short, f"{self.short:,} lists have fewer than {k} places"),
        )
        return tuple(words for count, words in counted if count)


def read_served(
    path: str | Path,
    user_ids: NDArray[Any],
    item_ids: NDArray[Any],
    k: int,
    *,
    reader: TableReader,
    day_column: str | None = None,
) -> ServedLists:
    """Read the first k places of each list in a file.

    Args:
        path: A file with user_id, item_id, rank and optionally a day.
        user_ids: (n_users,) ids of the run.
        item_ids: (n_items,) ids of the run.
        k: Number of places.
        reader: Maps column names.
        day_column: Name of the column with the day; by default "day" or "date", if there is one.

    Raises:
        InputError: If no user of the file is a user of the run.
    """
    frame, where = reader.read(path, required=LISTS), str(path)
    day = day_column or next((name for name in DAY_COLUMNS if name in frame.columns), None)
    lists = lists_of(frame, where, day)
    if day is None:
        lists = lists.with_columns(pl.lit(ONE_DAY).alias("day"))
    lists = lists.filter(pl.col("rank") < k).with_columns(
        known_positions(lists["user_id"], user_ids).filter(lists["rank"] < k).alias("user"),
        known_positions(lists["item_id"], item_ids).filter(lists["rank"] < k).alias("item"),
    )
    known = lists.filter(pl.col("user").is_not_null())
    if known.is_empty():
        raise InputError(
            f"{where}: none of its users (such as {lists['user_id'][0]!r}) is a user of the run (such as "
            f"{show(user_ids[0])}); the two must use the same ids"
        )
    days = tuple(known["day"].unique().sort().to_list())
    made = {name: _matrix(known.filter(pl.col("day") == name), k) for name in days}
    return ServedLists(
        days,
        {name: users for name, (users, _) in made.items()},
        {name: items for name, (_, items) in made.items()},
        unknown_users=lists.filter(pl.col("user").is_null()).select("day", "user_id").n_unique(),
        unknown_items=int(known["item"].is_null().sum()),
        places=len(known),
        short=known.group_by("day", "user").len().filter(pl.col("len") < k).height,
    )


def shared_places(first: Sequence[Items], second: Sequence[Items], n_items: int) -> float:
    """Return the share of the items of the first lists that are anywhere in the same row of the second lists."""
    a, b = np.concatenate(first), np.concatenate(second)
    keys = [np.arange(len(lists))[:, None] * n_items + lists for lists in (a, b)]
    return float(np.isin(keys[0][a >= 0], keys[1][b >= 0]).mean()) if (a >= 0).any() else 0.0


def _matrix(lists: pl.DataFrame, k: int) -> tuple[Items, Items]:
    users, row = np.unique(lists["user"].to_numpy(), return_inverse=True)
    items = np.full((len(users), k), -1, np.int64)
    items[row, lists["rank"].to_numpy()] = lists["item"].fill_null(-1).to_numpy()
    return users, items
