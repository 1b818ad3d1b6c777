"""The split and the categories as long tables with ids, as a run keeps them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from recprism.common.ids import id_series, known_positions, number_ids
from recprism.data.categories import Categories
from recprism.data.interactions import HistoryOrder
from recprism.data.sparse_rows import SparseRows
from recprism.data.split import Part, Split
from recprism.errors import InputError

PARTS: tuple[Part, ...] = ("train", "validation", "test")


def split_table(split: Split) -> pl.DataFrame:
    """Return user_id, item_id, part and, if it is known, the place of the interaction in the user's history.

    A user or an item without interactions has its own row, with nulls.
    """
    frames = []
    for name in PARTS:
        part = split.part(name)
        columns = {
            "user_id": id_series(split.user_ids[part.row_of_entry]),
            "item_id": id_series(split.item_ids[part.indices]),
        }
        if split.order is not None:
            columns["place"] = pl.Series(split.order.places_of(part))
        frames.append(pl.DataFrame(columns).with_columns(part=pl.lit(name)))
    frames += [
        pl.DataFrame({"user_id": id_series(_without_any(split.user_ids, [split.part(it).row_counts for it in PARTS]))}),
        pl.DataFrame({"item_id": id_series(_without_any(split.item_ids, [split.part(it).col_counts for it in PARTS]))}),
    ]
    return pl.concat(frames, how="diagonal")


def _without_any(ids: NDArray[Any], counts: Sequence[NDArray[np.int64]]) -> NDArray[Any]:
    alone: NDArray[Any] = ids[np.sum(counts, axis=0) == 0]
    return alone


def split_from_table(frame: pl.DataFrame, where: Path, settings: Mapping[str, Any]) -> Split:
    """Read what :func:`split_table` made.

    Args:
        frame: user_id, item_id, part[, place].
        where: The file that it was read from.
        settings: How the split was made.
    """
    if not {"user_id", "item_id", "part"} <= set(frame.columns) or frame["part"].dtype != pl.String:
        raise InputError(f"{where}: damaged (not the columns of a split); make the run again")
    user_ids, item_ids = (number_ids(frame[name].drop_nulls())[0] for name in ("user_id", "item_id"))
    frame = frame.drop_nulls("part")
    user, item = (
        known_positions(frame[name], ids).to_numpy() for name, ids in (("user_id", user_ids), ("item_id", item_ids))
    )
    shape = (len(user_ids), len(item_ids))
    masks = [(frame["part"] == part).to_numpy() for part in PARTS]
    train, validation, test = (SparseRows.from_pairs(user[mask], item[mask], shape) for mask in masks)
    order = None
    if "place" in frame.columns:
        by_pair = np.lexsort((item, user))
        order = HistoryOrder(SparseRows.from_pairs(user, item, shape), frame["place"].to_numpy()[by_pair])
    return Split(train, validation, test, user_ids, item_ids, settings, order=order)


def categories_table(categories: Categories, item_ids: NDArray[Any]) -> pl.DataFrame:
    """Return item_id, category, weight."""
    names = np.asarray(categories.names, dtype=object)
    weights = np.ones(len(categories.items), np.float32) if categories.weights is None else categories.weights
    columns = {
        "item_id": id_series(item_ids[categories.items.row_of_entry]),
        "category": names[categories.items.indices],
        "weight": weights,
    }
    schema = {"category": pl.String, "weight": pl.Float32}
    return pl.DataFrame(columns, schema_overrides=schema)
