"""A binary sparse matrix in compressed rows, with numpy alone."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from recprism.common.checks import finite_array, whole_array
from recprism.errors import InputError

if TYPE_CHECKING:
    from scipy.sparse import csr_array

IntArray = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class SparseRows:
    """A binary matrix: rows of sorted, distinct column numbers.

    Attributes:
        indptr: ``(n_rows + 1,)`` int64; row r is ``indices[indptr[r]:indptr[r + 1]]``.
        indices: ``(n_entries,)`` int32, rising inside each row.
        n_cols: Number of columns.
    """

    indptr: IntArray
    indices: NDArray[np.int32]
    n_cols: int

    @classmethod
    def from_pairs(cls, rows: NDArray[Any], cols: NDArray[Any], shape: tuple[int, int]) -> SparseRows:
        """Build from parallel arrays of row and column numbers; duplicates are merged."""
        n_rows, n_cols = shape
        rows, cols = whole_array(rows, "row numbers"), whole_array(cols, "column numbers")
        if rows.ndim != 1 or rows.shape != cols.shape:
            raise InputError(f"row numbers have shape {rows.shape} and column numbers {cols.shape}; pass one per pair")
        _require_inside(rows, n_rows, "row")
        _require_inside(cols, n_cols, "column")
        keys = rows * max(n_cols, 1) + cols
        keys.sort()  # np.unique uses a hash table: for millions of numbers eighty times slower
        keys = keys[np.diff(keys, prepend=-1) != 0]
        counts = np.bincount(keys // max(n_cols, 1), minlength=n_rows)
        indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return cls(indptr, (keys % max(n_cols, 1)).astype(np.int32), n_cols)

    @classmethod
    def coerce(cls, matrix: SparseRows | Any, name: str = "interactions") -> SparseRows:
        """Convert a SciPy sparse matrix (its non-zero entries) or a dense 2-d array.

        Args:
            matrix: Finite numbers of at least 0, or bool.
            name: What errors call the numbers, in the plural.

        Raises:
            InputError: The matrix does not have two dimensions, or a number is negative or not finite.
        """
        if isinstance(matrix, cls):
            return matrix
        if hasattr(matrix, "tocoo"):
            coo = matrix.tocoo()
            stored = finite_array(coo.data, name, least=0) != 0
            return cls.from_pairs(coo.row[stored], coo.col[stored], coo.shape)
        dense = finite_array(matrix, name, least=0)
        if dense.ndim != 2:
            raise InputError(
                f"a users x items matrix needs two dimensions, got shape {dense.shape}; pass a SciPy CSR matrix"
            )
        rows, cols = np.nonzero(dense)
        return cls.from_pairs(rows, cols, (dense.shape[0], dense.shape[1]))

    @classmethod
    def empty(cls, shape: tuple[int, int]) -> SparseRows:
        return cls(np.zeros(shape[0] + 1, np.int64), np.empty(0, np.int32), shape[1])

    @property
    def n_rows(self) -> int:
        return len(self.indptr) - 1

    @property
    def shape(self) -> tuple[int, int]:
        return self.n_rows, self.n_cols

    def __len__(self) -> int:
        """Number of entries."""
        return len(self.indices)

    def row(self, r: int) -> NDArray[np.int32]:
        return self.indices[self.indptr[r] : self.indptr[r + 1]]

    @cached_property
    def row_counts(self) -> IntArray:
        """``(n_rows,)`` number of entries in each row."""
        return np.diff(self.indptr)

    @cached_property
    def col_counts(self) -> IntArray:
        """``(n_cols,)`` number of entries in each column."""
        return np.bincount(self.indices, minlength=self.n_cols).astype(np.int64)

    @cached_property
    def row_of_entry(self) -> IntArray:
        """``(n_entries,)`` row of each entry."""
        return np.repeat(np.arange(self.n_rows), self.row_counts)

    @cached_property
    def keys(self) -> IntArray:
        """``(n_entries,)`` ``row * n_cols + column``, rising, so that pairs are found by binary search."""
        return self.row_of_entry * self.n_cols + self.indices

    def take_rows(self, rows: NDArray[Any]) -> SparseRows:
        """Return the given rows, in the given order."""
        rows = np.asarray(rows, np.int64)
        counts = self.row_counts[rows]
        indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        offsets = np.arange(indptr[-1]) - np.repeat(indptr[:-1], counts)
        return SparseRows(indptr, self.indices[np.repeat(self.indptr[rows], counts) + offsets], self.n_cols)

    def take_cols(self, first: int, last: int) -> SparseRows:
        """Return columns first .. last - 1, numbered from 0."""
        kept = (self.indices >= first) & (self.indices < last)
        before = np.concatenate([[0], np.cumsum(kept)])
        return SparseRows(before[self.indptr], self.indices[kept] - np.int32(first), last - first)

    def of_cols(self, cols: NDArray[Any]) -> SparseRows:
        """Return the given columns, numbered in the given order; other entries are dropped."""
        number = np.full(self.n_cols, -1, np.int64)
        number[cols] = np.arange(len(cols))
        col = number[self.indices]
        return SparseRows.from_pairs(self.row_of_entry[col >= 0], col[col >= 0], (self.n_rows, len(cols)))

    def with_cols(self, cols: NDArray[Any]) -> SparseRows:
        """Return the same entries and every entry of the given columns."""
        if not len(cols):
            return self
        rows = np.repeat(np.arange(self.n_rows), len(cols))
        return self.union(SparseRows.from_pairs(rows, np.tile(cols, self.n_rows), self.shape))

    def union(self, other: SparseRows) -> SparseRows:
        if self.shape != other.shape:
            raise InputError(
                f"cannot join shapes {self.shape} and {other.shape}; both must describe the same users and items"
            )
        rows = np.concatenate([self.row_of_entry, other.row_of_entry])
        return SparseRows.from_pairs(rows, np.concatenate([self.indices, other.indices]), self.shape)

    def transpose(self) -> SparseRows:
        return SparseRows.from_pairs(self.indices, self.row_of_entry, (self.n_cols, self.n_rows))

    def dense(self) -> NDArray[np.bool_]:
        """``(n_rows, n_cols)`` bool; for small matrices such as items x categories."""
        full = np.zeros(self.shape, dtype=bool)
        full[self.row_of_entry, self.indices] = True
        return full

    def to_scipy(self) -> csr_array:
        from scipy.sparse import csr_array

        return csr_array((np.ones(len(self), np.float32), self.indices, self.indptr), shape=self.shape)


def _require_inside(numbers: IntArray, size: int, axis: str) -> None:
    if len(numbers) and (numbers.min() < 0 or numbers.max() >= size):
        raise InputError(
            f"{axis} numbers run from {numbers.min()} to {numbers.max()}, outside 0 .. {size - 1}; check the shape"
        )
