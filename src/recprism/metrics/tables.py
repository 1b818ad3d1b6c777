"""Lookup tables of the metrics as tensors on one device: sparse rows, categories of items, unit vectors.

Tables indexed by item have one more row than there are items. The last row is blank, and the index -1 of an empty place
finds it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from recprism.common.checks import LARGEST, real_array, require_real
from recprism.data.categories import Categories
from recprism.data.sparse_rows import SparseRows
from recprism.errors import InputError

ENTRIES_AT_ONCE = 1 << 20  # interactions whose categories are added together


def as_tensor(values: Any, device: torch.device, name: str = "values") -> Tensor:
    """Move numbers to the device, if possible without a copy; arrays that torch cannot share are copied.

    Args:
        values: An array, nested lists or a tensor.
        device: Where to.
        name: What errors call the values, in the plural.

    Raises:
        InputError: The values are no real numbers.
    """
    require_real(values, name)
    if not isinstance(values, Tensor):
        values = np.require(real_array(values, name), requirements=["C_CONTIGUOUS", "WRITEABLE"])
    return torch.as_tensor(values, device=device)


@dataclass(frozen=True, eq=False)
class Rows:
    """A SparseRows on a device: ``indptr`` ``(n_rows + 1,)`` int64 and ``indices`` ``(n_entries,)`` int32."""

    indptr: Tensor
    indices: Tensor
    n_cols: int

    @classmethod
    def of(cls, matrix: SparseRows, device: torch.device) -> Rows:
        return cls(as_tensor(matrix.indptr, device), as_tensor(matrix.indices, device), matrix.n_cols)

    @property
    def n_rows(self) -> int:
        return len(self.indptr) - 1

    def take(self, rows: Tensor) -> Rows:
        """Return the given rows, in the given order."""
        counts = torch.diff(self.indptr)[rows]
        ends = counts.cumsum(0)
        shift = (self.indptr[rows] - (ends - counts)).repeat_interleave(counts)
        entries = torch.arange(len(shift), device=shift.device) + shift
        return Rows(torch.cat([ends.new_zeros(1), ends]), self.indices[entries], self.n_cols)

    def only(self, wanted: Tensor) -> Rows:
        """Return the entries whose column is ``wanted``, ``(n_cols,)`` bool."""
        kept = wanted[self.indices.long()]
        before = torch.cat([kept.new_zeros(1, dtype=torch.int64), kept.cumsum(0)])
        return Rows(before[self.indptr], self.indices[kept], self.n_cols)

    @cached_property
    def counts(self) -> Tensor:
        """``(n_rows,)`` float64 number of entries in each row."""
        return torch.diff(self.indptr).to(torch.float64)

    @cached_property
    def row_of_entry(self) -> Tensor:
        """``(n_entries,)`` int64."""
        return torch.repeat_interleave(torch.arange(self.n_rows, device=self.indptr.device), torch.diff(self.indptr))

    @cached_property
    def keys(self) -> Tensor:
        """``(n_entries,)`` ``row * n_cols + column``, rising."""
        return self.row_of_entry * self.n_cols + self.indices


@dataclass(frozen=True, eq=False)
class CategoryMatrix:
    """Which item has which category.

    Attributes:
        rows: Items x categories.
        weights: ``(n_entries,)`` float64, all above 0.
    """

    rows: Rows
    weights: Tensor

    @classmethod
    def of(cls, categories: Categories, device: torch.device) -> CategoryMatrix:
        weights = (
            np.ones(len(categories.items)) if categories.weights is None else categories.weights.astype(np.float64)
        )
        if not (np.isfinite(weights).all() and (weights > 0).all()):
            raise InputError(
                "category weights must be finite and above 0; leave a pair out to say that it does not hold"
            )
        return cls(Rows.of(categories.items, device), as_tensor(weights, device))

    @property
    def n_items(self) -> int:
        return self.rows.n_rows

    @property
    def n_cols(self) -> int:
        return self.rows.n_cols

    @cached_property
    def n_present(self) -> int:
        """Number of categories that at least one item has."""
        return len(torch.unique(self.rows.indices))

    @cached_property
    def shares(self) -> Tensor:
        """``(n_entries,)`` float64: each item's weights divided by their sum."""
        sums = torch.zeros(self.n_items, dtype=torch.float64, device=self.weights.device)
        sums.index_add_(0, self.rows.row_of_entry, self.weights)
        return self.weights / sums[self.rows.row_of_entry]

    @cached_property
    def member(self) -> Tensor:
        """``(n_items + 1, n_categories)`` bool, the last row blank."""
        return self._dense(torch.ones_like(self.weights)) > 0

    @cached_property
    def share_matrix(self) -> Tensor:
        """``(n_items + 1, n_categories)`` float64, the last row blank."""
        return self._dense(self.shares)

    @cached_property
    def weight_matrix(self) -> Tensor:
        """``(n_items, n_categories)`` float64."""
        return self._dense(self.weights)[:-1]

    def spread_of(self, rows: Rows) -> Tensor:
        """Return the distribution of the items of each row over categories.

        Each item counts 1, shared among its categories; items without categories do not count.

        Args:
            rows: Anything x items.

        Returns:
            ``(n_rows, n_categories)`` float64; each row sums to 1, or to 0 without categories.
        """
        amount = torch.zeros((rows.n_rows, self.n_cols), dtype=torch.float64, device=self.weights.device)
        for start in range(0, len(rows.indices), ENTRIES_AT_ONCE):
            some = slice(start, start + ENTRIES_AT_ONCE)
            amount.index_add_(0, rows.row_of_entry[some], self.share_matrix[rows.indices[some].long()])
        total = amount.sum(1, keepdim=True)
        return amount / torch.where(total > 0, total, 1.0)

    def _dense(self, entries: Tensor) -> Tensor:
        full = torch.zeros((self.n_items + 1, self.n_cols), dtype=entries.dtype, device=entries.device)
        full[self.rows.row_of_entry, self.rows.indices.long()] = entries
        return full


@dataclass(frozen=True, eq=False)
class Vectors:
    """Directions of items.

    Attributes:
        unit: ``(n_items + 1, width)`` float32 rows of length 1. A zero vector stays zero, and so does the last row.
            Columns of zeros fill the width to a multiple of 16, so that loops in vector registers have no remainder.
    """

    unit: Tensor

    @classmethod
    def of(cls, matrix: Tensor) -> Vectors:
        exact = matrix.detach().to(torch.float64)
        if not bool((exact.abs() < LARGEST).all()):
            raise InputError(f"item vectors hold NaN, or numbers of {LARGEST:g} and more; a cosine needs finite ones")
        unit = torch.nn.functional.normalize(exact, dim=1, eps=torch.finfo(torch.float64).tiny)
        return cls(torch.nn.functional.pad(unit, (0, -unit.shape[1] % 16, 0, 1)).to(torch.float32))

    @cached_property
    def known(self) -> Tensor:
        """``(n_items + 1,)`` bool: whether the item has a direction."""
        return (self.unit != 0).any(1)
