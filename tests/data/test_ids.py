"""7, "7" and 7.0 are one id, and 007 is another, in every file and column."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from recprism.common.ids import as_id_array, canonical_ids, find_ids, id_positions, id_series, known_positions
from recprism.data import load_dataset, load_files, stream_parquet
from recprism.errors import InputError
from recprism.models import Factors
from recprism.runs.jobs.imported import run_from_factors

SEVEN = [pl.Series([7]), pl.Series(["7"]), pl.Series([7.0]), pl.Series(["7.0"]), pl.Series([7], dtype=pl.UInt8)]


@pytest.mark.parametrize("column", SEVEN, ids=lambda column: f"{column.dtype} {column[0]}")
def test_one_id_in_every_way_it_is_written(column: pl.Series) -> None:
    for known in (np.array([6, 7]), np.array(["007", "7"], dtype=object)):
        assert known_positions(canonical_ids(column), known).to_list() == [1]
        assert find_ids(as_id_array(column.to_list(), "user"), known).tolist() == [1]


def test_leading_zeros_are_another_id() -> None:
    for text in ("007", "+7", "7.5", "7e0", " 7"):
        assert known_positions(canonical_ids(pl.Series([text])), np.array([7])).to_list() == [None], text
        with pytest.raises(InputError, match="is unknown"):
            id_positions(as_id_array([text], "user"), np.array([7]), "user")


def test_an_unknown_id_is_not_the_next_one() -> None:
    wanted = np.array([1, 6, 7, 8, 9, 10])
    for known in (np.array([9, 7]), np.array(["9", "7"], dtype=object), np.array([9, 7, 100])):
        assert find_ids(wanted, known).tolist() == [-1, -1, 1, -1, 0, -1]


def test_order_is_numeric_where_all_are_whole_numbers() -> None:
    assert canonical_ids(pl.Series(["10", "9.0", "100"])).to_list() == [10, 9, 100]
    assert canonical_ids(pl.Series(["10", "9.0", "b"])).to_list() == ["10", "9", "b"]


def test_empty_columns_keep_their_type() -> None:
    assert id_series(np.array([], dtype=object)).dtype == pl.String
    assert id_series(np.array([], dtype=np.int64)).dtype == pl.Int64


def test_files_that_write_ids_differently_agree(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("user_id,item_id\n1,7\n1,007\n2,x\n")
    pl.DataFrame({"item_id": [7.0, 8.0], "category": ["a", "b"]}).write_parquet(tmp_path / "s.parquet")
    pl.DataFrame({"item_id": [7], "title": ["seven"]}).write_parquet(tmp_path / "i.parquet")
    data = load_files(tmp_path / "a.csv", categories=tmp_path / "s.parquet", items=tmp_path / "i.parquet")
    assert data.interactions.item_ids.tolist() == ["007", "7", "x"]
    assert data.categories.items.row_counts.tolist() == [0, 1, 0]
    assert data.attributes["title"].to_list() == [None, "seven", None]


def test_the_numbering_of_the_embedded_set_is_fixed() -> None:
    data = load_dataset("ml-latest-small")
    for ids in (data.interactions.user_ids, data.interactions.item_ids):
        assert ids.dtype == np.int64
        assert (np.diff(ids) > 0).all()


@pytest.mark.parametrize("method", ["paper", "leave-last"])
def test_a_run_of_text_ids_with_an_empty_part(tmp_path: Path, method: str) -> None:
    rows = [(f"u{user}", f"i{item}", user + item) for user in range(4) for item in range(5)]
    table = pl.DataFrame(rows, schema=["user_id", "item_id", "timestamp"], orient="row")
    table.write_csv(tmp_path / "a.csv")
    data = load_files(tmp_path / "a.csv")
    split = data.split(method)
    draw = np.random.default_rng(0)
    factors = Factors.from_arrays(
        draw.normal(size=(4, 3)), draw.normal(size=(5, 3)), user_ids=split.user_ids, item_ids=split.item_ids
    )
    run = run_from_factors(tmp_path / "run", factors, data, split)
    assert run.split().user_ids.tolist() == split.user_ids.tolist()
    assert len(run.categories()) == 0


def test_vectors_with_text_ids_for_data_with_whole_numbers(tmp_path: Path) -> None:
    rows = [(user, item) for user in range(8, 12) for item in range(98, 103)]
    pl.DataFrame(rows, schema=["user_id", "item_id"], orient="row").write_csv(tmp_path / "a.csv")
    data = load_files(tmp_path / "a.csv")
    split, draw = data.split(), np.random.default_rng(0)
    user, item = draw.normal(size=(4, 3)), draw.normal(size=(5, 3))
    names = [[str(one) for one in ids] for ids in (split.user_ids, split.item_ids)]
    factors = Factors.from_arrays(user[::-1], item, user_ids=names[0][::-1], item_ids=names[1])
    problem = run_from_factors(tmp_path / "run", factors, data, split).problem()
    assert problem.factors.user_ids.tolist() == [8, 9, 10, 11]
    np.testing.assert_allclose(problem.factors.user, user, rtol=1e-6)


def test_streamed_tables_keep_007_and_7_apart(tmp_path: Path) -> None:
    pl.DataFrame({"user_id": ["1", "2"], "item_id": ["007", "7"]}).write_parquet(tmp_path / "a.parquet")
    found = stream_parquet(tmp_path / "a.parquet", item_ids=[7])
    assert found.user_ids.tolist() == [1, 2]
    assert found.matrix.row_counts.tolist() == [0, 1]


def test_ids_that_lost_digits_or_are_missing_are_refused(tmp_path: Path) -> None:
    frame = pl.DataFrame({"user_id": [1234567890123456789.0, 1.0], "item_id": [1, 2]})
    frame.write_parquet(tmp_path / "a.parquet")
    with pytest.raises(InputError, match="was stored as a fraction and lost digits: save ids as text"):
        load_files(tmp_path / "a.parquet")
    for ids in (["a", None], ["a", ""], [1.0, float("nan")]):
        with pytest.raises(InputError, match="user ids: one is missing"):
            as_id_array(ids, "user")


def test_a_mapped_column_may_occur_with_ours(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("user_id,item_id,item_id_original,sku\n1,5,6,7\n", encoding="utf-8")
    found = load_files(tmp_path / "a.csv", columns={"item_id": "sku"})
    assert found.interactions.item_ids.tolist() == [7]
