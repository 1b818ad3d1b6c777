"""Categories in the forms that real tables have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from recprism.data import load_files
from recprism.data.readers.categories import (
    Categories,
    CategoryColumns,
    guess_separator,
    long_categories,
    read_categories,
)
from recprism.errors import InputError

FORMS: dict[str, tuple[list[Any], list[list[str]], str]] = {
    "pipe": (["Comedy|Drama", "Drama", ""], [["Comedy", "Drama"], ["Drama"], []], "split at '|' as found"),
    "semicolon": (["Comedy; Drama", "Drama", None], [["Comedy", "Drama"], ["Drama"], []], "split at ';' as found"),
    "comma": (["Comedy, Drama", "Drama", "Comedy"], [["Comedy", "Drama"], ["Drama"], ["Comedy"]], "split at ','"),
    "slash": (["Comedy/Drama", "Drama", "Comedy"], [["Comedy", "Drama"], ["Drama"], ["Comedy"]], "split at '/'"),
    "names with commas": (["Home, Garden", "Books", "Toys"], [["Home, Garden"], ["Books"], ["Toys"]], "one category"),
    "JSON": (['["Comedy","Drama"]', "[]", ""], [["Comedy", "Drama"], [], []], "lists written as text"),
    "Python": (["['Comedy', 'Drama']", "['It\\'s']", "[]"], [["Comedy", "Drama"], ["It's"], []], "lists written"),
    "numpy": (["['Comedy' 'Drama']", "['Drama']", "[]"], [["Comedy", "Drama"], ["Drama"], []], "lists written"),
    "objects": (['[{"id": 18, "name": "Drama"}]', "[]", ""], [["Drama"], [], []], "lists written as text"),
    "lists": ([["Comedy", "Drama"], ["Drama"], None], [["Comedy", "Drama"], ["Drama"], []], "lists"),
    "nested": ([[["A", "B"], ["A", "C"]], [["A"]], []], [["B", "C"], ["A"], []], "lists, last level of each path"),
    "paths": (["A > B|A > C", "A", None], [["B", "C"], ["A"], []], "last level of each path"),
    "flags": ([1, 0, None], [["genre"], [], []], "0 and 1"),
    "numbers": ([3, 4, None], [["3"], ["4"], []], "one category an item"),
}


def read(values: list[Any], **options: Any) -> Categories:
    table = pl.DataFrame({"item_id": [f"i{at}" for at in range(len(values))], "genre": values}, strict=False)
    return read_categories(table, CategoryColumns(("genre",), **options), "items.csv")


def by_item(found: Categories, n: int) -> list[list[str]]:
    rows = found.table.rows()
    return [[name for item, name in rows if item == f"i{at}"] for at in range(n)]


@pytest.mark.parametrize("form", FORMS)
def test_form(form: str) -> None:
    values, expected, how = FORMS[form]
    found = read(values)
    assert by_item(found, len(values)) == expected
    assert how in found.summary.how
    assert found.summary.without == sum(not own for own in expected)


def test_the_whole_path() -> None:
    found = read([[["A", "B"], ["A", "C"]], [["A"]]], level="path")
    assert by_item(found, 2) == [["A > B", "A > C"], ["A"]]


def test_a_given_separator() -> None:
    assert by_item(read(["a b", "b"], separator=" "), 2) == [["a", "b"], ["b"]]
    with pytest.raises(InputError, match="separator of categories is empty"):
        CategoryColumns(("genre",), "")
    with pytest.raises(InputError, match="choose last or path"):
        CategoryColumns(("genre",), level="first")  # type: ignore[arg-type]


def test_several_columns_and_one_hot_columns() -> None:
    table = pl.DataFrame(
        {"item_id": [1, 2], "genre_Action": ["0", "1"], "genre_Comedy": ["1", "0"], "kind": ["film", "series"]}
    )
    found = read_categories(table, CategoryColumns(("genre_*", "kind")), "items.csv")
    assert found.table.rows() == [(1, "Comedy"), (1, "film"), (2, "Action"), (2, "series")]
    with pytest.raises(InputError, match=r"items\.csv: no column is like 'tag_\*'; the columns are genre_Action"):
        read_categories(table, CategoryColumns(("tag_*",)), "items.csv")


def test_a_broken_list_is_named() -> None:
    with pytest.raises(InputError, match=r"items\.csv, row 2: genre is not a list in JSON or Python \('\[\"Com\]'\)"):
        read(['["Drama"]', '["Com]', '["Drama"]'])


def test_guessing_prefers_marks_that_names_never_contain() -> None:
    assert guess_separator(["Sci-Fi/Fantasy|Action", "Action"]) == "|"
    assert guess_separator(["Action"]) is None


def test_the_summary() -> None:
    found = read(["a|b", "a", "", "a|c"]).summary
    assert found.sentence().startswith("3 categories (genre: split at '|' as found;")
    assert found.sentence().endswith("1 of 4 items have none; a 3, b 1, c 1")
    assert found.warning() is None
    assert found.to_dict()["most_frequent"] == {"a": 3, "b": 1, "c": 1}


def test_warnings() -> None:
    many = read([f"c{at % 201}" for at in range(402)]).summary.warning()
    assert many is not None
    assert many.startswith("201 categories are more than 200")
    once = read(["a|b|c", "c|d|e", "e|f|g"]).summary.warning()
    assert once is not None
    assert once.startswith("5 of 7 categories have a single item")


def test_a_long_table_is_taken_as_it_is() -> None:
    table = pl.DataFrame({"item_id": [1, 1, 2], "category": ["a, b", None, "c"], "weight": [0.5, 1.0, 1.0]})
    found = long_categories(table, "s.csv")
    assert found.table.columns == ["item_id", "category", "weight"]
    assert found.summary.n_categories == 2
    lists = long_categories(pl.DataFrame({"item_id": [1], "category": [["a", "b"]]}), "s.parquet")
    assert lists.table["category"].to_list() == ["a", "b"]


def test_a_data_set_says_how_its_categories_were_read(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("user_id,item_id\n1,x\n1,y\n")
    pl.DataFrame({"item_id": ["x", "y", "z"], "tags": [["a", "b"], ["b"], ["c"]]}).write_parquet(tmp_path / "i.parquet")
    data = load_files(tmp_path / "a.csv", items=tmp_path / "i.parquet", category_column="tags")
    assert data.category_summary.sentence() == "2 categories (tags: lists); 0 of 2 items have none; b 2, a 1"
    with pytest.raises(InputError, match="the category column 'tags' is one of an item table; name its file"):
        load_files(tmp_path / "a.csv", category_column="tags")


def test_one_stray_mark_does_not_outweigh_the_commas() -> None:
    lists = ["Comedy, Drama", "Drama, Crime", "Crime, Comedy", "Comedy"] * 30
    assert guess_separator([*lists, "Rock &amp; Roll"]) == ","
    assert guess_separator([*lists, "Drama; Crime"]) == ","


def test_other_numbers_next_to_one_hot_columns_are_refused() -> None:
    table = pl.DataFrame({"item_id": [1, 2, 3], "g_a": [0, 1, 1], "g_b": [0, 2, 1]})
    with pytest.raises(InputError, match="g_b holds 2, where other columns hold 0 and 1"):
        read_categories(table, CategoryColumns(("g_*",)), "items")


def test_several_names_in_a_row_of_a_long_table_are_taken_apart() -> None:
    table = pl.DataFrame({"item_id": [1, 2], "category": ["A|B", "B|C"]})
    assert long_categories(table, "t").summary.n_categories == 3
    with pytest.raises(InputError, match="with weights give one row for each"):
        long_categories(table.with_columns(weight=1.0), "t")


def test_a_text_that_python_reads_as_a_number_is_a_name() -> None:
    table = pl.DataFrame({"item_id": [1, 2], "tags": ["(1+2j)", "['x']"]})
    assert read_categories(table, CategoryColumns(("tags",)), "items").table["category"].to_list() == ["(1+2j)", "x"]
