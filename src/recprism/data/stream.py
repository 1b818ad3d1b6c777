"""Interactions that do not fit into memory, read from Parquet in batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from recprism.common.files import readable
from recprism.common.ids import as_id_array, canonical_ids, id_series, number_ids, show_names
from recprism.data.frames import Columns
from recprism.data.sparse_rows import SparseRows
from recprism.errors import InputError

ROWS_AT_A_TIME = 2**21
ROWS_SORTED_AT_A_TIME = 2**18  # rows of the matrix that are sorted together


@dataclass(frozen=True, eq=False)
class Streamed:
    """Interactions read from a file.

    Attributes:
        matrix: Users x items.
        user_ids: ``(n_users,)`` ids of the rows, sorted unless the caller gave them.
        item_ids: ``(n_items,)`` ids of the columns, sorted unless the caller gave them.

    Stability: provisional.
    """

    matrix: SparseRows
    user_ids: NDArray[Any]
    item_ids: NDArray[Any]


def stream_parquet(
    path: str | Path | Sequence[Path],
    *,
    columns: Columns | None = None,
    threshold: float | None = None,
    user_ids: Any = None,
    item_ids: Any = None,
    rows: int = ROWS_AT_A_TIME,
) -> Streamed:
    """Read the interactions of a Parquet file as users x items.

    The memory needed is that of the matrix (4 bytes an interaction, 8 a user) and of one batch. The file is read once
    to count, once to fill, and before that once for ids that are not given.

    Args:
        path: The file, a pattern such as ``log/*.parquet``, or files.
        columns: Names of the columns.
        threshold: The lowest rating that counts; None takes every interaction.
        user_ids: The wanted users, such as those of factors, in that order; others are skipped. None takes all.
        item_ids: The wanted items, likewise.
        rows: Number of interactions in a batch.

    Returns:
        The matrix and its ids.

    Raises:
        InputError: The file cannot be read, a column is missing or holds nulls, or nothing is left.

    Stability: provisional.
    """
    columns = columns or Columns()
    files = None if isinstance(path, str | Path) else [str(one) for one in path]
    where = str(path) if files is None else files[0] if len(files) == 1 else f"{files[0]} .. {files[-1]}"
    with readable(where, "cannot be read as Parquet", "write it again"):
        table = _checked(
            pl.scan_parquet(where if files is None else files, glob=files is None), columns, threshold, where
        )
        users, items = (
            Numbering.of(given, table, name, where)
            for given, name in ((user_ids, columns.user), (item_ids, columns.item))
        )
        counts = np.zeros(len(users.ids), np.int64)
        for user, _ in _batches(table, users, items, columns, rows):
            counts += np.bincount(user, minlength=len(counts))
        indptr = np.concatenate([[0], np.cumsum(counts)])
        entries, free = np.empty(indptr[-1], np.int32), indptr[:-1].copy()
        for user, item in _batches(table, users, items, columns, rows):
            _put(user, item, entries, free)
    return Streamed(_in_order(indptr, entries, len(items.ids)), users.ids, items.ids)


@dataclass(frozen=True, eq=False)
class Numbering:
    """Ids and their numbers; ``counted`` if each id equals its number."""

    ids: NDArray[Any]
    known: pl.DataFrame
    counted: bool

    @classmethod
    def of(cls, given: Any, table: pl.LazyFrame, name: str, where: str) -> Numbering:
        if given is None:
            ids, _ = number_ids(canonical_ids(table.select(pl.col(name).unique()).collect(engine="streaming")[name]))
        else:
            ids = as_id_array(given, name)
        if not len(ids):
            raise InputError(f"{where}: no {name} is left; at least one interaction is needed")
        counted = ids.dtype.kind == "i" and bool((ids == np.arange(len(ids))).all())
        return cls(
            ids, pl.DataFrame({name: id_series(ids), NUMBER + name: np.arange(len(ids), dtype=np.int32)}), counted
        )

    def numbers(self, batch: pl.DataFrame, name: str) -> NDArray[np.int32]:
        """``(n,)`` numbers of the ids of a batch; -1 for ids that are not wanted."""
        if self.counted and batch[name].dtype.is_integer():
            ids = batch[name].cast(pl.Int64).to_numpy()
            return np.where((ids >= 0) & (ids < len(self.ids)), ids, -1).astype(np.int32)
        wanted, known = pl.DataFrame({name: canonical_ids(batch[name])}), self.known
        if wanted[name].dtype != known[name].dtype:
            wanted, known = (table.with_columns(pl.col(name).cast(pl.String)) for table in (wanted, known))
        joined = wanted.join(known, on=name, how="left", maintain_order="left")
        return joined[NUMBER + name].fill_null(-1).to_numpy()


NUMBER = "number of "


def _checked(table: pl.LazyFrame, columns: Columns, threshold: float | None, where: str) -> pl.LazyFrame:
    """Select the two columns of ids, of the interactions that count."""
    schema = table.collect_schema()
    wanted = [columns.user, columns.item, *([columns.rating] if threshold is not None else [])]
    for name in wanted:
        if name not in schema:
            raise InputError(f"{where}: no column {name!r}; the columns are {show_names(schema)}; map yours to it")
    for name in wanted[:2]:
        if not (schema[name].is_integer() or schema[name] == pl.String):
            raise InputError(f"{where}: {name} is {schema[name]}; ids are whole numbers or text")
    empty = table.select(pl.col(wanted).is_null().any()).collect(engine="streaming").row(0)
    if any(empty):
        raise InputError(f"{where}: {wanted[empty.index(True)]} is empty in some rows; fix or remove them")
    kept = table if threshold is None else table.filter(pl.col(columns.rating) >= threshold)
    return kept.select(wanted[:2])


def _batches(
    table: pl.LazyFrame, users: Numbering, items: Numbering, columns: Columns, rows: int
) -> Iterator[tuple[NDArray[np.int32], NDArray[np.int32]]]:
    """Yield user and item numbers of the wanted interactions, batch by batch."""
    for batch in table.collect_batches(chunk_size=rows, engine="streaming"):
        user, item = users.numbers(batch, columns.user), items.numbers(batch, columns.item)
        both = (user >= 0) & (item >= 0)
        yield user[both], item[both]


def _put(user: NDArray[np.int32], item: NDArray[np.int32], entries: NDArray[np.int32], free: NDArray[np.int64]) -> None:
    """Write each item to the next free place of its user, and advance the places."""
    pairs = (user.astype(np.int64) << 32) | item  # one number per pair: much faster to sort than an order by user
    pairs.sort()
    sorted_users = pairs >> 32
    first = np.flatnonzero(np.diff(sorted_users, prepend=-1))
    counts = np.diff(np.append(first, len(sorted_users)))
    within = np.arange(len(sorted_users)) - np.repeat(first, counts)
    entries[free[sorted_users] + within] = pairs & 0xFFFFFFFF
    free[sorted_users[first]] += counts


def _in_order(indptr: NDArray[np.int64], entries: NDArray[np.int32], n_cols: int) -> SparseRows:
    """Sort the columns of each row and drop duplicates, in place and a few rows at a time."""
    counts, end = np.zeros(len(indptr) - 1, np.int64), 0
    for first in range(0, len(counts), ROWS_SORTED_AT_A_TIME):
        some = indptr[first : first + ROWS_SORTED_AT_A_TIME + 1]
        shape = (len(some) - 1, n_cols)
        rows = np.repeat(np.arange(shape[0]), np.diff(some))
        part = SparseRows.from_pairs(rows, entries[some[0] : some[-1]], shape)
        counts[first : first + shape[0]] = part.row_counts
        entries[end : end + len(part)] = part.indices  # never overtakes the reading: duplicates only shorten
        end += len(part)
    return SparseRows(np.concatenate([[0], np.cumsum(counts)]), entries[:end], n_cols)
