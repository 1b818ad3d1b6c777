"""Factors: checks, ids, bias, files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from recprism.data.sparse_rows import SparseRows
from recprism.errors import InputError
from recprism.models import Factors

USER = np.array([[1, 0], [0, 1], [1, 1]], np.float32)
ITEM = np.array([[3, 0], [0, 2], [1, 1], [2, 2]], np.float32)


def test_rows_are_ranked_by_dot_product_and_bias() -> None:
    plain = Factors.from_arrays(USER, ITEM)
    assert plain.rank(2)[0].tolist() == [[0, 3], [1, 3], [3, 0]]
    biased = Factors.from_arrays(USER, ITEM, item_bias=[-9, 0, 5, 0])
    items, scores = biased.rank(2)
    assert items.tolist() == [[2, 3], [2, 1], [2, 3]] and scores.tolist() == [[6, 2], [6, 2], [7, 4]]


def test_recommend_uses_ids() -> None:
    factors = Factors.from_arrays(USER, ITEM, user_ids=["x", "y", "z"], item_ids=[10, 11, 12, 13])
    ids, scores = factors.recommend("y", 2)
    assert ids.tolist() == [11, 13] and scores.tolist() == [2, 2]
    ids, _ = factors.recommend(["z", "x"], 1)
    assert ids.tolist() == [[13], [10]]
    with pytest.raises(InputError, match="'w' is unknown"):
        factors.recommend("w")


def test_excluded_items_leave_empty_places() -> None:
    seen = SparseRows.coerce([[1, 1, 1, 0], [0, 0, 0, 0], [1, 1, 1, 1]])
    factors = Factors.from_arrays(USER, ITEM, item_ids=["a", "b", "c", "d"])
    ids, scores = factors.recommend([0, 2], 2, exclude=seen)
    assert ids.tolist() == [["d", None], [None, None]] and scores[1].tolist() == [-np.inf, -np.inf]
    numbered = Factors.from_arrays(USER, ITEM).recommend(2, 3, exclude=seen)[0]
    assert numbered.tolist() == [-1, -1, -1]
    assert Factors.from_arrays(USER, ITEM).rank(1, exclude=seen, users=np.array([0]))[0].tolist() == [[3]]


def test_vectors_can_be_replaced() -> None:
    factors = Factors.from_arrays(USER, ITEM, item_bias=[1, 2, 3, 4])
    changed = factors.with_vectors(item=-ITEM)
    assert changed.user is factors.user and changed.item_bias is factors.item_bias
    assert changed.search_vectors[1].tolist() == np.hstack([-ITEM, [[1], [2], [3], [4]]]).tolist()


@pytest.mark.parametrize("bias", [None, [0.5, 0, -1, 2]])
@pytest.mark.parametrize("ids", [None, ["ä", "b", "c", "d"]])
def test_a_file_restores_everything(bias: list[float] | None, ids: list[str] | None, tmp_path: Path) -> None:
    factors = Factors.from_arrays(USER, ITEM, item_ids=ids, item_bias=bias, settings={"model": "m", "dim": 2})
    factors.save(tmp_path / "deep" / "f.safetensors")
    back = Factors.load(tmp_path / "deep" / "f.safetensors")
    np.testing.assert_array_equal(back.user, USER)
    np.testing.assert_array_equal(back.item, ITEM)
    assert (back.item_bias is None) == (bias is None)
    assert back.item_ids.tolist() == factors.item_ids.tolist() and back.settings == factors.settings
    assert sorted(path.name for path in (tmp_path / "deep").iterdir()) == ["f.json", "f.safetensors"]


def test_errors_name_broken_files(tmp_path: Path) -> None:
    path = tmp_path / "f.safetensors"
    with pytest.raises(InputError, match="no such file"):
        Factors.load(path)
    Factors.from_arrays(USER, ITEM).save(path)
    (tmp_path / "f.json").write_text(json.dumps({"user_ids": [0, 1, 2]}))
    with pytest.raises(InputError, match=r"made from another f\.json"):
        Factors.load(path)
    path.write_bytes(b"rubbish")
    with pytest.raises(InputError, match="not factors written by recprism"):
        Factors.load(path)


@pytest.mark.parametrize(
    ("user", "item", "more", "words"),
    [
        (USER, ITEM[:, :1], {}, "2 columns and item vectors 1"),
        (USER[0], ITEM, {}, r"shape \(2,\)"),
        (USER, np.empty((0, 2)), {}, r"shape \(0, 2\)"),
        (USER * np.nan, ITEM, {}, r"first in row 0, column 0 \(3 rows"),
        (np.array([[b"x"]]), ITEM, {}, "user vectors cannot be read as an array of numbers"),
        (USER, [[1.0, 2.0], [3.0]], {}, "item vectors cannot be read as an array of numbers"),
        (USER, ITEM, {"user_ids": [1, 2]}, "2 user ids for 3"),
        (USER, ITEM, {"item_ids": [1, 2, 2, 3]}, "item id .*2.* more than once"),
        (USER, ITEM, {"item_bias": [1, 2]}, r"item_bias has shape \(2,\)"),
        (USER, ITEM, {"item_bias": [1, 2, np.inf, 0]}, "4 finite numbers"),
    ],
)
def test_bad_arrays_raise_an_error(user: object, item: object, more: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        Factors.from_arrays(user, item, **more)  # type: ignore[arg-type]
