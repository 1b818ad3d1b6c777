"""Data sets by name: what they are, where they are searched for, and how they are read."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from recprism.data.dataset import Dataset, Preparation, Tables
from recprism.data.readers import amazon, lastfm, movielens
from recprism.data.readers.categories import CategoryColumns, Level, long_categories, read_categories
from recprism.data.readers.sources import Source
from recprism.data.readers.tables import TableReader
from recprism.errors import InputError

STARS = Preparation(threshold=4.0, min_user=5, min_item=5)
POSITIVES = Preparation(threshold=None, min_user=5, min_item=5)
GROUPLENS = "https://files.grouplens.org/datasets/movielens/"
GROUPLENS_LICENCE = (
    "GroupLens usage licence: research use, no redistribution of ml-1m and ml-10m; see the README inside"
)
HETREC = "https://files.grouplens.org/datasets/hetrec2011/"
AMAZON_2014 = "https://snap.stanford.edu/data/amazon/productGraph/categoryFiles/"
AMAZON_LICENCE = "Published by UCSD (J. McAuley) for research; no licence file is given"


@dataclass(frozen=True)
class NamedSet:
    """A data set that can be loaded by name.

    Attributes:
        title: One line for a person.
        load: Reads the tables from a folder or archive. Its second argument is the variant: what follows a colon in
            the name.
        preparation: How its interactions are cleaned by default.
        licence: The publisher's terms.
        archive: Name of its zip archive, and of the folder that the archive unpacks to.
        holds: Whether a folder has the files of a set that has no archive.
        downloads: Pairs of an address and the address of its md5 file, or None. ``{}`` is replaced by the variant.
        needs_variant: Whether a download needs a variant.
    """

    title: str
    load: Callable[[Source, str | None], Tables]
    preparation: Preparation
    licence: str
    archive: str | None = None
    holds: Callable[[Source, str | None], bool] | None = None
    downloads: tuple[tuple[str, str | None], ...] = ()
    needs_variant: bool = False


def _grouplens(name: str) -> tuple[tuple[str, str | None], ...]:
    return ((f"{GROUPLENS}{name}.zip", f"{GROUPLENS}{name}.zip.md5"),)


NAMED: dict[str, NamedSet] = {
    "ml-latest-small": NamedSet(
        "MovieLens latest small: 100,836 ratings, 610 users (embedded)",
        lambda source, _: movielens.load_csv(source),
        STARS,
        "GroupLens usage licence: redistribution under the same terms; shown by `recprism data show ml-latest-small`",
        "ml-latest-small",
        downloads=_grouplens("ml-latest-small"),
    ),
    "ml-1m": NamedSet(
        "MovieLens 1M: 1,000,209 ratings, 6,040 users",
        lambda source, _: movielens.load_dat(source),
        STARS,
        GROUPLENS_LICENCE,
        "ml-1m",
        downloads=_grouplens("ml-1m"),
    ),
    "ml-10m": NamedSet(
        "MovieLens 10M: 10,000,054 ratings, 69,878 users",
        lambda source, _: movielens.load_dat(source),
        STARS,
        GROUPLENS_LICENCE,
        "ml-10m",
        downloads=_grouplens("ml-10m"),
    ),
    "amazon": NamedSet(
        "Amazon reviews of 2014 or 2018, one category, as in amazon:CDs_and_Vinyl",
        amazon.load_category,
        STARS,
        AMAZON_LICENCE,
        None,
        amazon.holds,
        ((f"{AMAZON_2014}ratings_{{}}.csv", None), (f"{AMAZON_2014}meta_{{}}.json.gz", None)),
        needs_variant=True,
    ),
    "amazon-cds-2014": NamedSet(
        "Amazon CDs and Vinyl, positives of 2014 with 30 categories",
        lambda source, _: amazon.load_cds_2014(source),
        POSITIVES,
        AMAZON_LICENCE,
        "amazon-cds-2014",
    ),
    "hetrec2011-lastfm-2k": NamedSet(
        "Last.FM of HetRec 2011: 92,834 user-artist pairs, 1,892 users; 100 tags as categories",
        lambda source, _: lastfm.load_hetrec(source),
        POSITIVES,
        "Published by GroupLens and Last.fm for research use, no redistribution; see the README of HetRec 2011",
        "hetrec2011-lastfm-2k",
        downloads=((f"{HETREC}hetrec2011-lastfm-2k.zip", None),),
    ),
}

PAPER_COUNTS = {"min_user": 10, "min_item": 5}
# Other names an archive unpacks to: ml-10m.zip holds a folder ml-10M100K.
UNPACKED = {"ml-10m": "ml-10M100K"}


def load_dataset(
    name: str, *, preset: str = "default", data_root: str | Path | None = None, **preparation: Any
) -> Dataset:
    """Load a named data set and clean it.

    Args:
        name: One of the names that ``recprism data list`` prints, with a variant where the set has several.
        preset: "default" (five positives per user and item) or "paper" (ten per user, five per item).
        data_root: A folder to search before RECPRISM_DATA.
        **preparation: Settings of :class:`Preparation` that differ from the preset.

    Returns:
        The data set.

    Raises:
        InputError: The name is unknown, or the data set is not on this machine.
    """
    known = find_named(name.partition(":")[0])
    wanted = replace(known.preparation, **(_preset(preset) | preparation))
    return Dataset.from_tables(name, _read(name, known, data_root), wanted)


def load_files(
    interactions: str | Path,
    *,
    columns: Mapping[str, str] | None = None,
    categories: str | Path | None = None,
    items: str | Path | None = None,
    category_column: str | Sequence[str] | None = None,
    separator: str | None = None,
    level: Level = "last",
    preparation: Preparation | None = None,
) -> Dataset:
    """Load your own files.

    A file may be delimited text, Parquet or JSON, plain or compressed; its content decides which.

    Args:
        interactions: A table user_id, item_id[, rating, timestamp].
        columns: Our name -> the name in your files, as in ``{"user_id": "customer"}``. It applies to all files.
        categories: A long table item_id, category[, weight].
        items: A table with item_id and any other columns (title, year, ...).
        category_column: Instead of ``categories``: columns of the item table that hold categories.
        separator: The text between two categories of one cell; None finds it.
        level: For nested categories, the last level or the whole path.
        preparation: How the interactions are cleaned.

    Returns:
        The data set; its ``categories`` say what was read.

    Raises:
        InputError: A file cannot be read, or a mapped or needed column is missing.
    """
    reader = TableReader(columns or {})
    table = reader.read(interactions, required=("user_id", "item_id"))
    about = read_item_files(reader, items, categories, _category_columns(category_column, separator, level))
    reader.require_used()
    tables = Tables(
        table, about.categories, about.items, str(interactions), about.where, str(items), category_source=about.how
    )
    return Dataset.from_tables(Path(interactions).stem, tables, preparation)


@dataclass(frozen=True, eq=False)
class ItemFiles:
    """Tables about items.

    Attributes:
        items: The item table, or None.
        categories: The long table of categories, or None.
        where: The file of the categories.
        how: How the categories were read, in words.
    """

    items: pl.DataFrame | None
    categories: pl.DataFrame | None
    where: str = "categories"
    how: str = ""


def read_item_files(
    reader: TableReader, items: str | Path | None, categories: str | Path | None, columns: CategoryColumns | None
) -> ItemFiles:
    """Read an item table and a table of categories; the categories come from one of the two, if any."""
    if columns is not None and (items is None or categories is not None):
        problem = "name its file with --items" if items is None else "leave --categories out, or the column"
        raise InputError(f"the category column {columns.names[0]!r} is one of an item table; {problem}")
    item_table = None if items is None else reader.read(items, required=("item_id",))
    if columns is not None and item_table is not None:
        found = read_categories(item_table, columns, str(items))
        return ItemFiles(item_table, found.table, str(items), found.summary.how)
    if categories is None:
        return ItemFiles(item_table, None)
    found = long_categories(reader.read(categories, required=("item_id", "category")), str(categories))
    return ItemFiles(item_table, found.table, str(categories), found.summary.how)


def _category_columns(names: str | Sequence[str] | None, separator: str | None, level: Level) -> CategoryColumns | None:
    if not names:
        return None
    return CategoryColumns((names,) if isinstance(names, str) else tuple(names), separator, level)


def find_named(name: str) -> NamedSet:
    if name not in NAMED:
        raise InputError(f"unknown data set {name!r}; known are {', '.join(NAMED)}, or name a file of interactions")
    return NAMED[name]


def data_roots(data_root: str | Path | None = None) -> list[Path]:
    """List the folders that are searched, in order: the one given, RECPRISM_DATA, the user's data folder."""
    named = [data_root, os.environ.get("RECPRISM_DATA") or None]
    home = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "recprism"
    return [Path(root) for root in named if root is not None] + [home]


def locate(name: str, data_root: str | Path | None = None) -> Source | None:
    """Find the archive or folder of a named set; a root may be the folder of the set itself. None if there is none."""
    base, _, variant = name.partition(":")
    known = find_named(base)
    for root in data_roots(data_root):
        if known.archive is None:
            if root.is_dir() and known.holds is not None and known.holds(Source(root), variant or None):
                return Source(root)
        elif (root / f"{known.archive}.zip").is_file():
            return Source(root / f"{known.archive}.zip")
        else:
            names = (known.archive, UNPACKED.get(base, known.archive))
            folders = [root / folder for folder in names] + ([root] if root.name in names else [])
            if found := next((folder for folder in folders if folder.is_dir()), None):
                return Source(found)
    return None


def _read(name: str, known: NamedSet, data_root: str | Path | None) -> Tables:
    source = locate(name, data_root)
    if source is not None:
        return known.load(source, name.partition(":")[2] or None)
    if name == "ml-latest-small":
        return movielens.load_embedded()
    roots = ", ".join(str(root) for root in data_roots(data_root))
    hint = f"run `recprism data fetch {name}`" if known.downloads else "put its archive there"
    raise InputError(f"{name} is not under {roots}; {hint}, or name another folder with --data-root")


def _preset(preset: str) -> dict[str, int]:
    presets: dict[str, dict[str, int]] = {"default": {}, "paper": PAPER_COUNTS}
    if preset not in presets:
        raise InputError(f"unknown preset {preset!r}; choose default or paper")
    return presets[preset]
