"""Streaming gives what reading everything at once gives, in any batch size, for any kind of ids."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from recprism.data import Columns, SparseRows, interactions_from_frame, stream_parquet
from recprism.data.interactions import keep_positives
from recprism.errors import InputError


def made(n: int = 5000, seed: int = 0) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "user_id": rng.integers(3, 200, n),
            "item_id": [f"i{number}" for number in rng.integers(0, 60, n)],  # some pairs occur twice
            "rating": rng.integers(1, 6, n).astype(float),
        }
    )


def same(one: SparseRows, other: SparseRows) -> bool:
    return one.shape == other.shape and all(
        np.array_equal(getattr(one, name), getattr(other, name)) for name in ("indptr", "indices")
    )


@pytest.mark.parametrize("rows", [*(pytest.param(rows, marks=pytest.mark.slow) for rows in (1, 7)), 1000, 100_000])
@pytest.mark.parametrize("threshold", [None, 4.0])
def test_streamed_is_what_was_read_at_once(tmp_path: Path, rows: int, threshold: float | None) -> None:
    frame = made(300 if rows == 1 else 5000)
    frame.write_parquet(tmp_path / "log.parquet", row_group_size=700)
    read = keep_positives(interactions_from_frame(frame), threshold).compact()
    streamed = stream_parquet(tmp_path / "log.parquet", threshold=threshold, rows=rows)
    assert same(streamed.matrix, read.matrix())
    assert streamed.user_ids.tolist() == read.user_ids.tolist()
    assert streamed.item_ids.tolist() == read.item_ids.tolist()


def test_wanted_users_and_items_keep_their_order_and_others_are_skipped(tmp_path: Path) -> None:
    frame = made(1000)
    frame.write_parquet(tmp_path / "log.parquet")
    users, items = np.array([150, 7, 9999, 42]), ["i5", "i1", "none", "i30"]
    matrix = stream_parquet(tmp_path / "log.parquet", user_ids=users, item_ids=items, rows=64).matrix
    pairs = set(frame.select("user_id", "item_id").iter_rows())
    expected = np.array([[(int(user), item) in pairs for item in items] for user in users])
    np.testing.assert_array_equal(matrix.dense(), expected)
    assert expected.any()


def test_ids_that_count_from_0_and_several_files(tmp_path: Path) -> None:
    for number in range(3):
        rng = np.random.default_rng(number)
        draw = {name: rng.integers(0, size, 400) for name, size in (("who", 50), ("what", 30))}
        pl.DataFrame(draw).write_parquet(tmp_path / f"part{number}.parquet")
    everything = pl.read_parquet(tmp_path / "*.parquet")
    streamed = stream_parquet(
        tmp_path / "part*.parquet", columns=Columns("who", "what"), user_ids=np.arange(40), item_ids=np.arange(30)
    )
    kept = everything.filter(pl.col("who") < 40)
    assert same(streamed.matrix, SparseRows.from_pairs(kept["who"].to_numpy(), kept["what"].to_numpy(), (40, 30)))


@pytest.mark.parametrize(
    ("frame", "settings", "message"),
    [
        (pl.DataFrame({"user_id": [1]}), {}, "no column 'item_id'; the columns are user_id"),
        (pl.DataFrame({"user_id": [1], "item_id": [2]}), {"threshold": 4.0}, "no column 'rating'"),
        (pl.DataFrame({"user_id": [1, None], "item_id": [2, 3]}), {}, "user_id is empty in some rows"),
        (pl.DataFrame({"user_id": [1.5], "item_id": [2]}), {}, "user_id is Float64; ids are whole numbers or text"),
        (
            pl.DataFrame({"user_id": [1], "item_id": [2], "rating": [1.0]}),
            {"threshold": 4.0},
            "no user_id is left",
        ),
    ],
)
def test_invalid_tables_are_refused(
    tmp_path: Path, frame: pl.DataFrame, settings: dict[str, float], message: str
) -> None:
    frame.write_parquet(tmp_path / "log.parquet")
    with pytest.raises(InputError, match=message):
        stream_parquet(tmp_path / "log.parquet", **settings)


def test_a_damaged_file_and_a_missing_one(tmp_path: Path) -> None:
    (tmp_path / "log.parquet").write_bytes(b"PAR1 and nothing else")
    with pytest.raises(InputError, match="cannot be read as Parquet"):
        stream_parquet(tmp_path / "log.parquet")
    with pytest.raises(InputError, match=r"none\.parquet"):
        stream_parquet(tmp_path / "none.parquet")
