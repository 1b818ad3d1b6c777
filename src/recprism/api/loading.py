"""Data for the verbs: a named set, files, frames or arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from recprism.common.checks import require_real
from recprism.data.dataset import Dataset, Preparation
from recprism.data.datasets import NAMED, load_dataset, load_files
from recprism.data.frames import as_polars, interactions_from_frame
from recprism.data.readers.categories import CategoryColumns, read_categories
from recprism.errors import InputError
from recprism.runs.jobs.inputs import category_table


def load(source: str | Path, **options: Any) -> Dataset:
    """Load a named data set, or a file of interactions.

    Args:
        source: A name such as "ml-latest-small" (`recprism data list` prints them), or the path of a table with the
            columns user_id and item_id.
        **options: Of :func:`recprism.data.load_dataset` for a name, of :func:`recprism.data.load_files` for a path.

    Returns:
        Interactions and items, ready to be split.

    Raises:
        InputError: If the name is unknown and no such file exists, or if a file cannot be read.

    >>> load("ml-latest-small").split(seed=0).n_users
    601
    """
    name = str(source)
    if name.partition(":")[0] in NAMED:
        return load_dataset(name, **options)
    if not Path(source).exists():
        raise InputError(
            f"{name!r} is neither a file nor a known data set; known are {', '.join(NAMED)}, or name a file of "
            "interactions"
        )
    return load_files(source, **options)


def from_frames(
    interactions: Any,
    items: Any = None,
    *,
    category_column: str | Sequence[str] | None = None,
    categories: Any = None,
    name: str = "frames",
    preparation: Preparation | None = None,
) -> Dataset:
    """Make a data set of polars or pandas frames.

    Args:
        interactions: Columns user_id, item_id[, rating, timestamp].
        items: Column item_id and any others, such as title and year.
        category_column: The columns of ``items`` that hold categories. Lists and texts such as "Drama|War" are taken
            apart.
        categories: Instead of ``category_column``: a frame item_id, category[, weight], or a mapping from item id to
            names.
        name: What the data are called.
        preparation: What is left out before the data are split.

    Raises:
        InputError: If a column is missing, or categories are named twice.

    >>> import polars as pl
    >>> events = pl.DataFrame({"user_id": ["a", "a", "b"], "item_id": ["x", "y", "x"]})
    >>> films = pl.DataFrame({"item_id": ["x", "y"], "genres": ["Drama|War", "War"]})
    >>> from_frames(events, films, category_column="genres").categories.names
    ('Drama', 'War')
    """
    table = None if items is None else as_polars(items, "items")
    long = category_table(categories)
    if category_column:
        if table is None or categories is not None:
            raise InputError("category_column names a column of items; pass items, and leave categories out")
        names = (category_column,) if isinstance(category_column, str) else tuple(category_column)
        long = read_categories(table, CategoryColumns(names), "items").table
    raw = interactions_from_frame(interactions)
    return Dataset.from_interactions(name, raw, long, table, preparation)


def from_arrays(
    users: ArrayLike,
    items: ArrayLike,
    *,
    ratings: ArrayLike | None = None,
    timestamps: ArrayLike | None = None,
    categories: Mapping[Any, Any] | Any = None,
    preparation: Preparation | None = None,
) -> Dataset:
    """Make a data set of parallel arrays, one entry per interaction.

    Args:
        users: ``(n,)`` user ids.
        items: ``(n,)`` item ids.
        ratings: ``(n,)`` numbers.
        timestamps: ``(n,)`` numbers or times.
        categories: A mapping from item id to names, or a frame item_id, category[, weight].
        preparation: What is left out before the data are split.

    Raises:
        InputError: If the arrays have different lengths.

    >>> from_arrays(["a", "a", "b"], [1, 2, 1], categories={1: ["War"], 2: ["War", "Drama"]}).stats()["interactions"]
    3
    """
    given = {"user_id": users, "item_id": items, "rating": ratings, "timestamp": timestamps}
    columns = {name: _column(values, name) for name, values in given.items() if values is not None}
    lengths = {name: values.shape for name, values in columns.items()}
    if len({*lengths.values()}) != 1 or any(len(shape) != 1 for shape in lengths.values()):
        raise InputError(f"arrays of interactions have the shapes {lengths}; pass one-dimensional ones of one length")
    frame = pl.DataFrame({name: _series(values, name) for name, values in columns.items()})
    return from_frames(frame, categories=categories, name="arrays", preparation=preparation)


def _column(values: ArrayLike, name: str) -> NDArray[Any]:
    require_real(values, f"values of {name}")
    try:
        return np.asarray(values)
    except ValueError:  # lists of different lengths
        raise InputError(f"values of {name} are lists of different lengths; pass a plain list") from None


def _series(values: NDArray[Any], name: str) -> pl.Series:
    try:
        return pl.Series(values.tolist())
    except (TypeError, OverflowError):
        raise InputError(f"values of {name} are of several types; pass numbers or text") from None
