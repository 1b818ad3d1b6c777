"""Features from other tools: tuples (user, item, feature, sentiment) and attribute tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from recprism.common.ids import id_series, number_ids
from recprism.data.feature_matrix import FeatureMatrix
from recprism.data.frames import interpret_ids, numbers, require_column
from recprism.data.readers.tables import ROW, read_table
from recprism.errors import InputError

SHORT_NAMES = {"user": "user_id", "item": "item_id", "aspect": "feature"}
MAX_VALUES = 50
SEPARATOR = "|"


def read_mentions(path: str | Path, columns: Mapping[str, str] | None = None) -> pl.DataFrame:
    """Read mentions of features from CSV, TSV, Parquet or JSON lines, plain or compressed.

    The columns are user_id (or user), item_id (or item), feature (or aspect) and sentiment, from -1 to 1.

    Args:
        path: The file.
        columns: Our name -> the name in the file, for columns with other names.

    Returns:
        The columns user_id, item_id, feature, sentiment.

    Raises:
        InputError: A column is missing, or a value is empty or out of range.
    """
    where = str(path)
    table = read_table(path, columns)
    short = {old: new for old, new in SHORT_NAMES.items() if old in table.columns and new not in table.columns}
    table = table.rename(short)
    for name in ("user_id", "item_id", "feature", "sentiment"):
        require_column(table, name, where)
    sentiment = numbers(table, "sentiment", where)
    _require_unit(sentiment, table, where)
    return pl.DataFrame(
        {
            "user_id": interpret_ids(table, "user_id", where),
            "item_id": interpret_ids(table, "item_id", where),
            "feature": _named(table, where),
            "sentiment": sentiment,
        }
    )


@dataclass(frozen=True, eq=False)
class Attributes:
    """Features of an attribute table.

    Attributes:
        features: Items x features.
        left_out: Columns with too many values to be a category -> number of values.
    """

    features: FeatureMatrix
    left_out: dict[str, int]


def read_attributes(
    path: str | Path, *, max_values: int = MAX_VALUES, columns: Mapping[str, str] | None = None
) -> Attributes:
    """Read an item table as numbers between 0 and 1.

    A column of numbers is scaled to its smallest and largest value; missing values get the mean. Any other column is a
    category with one feature ``column=value`` per value; ``|`` separates several values of one item.

    Args:
        path: A table with item_id and any other columns.
        max_values: Categories with more values are left out.
        columns: Our name -> the name in the file.

    Returns:
        The features, and the columns that are left out.

    Raises:
        InputError: An item has several rows, or no column can be used.
    """
    where = str(path)
    table = read_table(path, columns)
    require_column(table, "item_id", where)
    item_ids, order = number_ids(interpret_ids(table, "item_id", where))
    if len(item_ids) < table.height:
        raise InputError(f"{where}: an item has more than one row; keep one row each")
    blocks: list[tuple[list[str], NDArray[np.float64]]] = []
    left_out = {}
    for name in (column for column in table.columns if column not in ("item_id", ROW)):
        is_list = isinstance(table[name].dtype, pl.List)
        values = pl.Series([None]) if is_list else table[name].cast(pl.Float64, strict=False)
        if not is_list and values.null_count() == table[name].null_count() and values.drop_nulls().is_finite().all():
            blocks.append(([name], _scaled(values)))
            continue
        sets = _values(table[name])
        labels = sorted({label.strip() for own in sets for label in own} - {""})
        if len(labels) > max_values:
            left_out[name] = len(labels)
        else:
            blocks.append(([f"{name}={label}" for label in labels], _one_hot(sets, labels)))
    if not blocks:
        raise InputError(
            f"{where}: no column other than item_id is a number or a category of at most {max_values} values"
        )
    matrix = np.hstack([block for _, block in blocks])
    by_id = np.empty_like(matrix)
    by_id[order] = matrix
    names = tuple(name for own, _ in blocks for name in own)
    return Attributes(FeatureMatrix(item_ids, names, by_id.astype(np.float32)), left_out)


def _values(column: pl.Series) -> list[list[str]]:
    """Return the values of each item: those of a list, or text separated by ``|``."""
    if isinstance(column.dtype, pl.List):
        return [[str(one) for one in own or []] for own in column.to_list()]
    return column.cast(pl.String).fill_null("").str.split(SEPARATOR).to_list()


def features_to_frame(features: FeatureMatrix, side: str = "item_id") -> pl.DataFrame:
    """Return a wide table: a column ``side`` of ids, then one column per feature.

    Args:
        features: The features.
        side: Name of the column of ids.

    Raises:
        InputError: A feature has the name of the column of ids.
    """
    if side in features.names:
        raise InputError(f"a feature is called {side}, as the column of the ids is; give it another name")
    columns = {name: features.values[:, number] for number, name in enumerate(features.names)}
    return pl.DataFrame({side: id_series(features.ids), **columns})


def _named(table: pl.DataFrame, where: str) -> pl.Series:
    name = table["feature"].cast(pl.String).str.strip_chars().str.to_lowercase()
    empty = (name.is_null() | (name == "")).arg_true()
    if len(empty):
        raise InputError(f"{where}, row {table[ROW][empty[0]]}: feature is empty; fix or remove it")
    return name


def _require_unit(sentiment: NDArray[np.float64], table: pl.DataFrame, where: str) -> None:
    outside = np.flatnonzero(np.abs(sentiment) > 1)
    if len(outside):
        row = table[ROW][int(outside[0])]
        raise InputError(
            f"{where}, row {row}: sentiment {sentiment[outside[0]]:g} is not between -1 and 1; scale the column"
        )


def _scaled(values: pl.Series) -> NDArray[np.float64]:
    filled = values.fill_null(strategy="mean").fill_null(0.0).to_numpy()
    spread = np.ptp(filled)
    scaled: NDArray[np.float64] = (filled - filled.min()) / (spread or 1.0)
    return scaled[:, None]


def _one_hot(sets: list[list[str]], labels: list[str]) -> NDArray[np.float64]:
    return np.array([[float(label in {one.strip() for one in own}) for label in labels] for own in sets])
