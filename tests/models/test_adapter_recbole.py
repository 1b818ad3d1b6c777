"""Converted models of RecBole rank as RecBole itself, item for item.

RecBole lives in an environment of its own, so what it ranks is recorded: tools/record_recbole.py trains there on the
embedded data and writes vectors (through tools/export_recbole.py) and the lists of RecBole's own full_sort_topk.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recprism.data.dataset import Dataset
from recprism.errors import InputError
from recprism.models.adapters import from_recbole

RECORDED = Path(__file__).parents[1] / "golden" / "recbole"
MODELS = ("BPR", "LightGCN")
K = 10


@pytest.mark.parametrize("model", MODELS)
def test_an_exported_model_ranks_as_full_sort_topk(model: str, small: Dataset) -> None:
    split = small.split(seed=0)
    factors = from_recbole(RECORDED / f"{model}.npz")
    assert factors.settings["model"] == f"recbole.{model}"
    # all tokens of the files are users and items, in RecBole's order, without padding
    assert sorted(factors.user_ids.tolist()) == split.user_ids.tolist()
    assert sorted(factors.item_ids.tolist()) == split.item_ids.tolist()
    seen_here = split.seen_before("test")
    theirs = json.loads((RECORDED / f"{model}.lists.json").read_text())
    assert len(theirs) == 40
    for user, (seen, wanted) in theirs.items():
        row = int(np.flatnonzero(split.user_ids == int(user))[0])
        left_out = split.item_ids[seen_here.indices[seen_here.indptr[row] : seen_here.indptr[row + 1]]]
        assert sorted(map(int, seen)) == left_out.tolist()
        ids, _ = factors.recommend(int(user), factors.n_items)
        ours = [item for item in ids.tolist() if item not in set(left_out.tolist())]
        assert ours[:K] == [int(item) for item in wanted]


def exported(path: Path, **changes: Any) -> Path:
    arrays: dict[str, Any] = {
        "user": np.ones((2, 3), np.float32),
        "item": np.ones((4, 3), np.float32),
        "user_ids": np.array(["7", "8"]),
        "item_ids": np.array(["a", "b", "c", "007"]),
        "settings": np.asarray('{"model": "BPR"}'),
        **changes,
    }
    np.savez(path, **{name: array for name, array in arrays.items() if array is not None})
    return path


def test_ids_become_integers_only_if_all_are_plain_integers(tmp_path: Path) -> None:
    factors = from_recbole(exported(tmp_path / "x.npz"))
    assert factors.user_ids.tolist() == [7, 8]
    assert factors.item_ids.tolist() == ["a", "b", "c", "007"]
    zeros = from_recbole(exported(tmp_path / "y.npz", item_ids=np.array(["1", "2", "3", "04"])))
    assert zeros.item_ids.tolist() == ["1", "2", "3", "04"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"user_ids": None, "settings": None}, "holds no user_ids, settings; write it with tools/export_recbole.py"),
        ({"item_ids": np.array(["a", "b"])}, "2 item ids for 4 item vectors"),
        ({"user_ids": np.array(["7", "7"])}, "user id 7 occurs more than once"),
        ({"item": np.ones((4, 2), np.float32)}, "user vectors have 3 columns and item vectors 2"),
        ({"user": np.full((2, 3), np.nan, np.float32)}, "user vectors hold NaN"),
        ({"settings": np.asarray("{")}, "its settings are not JSON"),
        ({"settings": np.asarray("[]")}, "its settings are list, not an object"),
        ({"user_ids": np.array([{"an": "object"}, 1], dtype=object)}, "cannot be read as .npz"),
    ],
)
def test_errors_name_a_bad_file(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = exported(tmp_path / "bad.npz", **changes)
    with pytest.raises(InputError, match=message.replace(".", r"\.")) as caught:
        from_recbole(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


def test_errors_name_missing_files_and_other_formats(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        from_recbole(tmp_path / "none.npz")
    (tmp_path / "text.npz").write_text("not an archive")
    with pytest.raises(InputError, match=r"cannot be read as \.npz"):
        from_recbole(tmp_path / "text.npz")
    with pytest.raises(InputError, match=r"not a \.npz file; write one with tools/export_recbole\.py"):
        from_recbole(tmp_path / "BPR-Nov-15.pth")
