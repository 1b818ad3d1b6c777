"""Vectors in a table: a column of ids, and one column of lists or one column of numbers per factor."""

from __future__ import annotations

import fnmatch
import logging
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from recprism.common.ids import show_names
from recprism.data.frames import as_polars, interpret_ids, numbers
from recprism.data.readers.tables import ROW, TableReader
from recprism.errors import InputError

log = logging.getLogger(__name__)
FACTORS = "factors"
"""The name of the matrix that is built from one column per factor."""


def table_arrays(
    source: Any, side: str, where: str, *, key: str | None, ids: Any, bias: Any, reader: TableReader | None
) -> dict[str, NDArray[Any]]:
    """Read a table of vectors and return its arrays by name.

    Args:
        source: A file or a frame.
        side: "user" or "item".
        where: Name of the table in errors.
        key: The column of lists, or a pattern such as ``f*`` of the columns of factors; None finds them.
        ids: The name of the column of ids, or ids from another source, which make such a column unnecessary.
        bias: The name of the column of biases, or anything else.
        reader: Reads a file, with the column names of the caller.

    Returns:
        The ids, the biases, each column of lists as a matrix, and the columns of numbers as one matrix.

    Raises:
        InputError: A column is missing, or is neither ids, numbers nor lists.
    """
    is_file = isinstance(source, (str, Path))
    frame = (reader or TableReader()).read(source) if is_file else as_polars(source, where)
    of_ids = _id_column(frame, side, where, ids)
    found: dict[str, NDArray[Any]] = {}
    rest = []
    for name in frame.columns:
        if name == of_ids:
            found[name] = np.array(interpret_ids(frame, name, where).to_list())
        elif name == bias or "bias" in name.lower():
            found[name] = numbers(frame, name, where)
        elif key in (None, name) and (lists := _as_lists(frame[name])) is not None:
            found[name] = _matrix(lists, name, where)
        elif name != ROW:
            rest.append(name)
    if not any(array.ndim == 2 for array in found.values()):
        columns = _factor_columns(rest, key, side, where)
        found[FACTORS if key is None else key] = np.stack([numbers(frame, name, where) for name in columns], axis=1)
    elif rest:
        log.warning("%s: the vectors are lists; other columns are not read (%s)", where, show_names(rest))
    return found


def _id_column(frame: pl.DataFrame, side: str, where: str, ids: Any) -> str | None:
    """Return the column of ids; None if the ids have another source."""
    ours = f"{side}_id"
    if isinstance(ids, str) and ids in frame.columns:
        return ids
    found = next((name for name in (ours, "id") if name in frame.columns), None)
    if found is None and ids is None:
        present = show_names(name for name in frame.columns if name != ROW)
        raise InputError(
            f"{where}: no column {ours!r} or 'id'; the columns are {present}; "
            f"name the column of ids with {side}_ids (--{side}-ids)"
        )
    return found


def _as_lists(column: pl.Series) -> pl.Series | None:
    """Return a column of lists, including text such as [0.1, 0.2]; None for any other column."""
    if isinstance(column.dtype, pl.Array):
        return column.arr.to_list()
    if isinstance(column.dtype, pl.List):
        return column if column.dtype.inner.is_numeric() else None
    if column.dtype == pl.String and column.str.starts_with("[").all():
        try:
            return column.str.json_decode(pl.List(pl.Float64))
        except pl.exceptions.PolarsError:
            return None
    return None


def _matrix(lists: pl.Series, name: str, where: str) -> NDArray[Any]:
    """Convert lists of equal length to a matrix, (n, d)."""
    lengths = lists.list.len()
    odd = (lengths != lengths[0]).fill_null(True)
    if odd.any() or not lengths[0]:
        row = int(odd.arg_true()[0]) if odd.any() else 0
        raise InputError(
            f"{where}: {name} has {lengths[row] or 0} numbers in data row {row + 1} and {lengths[0] or 0} in the first;"
            " all vectors have the same length"
        )
    try:
        values = lists.list.explode().cast(pl.Float64)
    except pl.exceptions.PolarsError:
        raise InputError(f"{where}: {name} holds lists of other things than numbers; give vectors") from None
    return values.fill_null(float("nan")).to_numpy().reshape(len(lists), -1)


def _factor_columns(names: list[str], key: str | None, side: str, where: str) -> list[str]:
    """Return the columns that hold one factor each: those of the pattern, or all if they are numbered (f0, f1).

    Without this check, a year or the row numbers that pandas writes would count as a factor.
    """
    if key is not None:
        return fnmatch.filter(names, key)
    stems = {name.rstrip("0123456789") for name in names if name and name[-1].isdigit()}
    if names and len(stems) == 1 and all(name and name[-1].isdigit() for name in names):
        return names
    raise InputError(
        f"{where}: the columns {show_names(names)} are neither lists nor the factors of one vector (f0, f1, ...); "
        f"name the vectors with {side}_key (--{side}-key 'f*')"
    )
