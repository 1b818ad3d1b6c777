"""Pairs of known users and known items in a table; rows with an unknown id are counted and left out.

``labels.known_rows`` does the same for interactions. It counts distinct unknown ids and keeps ratings and times. Here
rows are counted by cause, and no column other than the two ids is read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl
from numpy.typing import NDArray

from recprism.common.ids import known_positions, show
from recprism.data.frames import interpret_ids, require_column
from recprism.data.sparse_rows import SparseRows
from recprism.errors import InputError


@dataclass(frozen=True, eq=False)
class KnownPairs:
    """Pairs whose user and item are known.

    Attributes:
        matrix: Known users x known items.
        rows: Number of rows of the table.
        unknown_users: Rows with an unknown user.
        unknown_items: Rows with an unknown item.
        left_out: Rows with an unknown user, an unknown item or both.
    """

    matrix: SparseRows
    rows: int
    unknown_users: int
    unknown_items: int
    left_out: int

    def note(self, where: str) -> str | None:
        """Say in one sentence what was left out; None if nothing was."""
        if not self.left_out:
            return None
        return (
            f"{where}: {self.left_out:,} of {self.rows:,} rows are left out; {self.unknown_users:,} have an unknown "
            f"user and {self.unknown_items:,} an unknown item"
        )


def known_pairs(table: pl.DataFrame, user_ids: NDArray[Any], item_ids: NDArray[Any], where: str) -> KnownPairs:
    """Find the pairs of a table among known ids.

    Args:
        table: The columns user_id and item_id, with ids in any form.
        user_ids: ``(n_users,)`` known ids.
        item_ids: ``(n_items,)`` known ids.
        where: What errors call the table.

    Returns:
        The known pairs and how many were left out.

    Raises:
        InputError: No row has a known user and a known item.
    """
    ids = {}
    for name in ("user_id", "item_id"):
        require_column(table, name, where)
        ids[name] = interpret_ids(table, name, where)
    user, item = known_positions(ids["user_id"], user_ids), known_positions(ids["item_id"], item_ids)
    both = user.is_not_null() & item.is_not_null()
    if not both.any():
        first = {name: column[0] if len(column) else None for name, column in ids.items()}
        known = " and ".join(show(side[0]) for side in (user_ids, item_ids) if len(side))
        raise InputError(
            f"{where}: no row has a known user and a known item (its first row has {first['user_id']!r} and "
            f"{first['item_id']!r}, known are such as {known}); the ids must be the same"
        )
    matrix = SparseRows.from_pairs(
        user.filter(both).to_numpy(), item.filter(both).to_numpy(), (len(user_ids), len(item_ids))
    )
    return KnownPairs(matrix, len(both), int(user.is_null().sum()), int(item.is_null().sum()), int((~both).sum()))
