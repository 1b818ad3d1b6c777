"""The MovieLens data sets in the publisher's formats."""

from __future__ import annotations

from importlib.resources import as_file, files

import polars as pl

from recprism.data.dataset import Tables
from recprism.data.readers.categories import CategoryColumns, read_categories
from recprism.data.readers.sources import Source
from recprism.data.readers.tables import ROW, read_delimited, read_parquet
from recprism.errors import InputError

NO_GENRE = "(no genres listed)"


def load_dat(source: Source) -> Tables:
    """Load ml-1m or ml-10m: fields separated by ``::``, titles in Latin-1 (1M) or UTF-8 (10M)."""
    ratings = _read_double_colon(source, "ratings.dat", ("user_id", "item_id", "rating", "timestamp"))
    movies = _read_titles(source)
    tags = _read_tags_dat(source) if source.has("tags.dat") else None
    return _tables(ratings, movies, tags, source.where("ratings.dat"))


def load_csv(source: Source) -> Tables:
    """Load ml-latest-small or a larger set of the same form: CSV files with a header."""
    ratings = _read_csv(source, "ratings.csv").rename({"userId": "user_id", "movieId": "item_id"})
    movies = _read_csv(source, "movies.csv").rename({"movieId": "item_id"})
    tags = _read_csv(source, "tags.csv").rename({"movieId": "item_id"}) if source.has("tags.csv") else None
    return _tables(ratings, movies, tags, source.where("ratings.csv"))


def load_embedded() -> Tables:
    """Load the copy of ml-latest-small in the package."""
    frames = {}
    for name in ("ratings", "movies", "tags"):
        with as_file(files("recprism.data") / "embedded" / f"{name}.parquet") as path:
            frames[name] = read_parquet(path.read_bytes(), f"embedded {name}.parquet")
    return _tables(frames["ratings"], frames["movies"], frames["tags"], "embedded ratings.parquet")


def embedded_readme() -> str:
    """Return the publisher's description and licence of the embedded set."""
    return (files("recprism.data") / "embedded" / "README.txt").read_text(encoding="utf-8")


def _tables(ratings: pl.DataFrame, movies: pl.DataFrame, tags: pl.DataFrame | None, where: str) -> Tables:
    genres = read_categories(movies, CategoryColumns(("genres",), "|"), "movies").table.filter(
        pl.col("category") != NO_GENRE
    )
    year = pl.col("title").str.extract(r"\((\d{4})\)\s*$").cast(pl.Int32)
    items = movies.drop(ROW, strict=False).with_columns(year.alias("year"))
    return Tables(ratings, genres, items if tags is None else _with_tags(items, tags), where)


def _with_tags(items: pl.DataFrame, tags: pl.DataFrame) -> pl.DataFrame:
    """Add a column of distinct tags in lower case, joined by ``|``."""
    tag = pl.col("tag").str.strip_chars().str.to_lowercase()
    joined = tags.group_by("item_id").agg(tag.drop_nulls().unique().sort().str.join("|").alias("tags"))
    return items.join(joined, on="item_id", how="left", maintain_order="left")


def _read_csv(source: Source, name: str) -> pl.DataFrame:
    return read_delimited(source.read(name), source.where(name))


def _read_double_colon(source: Source, name: str, header: tuple[str, ...]) -> pl.DataFrame:
    """Read ``a::b::c`` as colon-separated text in which every second column is empty."""
    positions = list(range(0, 2 * len(header), 2))
    content, where = source.read(name), source.where(name)
    if not content.strip():
        raise InputError(f"{where}: the file is empty; get the data set again")
    if content[: content.find(b"\n")].count(b"::") != len(header) - 1:
        raise InputError(f"{where}, row 1: {len(header)} fields apart by :: are needed ({', '.join(header)})")
    return read_delimited(content, where, separator=":", header=header, columns=positions, quote=None)


def _read_titles(source: Source) -> pl.DataFrame:
    """Read movies.dat line by line: its titles contain single colons."""
    where = source.where("movies.dat")
    rows = []
    for number, line in enumerate(_decode(source.read("movies.dat")).splitlines(), start=1):
        fields = line.split("::")
        if len(fields) != 3:
            raise InputError(
                f"{where}, row {number}: {len(fields)} fields apart by :: where 3 are needed (id, title, genres)"
            )
        rows.append(fields)
    return pl.DataFrame(rows, schema={"item_id": pl.String, "title": pl.String, "genres": pl.String}, orient="row")


def _read_tags_dat(source: Source) -> pl.DataFrame:
    """Read tags.dat of the 10M set. A tag may contain colons: it is what remains between the other fields."""
    rows = []
    for line in _decode(source.read("tags.dat")).splitlines():
        _, item, rest = line.split("::", 2)
        rows.append((item, rest.rpartition("::")[0]))
    return pl.DataFrame(rows, schema={"item_id": pl.String, "tag": pl.String}, orient="row")


def _decode(content: bytes) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return content.decode("latin-1")
