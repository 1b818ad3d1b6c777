"""Matrices of named features: by hand, by their invariants, and from files of other tools."""

from __future__ import annotations

import gzip
import json
from math import exp
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recprism.cmb.text.aspect_topics import aspect_topics, cooccurrence, spherical_kmeans
from recprism.cmb.text.efm import attention, item_quality, mentions_of_pairs, quality, user_attention
from recprism.cmb.text.feature_files import features_to_frame, read_attributes, read_mentions
from recprism.data.feature_matrix import FeatureMatrix
from recprism.errors import InputError

MENTIONS = pl.DataFrame(
    [("a", "x", "tone", 1.0), ("a", "x", "tone", 0.0), ("a", "y", "price", -1.0), ("b", "x", "tone", 0.5)],
    schema=["user_id", "item_id", "feature", "sentiment"],
    orient="row",
)


def test_attention_and_quality_by_hand() -> None:
    x = user_attention(MENTIONS)
    assert x.names == ("price", "tone")
    assert x.ids.tolist() == ["a", "b"]
    one, two = (1 + 4 * (2 / (1 + exp(-count)) - 1) for count in (1, 2))
    assert x.values == pytest.approx(np.array([[one, two], [0, one]]), abs=1e-6)
    y = item_quality(MENTIONS)
    # x: tone three times, mean 0.5; y: price once, -1
    assert y.values == pytest.approx(np.array([[0, 1 + 4 / (1 + exp(-1.5))], [1 + 4 / (1 + exp(1)), 0]]), abs=1e-6)


@given(st.integers(1, 10_000), st.floats(-1, 1))
def test_values_lie_between_1_and_n(count: int, sentiment: float) -> None:
    assert 1 < attention(count) <= 5
    assert 1 <= quality(count, sentiment) <= 5
    assert attention(0) == quality(0, sentiment) == 0


@given(st.integers(1, 30), st.integers(1, 30), st.floats(-1, 1), st.floats(-1, 1))
def test_more_mentions_and_more_praise_never_lower_a_value(a: int, b: int, low: float, high: float) -> None:
    a, b = sorted((a, b))
    low, high = sorted((low, high))
    assert attention(a) <= attention(b)
    assert quality(a, low) <= quality(a, high)
    assert quality(a, abs(high)) <= quality(b, abs(high))
    assert quality(a, -abs(low)) >= quality(b, -abs(low))


def test_only_the_mentions_of_given_pairs() -> None:
    kept = mentions_of_pairs(MENTIONS, np.array(["a", "b"], object), np.array(["y", "x"], object))
    assert kept.select("user_id", "item_id").rows() == [("a", "y"), ("b", "x")]
    assert user_attention(kept, ("price", "tone", "neck")).values.shape == (2, 3)
    with pytest.raises(InputError, match="no mentions"):
        item_quality(MENTIONS.clear())


def test_numbers_and_texts_are_not_compared() -> None:
    with pytest.raises(InputError, match="user_id is text in the mentions and numbers in the pairs"):
        mentions_of_pairs(MENTIONS, np.array([1, 2]), np.array(["y", "x"], object))
    assert mentions_of_pairs(MENTIONS, np.array([], object), np.array([], object)).is_empty()


def test_no_feature_has_the_name_of_the_id_column() -> None:
    matrix = FeatureMatrix(np.array([1, 2]), ("item_id",), np.zeros((2, 1), np.float32))
    with pytest.raises(InputError, match="a feature is called item_id"):
        features_to_frame(matrix)


def test_rows_are_found_by_id() -> None:
    matrix = FeatureMatrix(np.array(["p", "q"], object), ("f",), np.array([[1], [2]], np.float32))
    assert matrix.aligned(np.array(["q", "r", "p"], object)).values.ravel().tolist() == [2, 0, 1]
    with pytest.raises(InputError, match=r"none of the 1 ids \(such as 7\)"):
        matrix.aligned(np.array([7]))
    with pytest.raises(InputError, match="2 ids and 2 names"):
        FeatureMatrix(matrix.ids, ("f", "g"), matrix.values)


# -- files of other tools ---------------------------------------------------------------------------------------------

ROWS = [
    {"user": 1, "item": 10, "feature": " Tone ", "sentiment": 0.5},
    {"user": 2, "item": 11, "feature": "neck", "sentiment": -1},
]


def test_tuples_in_every_format(tmp_path: Path) -> None:
    lines = "\n".join(json.dumps(row) for row in ROWS)
    (tmp_path / "t.jsonl").write_text(lines)
    (tmp_path / "t.json.gz").write_bytes(gzip.compress(lines.encode()))
    (tmp_path / "t.csv").write_text("user_id,item_id,feature,sentiment\n1,10, Tone ,0.5\n2,11,neck,-1\n")
    (tmp_path / "t.tsv").write_text("user\titem\taspect\tsentiment\n1\t10\tTone\t0.5\n2\t11\tneck\t-1\n")
    for name in ("t.jsonl", "t.json.gz", "t.csv", "t.tsv"):
        assert read_mentions(tmp_path / name).rows() == [(1, 10, "tone", 0.5), (2, 11, "neck", -1.0)], name


BAD_TUPLES = {
    "missing column": ("t.csv", "user,item,feature\n1,2,x\n", r"t\.csv: no column 'sentiment'"),
    "sentiment in words": (
        "t.csv",
        "user,item,feature,sentiment\n1,2,x,good\n",
        r"t\.csv, row 2: sentiment is not a finite",
    ),
    "sentiment too large": (
        "t.csv",
        "user,item,feature,sentiment\n1,2,x,5\n",
        r"t\.csv, row 2: sentiment 5 is not between",
    ),
    "no feature": ("t.csv", "user,item,feature,sentiment\n1,2,x,1\n1,2,,1\n", r"t\.csv, row 3: feature is empty"),
    "broken JSON": ("t.jsonl", '{"user": 1\n', r"t\.jsonl, row 1: not JSON"),
    "empty file": ("t.jsonl", "", r"t\.jsonl: the file is empty"),
    "empty table": ("t.csv", "", r"t\.csv: the file is empty"),
}


@pytest.mark.parametrize("case", BAD_TUPLES)
def test_bad_tuples_get_one_sentence(case: str, tmp_path: Path) -> None:
    name, content, message = BAD_TUPLES[case]
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=message) as caught:
        read_mentions(tmp_path / name)
    assert "\n" not in str(caught.value)


def test_attributes_are_scaled_and_one_hot(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("item_id,price,kind,flat\n20,30,pop|rock,1\n10,10,rock,1\n30,,,1\n")
    found = read_attributes(tmp_path / "a.csv")
    assert found.features.ids.tolist() == [10, 20, 30]
    assert found.features.names == ("price", "kind=pop", "kind=rock", "flat")
    assert found.features.values.tolist() == [[0, 0, 1, 0], [1, 1, 1, 0], [0.5, 0, 0, 0]]
    assert found.left_out == {}
    assert read_attributes(tmp_path / "a.csv", max_values=1).left_out == {"kind": 2}


def test_bad_attributes(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("item_id,title\n1,A\n1,B\n")
    with pytest.raises(InputError, match=r"a\.csv: an item has more than one row"):
        read_attributes(tmp_path / "a.csv")
    (tmp_path / "b.csv").write_text("item_id,title\n1,A\n2,B\n")
    with pytest.raises(
        InputError, match=r"b\.csv: no column other than item_id is a number or a category of at most 1"
    ):
        read_attributes(tmp_path / "b.csv", max_values=1)
    (tmp_path / "c.csv").write_text("title\nA\n")
    with pytest.raises(InputError, match=r"c\.csv: no column 'item_id'"):
        read_attributes(tmp_path / "c.csv")


def test_a_matrix_survives_its_file(tmp_path: Path) -> None:
    matrix = item_quality(MENTIONS)
    features_to_frame(matrix).write_parquet(tmp_path / "f.parquet")
    read = pl.read_parquet(tmp_path / "f.parquet")
    assert read.columns == ["item_id", *matrix.names]
    assert read["item_id"].to_list() == matrix.ids.tolist()
    assert (read.drop("item_id").to_numpy() == matrix.values).all()


# -- categories --------------------------------------------------------------------------------------------------------


def two_worlds() -> pl.DataFrame:
    """Reviews of strings mention string and neck, reviews of microphones mic and voice; one mentions all four."""
    rows = [(u, i, f) for u in range(6) for i, fs in ((0, ("string", "neck")), (1, ("mic", "voice"))) for f in fs]
    rows += [(9, 2, "string"), (9, 2, "neck"), (9, 2, "mic"), (9, 2, "voice")]
    return pl.DataFrame(rows, schema=["user_id", "item_id", "feature"], orient="row")


def test_aspects_that_occur_together_form_a_category() -> None:
    categories = aspect_topics(two_worlds(), 2)
    assert dict(categories.clusters.rows()) == {
        "string": "neck/string",
        "neck": "neck/string",
        "mic": "mic/voice",
        "voice": "mic/voice",
    }
    assert categories.items.filter(pl.col("item_id") < 2).rows() == [(0, "neck/string"), (1, "mic/voice")]
    assert set(categories.items["item_id"]) == {0, 1, 2}, "every item has at least one"
    with pytest.raises(InputError, match="5 clusters of 4 features"):
        aspect_topics(two_worlds(), 5)


def test_co_occurrence_is_measured_against_chance() -> None:
    names, vectors = cooccurrence(two_worlds())
    closeness = dict(zip(names, vectors @ vectors[names.index("string")], strict=True))
    assert closeness["neck"] == pytest.approx(1)
    assert closeness["mic"] == closeness["voice"] == 0


@pytest.mark.slow
@given(st.integers(2, 6), st.integers(0, 20))
def test_clusters_are_the_same_every_time_and_never_empty(k: int, seed: int) -> None:
    vectors = np.random.default_rng(seed).normal(size=(12, 4))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    first = spherical_kmeans(vectors, k, seed)
    assert (first == spherical_kmeans(vectors, k, seed)).all()
    assert set(first) == set(range(k))
    assert set(spherical_kmeans(np.ones((5, 1)), 3)) == {0, 1, 2}
