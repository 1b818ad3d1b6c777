"""The properties that dials have weights for, from words: categories, item columns, clusters, files."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import polars as pl

from recprism.budget.problem import Problem
from recprism.common.ids import known_positions, show_names
from recprism.data.categories import Categories
from recprism.data.frames import attributes_from_frame, categories_from_frame
from recprism.data.properties import Properties
from recprism.data.readers.categories import CategoryColumns, long_categories, read_categories
from recprism.data.readers.tables import ROW, read_table
from recprism.errors import InputError
from recprism.result.catalogue import titles_of
from recprism.runs.run import Run

log = logging.getLogger(__name__)

CATEGORIES, POPULARITY, CLUSTERS = "categories", "popularity", "clusters"
USUAL_CLUSTERS = 20
MOST = 1_000  # columns; the solver's time and the vectors grow with them
NAMES = ("item_id", "title", ROW)
"""Columns that say which item a row is about."""


def find_properties(run: Run, words: Sequence[str], problem: Problem, min_support: int = 2) -> Properties:
    """Build properties from the words of a request.

    Args:
        run: A trained run.
        words: ``categories``, ``popularity``, ``clusters=N`` (of the item vectors), a column of the run's items, or a
            file. A file has item_id and one row per item, or it is a long table item_id, category[, weight].
        problem: Its candidates count for the support.
        min_support: How many candidate items a property must tell from the others.

    Raises:
        InputError: If a word is unknown, or no property of it has enough support.
    """
    if min_support < 1:
        raise InputError(f"--min-support is {min_support}; pass a whole number of at least 1")
    shown = np.unique(problem.candidates[0])
    shown = shown[shown >= 0]
    return _joined([(word, _of_word(run, word, problem, shown, min_support)) for word in words], shown, min_support)


def as_categories(properties: Properties) -> Categories:
    """Return the categories and clusters among properties as categories; columns of numbers are left out."""
    kept = [j for j, kind in enumerate(properties.kinds) if kind in ("category", "cluster")]
    values = properties.values[:, kept]
    item, column = np.nonzero(values)
    names = np.array([properties.names[j] for j in kept], dtype=object)
    return Categories.from_pairs(item, names[column], len(values), values[item, column])


def _joined(parts: Sequence[tuple[str, Properties]], shown: np.ndarray, min_support: int) -> Properties:
    """Join the properties of all words, without those of too little support."""
    found = []
    for word, properties in parts:
        kept = properties.supported(shown, min_support)
        if not len(kept):
            raise InputError(
                f"--properties {word}: no property of it tells at least {min_support} candidate items from the others; "
                "lower --min-support, or name other properties"
            )
        if len(kept) < len(properties):
            log.warning(
                "%s of %s properties of %s have too little support", len(properties) - len(kept), len(properties), word
            )
        found.append(kept)
    whole = found[0].joined(*found[1:])
    if len(whole) > MOST:
        raise InputError(
            f"{len(whole):,} properties are more than {MOST:,}; raise --min-support, or name fewer of them"
        )
    return whole


def _of_word(run: Run, word: str, problem: Problem, shown: np.ndarray, min_support: int) -> Properties:
    items = run.items()
    if word in (CATEGORIES, POPULARITY, CLUSTERS) and word in items.columns:
        log.warning(
            "--properties %s: the items have a column of this name, which is not used; rename it to use it", word
        )
    if word == CATEGORIES:
        if not len(problem.categories):
            raise InputError("--properties categories: the items of this run have no categories; name other properties")
        return Properties.from_categories(problem.categories)
    if word == POPULARITY:
        return Properties.from_popularity(problem.split.train.col_counts)
    if word.partition("=")[0] == CLUSTERS:
        n = _number_of_clusters(word)
        return Properties.from_clusters(problem.factors.item, titles_of(items), n, seed=run.config.seed)
    if word in items.columns and word != "item_id":
        return _of_column(items, word, "items.parquet", problem, shown, min_support)
    if not (Path(word).suffix or Path(word).exists()):
        columns = show_names(name for name in items.columns if name != "item_id") or "none"
        raise InputError(
            f"--properties {word}: there is no such property; choose {CATEGORIES}, {POPULARITY}, {CLUSTERS}=N, a file "
            f"with item_id, or a column of the items of this run (which are: {columns})"
        )
    parts = list(_of_file(word, problem, shown, min_support))
    return parts[0].joined(*parts[1:])


def _number_of_clusters(word: str) -> int:
    given = word.partition("=")[2]
    if word != CLUSTERS and not given.isdecimal():
        raise InputError(f"--properties {word}: clusters need a whole number, as in {CLUSTERS}={USUAL_CLUSTERS}")
    return int(given) if given else USUAL_CLUSTERS


def _of_file(path: str, problem: Problem, shown: np.ndarray, min_support: int) -> Iterator[Properties]:
    """Read a table with one row per item, or a long table of categories."""
    table, ids = read_table(path, required=("item_id",)), problem.split.item_ids
    if "category" in table.columns:
        yield Properties.from_categories(categories_from_frame(long_categories(table, path).table, ids, where=path))
        return
    if known_positions(table["item_id"], ids).is_null().all():
        raise InputError(f"{path}: none of its item ids is an item of the run; both must use the same ids")
    items = attributes_from_frame(table, ids, where=path)
    columns = [name for name in items.columns if name not in NAMES]
    if not columns:
        raise InputError(f"{path}: has no column next to {', '.join(items.columns)}; add one that describes the items")
    for name in columns:
        yield _of_column(items, name, path, problem, shown, min_support)


def _of_column(
    items: pl.DataFrame, name: str, where: str, problem: Problem, shown: np.ndarray, min_support: int
) -> Properties:
    """Read a column: numbers, 0 and 1, or categories in any form that a column of categories may have."""
    column = items[name]
    if not column.dtype.is_nested():
        column = column.cast(pl.String).str.strip_chars().replace("", None)
    if column.is_null().all():
        raise InputError(f"{where}: column {name!r} has no values for the items of this run; choose another column")
    numbers = None if column.dtype.is_nested() else column.cast(pl.Float64, strict=False)
    is_numeric = numbers is not None and numbers.null_count() == column.null_count()
    if numbers is not None and is_numeric and not set(numbers.drop_nulls().unique()) <= {0.0, 1.0}:
        return Properties.from_column(name, numbers)
    table = pl.DataFrame({"item_id": items["item_id"], name: column})
    long = read_categories(table, CategoryColumns((name,)), where).table
    categories = categories_from_frame(long, problem.split.item_ids, where=where)
    count = np.bincount(categories.items.take_rows(shown).indices, minlength=len(categories))
    enough = np.flatnonzero(count >= min_support)  # a column of titles has as many values as items
    kept = np.isin(categories.items.indices, enough)
    names = np.array(categories.names, dtype=object)[categories.items.indices[kept]]
    labels = names if is_numeric else [f"{name}: {value}" for value in names]
    return Properties.from_categories(Categories.from_pairs(categories.items.row_of_entry[kept], labels, len(items)))
