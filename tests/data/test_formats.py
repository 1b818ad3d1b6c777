"""The same small data set in every format gives the same data set."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import csr_matrix

from recprism.data import (
    Dataset,
    Interactions,
    Preparation,
    interactions_from_csr,
    interactions_from_frame,
    load_files,
)
from recprism.errors import InputError

CSV = "user_id,item_id,rating,timestamp\n7,10,4,100\n7,11,5,101\n8,10,3,102\n"
TABLE = pl.DataFrame({"user_id": [7, 7, 8], "item_id": [10, 11, 10], "rating": [4, 5, 3], "timestamp": [100, 101, 102]})

# CSV, packed by zstd 1.5
ZSTD = bytes.fromhex(
    "28b52ffd0458dd010022c40d1490b5e9db2080eb95b5ff1fb9d5ec7f8db1cb6774165c"
    "17be5e58af13b713bbebc3d7890192c98512e6c68169d4074b42891f2c0aad4000d1c85c76"
)


def content(data: Interactions) -> list[tuple[object, ...]]:
    columns = [data.user_ids[data.user].tolist(), data.item_ids[data.item].tolist()]
    columns += [column.tolist() for column in (data.rating, data.timestamp) if column is not None]
    return sorted(zip(*columns, strict=True))


EXPECTED = [(7, 10, 4.0, 100), (7, 11, 5.0, 101), (8, 10, 3.0, 102)]


def test_every_file_format(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(CSV)
    (tmp_path / "a.tsv").write_text(CSV.replace(",", "\t"))
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(CSV.encode()))
    header, _, rows = CSV.partition("\n")
    typed = "\t".join(
        f"{name}:{kind}" for name, kind in zip(header.split(","), ("token", "token", "float", "float"), strict=True)
    )
    (tmp_path / "a.inter").write_text(f"{typed}\n{rows.replace(',', chr(9))}")
    TABLE.write_parquet(tmp_path / "a.parquet")
    for path in sorted(tmp_path.iterdir()):
        assert content(load_files(path).interactions) == EXPECTED, path.name


ENDINGS = ("csv", "tsv", "txt", "data")


@pytest.mark.parametrize("delimiter", [",", "\t", ";", "|"])
@pytest.mark.parametrize("packed", ["", "gzip", "BOM", "UTF-16"])
def test_delimiters_and_encodings_are_recognised_whatever_the_ending(
    tmp_path: Path, delimiter: str, packed: str
) -> None:
    text = CSV.replace(",", delimiter)
    content = {
        "": text.encode(),
        "gzip": gzip.compress(text.encode()),
        "BOM": text.encode("utf-8-sig"),
        "UTF-16": text.encode("utf-16"),
    }[packed]
    for ending in ENDINGS:
        path = tmp_path / f"a.{ending}"
        path.write_bytes(content)
        assert content_of(path) == EXPECTED, ending


def content_of(path: Path) -> list[tuple[object, ...]]:
    return content(load_files(path).interactions)


def test_zstd_json_and_parquet_are_recognised_by_content(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(ZSTD)
    (tmp_path / "b.csv").write_text("\n".join(json.dumps(row) for row in TABLE.to_dicts()))
    (tmp_path / "c.json").write_text(json.dumps(TABLE.to_dicts()))
    TABLE.write_parquet(tmp_path / "d")
    for path in sorted(tmp_path.iterdir()):
        assert content_of(path) == EXPECTED, path.name


def test_one_map_of_columns_applies_to_all_files(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("user_id;sku\n1;x\n")
    (tmp_path / "i.csv").write_text("sku,name,item_id\nx,Eggs,9\n")
    names = {"item_id": "sku", "title": "name"}
    data = load_files(tmp_path / "a.csv", columns=names, items=tmp_path / "i.csv")
    assert data.attributes.row(0, named=True) == {"item_id": "x", "title": "Eggs", "item_id_original": "9"}
    with pytest.raises(InputError, match=r"rating=stars: no file has a column 'stars'; .*a\.csv \(semicolon between"):
        load_files(tmp_path / "a.csv", columns={"item_id": "sku", "rating": "stars"})
    with pytest.raises(
        InputError, match=r"no column 'sku2'; the columns are user_id, sku \(semicolon between columns\)"
    ):
        load_files(tmp_path / "a.csv", columns={"item_id": "sku2"})


def test_quoted_fields_may_hold_delimiters_and_line_breaks(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('user_id;item_id\n"a,b|c;d";"two\nlines"\n')
    data = load_files(tmp_path / "a.csv").interactions
    assert (data.user_ids.tolist(), data.item_ids.tolist()) == (["a,b|c;d"], ["two\nlines"])


def test_frames() -> None:
    assert content(interactions_from_frame(TABLE)) == EXPECTED
    assert content(interactions_from_frame(TABLE.lazy())) == EXPECTED
    assert content(interactions_from_frame(pd.DataFrame(TABLE.to_dict(as_series=False)))) == EXPECTED
    texts = pd.DataFrame({"user_id": ["a", "b"], "item_id": ["x", None]})
    with pytest.raises(InputError, match="row 2: item_id is empty"):
        interactions_from_frame(texts)
    with pytest.raises(InputError, match="a polars or pandas frame is needed, got dict"):
        interactions_from_frame({})


def test_csr() -> None:
    matrix = csr_matrix(np.array([[4.0, 5.0], [3.0, 0.0]]))
    data = interactions_from_csr(matrix, user_ids=["z", "a"], item_ids=[11, 10])
    assert content(data) == [("a", 11, 3.0), ("z", 10, 5.0), ("z", 11, 4.0)]
    assert data.user_ids.tolist() == ["a", "z"]
    with pytest.raises(InputError, match=r"3 user ids for a matrix of shape \(2, 2\)"):
        interactions_from_csr(matrix, user_ids=[1, 2, 3])
    with pytest.raises(InputError, match="'a' occurs more than once"):
        interactions_from_csr(matrix, user_ids=["a", "a"])
    with pytest.raises(InputError, match="NaN"):
        interactions_from_csr(csr_matrix(np.array([[np.nan]])))


def test_columns_are_mapped(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("who,what,stars,at\n7,10,4,100\n")
    columns = {"user_id": "who", "item_id": "what", "rating": "stars", "timestamp": "at"}
    assert content(load_files(tmp_path / "a.csv", columns=columns).interactions) == [(7, 10, 4.0, 100)]


def test_ids_keep_their_kind(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("user_id,item_id\n007,1\n7,2\n")
    data = load_files(tmp_path / "a.csv").interactions
    assert data.user_ids.tolist() == ["007", "7"], "007 and 7 are different people"
    assert data.item_ids.tolist() == [1, 2]


def test_dates_become_timestamps() -> None:
    frame = pl.DataFrame({"user_id": [1, 1], "item_id": [1, 2], "timestamp": ["2020-01-02", "2020-01-01"]})
    data = interactions_from_frame(frame.with_columns(pl.col("timestamp").str.to_date()))
    assert data.timestamp is not None
    assert data.timestamp[0] - data.timestamp[1] == 24 * 3600 * 10**6


def test_categories_from_a_long_table_with_weights(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(CSV)
    (tmp_path / "s.csv").write_text("item_id,category,weight\n10,b,0.25\n10,a,0.75\n11,b,2\n")
    categories = load_files(tmp_path / "a.csv", categories=tmp_path / "s.csv").categories
    assert categories.names == ("a", "b")
    assert categories.dense().tolist() == [[0.75, 0.25], [0.0, 2.0]]


def test_categories_from_a_delimited_column_and_attributes(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(CSV)
    (tmp_path / "i.csv").write_text("item_id,title,genres\n11,Two,x\n10,One,x| y |\n12,Not seen,z\n")
    data = load_files(tmp_path / "a.csv", items=tmp_path / "i.csv", category_column="genres")
    assert data.categories.names == ("x", "y")
    assert data.categories.items.row_counts.tolist() == [2, 1]
    assert data.attributes["title"].to_list() == ["One", "Two"]
    assert data.stats()["attributes"] == ["title", "genres"]


def test_recbole_item_file(tmp_path: Path) -> None:
    (tmp_path / "a.inter").write_text("user_id:token\titem_id:token\n1\t10\n1\t11\n")
    (tmp_path / "a.item").write_text("item_id:token\tclass:token_seq\n10\tdrama comedy\n11\tdrama\n")
    data = load_files(tmp_path / "a.inter", items=tmp_path / "a.item", category_column="class", separator=" ")
    assert data.categories.names == ("comedy", "drama")


def test_preparation_from_a_csr() -> None:
    raw = interactions_from_csr(csr_matrix(np.array([[5, 5, 1], [5, 5, 0], [0, 0, 5]])))
    data = Dataset.from_interactions("mine", raw, preparation=Preparation(threshold=4, min_user=2, min_item=2))
    assert data.interactions.user_ids.tolist() == [0, 1]
    assert data.interactions.item_ids.tolist() == [0, 1]
    with pytest.raises(InputError, match="must be at least 1"):
        Preparation(min_user=0)
