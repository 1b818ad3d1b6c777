"""Makes a run from vectors that were trained elsewhere, and from tables of interactions and items."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from recprism.data._ids import canonical_ids, id_series, number_ids
from recprism.data._labels import LeftOut, known_rows, split_labels
from recprism.data._readers.categories import CategoryColumns, long_categories, read_categories
from recprism.data._readers.tables import TableReader
from recprism.data.dataset import Dataset, Preparation
from recprism.data.datasets import ItemFiles, read_item_files
from recprism.data.frames import as_polars, attributes_from_frame, interactions_from_frame
from recprism.data.interactions import Interactions, keep_positives
from recprism.data.shares import Share, share
from recprism.data.split import Split
from recprism.errors import InputError
from recprism.models import COSINE, INNER_PRODUCT, Factors
from recprism.models.adapters import from_files
from recprism.models.adapters.arrays import ROW_NUMBERS
from recprism.runs.jobs._inputs import interactions_of, subtopics_of, topic_table
from recprism.runs.jobs.imported import write_run
from recprism.runs.run import Run

log = logging.getLogger(__name__)
OPTIMISTIC = (
    "the model has probably learned from the interactions that were set aside, so its accuracy looks too good; "
    "give held-out interactions for figures that you can trust"
)
NO_LABELS = "there are no held-out interactions: accuracy is not measured and no budget can be certified"
COUNTED = "the vectors have no ids: their rows count as 0, 1, 2, ...; give --user-ids and --item-ids if yours differ"
NO_HISTORY = "there are no earlier interactions: lists may show what users have taken already"


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
    subtopics: Any = None,
    categories: CategoryColumns | str | Sequence[str] | None = None,
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
        subtopics: A file, a frame (item_id, subtopic[, weight]) or a mapping from item id to names.
        categories: The columns of ``items`` that hold subtopics, or how they hold them.
        columns: Our column name -> yours, for all files; rename the columns of frames yourself.
        seed: Decides which labels validate and which are tested.
        overwrite: Replace a run that is there.
        note: Receives sentences about what is missing or left out.
        on_data: Receives the data and their split before the run is written.

    Returns:
        The run.

    Raises:
        InputError: If a file cannot be read, or the parts do not fit together.

    Stability: provisional.
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
    set_aside = share(set_aside, "set_aside")
    if set_aside and interactions is None:
        raise InputError("there are no interactions to set a part aside from; give interactions")
    before, unknown_before = _known(interactions, "interactions", factors, reader, threshold)
    later, unknown_later = _known(held_out, "held-out interactions", factors, reader, threshold)
    split, seen = split_labels(before, None if held_out is None else later, set_aside=set_aside, seed=seed)
    about = _about_items(reader, items, subtopics, _columns(categories))
    reader.require_used()
    dataset = Dataset(
        Path(_name(user if interactions is None else interactions, "vectors")).name,
        _together(before, later),
        subtopics_of(about.subtopics, factors.item_ids),
        _attributes(about.items, factors.item_ids, _name(items, "items")),
        Preparation(threshold=threshold),
        about.how,
    )
    if on_data is not None:
        on_data(dataset, split)
    left_out = {"interactions": unknown_before.to_dict(), "held_out": unknown_later.to_dict(), "seen": seen}
    run = write_run(path, factors, dataset, split, {"left_out": left_out, "set_aside": set_aside}, overwrite=overwrite)
    counted = (COUNTED,) if given.settings[ROW_NUMBERS] else ()
    for sentence in (*counted, *_notes(split, left_out, set_aside)):
        note(sentence)
    return run


def _name(source: Any, otherwise: str) -> str:
    return str(source) if isinstance(source, (str, Path)) else otherwise


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


def _known(
    source: Any, what: str, factors: Factors, reader: TableReader, threshold: float | None
) -> tuple[Interactions, LeftOut]:
    """Return the interactions of users and items that have vectors; none without a source."""
    if source is None:
        nobody = np.empty(0, np.int64)
        return Interactions(nobody, nobody, factors.user_ids, factors.item_ids), LeftOut()
    where = _name(source, what)
    found = (
        interactions_from_frame(reader.read(source, required=("user_id", "item_id")), where=where)
        if isinstance(source, (str, Path))
        else interactions_of(source)
    )
    return known_rows(keep_positives(found, threshold), factors.user_ids, factors.item_ids, where)


def _columns(given: CategoryColumns | str | Sequence[str] | None) -> CategoryColumns | None:
    if given is None or isinstance(given, CategoryColumns):
        return given
    return CategoryColumns((given,) if isinstance(given, str) else tuple(given))


def _about_items(reader: TableReader, items: Any, subtopics: Any, columns: CategoryColumns | None) -> ItemFiles:
    """Read attributes and subtopics, from files or from frames."""
    if all(it is None or isinstance(it, (str, Path)) for it in (items, subtopics)):
        return read_item_files(reader, items, subtopics, columns)
    if columns is not None and (items is None or subtopics is not None):
        raise InputError("categories are columns of items; give items, and no subtopics")
    table = _read(reader, items, "items")
    if columns is not None:
        found = read_categories(table, columns, "items")
        return ItemFiles(table, found.table, "items", found.summary.how)
    if subtopics is None:
        return ItemFiles(table, None)
    found = long_categories(_read(reader, topic_table(subtopics), "subtopics"), "subtopics")
    return ItemFiles(table, found.table, "subtopics", found.summary.how)


def _read(reader: TableReader, source: Any, where: str) -> Any:
    if source is None:
        return None
    return reader.read(source) if isinstance(source, (str, Path)) else as_polars(source, where)


def _attributes(items: pl.DataFrame | None, item_ids: NDArray[Any], where: str) -> pl.DataFrame:
    table = pl.DataFrame({"item_id": id_series(item_ids)}) if items is None else items
    return attributes_from_frame(table, item_ids, where=where)


def _together(before: Interactions, later: Interactions) -> Interactions:
    """Return all pairs, without times and ratings: what the run's statistics count."""
    user, item = (np.concatenate([getattr(it, name) for it in (before, later)]) for name in ("user", "item"))
    return Interactions(user, item, before.user_ids, before.item_ids)


def _notes(split: Split, left_out: Mapping[str, Any], set_aside: float) -> list[str]:
    """Return what is missing or left out, a sentence each."""
    found = []
    for name, what in (("interactions", "interactions"), ("held_out", "held-out interactions")):
        unknown = left_out[name]
        if unknown["rows"]:
            found.append(
                f"{unknown['rows']:,} {what} are left out: they name {unknown['users']:,} users and "
                f"{unknown['items']:,} items without a vector"
            )
    if left_out["seen"]:
        found.append(f"{left_out['seen']:,} held-out interactions are left out: they are earlier interactions as well")
    if set_aside:
        found.append(OPTIMISTIC)
    if not len(split.train):
        found.append(NO_HISTORY)
    if not len(split.test):
        found.append(NO_LABELS)
    return found
