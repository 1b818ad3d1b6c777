"""Converted models and imported vectors rank as in their own library."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from numpy.typing import NDArray
from scipy import sparse

from recprism.data.dataset import Dataset
from recprism.data.sparse_rows import SparseRows
from recprism.data.split import Split
from recprism.errors import InputError, MissingDependencyError
from recprism.models import Factors
from recprism.models.adapters import (
    ImplicitALS,
    from_files,
    from_implicit,
)

K = 10


@pytest.fixture(scope="module")
def real_split(small: Dataset) -> Split:
    return small.split(seed=0)


def fitted(kind: str, train: SparseRows) -> Any:
    from implicit.cpu import als, bpr
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1, "blas"):
        model = (
            als.AlternatingLeastSquares(factors=12, iterations=4, random_state=1)
            if kind == "als"
            else bpr.BayesianPersonalizedRanking(factors=12, iterations=10, random_state=1, num_threads=1)
        )
        model.fit(sparse.csr_matrix(train.to_scipy()), show_progress=False)
    return model


def assert_same_lists(ours: NDArray[Any], theirs: NDArray[Any], scores: NDArray[Any]) -> None:
    """Compare lists; only items whose float scores tie (in either order of summation) may change places.

    Args:
        ours: Lists of recprism, (n_users, k).
        theirs: Lists of the other library, (n_users, k).
        scores: (n_users, n_items) float64.
    """
    for user, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
        at_mine, at_other = scores[user, mine], scores[user, other]
        np.testing.assert_allclose(at_mine, at_other, rtol=1e-4, atol=1e-6)
    assert (ours == theirs).mean() > 0.999


@pytest.mark.needs("implicit")
@pytest.mark.parametrize("kind", ["als", "bpr"])
@pytest.mark.parametrize("filtered", [True, False])
def test_implicit_models_rank_as_their_own_recommend(kind: str, filtered: bool, real_split: Split) -> None:
    train = real_split.train
    model = fitted(kind, train)
    factors = from_implicit(model, user_ids=real_split.user_ids, item_ids=real_split.item_ids)
    everybody = np.arange(train.n_rows)
    theirs, their_scores = model.recommend(
        everybody, sparse.csr_matrix(train.to_scipy()), N=K, filter_already_liked_items=filtered
    )
    ours, our_scores = factors.rank(K, exclude=train if filtered else None)
    full = model.user_factors.astype(np.float64) @ model.item_factors.astype(np.float64).T
    assert_same_lists(ours, theirs, full)
    np.testing.assert_allclose(our_scores, their_scores, rtol=1e-4, atol=1e-5)
    ids, _ = factors.recommend(real_split.user_ids[:3], K, exclude=train if filtered else None)
    assert ids.tolist() == real_split.item_ids[ours[:3]].tolist()


@pytest.mark.needs("implicit")
def test_the_bias_of_bpr_becomes_the_item_bias(real_split: Split) -> None:
    model = fitted("bpr", real_split.train)
    factors = from_implicit(model)
    assert model.item_factors.shape[1] == 13 and factors.dim == 12
    np.testing.assert_array_equal(factors.item_bias, model.item_factors[:, -1])
    assert (model.user_factors[:, -1] == 1).all()
    assert from_implicit(fitted("als", real_split.train)).item_bias is None
    assert factors.settings["model"] == "implicit.BayesianPersonalizedRanking"
    assert factors.settings["iterations"] == 10


@pytest.mark.needs("implicit")
def test_other_objects_raise_an_error(real_split: Split) -> None:
    from implicit.cpu import bpr

    with pytest.raises(InputError, match="is no model of implicit"):
        from_implicit(object())
    with pytest.raises(InputError, match="not fitted yet"):
        from_implicit(bpr.BayesianPersonalizedRanking(factors=3))
    with pytest.raises(InputError, match="2 user ids for"):
        from_implicit(fitted("als", real_split.train), user_ids=[1, 2])


def test_the_error_without_implicit_names_the_extra(monkeypatch: pytest.MonkeyPatch, blocks: Split) -> None:
    monkeypatch.setitem(sys.modules, "implicit", None)
    for call in (lambda: from_implicit(object()), lambda: ImplicitALS().fit(blocks)):
        with pytest.raises(MissingDependencyError, match=r"recprism\[adapters\]"):
            call()


@pytest.mark.needs("implicit")
def test_als_is_what_implicit_fits(real_split: Split) -> None:
    ours = ImplicitALS(dim=12, epochs=4, regularization=0.01, alpha=1.0).fit(real_split, seed=1)
    theirs = fitted("als", real_split.train)
    np.testing.assert_allclose(ours.user, theirs.user_factors, rtol=1e-3, atol=1e-5)
    assert ours.user_ids is real_split.user_ids or ours.user_ids.tolist() == real_split.user_ids.tolist()
    assert ours.settings["model"] == "als" and ours.settings["epochs_trained"] == 4


@pytest.mark.needs("implicit")
def test_als_raises_an_error_for_unsupported_arguments(blocks: Split) -> None:
    with pytest.raises(InputError, match="fitted on the cpu"):
        ImplicitALS().fit(blocks, device="cuda")
    with pytest.raises(InputError, match="alpha is 0"):
        ImplicitALS(alpha=0)


USER = np.arange(12, dtype=np.float32).reshape(4, 3)
ITEM = np.arange(15, dtype=np.float32).reshape(5, 3) / 7


def write(kind: str, folder: Path) -> tuple[Path, Path]:
    """Write the vectors to one or two files of a format."""
    from safetensors.numpy import save_file

    path = folder / f"vectors.{kind}"
    if kind == "npy":
        np.save(folder / "user.npy", USER)
        np.save(folder / "item.npy", ITEM)
        return folder / "user.npy", folder / "item.npy"
    if kind == "npz":
        np.savez(path, user_factors=USER, item_factors=ITEM, user_ids=np.arange(4))
    elif kind == "safetensors":
        save_file({"user": USER, "item": ITEM}, path)
    else:
        state = {"user_embedding.weight": torch.from_numpy(USER), "item_embedding.weight": torch.from_numpy(ITEM)}
        torch.save({**state, "epoch": 3}, path)
    return path, path


@pytest.mark.parametrize("kind", ["npy", "npz", "safetensors", "pt", "pth"])
def test_vectors_come_from_files(kind: str, tmp_path: Path) -> None:
    user, item = write(kind, tmp_path)
    factors = from_files(user, item, item_ids=["a", "b", "c", "d", "e"])
    np.testing.assert_array_equal(factors.user, USER)
    np.testing.assert_array_equal(factors.item, ITEM)
    assert factors.user_ids.tolist() == [0, 1, 2, 3] and factors.item_ids.tolist() == ["a", "b", "c", "d", "e"]
    wanted = Factors.from_arrays(USER, ITEM).rank(3)[0]
    assert factors.rank(3)[0].tolist() == wanted.tolist()


def test_a_single_tensor_and_half_precision_are_read(tmp_path: Path) -> None:
    torch.save(torch.from_numpy(USER).to(torch.bfloat16), tmp_path / "user.pt")
    np.save(tmp_path / "item.npy", ITEM.astype(np.float64))
    factors = from_files(tmp_path / "user.pt", tmp_path / "item.npy")
    np.testing.assert_array_equal(factors.user, USER)
    assert factors.item.dtype == np.float32


def test_ids_come_from_files_too(tmp_path: Path) -> None:
    user, item = write("npy", tmp_path)
    (tmp_path / "users.txt").write_text("10\n11\n12\n13\n")
    (tmp_path / "items.txt").write_text("x\ny\nz\nä\n5\n", encoding="utf-8")
    factors = from_files(user, item, user_ids=tmp_path / "users.txt", item_ids=str(tmp_path / "items.txt"))
    assert factors.user_ids.tolist() == [10, 11, 12, 13]
    assert factors.item_ids.tolist() == ["x", "y", "z", "ä", "5"]
    np.save(tmp_path / "ids.npy", np.arange(5))
    assert from_files(user, item, item_ids=tmp_path / "ids.npy").item_ids.tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(InputError, match="no such file"):
        from_files(user, item, user_ids=tmp_path / "nobody.txt")
    with pytest.raises(InputError, match="5 user ids for 4"):
        from_files(user, item, user_ids=tmp_path / "items.txt")


def test_arrays_are_chosen_by_name(tmp_path: Path) -> None:
    path = tmp_path / "v.npz"
    np.savez(path, P=USER, Q=ITEM)
    with pytest.raises(InputError, match=r"user_key \(--user-key\); it has P \(4, 3\), Q \(5, 3\)"):
        from_files(path, path)
    factors = from_files(path, path, user_key="P", item_key="Q")
    np.testing.assert_array_equal(factors.item, ITEM)
    with pytest.raises(InputError, match="no array 'R'"):
        from_files(path, path, user_key="R", item_key="Q")


class Evil:
    """Runs code if it is unpickled."""

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return (pytest.fail, ("something was unpickled",))


def test_nothing_is_unpickled(tmp_path: Path) -> None:
    (tmp_path / "evil.pt").write_bytes(b"")
    torch.save({"user": Evil()}, tmp_path / "evil.pt")
    with pytest.raises(InputError, match="objects are not loaded"):
        from_files(tmp_path / "evil.pt", tmp_path / "evil.pt")
    (tmp_path / "evil.npy").write_bytes(pickle.dumps(Evil()))
    with pytest.raises(InputError, match=r"cannot be read as \.npy"):
        from_files(tmp_path / "evil.npy", tmp_path / "evil.npy")
    np.save(tmp_path / "objects.npy", np.array([{}, {}], dtype=object), allow_pickle=True)
    with pytest.raises(InputError, match=r"cannot be read as \.npy"):
        from_files(tmp_path / "objects.npy", tmp_path / "objects.npy")


@pytest.mark.parametrize("kind", ["npy", "npz", "safetensors", "pt"])
def test_errors_name_broken_and_missing_files(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"broken.{kind}"
    with pytest.raises(InputError, match=f"broken.{kind}: no such file"):
        from_files(path, path)
    path.write_bytes(b"not vectors at all")
    with pytest.raises(InputError, match=f"broken.{kind}: "):
        from_files(path, path)
    with pytest.raises(InputError, match=r"not from '\.txt'"):
        from_files(tmp_path / "v.txt", tmp_path / "v.txt")


def test_only_numbered_columns_are_factors(tmp_path: Path) -> None:
    ids = {"id": ["a", "b"]}
    factors = {"f0": [1.0, 2.0], "f1": [3.0, 4.0]}
    good = pl.DataFrame({**ids, **factors})
    found = from_files(good, good)
    assert found.user.tolist() == [[1.0, 3.0], [2.0, 4.0]]
    odd = pl.DataFrame({**ids, "year": [1999, 2001], **factors})  # or the row numbers that pandas writes
    with pytest.raises(
        InputError, match=r"the columns year, f0, f1 are neither lists nor the factors .*--item-key 'f\*'"
    ):
        from_files(good, odd)
    assert from_files(good, odd, item_key="f*").item.tolist() == found.item.tolist()
    lists = pl.DataFrame({**ids, "vec": [[1.0], [2.0]], "tags": [["x"], ["y", "z"]], "more": [[1.0], [2.0, 3.0]]})
    assert from_files(lists, lists, user_key="vec", item_key="vec").user.tolist() == [[1.0], [2.0]]


def test_ids_of_one_file_belong_to_one_side(tmp_path: Path) -> None:
    vectors = np.eye(2, dtype=np.float32)
    np.savez(tmp_path / "both.npz", user_factors=vectors, item_factors=vectors, ids=np.array(["a", "b"]))
    with pytest.raises(InputError, match="does not say whose ids it holds; name the user ids"):
        from_files(tmp_path / "both.npz", tmp_path / "both.npz")
    (tmp_path / "ids.txt").write_text("\ufeffa\nb\n", encoding="utf-8")
    found = from_files(vectors, vectors, user_ids=tmp_path / "ids.txt", item_ids=tmp_path / "ids.txt")
    assert found.user_ids.tolist() == ["a", "b"]
