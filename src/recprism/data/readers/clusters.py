"""Clusters of users: those of one cluster, such as a household, are not independent."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from recprism.common.ids import MISSING, known_positions, show_names
from recprism.data.readers.tables import ROW, read_table
from recprism.errors import InputError


class Clusters(NamedTuple):
    """Clusters of known users.

    Attributes:
        numbers: ``(n_users,)`` the number of each user's cluster.
        alone: How many users the table does not name; each is a cluster of its own.
        unknown: How many users of the table are not known; they are left out.
    """

    numbers: NDArray[np.int64]
    alone: int
    unknown: int

    def sentence(self) -> str:
        """Return in words who is together."""
        said = f"{len(self.numbers):,} users are in {len(np.unique(self.numbers)):,} clusters"
        if self.alone:
            said += f"; users who are not in the file ({self.alone:,}) are each a cluster of their own"
        return said + (
            f"; users of the file who are not in the run ({self.unknown:,}) are left out" if self.unknown else ""
        )


def read_clusters(path: str | Path, user_ids: NDArray[np.generic]) -> Clusters:
    """Read a table with the columns user_id and cluster, in any format of ``read_table``.

    Args:
        path: The file.
        user_ids: ``(n_users,)`` the users to find.

    Raises:
        InputError: If the table cannot be read, names a user twice with different clusters, or names no known user.
    """
    table = read_table(path)
    if not {"user_id", "cluster"} <= set(table.columns):
        has = show_names(name for name in table.columns if name != ROW)
        raise InputError(f"{path}: a table of clusters needs the columns user_id and cluster; this one has {has}")
    for name in ("user_id", "cluster"):
        column = table[name].cast(pl.String)
        if column.is_null().any() or column.is_in(MISSING).any():
            raise InputError(f"{path}: a user_id or a cluster is missing; every row needs both")
    numbers = table["cluster"].cast(pl.String).rank("dense").cast(pl.Int64) - 1
    rows = pl.DataFrame({"row": known_positions(table["user_id"], user_ids), "cluster": numbers})
    unknown = table["user_id"].filter(rows["row"].is_null()).n_unique()
    found = rows.drop_nulls().unique(maintain_order=True)
    if found.is_empty():
        raise InputError(f"{path}: none of its user ids is a user of the run; both must use the same ids")
    twice = found.filter(pl.col("row").is_duplicated())
    if len(twice):
        raise InputError(f"{path}: user {user_ids[twice['row'][0]]} is in two clusters; give each user one")
    own = np.full(len(user_ids), -1, np.int64)
    own[found["row"].to_numpy()] = found["cluster"].to_numpy()
    return Clusters(with_own(own), int((own < 0).sum()), unknown)


def with_own(clusters: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return clusters in which each user that has none, marked by -1, is a cluster of its own."""
    none = clusters < 0
    return np.where(none, clusters.max(initial=-1) + np.cumsum(none), clusters)
