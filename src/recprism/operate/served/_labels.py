"""What users took, by request or by user."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import polars as pl
import torch

from recprism.common.ids import WHOLE_FLOAT
from recprism.data.readers.tables import TableReader
from recprism.errors import InputError
from recprism.metrics.tables import Rows

KEYS = ("request", "user")


class Labels:
    """Items that were taken, with the request in which they were shown or with the hash of the user.

    Args:
        path: A table with ``item``, and ``request`` or ``user``.
        columns: Our column name -> the name in the file.

    Raises:
        InputError: If a column is missing, or both keys are there.
    """

    def __init__(self, path: str | Path, columns: Mapping[str, str] | None = None) -> None:
        reader = TableReader(columns or {})
        frame = reader.read(path, required=("item",))
        reader.require_used()
        keys = [name for name in KEYS if name in frame.columns]
        if not keys:
            raise InputError(f"{path}: no column 'request' or 'user'; labels need the one or the other besides 'item'")
        if len(keys) > 1:
            raise InputError(f"{path}: has both columns 'request' and 'user'; labels need the one or the other")
        self.key = keys[0]
        text = [pl.col(name).cast(pl.String).str.replace(WHOLE_FLOAT, "${1}") for name in (self.key, "item")]
        self._taken = frame.select(text).drop_nulls().unique().sort(self.key, "item")
        owners = self._taken[self.key].unique().sort()
        self._owners = pl.DataFrame({self.key: owners, "owner": np.arange(len(owners))})
        self._used = np.zeros(len(owners), np.bool_)
        self._rows: Rows | None = None
        self._path = path

    def require_match(self) -> None:
        """Raise an error if no label belongs to the log or to the export: a hit rate of 0 would mean nothing."""
        if not self._used.any():
            hashes = "; users are hashes in the log" if self.key == "user" else ""
            raise InputError(f"{self._path}: no {self.key} of this file is in the log{hashes}")
        if self._rows is not None and not len(self._rows.indices):
            raise InputError(f"{self._path}: no item of this file is in the export")

    def rows_of(self, frame: pl.DataFrame, ids: pl.Enum) -> Rows:
        """Return the items that belong to each request of a part of the log, as item numbers."""
        rows = self._by_owner(ids)
        owner = frame.select(self.key).join(self._owners, on=self.key, how="left", maintain_order="left")["owner"]
        known = owner.drop_nulls().to_numpy()
        self._used[known] = True
        # The row after the last owner is empty, for requests without labels.
        return rows.take(torch.from_numpy(owner.fill_null(len(self._owners)).to_numpy().copy()))

    def unused(self) -> int:
        """Return how many requests or users with labels were in no part of the log."""
        return int((~self._used).sum())

    def _by_owner(self, ids: pl.Enum) -> Rows:
        if self._rows is None:
            owner = self._taken.join(self._owners, on=self.key, maintain_order="left")["owner"].to_numpy()
            item = self._taken["item"].cast(ids, strict=False).to_physical()
            known = item.is_not_null().to_numpy()
            counts = np.bincount(owner[known], minlength=len(self._owners) + 1)
            indices = item.drop_nulls().to_numpy().astype(np.int32)
            indptr = np.append(0, np.cumsum(counts))
            self._rows = Rows(torch.from_numpy(indptr), torch.from_numpy(indices), len(ids.categories))
        return self._rows
