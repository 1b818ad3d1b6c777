"""recprism features as a user meets it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

TEXTS = (
    "The strings sound great and the neck is lovely.",
    "I love the neck, but the strings are terrible.",
    "The cable has awful noise. The plug is good.",
    "Great cable with a nice plug.",
)
Recprism = Callable[..., Any]


@pytest.fixture
def reviews(tmp_path: Path) -> Path:
    rows = [
        {
            "reviewerID": f"u{number}",
            "asin": f"i{number % 4}",
            "reviewText": TEXTS[number % 4],
            "summary": "",
            "overall": 4.0,
            "unixReviewTime": number,
        }
        for number in range(24)
    ]
    (tmp_path / "r.json").write_text("\n".join(json.dumps(row) for row in rows))
    return tmp_path / "r.json"


def test_from_reviews(recprism: Recprism, reviews: Path, tmp_path: Path) -> None:
    found = recprism("features", reviews, "-o", tmp_path / "f", "--max-share", 0.9)
    assert found.code == 0, found.err
    assert "neck" in found.out
    assert "praise" in found.out
    assert (
        found.err.rstrip()
        .splitlines()[-1]
        .startswith(f"next: recprism train --data {tmp_path / 'f' / 'interactions.parquet'}")
    )
    assert {path.name for path in (tmp_path / "f").iterdir()} == {
        f"{name}.parquet"
        for name in ("mentions", "interactions", "item_features", "user_features", "categories", "clusters", "features")
    }
    mentions = pl.read_parquet(tmp_path / "f" / "mentions.parquet")
    assert mentions.columns == ["user_id", "item_id", "feature", "sentiment"]
    interactions = pl.read_parquet(tmp_path / "f" / "interactions.parquet")
    assert interactions.columns == ["user_id", "item_id", "rating", "timestamp"]
    wide = pl.read_parquet(tmp_path / "f" / "item_features.parquet")
    assert wide.columns[0] == "item_id"
    assert set(wide.columns[1:]) == set(mentions["feature"])


def test_json_is_one_object(recprism: Recprism, reviews: Path, tmp_path: Path) -> None:
    found = recprism("features", reviews, "-o", tmp_path / "f", "--max-share", 0.9, "--top", 2, "--json")
    assert found.code == 0
    made = found.json
    assert len(made["features"]) == 2
    assert set(made["features"][0]) == {"feature", "mentions", "reviews", "positive", "example"}
    assert "categories" not in made["files"], "two features make no clusters"
    assert Path(made["files"]["mentions"]).exists()


def test_from_tuples(recprism: Recprism, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("user,item,feature,sentiment\n1,10,tone,1\n1,10,neck,-1\n2,11,tone,0\n")
    found = recprism("features", "--tuples", tmp_path / "t.csv", "-o", tmp_path / "f", "--top", 1, "--json")
    assert found.code == 0
    expected = {"feature": "tone", "mentions": 2, "reviews": 2, "positive": 1.0, "example": None}
    assert found.json["features"] == [expected]
    assert pl.read_parquet(tmp_path / "f" / "interactions.parquet").rows() == [(1, 10), (2, 11)]


def test_from_attributes(recprism: Recprism, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("item_id,price,kind\n1,5,a\n2,7,b|a\n")
    found = recprism("features", "--attributes", tmp_path / "a.csv", "-o", tmp_path / "f")
    assert found.code == 0, found.err
    assert "kind=b" in found.out
    assert pl.read_parquet(tmp_path / "f" / "item_features.parquet").columns == ["item_id", "price", "kind=a", "kind=b"]


def test_bad_input_exits_with_2_and_one_sentence(recprism: Recprism, reviews: Path, tmp_path: Path) -> None:
    (tmp_path / "broken.json").write_text("{\n")
    for words, message in (
        ((), "name one source of features"),
        ((reviews, "--tuples", reviews), "name one source of features"),
        ((tmp_path / "broken.json",), "broken.json, row 1: not JSON"),
        ((tmp_path / "gone.json",), "gone.json: no such file"),
        ((reviews, "--top", 0), "top is 0"),
        (("--attributes", reviews, "--top", 5), "it works with REVIEWS or --tuples"),
        (("--tuples", reviews, "--min-mentions", 5), "--min-mentions has no effect without REVIEWS"),
    ):
        found = recprism("features", *words, "-o", tmp_path / "f")
        assert (found.code, found.out) == (2, ""), words
        assert message in found.err.replace("\n", ""), words
    assert not (tmp_path / "f").exists()
