"""Interactions, categories and item attributes from polars or pandas frames and SciPy matrices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from recprism.common.checks import LARGEST, float32_array
from recprism.common.ids import as_id_array, canonical_ids, id_series, known_positions, number_ids, show, show_names
from recprism.data.categories import Categories
from recprism.data.interactions import Interactions
from recprism.data.readers.tables import ROW
from recprism.errors import InputError

_AT = "__at__"  # an item's number, while tables are joined


@dataclass(frozen=True)
class Columns:
    """Names of the columns of a table of interactions.

    Attributes:
        user: The column of user ids.
        item: The column of item ids.
        rating: The column of ratings; used if it exists.
        timestamp: The column of times; used if it exists.
    """

    user: str = "user_id"
    item: str = "item_id"
    rating: str = "rating"
    timestamp: str = "timestamp"


def interactions_from_frame(frame: Any, columns: Columns | None = None, *, where: str = "interactions") -> Interactions:
    """Read interactions from a frame.

    Args:
        frame: A polars or pandas frame, one row per interaction.
        columns: Names of its columns.
        where: What errors call the frame.

    Returns:
        The interactions, with users and items numbered in the order of their ids.

    Raises:
        InputError: A column is missing, or an id, a rating or a time is empty or malformed.
    """
    columns = columns or Columns()
    table = as_polars(frame, where)
    for name in (columns.user, columns.item):
        require_column(table, name, where)
    if table.is_empty():
        raise InputError(f"{where}: no rows; at least one interaction is needed")
    user_ids, user = number_ids(interpret_ids(table, columns.user, where))
    item_ids, item = number_ids(interpret_ids(table, columns.item, where))
    rating = numbers(table, columns.rating, where, most=LARGEST) if columns.rating in table.columns else None
    timestamp = times(table, columns.timestamp, where) if columns.timestamp in table.columns else None
    return Interactions(
        user, item, user_ids, item_ids, None if rating is None else rating.astype(np.float32), timestamp
    )


def interactions_from_csr(
    matrix: Any, user_ids: ArrayLike | None = None, item_ids: ArrayLike | None = None
) -> Interactions:
    """Read interactions from a sparse matrix.

    Args:
        matrix: A SciPy sparse matrix of ratings, users x items.
        user_ids: Ids of the rows; by default 0, 1, 2, ...
        item_ids: Ids of the columns; by default 0, 1, 2, ...

    Returns:
        The interactions, with users and items numbered in the order of their ids.

    Raises:
        InputError: The matrix holds NaN or infinity, or the number of ids does not fit.
    """
    if not hasattr(matrix, "tocoo"):
        raise InputError(f"a SciPy sparse matrix is needed, got {type(matrix).__name__}")
    coo = matrix.tocoo()
    values = float32_array(coo.data, "the ratings of the matrix")
    if not np.isfinite(values).all():
        raise InputError("the matrix holds NaN or infinity; ratings must be finite")
    ids = [
        np.arange(size) if given is None else as_id_array(given, side)
        for side, given, size in (("user", user_ids, coo.shape[0]), ("item", item_ids, coo.shape[1]))
    ]
    for side, array, size in (("user", ids[0], coo.shape[0]), ("item", ids[1], coo.shape[1])):
        if len(array) != size:
            raise InputError(f"{len(array)} {side} ids for a matrix of shape {coo.shape}; one id per {side} is needed")
    user, users = _sorted_by_id(np.asarray(coo.row, np.int64), ids[0])
    item, items = _sorted_by_id(np.asarray(coo.col, np.int64), ids[1])
    return Interactions(user, item, users, items, values)


def categories_from_frame(frame: Any, item_ids: NDArray[Any], *, where: str = "categories") -> Categories:
    """Read categories of the given items from a long table item_id, category[, weight]; other items are skipped."""
    table = as_polars(frame, where)
    for name in ("item_id", "category"):
        require_column(table, name, where)
    table = table.filter(pl.col("category").is_not_null())
    numbered = _match(interpret_ids(table, "item_id", where), item_ids, where)
    names = table["category"].cast(pl.String).filter(numbered.is_not_null())
    weights = None
    if "weight" in table.columns:
        weights = numbers(table, "weight", where, most=LARGEST)[numbered.is_not_null().to_numpy()]
        if (weights < 0).any():
            raise InputError(f"{where}: a weight is negative ({weights.min():g}); weights must be 0 or more")
    return Categories.from_pairs(numbered.drop_nulls().to_numpy(), names.to_numpy(), len(item_ids), weights)


def attributes_from_frame(frame: Any, item_ids: NDArray[Any], *, where: str = "items") -> pl.DataFrame:
    """Return one row per given item, in that order, with every column of the table; missing items get nulls."""
    table = as_polars(frame, where)
    require_column(table, "item_id", where)
    keyed = table.drop(ROW, strict=False).with_columns(
        known_positions(interpret_ids(table, "item_id", where), item_ids).alias(_AT)
    )
    keyed = keyed.drop("item_id").filter(pl.col(_AT).is_not_null()).unique(maintain_order=True)
    clash = keyed.filter(pl.col(_AT).is_duplicated())
    if not clash.is_empty():
        raise InputError(
            f"{where}: item {show(item_ids[clash[_AT][0]])} occurs more than once with different values; "
            "keep one row each"
        )
    wanted = pl.DataFrame({"item_id": id_series(item_ids), _AT: np.arange(len(item_ids))})
    return wanted.join(keyed, on=_AT, how="left", maintain_order="left").drop(_AT)


def as_polars(frame: Any, where: str) -> pl.DataFrame:
    """Convert a polars (lazy or not) or pandas frame to a polars frame."""
    if isinstance(frame, pl.DataFrame):
        return frame
    if isinstance(frame, pl.LazyFrame):
        return frame.collect()
    if type(frame).__module__.startswith("pandas"):
        return pl.DataFrame({str(name): _from_pandas(frame[name]) for name in frame.columns})
    raise InputError(f"{where}: a polars or pandas frame is needed, got {type(frame).__name__}")


def _from_pandas(column: Any) -> pl.Series:
    """Convert without pyarrow: numbers as they are, the rest as Python objects with missing values as null."""
    if column.dtype.kind in "iufb":
        return pl.Series(column.to_numpy())
    if column.dtype.kind == "M":
        return pl.Series(column.to_numpy())
    return pl.Series(
        [None if missing else value for value, missing in zip(column, column.isna(), strict=True)], strict=False
    )


def require_column(table: pl.DataFrame, name: str, where: str) -> None:
    if name not in table.columns:
        present = show_names(column for column in table.columns if column != ROW)
        raise InputError(f"{where}: no column {name!r}; the columns are {present}; map yours to it")


def interpret_ids(table: pl.DataFrame, name: str, where: str) -> pl.Series:
    """Return a column of ids in the form of :mod:`recprism.common.ids`; a missing id raises an error."""
    column = table[name]
    if column.dtype.is_nested() or column.dtype.is_temporal() or column.dtype in (pl.Boolean, pl.Object, pl.Binary):
        raise InputError(f"{where}: {name} holds {column.dtype}; ids are whole numbers or text")
    _refuse_missing(table, column.is_null(), name, where, "is empty")
    if column.dtype.is_float():
        _refuse_missing(table, column.is_nan(), name, where, "is empty")
        lost = (column.abs() >= 2**53).fill_null(False)
        _refuse_missing(table, lost, name, where, "was stored as a fraction and lost digits: save ids as text")
        whole = column.cast(pl.Int64, strict=False)
        _refuse_missing(table, (whole.cast(pl.Float64) != column).fill_null(True), name, where, "is not a whole number")
        return whole
    if not column.dtype.is_numeric():
        _refuse_missing(table, column.cast(pl.String).str.strip_chars() == "", name, where, "is empty")
    return canonical_ids(column)


def numbers(table: pl.DataFrame, name: str, where: str, *, most: float = np.inf) -> NDArray[np.float64]:
    """Return a column of finite numbers below ``most`` in size; anything else raises an error."""
    column = table[name]
    if column.dtype in (pl.Object, pl.Binary) or column.dtype.is_nested() or column.dtype.is_temporal():
        raise InputError(f"{where}: {name} holds {column.dtype}; numbers are needed")
    values = column.cast(pl.Float64, strict=False)
    _refuse_missing(table, values.is_null() | ~values.is_finite(), name, where, "is not a finite number")
    _refuse_missing(table, values.abs() >= most, name, where, f"is not below {most:g}")
    return values.to_numpy()


def times(table: pl.DataFrame, name: str, where: str) -> NDArray[np.int64]:
    """Return a column of times as integers; dates become microseconds, fractions are cut off."""
    column = table[name]
    if column.dtype.is_temporal():
        _refuse_missing(table, column.is_null(), name, where, "is empty")
        return column.cast(pl.Datetime("us")).dt.epoch("us").to_numpy()
    return np.floor(numbers(table, name, where, most=2.0**63)).astype(np.int64)


def _refuse_missing(table: pl.DataFrame, bad: pl.Series, name: str, where: str, problem: str) -> None:
    count = int(bad.sum())
    if count:
        first = int(bad.arg_true()[0])
        row = table[ROW][first] if ROW in table.columns else first + 1
        value = table[name][first]
        shown = "" if value is None else f" ({value!r})"
        others = f"; {count} such rows" if count > 1 else ""
        raise InputError(f"{where}, row {row}: {name} {problem}{shown}{others}; fix or remove it")


def _match(ids: pl.Series, item_ids: NDArray[Any], where: str) -> pl.Series:
    """Return positions among ``item_ids``, null for unknown ids; an error if there is no match at all."""
    position = known_positions(ids, item_ids)
    if len(ids) and position.is_null().all():
        raise InputError(
            f"{where}: none of its item ids (such as {ids[0]!r}) is an item of the interactions"
            f" (such as {show(item_ids[0])}); the two files must use the same ids"
        )
    return position


def _sorted_by_id(numbers: NDArray[np.int64], ids: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Renumber so that ids are in rising order."""
    order = np.argsort(ids, kind="stable")
    position = np.empty(len(ids), np.int64)
    position[order] = np.arange(len(ids))
    return position[numbers], ids[order]
