"""Makes a run from vectors that were trained elsewhere, and from tables of interactions and items."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from recprism.common.ids import canonical_ids, id_series, number_ids
from recprism.common.shares import Share
from recprism.data.dataset import Dataset
from recprism.data.readers.categories import CategoryColumns
from recprism.data.readers.tables import TableReader
from recprism.data.split import Split
from recprism.errors import InputError
from recprism.models import Factors
from recprism.models.adapters import from_files
from recprism.models.adapters.arrays import ROW_NUMBERS
from recprism.models.factors import COSINE, INNER_PRODUCT
from recprism.runs.jobs._own_tables import OwnTables, make_run, source_name
from recprism.runs.run import Run

log = logging.getLogger(__name__)
COUNTED = "the vectors have no ids: their rows count as 0, 1, 2, ...; give --user-ids and --item-ids if yours differ"


def import_vectors(
    path: str | Path,
    user: Any,
    item: Any,
    *,
    user_ids: ArrayLike | str | Path | None = None,
    item_ids: ArrayLike | str | Path | None = None,
    user_key: str | None = None,
    item_key: str | None = None,
    user_bias: ArrayLike | str | Path | None = None,
    item_bias: ArrayLike | str | Path | None = None,
    metric: str = INNER_PRODUCT,
    interactions: Any = None,
    held_out: Any = None,
    set_aside: Share = 0.0,
    threshold: float | None = None,
    items: Any = None,
    categories: Any = None,
    category_columns: CategoryColumns | str | Sequence[str] | None = None,
    columns: Mapping[str, str] | None = None,
    seed: int = 0,
    overwrite: bool = False,
    note: Callable[[str], None] = log.warning,
    on_data: Callable[[Dataset, Split], None] | None = None,
) -> Run:
    """Make a run of user and item vectors, so that every command and every page works for them.

    Rows whose user or item has no vector are counted and left out. Nothing is written unless everything fits.

    Args:
        path: The run directory to make.
        user: The user vectors: a matrix, a frame, or a file (.npy, .npz, .safetensors, .pt, .pth, .parquet, .csv).
        item: The item vectors.
        user_ids: Ids of the rows; this and the next five are those of :func:`recprism.models.adapters.from_files`.
        item_ids: Ids of the item vectors.
        user_key: Which array of a file with several.
        item_key: Which array of a file with several.
        user_bias: Changes no list; it is checked and left out.
        item_bias: Added to the scores; it is never changed.
        metric: "inner_product", or "cosine": item vectors are brought to length 1.
        interactions: What users took before: a file or a frame of user_id, item_id[, rating, timestamp], or a SciPy
            matrix. It is never recommended again. The model may have learned from it.
        held_out: What users took later, in the same form. Half of each user's rows become the validation part, which
            certifies, and half the test part, which reports: by time if there are timestamps, else at random. The
            model must not have learned from it.
        set_aside: Without ``held_out``, the share of each user's interactions to use as labels.
        threshold: The lowest rating that counts; lower ones are dropped.
        items: A file or a frame of item_id and attributes, such as a title.
        categories: A file, a frame (item_id, category[, weight]) or a mapping from item id to names.
        category_columns: The columns of ``items`` that hold categories, or how they hold them.
        columns: Our column name -> yours, for all files; rename the columns of frames yourself.
        seed: Decides which labels validate and which are tested.
        overwrite: Replace a run that is there.
        note: Receives sentences about what is missing or left out.
        on_data: Receives the data and their split before the run is written.

    Returns:
        The run.

    Raises:
        InputError: If a file cannot be read, or the parts do not fit together.
    """
    reader = TableReader(columns or {})
    given = from_files(
        user,
        item,
        user_key=user_key,
        item_key=item_key,
        user_ids=user_ids,
        item_ids=item_ids,
        user_bias=user_bias,
        item_bias=item_bias,
        reader=reader,
    )
    _require_ids_of_both(given)
    factors = _searched_by(metric, _sorted(given))
    counted = (COUNTED,) if given.settings[ROW_NUMBERS] else ()
    tables = OwnTables(interactions, held_out, set_aside, threshold, items, categories, category_columns, seed)
    return make_run(
        path,
        lambda _: factors,
        tables,
        reader,
        "vector",
        name=source_name(user, "vectors"),
        overwrite=overwrite,
        note=note,
        on_data=on_data,
        notes=counted,
    )


def _sorted(factors: Factors) -> Factors:
    """Sort the rows by id, as a run keeps them."""
    (user_ids, user), (item_ids, item) = (
        number_ids(canonical_ids(id_series(ids))) for ids in (factors.user_ids, factors.item_ids)
    )
    ordered = factors.of_users(np.argsort(user)).of_items(np.argsort(item))
    return replace(ordered, user_ids=user_ids, item_ids=item_ids)


def _require_ids_of_both(factors: Factors) -> None:
    """Refuse ids of one side with row numbers of the other: they seldom fit tables of interactions."""
    if len(factors.settings[ROW_NUMBERS]) == 1:
        (lacks,) = factors.settings[ROW_NUMBERS]
        has = "item" if lacks == "user" else "user"
        raise InputError(
            f"the {has} vectors have ids and the {lacks} vectors have none; give {lacks}_ids (--{lacks}-ids)"
        )


def _searched_by(metric: str, factors: Factors) -> Factors:
    if metric not in (INNER_PRODUCT, COSINE):
        raise InputError(f"unknown metric {metric!r}; choose {INNER_PRODUCT} or {COSINE}")
    return factors.on_sphere() if metric == COSINE else factors
