"""Categories of items in the forms that tables have, read into a long table item_id, category[, weight]."""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import translate
from math import isnan
from typing import Any, Literal, get_args

import numpy as np
import polars as pl

from recprism.data.categories import Categories
from recprism.data.frames import interpret_ids, require_column
from recprism.data.readers.tables import ROW
from recprism.errors import InputError

Level = Literal["last", "path"]
MANY = 200
ONE_HOT, ONE_EACH = "0 and 1", "one category an item"
SURE = ("|", ";")  # almost never part of a name
ENTITY = re.compile(r"&#?\w+;")  # of HTML, as in "Rock &amp; Roll": its semicolon is not a delimiter
DOUBTFUL = (",", "/")  # also part of names, as in "Clothing, Shoes": they must make the categories fewer
PATH = ">"
TRUE, FALSE = {"1", "1.0", "true", "t", "yes"}, {"0", "0.0", "false", "f", "no", ""}
NAME_KEYS = ("name", "label", "title")  # of a list of objects, as in [{"id": 18, "name": "Drama"}]


@dataclass(frozen=True)
class CategoryColumns:
    """Where an item table has its categories.

    Attributes:
        names: Columns, or patterns such as ``genre_*``; a column of 0 and 1 is one category.
        separator: The text between two categories of one cell; None finds it.
        level: For nested lists and paths such as ``Books > Crime``, the last level or the whole path.
    """

    names: tuple[str, ...]
    separator: str | None = None
    level: Level = "last"

    def __post_init__(self) -> None:
        if self.separator == "":
            raise InputError("the separator of categories is empty; name one, or leave the option out to have it found")
        if self.level not in get_args(Level):
            raise InputError(f"unknown level {self.level!r} of nested categories; choose last or path")


@dataclass(frozen=True)
class CategorySummary:
    """What was read.

    Attributes:
        how: The columns and how each was read.
        n_items: Number of items.
        n_categories: Number of categories.
        without: Number of items without a category.
        top: The ten most frequent categories and their numbers of items.
        used_once: Number of categories with a single item.
    """

    how: str
    n_items: int
    n_categories: int
    without: int
    top: tuple[tuple[str, int], ...]
    used_once: int

    def sentence(self) -> str:
        """Return one line for a person."""
        how = f" ({self.how})" if self.how else ""
        if not self.n_categories:
            return f"no categories for {self.n_items:,} items{how}"
        top = ", ".join(f"{name} {count:,}" for name, count in self.top)
        most = f"most frequent: {top}" if self.n_categories > len(self.top) else top
        return f"{self.n_categories:,} categories{how}; {self.without:,} of {self.n_items:,} items have none; {most}"

    def warning(self) -> str | None:
        """Say what looks wrong, or return None."""
        doubt = "check how they were read, above, and name the right --category-column or --category-separator"
        if self.n_categories > MANY:
            return f"{self.n_categories:,} categories are more than {MANY}: {doubt}"
        if self.n_categories >= 5 and 2 * self.used_once > self.n_categories:
            return f"{self.used_once:,} of {self.n_categories:,} categories have a single item: {doubt}"
        return None

    def to_dict(self) -> dict[str, Any]:
        return {
            "categories": self.n_categories,
            "items_without": self.without,
            "most_frequent": dict(self.top),
            "used_once": self.used_once,
            "read_as": self.how,
            "warning": self.warning(),
        }


@dataclass(frozen=True, eq=False)
class CategoryTable:
    """Categories of an item table.

    Attributes:
        table: The columns item_id, category[, weight].
        summary: Summary of all items of the table.
    """

    table: pl.DataFrame
    summary: CategorySummary


def read_categories(table: pl.DataFrame, columns: CategoryColumns, where: str) -> CategoryTable:
    """Read the categories of an item table.

    A column may hold one category, several with a delimiter, lists (of Parquet or JSON, or written as JSON or Python
    text), nested lists, or 0 and 1 (then the column is the category).

    Args:
        table: Item ids and any columns.
        columns: Where the categories are.
        where: What errors call the table.

    Returns:
        The long table and what was read.

    Raises:
        InputError: A column is missing, or its lists cannot be read.
    """
    require_column(table, "item_id", where)
    ids = interpret_ids(table, "item_id", where)
    found: list[list[str]] = [[] for _ in range(table.height)]
    told = []
    hows: dict[str, str] = {}
    for name, label in _matching(table, columns.names, where):
        labels, hows[name] = _labels(table, name, label, columns, where)
        told.append(f"{name}: {hows[name]}")
        for own, more in zip(found, labels, strict=True):
            own.extend(more)
    _require_all_one_hot(table, hows, where)
    distinct = [list(dict.fromkeys(own)) for own in found]
    rows = np.repeat(np.arange(len(distinct)), [len(own) for own in distinct])
    names = [label for own in distinct for label in own]
    long = pl.DataFrame({"item_id": ids[rows], "category": pl.Series(names, dtype=pl.String)})
    return CategoryTable(long, _summary(_short(told), len(distinct), distinct))


def long_categories(table: pl.DataFrame, where: str) -> CategoryTable:
    """Accept a long table item_id, category[, weight]."""
    for name in ("item_id", "category"):
        require_column(table, name, where)
    if _holds_several(table["category"]):
        if "weight" in table.columns:
            raise InputError(f"{where}: category holds several names in a row; with weights give one row for each")
        return read_categories(table, CategoryColumns(("category",)), where)
    named = table.filter(pl.col("category").is_not_null())
    groups = named.group_by("item_id").agg(pl.col("category").cast(pl.String).unique())["category"].to_list()
    return CategoryTable(table, _summary("long table", table["item_id"].n_unique(), groups))


def _holds_several(column: pl.Series) -> bool:
    if column.dtype.is_nested():
        return True
    texts = [text.strip() for text in column.cast(pl.String).drop_nulls().to_list()]
    return any("|" in text or (text and _looks_like_list(text)) for text in texts)


def summarise(categories: Categories, how: str = "") -> CategorySummary:
    """Summarise the categories of the items of a run or a data set."""
    counts = np.bincount(categories.items.indices, minlength=len(categories))
    counter = Counter(dict(zip(categories.names, counts.tolist(), strict=True)))
    return _summary_of_counts(how, categories.items.n_rows, categories.items_without, counter)


def _summary(how: str, n_items: int, labels: Iterable[Sequence[str]]) -> CategorySummary:
    groups = list(labels)
    counts = Counter(label for own in groups for label in own)
    return _summary_of_counts(how, n_items, n_items - sum(bool(own) for own in groups), counts)


def _summary_of_counts(how: str, n_items: int, without: int, counts: Counter[str]) -> CategorySummary:
    top = sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))[:10]
    return CategorySummary(how, n_items, len(counts), without, tuple(top), sum(n == 1 for n in counts.values()))


def _short(told: list[str]) -> str:
    """Say how each column was read; of many columns, the first and the last."""
    return ", ".join(told) if len(told) <= 4 else f"{told[0]}, ... {told[-1]}; {len(told)} columns"


def _matching(table: pl.DataFrame, names: Sequence[str], where: str) -> Iterator[tuple[str, str]]:
    """Yield columns and their names as categories: the text that matches the * of a pattern, else the column name."""
    present = [name for name in table.columns if name not in ("item_id", ROW)]
    for wanted in names:
        if wanted in present:
            yield wanted, wanted
            continue
        matching = [name for name in present if "*" in wanted and re.match(translate(wanted), name)]
        if not matching:
            like = "no column is like" if "*" in wanted else "there is no column"
            raise InputError(f"{where}: {like} {wanted!r}; the columns are {', '.join(present)}")
        head, _, tail = wanted.partition("*")
        for name in matching:
            yield name, name.removeprefix(head).removesuffix(tail) or name


def _labels(
    table: pl.DataFrame, name: str, label: str, columns: CategoryColumns, where: str
) -> tuple[list[list[str]], str]:
    """Return the categories of each row in one column, and how they were read, in words."""
    column = table[name]
    if column.dtype.is_nested():
        return _levelled(column.to_list(), columns.level, "lists")
    texts = [text.strip() for text in column.cast(pl.String).fill_null("").to_list()]
    filled = [text for text in texts if text]
    values = {text.lower() for text in filled}
    if filled and values <= TRUE | FALSE and columns.separator is None:
        return [[label] if text.lower() in TRUE else [] for text in texts], ONE_HOT
    if filled and columns.separator is None and 2 * sum(_looks_like_list(text) for text in filled) > len(filled):
        rows = table[ROW].to_list() if ROW in table.columns else range(1, len(texts) + 1)
        lists = [_parsed(text, f"{where}, row {row}: {name}") for text, row in zip(texts, rows, strict=True)]
        return _levelled(lists, columns.level, "lists written as text")
    separator = columns.separator or guess_separator(filled)
    if separator is None:
        return _levelled([[text] for text in texts], columns.level, ONE_EACH)
    guessed = "" if columns.separator else " as found; --category-separator sets another"
    return _levelled([text.split(separator) for text in texts], columns.level, f"split at {separator!r}{guessed}")


def _require_all_one_hot(table: pl.DataFrame, hows: dict[str, str], where: str) -> None:
    """Reject a column of other numbers next to columns of 0 and 1: its numbers would become categories."""
    if ONE_HOT not in hows.values():
        return
    for name, how in hows.items():
        values = table[name].drop_nulls() if how == ONE_EACH else table[name].clear()
        if len(values) and values.cast(pl.String).cast(pl.Float64, strict=False).is_not_null().all():
            odd = next(one for one in values.to_list() if str(one) not in ("0", "1"))
            raise InputError(f"{where}: {name} holds {odd!r}, where other columns hold 0 and 1; leave it out or fix it")


def _levelled(values: Sequence[Any], level: Level, how: str) -> tuple[list[list[str]], str]:
    """Return the categories of each row; if there are paths, ``how`` says which level is used."""
    paths = [_flat(value, "path") for value in values]
    if level == "path" or not any(f" {PATH} " in one for own in paths for one in own):
        return paths, how
    return [_flat(value, level) for value in values], f"{how}, last level of each path; --category-level path keeps all"


def guess_separator(texts: Sequence[str]) -> str | None:
    """Find the text between categories; None if each text holds one category."""
    texts = [ENTITY.sub("", text) for text in texts]
    holding = {mark: sum(mark in text for text in texts) for mark in (*SURE, *DOUBTFUL)}
    sure = max(SURE, key=lambda mark: holding[mark])
    if holding[sure] and 10 * holding[sure] >= max(holding.values()):  # one stray mark does not outweigh the others
        return sure
    whole = set(texts)
    for mark in DOUBTFUL:
        parts = {part.strip() for text in whole for part in text.split(mark)} - {""}
        if holding[mark] and len(parts) <= len(whole):
            return mark
    return None


def _looks_like_list(text: str) -> bool:
    return (text[0], text[-1]) in {("[", "]"), ("(", ")"), ("{", "}")}


def _parsed(text: str, where: str) -> Any:
    """Read JSON, else a Python literal, else a printed numpy array, which has no commas."""
    if not text:
        return None
    try:
        return json.loads(text)
    except ValueError:
        pass
    try:
        return ast.literal_eval(re.sub(r"""(?<=['"])\s+(?=['"])""", ", ", text))
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        shown = text if len(text) <= 40 else f"{text[:40]}..."
        raise InputError(f"{where} is not a list in JSON or Python ({shown!r}); fix it") from None


def _flat(value: Any, level: Level) -> list[str]:
    """Return the categories of one item: of each inner list and each path, the last level or the whole path."""
    if value is None:
        return []
    if not isinstance(value, list | tuple | set):
        value = [value]
    found = []
    for one in value:
        levels = [_name(part) for part in _leaves(one)] if isinstance(one, list | tuple | set) else _path(_name(one))
        levels = [part for part in levels if part]
        if levels:
            found.append(levels[-1] if level == "last" else f" {PATH} ".join(levels))
    return found


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, list | tuple | set):
        for one in value:
            yield from _leaves(one)
    else:
        yield value


def _path(text: str) -> list[str]:
    """Split ``Books > Crime`` into its levels; a plain name is a path of one level."""
    return [part.strip() for part in re.split(rf"\s+{PATH}\s+", text)]


def _name(value: Any) -> str:
    if isinstance(value, dict):
        key = next((key for key in NAME_KEYS if key in value), None)
        value = value[key] if key is not None else next((it for it in value.values() if isinstance(it, str)), None)
    if value is None or (isinstance(value, float) and isnan(value)):
        return ""
    return str(int(value) if isinstance(value, float) and value.is_integer() else value).strip()
