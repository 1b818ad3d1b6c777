"""Makes a run from a model that was made elsewhere, and from tables of interactions and items."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from recprism.common.ids import id_series
from recprism.common.shares import Share, share
from recprism.data.dataset import Dataset, Preparation
from recprism.data.datasets import ItemFiles, read_item_files
from recprism.data.frames import as_polars, attributes_from_frame, interactions_from_frame
from recprism.data.interactions import Interactions, keep_positives
from recprism.data.labels import LeftOut, known_rows, split_labels
from recprism.data.readers.categories import CategoryColumns, long_categories, read_categories
from recprism.data.readers.tables import TableReader
from recprism.data.split import Split
from recprism.errors import InputError
from recprism.models import Factors
from recprism.models.adapters.scores import ScoredCandidates
from recprism.runs.jobs.imported import write_run
from recprism.runs.jobs.inputs import categories_of, category_table, interactions_of
from recprism.runs.run import Run

OPTIMISTIC = (
    "the model has probably learned from the interactions that were set aside, so its accuracy looks too good; "
    "give held-out interactions for figures that you can trust"
)
NO_LABELS = "there are no held-out interactions: accuracy is not measured and no budget can be certified"
NO_HISTORY = "there are no earlier interactions: lists may show what users have taken already"


@dataclass(frozen=True)
class OwnTables:
    """What comes with a model, from files or frames; the fields are those of ``import_vectors``."""

    interactions: Any
    held_out: Any
    set_aside: Share
    threshold: float | None
    items: Any
    categories: Any
    category_columns: CategoryColumns | str | Sequence[str] | None
    seed: int


@dataclass(frozen=True)
class Named:
    """Interactions, and what errors call them."""

    found: Interactions
    where: str


def make_run(
    path: str | Path,
    base_of: Callable[[Sequence[Named]], Factors | ScoredCandidates],
    tables: OwnTables,
    reader: TableReader,
    has: str,
    *,
    name: str,
    overwrite: bool,
    note: Callable[[str], None],
    on_data: Callable[[Dataset, Split], None] | None,
    notes: Sequence[str] = (),
) -> Run:
    """Make a run of a model and tables. Rows of users and items that the model does not know are left out.

    Args:
        path: The run directory to make.
        base_of: Returns the model, its rows sorted by id; it receives all interactions that were read.
        tables: What comes with the model.
        reader: Reads the files.
        has: What the model has for known ids: "vector" or "score".
        name: What the run calls the data if there are no interactions.
        overwrite: Replace a run that is there.
        note: Receives sentences about what is missing or left out.
        on_data: Receives the data and their split before the run is written.
        notes: Sentences that are noted first.
    """
    set_aside = share(tables.set_aside, "set_aside")
    if set_aside and tables.interactions is None:
        raise InputError("there are no interactions to set a part aside from; give interactions")
    given = [
        _read_interactions(tables.interactions, "interactions", reader, tables.threshold),
        _read_interactions(tables.held_out, "held-out interactions", reader, tables.threshold),
    ]
    base = base_of([it for it in given if it is not None])
    (before, unknown_before), (later, unknown_later) = (_known(it, base, has) for it in given)
    split, seen = split_labels(
        before, None if tables.held_out is None else later, set_aside=set_aside, seed=tables.seed
    )
    about = _about_items(reader, tables.items, tables.categories, _columns(tables.category_columns))
    reader.require_used()
    dataset = Dataset(
        Path(name if tables.interactions is None else source_name(tables.interactions, has + "s")).name,
        _together(before, later),
        categories_of(about.categories, base.item_ids),
        _attributes(about.items, base.item_ids, source_name(tables.items, "items")),
        Preparation(threshold=tables.threshold),
        about.how,
    )
    if on_data is not None:
        on_data(dataset, split)
    left_out = {"interactions": unknown_before.to_dict(), "held_out": unknown_later.to_dict(), "seen": seen}
    run = write_run(path, base, dataset, split, {"left_out": left_out, "set_aside": set_aside}, overwrite=overwrite)
    for sentence in (*notes, *_notes(split, left_out, set_aside, has)):
        note(sentence)
    return run


def source_name(source: Any, otherwise: str) -> str:
    """Return how errors name a source."""
    return str(source) if isinstance(source, (str, Path)) else otherwise


def _read_interactions(source: Any, what: str, reader: TableReader, threshold: float | None) -> Named | None:
    if source is None:
        return None
    where = source_name(source, what)
    found = (
        interactions_from_frame(reader.read(source, required=("user_id", "item_id")), where=where)
        if isinstance(source, (str, Path))
        else interactions_of(source)
    )
    return Named(keep_positives(found, threshold), where)


def _known(given: Named | None, base: Factors | ScoredCandidates, has: str) -> tuple[Interactions, LeftOut]:
    """Return the interactions of users and items that the model knows; none without a source."""
    if given is None:
        nobody = np.empty(0, np.int64)
        return Interactions(nobody, nobody, base.user_ids, base.item_ids), LeftOut()
    return known_rows(given.found, base.user_ids, base.item_ids, given.where, has)


def _columns(given: CategoryColumns | str | Sequence[str] | None) -> CategoryColumns | None:
    if given is None or isinstance(given, CategoryColumns):
        return given
    return CategoryColumns((given,) if isinstance(given, str) else tuple(given))


def _about_items(reader: TableReader, items: Any, categories: Any, columns: CategoryColumns | None) -> ItemFiles:
    """Read attributes and categories, from files or from frames."""
    if all(it is None or isinstance(it, (str, Path)) for it in (items, categories)):
        return read_item_files(reader, items, categories, columns)
    if columns is not None and (items is None or categories is not None):
        raise InputError("categories are columns of items; give items, and no categories")
    table = _read(reader, items, "items")
    if columns is not None:
        found = read_categories(table, columns, "items")
        return ItemFiles(table, found.table, "items", found.summary.how)
    if categories is None:
        return ItemFiles(table, None)
    found = long_categories(_read(reader, category_table(categories), "categories"), "categories")
    return ItemFiles(table, found.table, "categories", found.summary.how)


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


def _notes(split: Split, left_out: Mapping[str, Any], set_aside: float, has: str) -> list[str]:
    """Return what is missing or left out, a sentence each."""
    found = []
    for name, what in (("interactions", "interactions"), ("held_out", "held-out interactions")):
        unknown = left_out[name]
        if unknown["rows"]:
            found.append(
                f"{unknown['rows']:,} {what} are left out: they name {unknown['users']:,} users and "
                f"{unknown['items']:,} items without a {has}"
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
