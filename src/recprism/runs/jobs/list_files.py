"""Evaluates lists from files: user_id, item_id and rank are enough; other files add metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import polars as pl
from numpy.typing import NDArray

from recprism.budget.popularity import with_popularity
from recprism.common.ids import as_id_array, id_positions, number_ids
from recprism.data.categories import Categories
from recprism.data.datasets import ItemFiles, read_item_files
from recprism.data.frames import categories_from_frame, interpret_ids, numbers, require_column
from recprism.data.readers.categories import CategoryColumns, CategorySummary, summarise
from recprism.data.readers.known_pairs import known_pairs
from recprism.data.readers.tables import ROW, TableReader, read_table
from recprism.data.sparse_rows import SparseRows
from recprism.data.split import Part, Split
from recprism.errors import InputError
from recprism.metrics import Context, Evaluation, evaluate
from recprism.metrics.registry import with_gini
from recprism.metrics.suite import PAPER_METRICS, deepest_cut
from recprism.runs.run import Run

LISTS = ("user_id", "item_id", "rank")
Missing = Literal["skip", "zero"]
CATALOGUE_METRICS = ("catalogue_coverage", "gini", "exposure_entropy")


@dataclass(frozen=True)
class SideFiles:
    """Files that say more about the lists' users and items.

    Attributes:
        held_out: user_id, item_id: what the users took later.
        train: user_id, item_id: what was known before. It gives popularity and the users' own categories.
        categories: item_id, category[, weight].
        items: item_id and attributes.
        category_columns: Which columns of ``items`` hold categories.
        catalogue_size: How many items there are, if no file tells.
        columns: Our column name -> the name in the files.
    """

    held_out: str | Path | None = None
    train: str | Path | None = None
    categories: str | Path | None = None
    items: str | Path | None = None
    category_columns: CategoryColumns | None = None
    catalogue_size: int | None = None
    columns: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class ListAudit:
    """An evaluation of lists from a file.

    Attributes:
        evaluation: The metrics.
        notes: What is missing or unknown, a sentence each.
        category_summary: A summary of the items' categories; None without any.
    """

    evaluation: Evaluation
    notes: tuple[str, ...]
    category_summary: CategorySummary | None = None


def audit_lists(
    path: str | Path,
    side_files: SideFiles,
    metrics: Sequence[str] | None,
    *,
    bootstrap: int = 1000,
    seed: int = 0,
    missing: Missing = "skip",
) -> ListAudit:
    """Evaluate a file of lists with the help of other files.

    Args:
        path: user_id, item_id, rank.
        side_files: Files about users and items.
        metrics: Names with cuts; the usual ones by default.
        bootstrap: Resamples of the intervals.
        seed: Of the resamples.
        missing: What users with held-out items and no list do: "skip" judges the others, "zero" counts them as empty
            lists.

    Raises:
        InputError: If a file cannot be read, a column is missing, or the files name more items than there are.
    """
    _require_missing(missing)
    reader = TableReader(side_files.columns)
    lists = lists_of(reader.read(path, required=LISTS), str(path))
    files = {name: file for name, file in (("train", side_files.train), ("held_out", side_files.held_out)) if file}
    tables = {name: read_pairs(file, reader) for name, file in files.items()}
    about = read_item_files(reader, side_files.items, side_files.categories, side_files.category_columns)
    reader.require_used()
    item_ids = _catalogue(lists, tables, [(str(side_files.items), about.items), (about.where, about.categories)])
    judged = [lists, tables["held_out"]] if missing == "zero" and "held_out" in tables else [lists]
    user_ids = all_ids([table["user_id"] for table in judged])
    user = positions(lists["user_id"], user_ids, what="user")
    items = as_matrix(user, positions(lists["item_id"], item_ids), lists["rank"].to_numpy(), len(user_ids))
    pairs = {name: known_pairs(table, user_ids, item_ids, str(files[name])) for name, table in tables.items()}
    matrices = {name: found.matrix for name, found in pairs.items()}
    size_known = side_files.catalogue_size is not None or len(tables) > 0 or about.items is not None
    n_items = len(item_ids) if side_files.catalogue_size is None else side_files.catalogue_size
    if n_items < len(item_ids):
        raise InputError(
            f"the files name {len(item_ids):,} items, and the catalogue size is {n_items:,}; give at least as many"
        )
    categories = None if about.categories is None else _categories(about, item_ids, n_items)
    _require_places(metrics, items, str(path))
    context = Context(
        relevant=_padded(matrices.get("held_out"), n_items),
        train=_padded(matrices.get("train"), n_items),
        categories=categories,
        n_items=n_items,
    )
    evaluation = evaluate(items, context, metrics, bootstrap=bootstrap, users=user_ids, seed=seed)
    if "train" in matrices:
        before = SparseRows(matrices["train"].indptr, matrices["train"].indices, n_items)
        empty = SparseRows.empty(before.shape)
        split = Split(before, empty, empty, user_ids, np.arange(n_items))
        evaluation = with_popularity(evaluation, split, "test", context)
    n_lists, shown = lists["user_id"].n_unique(), len(np.unique(items[items >= 0]))
    notes: tuple[str, ...] = (f"{n_lists:,} lists over {shown:,} items; catalogue of {n_items:,} items",)
    if not size_known:
        notes += (
            f"the catalogue is not known, so items that no list shows are missing from {', '.join(CATALOGUE_METRICS)}:"
            " name an item table or a catalogue size",
        )
    if "held_out" in tables:
        owners = tables["held_out"]["user_id"].cast(pl.String).unique()
        with_list = int(owners.is_in(lists["user_id"].cast(pl.String).unique().implode()).sum())
        notes += _missing_notes(with_list, len(owners), "users with held-out items", missing)
    notes += tuple(note for name, found in pairs.items() if (note := found.note(str(files[name]))))
    return ListAudit(evaluation, notes, None if categories is None else summarise(categories, about.how))


def audit_against_run(
    path: str | Path,
    run: Run,
    metrics: Sequence[str] | None,
    *,
    part: Part = "test",
    bootstrap: int = 1000,
    seed: int = 0,
    columns: Mapping[str, str] | None = None,
    missing: Missing = "skip",
) -> ListAudit:
    """Evaluate a file of lists with the held-out items, categories and item vectors of a run.

    Args:
        path: user_id, item_id, rank.
        run: The run.
        metrics: Names with cuts; the usual ones by default.
        part: The part that judges.
        bootstrap: Resamples of the intervals.
        seed: Of the resamples.
        columns: Our column name -> the name in the file.
        missing: What users without a list do: "skip" judges the others, "zero" counts them as empty lists.

    Raises:
        InputError: If the file cannot be read, or names a user or an item that the run does not know.
    """
    _require_missing(missing)
    lists, split = lists_of(read_table(path, columns, required=LISTS), str(path)), run.split()
    items = as_matrix(
        positions(lists["user_id"], split.user_ids, what="user", where=str(path)),
        positions(lists["item_id"], split.item_ids, what="item", where=str(path)),
        lists["rank"].to_numpy(),
        split.n_users,
    )
    _require_places(metrics, items, str(path))
    vectors = run.factors().item if run.has_factors() and run.has_vectors() else None
    context = Context.from_split(split, part, categories=run.categories(), vectors=vectors)
    with_list = np.flatnonzero(items[:, 0] >= 0)
    notes = _missing_notes(len(with_list), split.n_users, "users of the run", missing)
    labels = split.part(part)
    if len(labels) and not np.isin(np.arange(len(items))[:, None] * split.n_items + items, labels.keys).any():
        notes += (
            f"no list shows an item that its user took in the {part} part; live lists never do, and `recprism "
            "recommend --judged` writes lists that can be judged",
        )
    rows = with_list if missing == "skip" else np.arange(split.n_users)
    context = context.of_users(rows)
    found = evaluate(items[rows], context, metrics, bootstrap=bootstrap, users=split.user_ids[rows], seed=seed)
    return ListAudit(with_popularity(found, split, part, context, rows), notes)


def _require_places(metrics: Sequence[str] | None, items: NDArray[np.int64], where: str) -> None:
    """Refuse lists that are too short for the paper's metrics, which the caller did not name one by one."""
    if metrics == with_gini(PAPER_METRICS) and items.shape[1] < deepest_cut(metrics):
        raise InputError(
            f"{where}: the metrics of the paper need lists of {deepest_cut(metrics)} places, and the longest has "
            f"{items.shape[1]}; name metrics with a smaller cut, as in ndcg@10"
        )


def _require_missing(missing: str) -> None:
    if missing not in get_args(Missing):
        raise InputError(f"missing is {' or '.join(get_args(Missing))}, not {missing!r}")


def _missing_notes(with_list: int, users: int, what: str, missing: Missing) -> tuple[str, ...]:
    """Return how many users have a list, and what that means for the figures; nothing if all have one."""
    if with_list == users:
        return ()
    rest = (
        "the others count as empty lists"
        if missing == "zero"
        else "only these count; `--missing zero` counts the others as empty lists"
    )
    return (f"{with_list:,} of {users:,} {what} have a list; {rest}",)


def lists_of(frame: pl.DataFrame, where: str, day: str | None = None) -> pl.DataFrame:
    """Return user_id, item_id and rank from 0.

    Args:
        frame: Lists in any order of rows; ranks may start anywhere.
        where: The name of the file.
        day: A column that tells when a list was served. It is returned as text, and a user may have one list a day.

    Raises:
        InputError: If a column is missing, or a user has a rank or an item twice.
    """
    for name in LISTS:
        require_column(frame, name, where)
    rank = numbers(frame, "rank", where)
    table = frame.select(ROW).with_columns(
        interpret_ids(frame, "user_id", where).alias("user_id"),
        interpret_ids(frame, "item_id", where).alias("item_id"),
        pl.Series("rank", rank),
    )
    if day is not None:
        require_column(frame, day, where)
        table = table.with_columns(_days(frame[day]).alias("day"))
    owner = ("user_id",) if day is None else ("day", "user_id")
    for twice in ("rank", "item_id"):
        doubled = table.filter(table.select(*owner, twice).is_duplicated())
        if not doubled.is_empty():
            row, user, value = doubled[ROW][0], doubled["user_id"][0], doubled[twice][0]
            when = "" if day is None else f" on {doubled['day'][0]}"
            raise InputError(
                f"{where}, row {row}: user {user!r} has {twice} {value!r} more than once{when}; each may occur once"
            )
    return table.with_columns(pl.col("rank").rank("ordinal").over(owner).cast(pl.Int64) - 1)


def _days(column: pl.Series) -> pl.Series:
    """Return days as text that sorts by time; a moment becomes its date."""
    if column.dtype == pl.Datetime:
        column = column.dt.date()
    return column.cast(pl.String).fill_null("without a date")


def read_pairs(path: str | Path, reader: TableReader) -> pl.DataFrame:
    """Read user_id and item_id; the reader knows the names of the columns."""
    frame = reader.read(path, required=("user_id", "item_id"))
    return pl.DataFrame({name: interpret_ids(frame, name, str(path)) for name in ("user_id", "item_id")})


def _catalogue(
    lists: pl.DataFrame, tables: Mapping[str, pl.DataFrame], about: Sequence[tuple[str, pl.DataFrame | None]]
) -> NDArray[Any]:
    """Return every item that any of the files names, in order; ``about`` has files of items and their tables."""
    columns = [lists["item_id"], *(table["item_id"] for table in tables.values())]
    return all_ids([*columns, *(interpret_ids(table, "item_id", where) for where, table in about if table is not None)])


def all_ids(columns: Sequence[pl.Series]) -> NDArray[Any]:
    """Return every id of the columns once, in order."""
    alike = columns if len({column.dtype for column in columns}) == 1 else [it.cast(pl.String) for it in columns]
    return number_ids(pl.concat([column.rename("id") for column in alike]))[0]


def positions(ids: pl.Series, known: NDArray[Any], *, what: str = "item", where: str = "lists") -> NDArray[np.int64]:
    """Return ``(n,)`` row numbers of ids; an unknown id is refused."""
    try:
        return id_positions(as_id_array(ids.to_list(), what, distinct=False), known, what)
    except InputError as problem:
        raise InputError(f"{where}: {problem}") from None


def as_matrix(user: NDArray[Any], item: NDArray[Any], rank: NDArray[Any], n_users: int) -> NDArray[np.int64]:
    """Return ``(n_users, longest list)`` item numbers, -1 in empty places."""
    matrix = np.full((n_users, int(rank.max()) + 1), -1, np.int64)
    matrix[user, rank] = item
    return matrix


def _padded(matrix: SparseRows | None, n_items: int) -> SparseRows | None:
    return None if matrix is None else SparseRows(matrix.indptr, matrix.indices, n_items)


def _categories(about: ItemFiles, item_ids: NDArray[Any], n_items: int) -> Categories:
    known = categories_from_frame(about.categories, item_ids, where=about.where)
    empty_rows = np.full(n_items - len(item_ids), known.items.indptr[-1])
    items = SparseRows(np.concatenate([known.items.indptr, empty_rows]), known.items.indices, known.items.n_cols)
    return Categories(known.names, items, known.weights)
