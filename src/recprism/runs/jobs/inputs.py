"""Inputs in any common form: interactions, categories, or vectors and the labels that judge them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from recprism.data.categories import Categories
from recprism.data.dataset import Dataset
from recprism.data.frames import categories_from_frame, interactions_from_csr, interactions_from_frame
from recprism.data.interactions import Interactions
from recprism.data.labels import known_rows
from recprism.data.sparse_rows import SparseRows
from recprism.data.split import Split
from recprism.errors import InputError
from recprism.models import Factors
from recprism.runs.jobs.imported import aligned

log = logging.getLogger(__name__)
COLUMNS = ("user_id", "item_id", "rating", "timestamp")


def interactions_of(given: Any) -> Interactions:
    """Convert a data set, a frame, a SciPy matrix (users x items) or an array of rows to interactions.

    An array, or a list of rows, has two to four columns: user id, item id[, rating, timestamp].

    Raises:
        InputError: If an array has another shape.
    """
    if isinstance(given, Dataset):
        return given.interactions
    if isinstance(given, Interactions):
        return given
    if hasattr(given, "tocoo"):
        return interactions_from_csr(given)
    if hasattr(given, "columns"):
        return interactions_from_frame(given)
    rows = np.asarray(given)
    if rows.ndim != 2 or not 2 <= rows.shape[1] <= len(COLUMNS):
        raise InputError(
            f"interactions have shape {rows.shape}; rows of user id, item id[, rating, timestamp] are needed, "
            "or a frame, or a SciPy matrix of users x items"
        )
    return interactions_from_frame(pl.DataFrame(dict(zip(COLUMNS, rows.T.tolist(), strict=False)), strict=False))


def data_of(given: Any, categories: Any) -> Dataset:
    """Return a data set as it is, or make one of interactions and categories in any form."""
    if isinstance(given, Dataset) and categories is None:
        return given
    return Dataset.from_interactions("interactions", interactions_of(given), category_table(categories))


def is_vectors(given: Any) -> bool:
    """Whether these are vectors and not interactions."""
    return isinstance(given, Factors) or (isinstance(given, tuple) and len(given) == 2)


def judged_vectors(given: Any, labels: Any) -> tuple[Factors, Split]:
    """Return vectors in the order of the split that judges them, and that split.

    Args:
        given: Factors, or (user vectors, item vectors).
        labels: A Split, or two matrices of users x items: (seen, taken later).

    Raises:
        InputError: If there are no labels, or shapes do not fit.
    """
    factors = given if isinstance(given, Factors) else Factors.from_arrays(*given)
    if isinstance(labels, Split):
        return aligned(factors, labels), labels
    if not isinstance(labels, tuple) or len(labels) != 2:
        raise InputError("vectors need labels: y is a Split, or a pair of users x items matrices (seen, taken later)")
    seen, later = (SparseRows.coerce(matrix) for matrix in labels)
    shape = (factors.n_users, factors.n_items)
    for name, matrix in (("seen", seen), ("taken later", later)):
        if matrix.shape != shape:
            raise InputError(f"the matrix of what was {name} has shape {matrix.shape}; the vectors make it {shape}")
    settings = {"method": "given"}
    return factors, Split(seen, SparseRows.empty(shape), later, factors.user_ids, factors.item_ids, settings)


def category_table(categories: Any) -> Any:
    """Return a long table item_id, category[, weight]; a mapping from item id to names is converted."""
    if not isinstance(categories, Mapping):
        return categories
    lists = {item: [names] if isinstance(names, str) else names for item, names in categories.items()}
    pairs = [(item, str(name)) for item, names in lists.items() for name in names]
    return pl.DataFrame({"item_id": [item for item, _ in pairs], "category": [name for _, name in pairs]})


def categories_of(categories: Any, item_ids: NDArray[Any]) -> Categories:
    """Return the categories of the given items; a :class:`Categories` is returned as it is, None means none."""
    if isinstance(categories, Categories):
        return categories
    if categories is None:
        return Categories.from_pairs(np.empty(0, np.int64), np.empty(0, str), len(item_ids))
    return categories_from_frame(category_table(categories), item_ids)


def known_pairs(given: Any, user_ids: NDArray[Any], item_ids: NDArray[Any]) -> SparseRows:
    """Return users x items of the interactions whose user and item are known; the log counts the others."""
    found = interactions_of(given)
    known, left_out = known_rows(found, user_ids, item_ids, where=None)
    if left_out.rows:
        log.warning("%s of %s interactions have an unknown user or item; left out", left_out.rows, len(found))
    return known.matrix()
