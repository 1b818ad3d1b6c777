"""What earlier pages showed to many users, in a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from recprism.common.files import readable
from recprism.common.ids import canonical_ids, known_positions, show_names
from recprism.data.sparse_rows import SparseRows
from recprism.errors import InputError
from recprism.forms.rule_file import RuleFile
from recprism.rule.earlier import Earlier, earlier_of, weights_of
from recprism.rule.kernels.prices import search_terms
from recprism.rule.kernels.worth import DISTANCE

COLUMNS = ["user_id", "item_id", "age"]


@dataclass(frozen=True, eq=False)
class ShownRows:
    """Items that users were shown, sorted by user.

    Attributes:
        users: Number of the user, (n,) int64.
        items: Number of the item, (n,) int64.
        ages: How many pages ago it was shown, (n,) float64.
        no_repeat: Pages after which an item may come again; None for never.
        half_life: Pages after which what was shown counts half.
    """

    users: NDArray[np.int64]
    items: NDArray[np.int64]
    ages: NDArray[np.float64]
    no_repeat: int | None
    half_life: float

    def of_users(self, start: int, stop: int) -> ShownRows:
        """Return the rows of users from ``start`` to before ``stop``, numbered from 0."""
        some = slice(*np.searchsorted(self.users, [start, stop]))
        return replace(self, users=self.users[some] - start, items=self.items[some], ages=self.ages[some])

    def out(self, n_users: int, n_items: int) -> SparseRows:
        """Return the items that do not come again, (n_users, n_items)."""
        some = np.ones(len(self.ages), np.bool_) if self.no_repeat is None else self.ages <= self.no_repeat
        return SparseRows.from_pairs(self.users[some], self.items[some], (n_users, n_items))

    def earlier(self, file: RuleFile, n_users: int) -> Earlier:
        """Return what these pages leave to the lists of a rule."""
        by_distance = any(it.price == DISTANCE for it in search_terms(file.goals))
        categories, directions = (file.indptr, file.indices, len(file.names)), (file.unit, file.known)
        shown = self.users, self.items, weights_of(self.ages, self.half_life)
        return earlier_of(*shown, n_users, categories, directions if by_distance else None)


def read_shown(
    files: Sequence[Path],
    user_ids: NDArray[np.generic],
    item_ids: NDArray[np.generic],
    no_repeat: int | None,
    half_life: float,
) -> ShownRows:
    """Read the items of earlier pages; rows of other users and items are skipped.

    Raises:
        InputError: If a column is missing, an age is no number from 0 up, or no row is left.
    """
    where = str(files[0])
    with readable(where, "cannot be read as Parquet", "write it again"):
        table = pl.scan_parquet(list(files))
        schema = table.collect_schema()
        for name in COLUMNS:
            if name not in schema:
                raise InputError(f"{where}: no column {name!r}; the columns are {show_names(schema)}")
        rows = table.select(COLUMNS).collect()
    if not rows["age"].dtype.is_numeric() or not rows.select((pl.col("age") >= 0).fill_null(False).all()).item():
        raise InputError(f"{where}: age must be a number of pages, 0 or more, in every row")
    places = {
        name: known_positions(canonical_ids(rows[name]), ids)
        for name, ids in zip(COLUMNS[:2], (user_ids, item_ids), strict=True)
    }
    found = rows.select("age").with_columns(**places).drop_nulls().filter(pl.col("age").is_finite()).sort("user_id")
    if not len(found):
        raise InputError(f"{where}: no row has a user of the vectors and an item of the export")
    users, items = (found[name].to_numpy().astype(np.int64) for name in COLUMNS[:2])
    return ShownRows(users, items, found["age"].cast(pl.Float64).to_numpy(), no_repeat, half_life)
