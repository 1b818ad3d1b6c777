"""Amazon reviews of 2014 and 2018: ratings or reviews with metadata, and the prepared CDs-2014 archive."""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import polars as pl

from recprism.data.dataset import Tables
from recprism.data.readers.sources import Source, numbered_lines
from recprism.data.readers.tables import ROW, read_delimited
from recprism.errors import InputError

N_CATEGORIES = 30
ASIN = r"^(B[0-9A-Z]{9}|[0-9]{9}[0-9X])$"
# The forms of one category, best first: 5-core reviews, all reviews, bare ratings.
FORMS = ("reviews_{}_5.json", "{}_5.json", "reviews_{}.json", "{}.json", "ratings_{}.csv", "{}.csv")


def load_category(source: Source, category: str | None) -> Tables:
    """Load one product category; None loads the only category of the folder."""
    category = category or _only_category(source)
    name = _find(source, category)
    if name is None:
        wanted = ", ".join(form.format(category) for form in FORMS)
        raise InputError(f"{source.path}: no file of Amazon category {category!r}; looked for {wanted}, plain or .gz")
    read = _read_ratings if name.removesuffix(".gz").endswith(".csv") else _read_reviews
    interactions = read(source, name)
    meta = _present(source, f"meta_{category}.json")
    if meta is None:
        return Tables(interactions, where=source.where(name))
    items, paths = _read_metadata(source, meta)
    return Tables(interactions, frequent_categories(paths), items, source.where(name))


def load_cds_2014(source: Source) -> Tables:
    """Load interactions.csv (user_id, item_id, order; all are positives) and subtopics.csv (item_id, subtopic)."""
    interactions = read_delimited(source.read("interactions.csv"), source.where("interactions.csv"))
    categories = read_delimited(source.read("subtopics.csv"), source.where("subtopics.csv"))
    return Tables(
        interactions.rename({"order": "timestamp"}, strict=False),
        categories.rename({"subtopic": "category"}, strict=False),
        None,
        source.where("interactions.csv"),
    )


def categories(source: Source) -> list[str]:
    """List the categories whose interactions are in the folder."""
    found = set()
    for name in source.names():
        match = re.fullmatch(
            r"(?:reviews_|ratings_)(.+?)(?:_5)?\.(?:json|csv)(?:\.gz)?|([A-Z]\w+)_5\.json(?:\.gz)?", name
        )
        if match:
            found.add(match[1] or match[2])
    return sorted(found)


def frequent_categories(paths: dict[str, list[list[str]]], n: int = N_CATEGORIES) -> pl.DataFrame:
    """Return the n most frequent categories as a long table.

    A path begins with the department. The department is the same for every item, so it is not a category.
    """
    labels = {item: sorted({label for path in item_paths for label in path[1:]}) for item, item_paths in paths.items()}
    counts = Counter(label for own in labels.values() for label in own)
    kept = {label for label, _ in sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))[:n]}
    rows = [(item, label) for item, own in labels.items() for label in own if label in kept]
    return pl.DataFrame(rows, schema={"item_id": pl.String, "category": pl.String}, orient="row")


def holds(source: Source, category: str | None) -> bool:
    """Whether the folder has the category, or any category if none is named."""
    return bool(categories(source)) if category is None else _find(source, category) is not None


def _only_category(source: Source) -> str:
    found = categories(source)
    if len(found) == 1:
        return found[0]
    known = ", ".join(f"amazon:{name}" for name in found) or "none"
    raise InputError(f"{source.path}: name one Amazon category, as in amazon:CDs_and_Vinyl; found here: {known}")


def _find(source: Source, category: str) -> str | None:
    present = (_present(source, form.format(category)) for form in FORMS)
    return next((name for name in present if name is not None), None)


def _present(source: Source, name: str) -> str | None:
    return next((form for form in (name, f"{name}.gz") if source.has(form)), None)


def _read_ratings(source: Source, name: str) -> pl.DataFrame:
    """Read ratings without a header. In 2014 the user comes first, in 2018 the item: product codes decide."""
    where = source.where(name)
    frame = read_delimited(source.read(name), where, header=("first", "second", "rating", "timestamp"))
    is_item = {
        column: int(frame[column].head(1000).str.contains(ASIN).fill_null(False).sum())
        for column in ("first", "second")
    }
    if is_item["first"] == is_item["second"]:
        raise InputError(
            f"{where}: cannot tell users from items (no column of 10-character product codes); is it an Amazon file?"
        )
    item_first = is_item["first"] > is_item["second"]
    user, item = ("second", "first") if item_first else ("first", "second")
    return frame.rename({user: "user_id", item: "item_id"})


def _read_reviews(source: Source, name: str) -> pl.DataFrame:
    where = source.where(name)
    rows: list[tuple[int, Any, Any, Any, Any]] = []
    for row, review in _json_lines(source.read(name), where):
        try:
            rows.append(
                (row, review["reviewerID"], review["asin"], float(review["overall"]), int(review["unixReviewTime"]))
            )
        except KeyError as missing:
            raise InputError(f"{where}, row {row}: no field {missing}; is it an Amazon review file?") from None
        except (TypeError, ValueError):
            raise InputError(f"{where}, row {row}: overall or unixReviewTime is not a number") from None
    if not rows:
        raise InputError(f"{where}: the file is empty; at least one review is needed")
    schema = {ROW: pl.UInt32, "user_id": pl.String, "item_id": pl.String, "rating": pl.Float64, "timestamp": pl.Int64}
    return pl.DataFrame(rows, schema=schema, orient="row", strict=False)


def _read_metadata(source: Source, name: str) -> tuple[pl.DataFrame, dict[str, list[list[str]]]]:
    """Read titles, brands and the category paths of each item (2014: a list of paths; 2018: one path)."""
    where = source.where(name)
    rows: dict[str, tuple[str, str | None, str | None]] = {}
    paths: dict[str, list[list[str]]] = {}
    for row, entry in _json_lines(source.read(name), where):
        item = entry.get("asin")
        if item is None:
            raise InputError(f"{where}, row {row}: no field 'asin'; is it an Amazon metadata file?")
        rows[item] = (item, _text(entry.get("title")), _text(entry.get("brand")))
        one_path = entry.get("category")
        paths[item] = entry.get("categories") or ([one_path] if one_path else [])
    schema = {"item_id": pl.String, "title": pl.String, "brand": pl.String}
    return pl.DataFrame(list(rows.values()), schema=schema, orient="row"), paths


def _text(value: Any) -> str | None:
    return str(value) if value else None


def _json_lines(content: bytes, where: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield one object per line. The 2014 metadata are Python literals (single quotes), not JSON."""
    for row, line in numbered_lines(content, where):
        try:
            value = json.loads(line)
        except ValueError:
            value = _python_literal(line)
        if not isinstance(value, dict):
            raise InputError(f"{where}, row {row}: not a JSON object; one object a line is needed")
        yield row, value


def _python_literal(line: str) -> Any:
    try:
        return ast.literal_eval(line)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
