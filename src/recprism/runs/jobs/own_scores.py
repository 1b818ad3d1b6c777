"""Makes a run from candidates with scores that were made elsewhere, and from tables of interactions and items."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from recprism.common.checks import LARGEST
from recprism.common.ids import find_ids, id_series, number_ids
from recprism.common.shares import Share
from recprism.data.dataset import Dataset
from recprism.data.frames import as_polars, interpret_ids, numbers, require_column
from recprism.data.labels import require_known
from recprism.data.readers.categories import CategoryColumns
from recprism.data.readers.tables import TableReader
from recprism.data.split import Split
from recprism.errors import InputError
from recprism.models.adapters.scores import ScoredCandidates
from recprism.runs.jobs._own_tables import Named, OwnTables, make_run, source_name
from recprism.runs.jobs.list_files import all_ids
from recprism.runs.run import Run

log = logging.getLogger(__name__)
COLUMNS = ("user_id", "item_id", "score")


def import_scores(
    path: str | Path,
    scores: Any,
    *,
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
    """Make a run of candidates with scores, from any system that ranks; it needs no vectors.

    The users of the run are those with scores. Rows of other users are counted and left out. The items are those of the
    scores and of the interactions. Nothing is written unless everything fits.

    Args:
        path: The run directory to make.
        scores: A file or a frame of user_id, item_id, score: the best candidates of each user, a few hundred. Items of
            ``held_out`` must be among the candidates as they would be if they were not known.
        interactions: This and all that follow are as in :func:`recprism.import_vectors`.
        held_out: What users took later; the system must not have learned from it.
        set_aside: Without ``held_out``, the share of each user's interactions to use as labels.
        threshold: The lowest rating that counts.
        items: A table of items.
        categories: The categories of items.
        category_columns: The columns of ``items`` that hold them.
        columns: Our column name -> yours, for all files.
        seed: Decides which labels validate and which are tested.
        overwrite: Replace a run that is there.
        note: Receives sentences about what is missing or left out.
        on_data: Receives the data and their split before the run is written.

    Returns:
        The run.

    Raises:
        InputError: If a file cannot be read, or the parts do not fit together.
    """
    reader, where = TableReader(columns or {}), source_name(scores, "scores")
    table = reader.read(scores, required=COLUMNS) if isinstance(scores, (str, Path)) else as_polars(scores, where)
    for name in COLUMNS:
        require_column(table, name, where)
    if table.is_empty():
        raise InputError(f"{where}: no rows; at least one score is needed")
    return make_run(
        path,
        lambda given: _candidates(table, where, given),
        OwnTables(interactions, held_out, set_aside, threshold, items, categories, category_columns, seed),
        reader,
        "score",
        name=where,
        overwrite=overwrite,
        note=note,
        on_data=on_data,
    )


def _candidates(table: pl.DataFrame, where: str, given: Sequence[Named]) -> ScoredCandidates:
    """Return the candidates of a table; items that only interactions have are items without a score."""
    user_ids, user = number_ids(interpret_ids(table, "user_id", where))
    scored_ids, item = number_ids(interpret_ids(table, "item_id", where))
    for it in given:
        wanted = it.found.item_ids
        require_known("item", find_ids(wanted, scored_ids), wanted, scored_ids, it.where, "score")
    item_ids = all_ids([id_series(it) for it in (scored_ids, *(it.found.item_ids for it in given))])
    score = numbers(table, "score", where, most=LARGEST)
    return ScoredCandidates.from_numbers(
        user, find_ids(scored_ids, item_ids)[item], score, user_ids=user_ids, item_ids=item_ids
    )
