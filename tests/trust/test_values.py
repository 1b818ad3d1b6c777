"""Arrays and ids that are wrong are refused where they enter: one sentence, no warning, nothing silently used."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from scipy.sparse import csr_matrix

import recprism as rp
from recprism.common.checks import finite_array, float32_array, whole_array
from recprism.data import Categories, SparseRows
from recprism.data.frames import interactions_from_csr
from recprism.errors import InputError
from recprism.metrics import Context, evaluate
from recprism.models import Factors
from recprism.ranking import topk
from recprism.rivals import MMR
from recprism.rule import Features

NAN, INF = float("nan"), float("inf")
THREE = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
PLAIN = Features(vectors=np.ones((9, 2)))

# Each takes a matrix (3, 2); the name is what the message calls it.
MATRICES: dict[str, Callable[[Any], Any]] = {
    "numbers of relevant": lambda it: Context(relevant=it),
    "numbers of train": lambda it: Context(train=it),
    "weights of categories": lambda it: Context(categories=it),
    "vectors": lambda it: Context(vectors=it),
    "attributes": lambda it: Context(attributes=it),
    "user_categories": lambda it: Context(categories=[[1, 0], [0, 1]], user_categories=it),
    "numbers of the lists": lambda it: evaluate(it, Context(n_items=9), ["catalogue_coverage@2"]),
    "user vectors": lambda it: Factors.from_arrays(it, THREE),
    "item vectors": lambda it: Factors.from_arrays(THREE, it),
    "user vectors ": lambda it: topk(it, THREE, 1),
    "item vectors ": lambda it: topk(THREE, it, 1),
    "interactions": lambda it: topk(THREE, [[1, 2], [3, 4]], 1, exclude=it),
    "vectors ": lambda it: Features(vectors=it),
    "weights of categories ": lambda it: Features(categories=it),
    "user_categories ": lambda it: Features(categories=[[1, 0], [0, 1]], user_categories=it),
    "candidates": lambda it: MMR()(it, THREE, 1, features=PLAIN),
    "scores": lambda it: MMR()([[0, 1]] * 3, it, 1, features=PLAIN),
}
# Each takes two numbers.
ROWS: dict[str, Callable[[Any], Any]] = {
    "numbers of popularity": lambda it: Context(popularity=it),
    "the numbers of item_bias": lambda it: Factors.from_arrays(THREE, THREE[:2], item_bias=it),
    "shown": lambda it: Features(shown=it),
    "row numbers": lambda it: SparseRows.from_pairs(it, np.arange(2), (9, 9)),
    "column numbers": lambda it: SparseRows.from_pairs(np.arange(2), it, (9, 9)),
    "item numbers": lambda it: Categories.from_pairs(it, ["a", "b"], 9),
    "weights of categories": lambda it: Categories.from_pairs(np.arange(2), ["a", "b"], 9, it),
    "rating": lambda it: rp.from_arrays([1, 2], [1, 2], ratings=it),
    "timestamp": lambda it: rp.from_arrays([1, 2], [1, 2], timestamps=it),
}
NOT_NUMBERS: dict[str, Any] = {
    "masked": np.ma.masked_array([1, 2], mask=[False, True]),
    "nan": [NAN, 1.0],
    "infinite": [INF, 1.0],
    "tensor": torch.tensor([NAN, 1.0]),
    "complex": [1j, 2.0],
    "text": ["a", "b"],
    "array of text": np.array(["a", "b"]),
    "None": [None, 1],
    "objects": np.array([{}, 1], object),
    "lists of unequal length": [[1], [1, 2]],
}
SIGNED = {"vectors", "attributes", "user vectors", "item vectors", "numbers of the lists", "candidates", "scores"}


@pytest.fixture(autouse=True)
def _no_warning() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def matrix_of(kind: str) -> Any:
    row = NOT_NUMBERS[kind]
    if isinstance(row, np.ma.MaskedArray):
        return np.ma.stack([row] * 3)
    if isinstance(row, (np.ndarray, torch.Tensor)):
        return row.repeat(3).reshape(3, 2) if isinstance(row, np.ndarray) else torch.stack([row] * 3)
    return [[1], [1, 2], [3]] if kind.startswith("lists") else [row] * 3


@pytest.mark.parametrize("kind", NOT_NUMBERS)
@pytest.mark.parametrize("what", MATRICES)
def test_matrices_that_are_no_numbers(what: str, kind: str) -> None:
    with pytest.raises(InputError) as refused:
        MATRICES[what](matrix_of(kind))
    words = what.split()
    assert words[-1] in str(refused.value) or kind in ("nan", "infinite", "tensor")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("kind", NOT_NUMBERS)
@pytest.mark.parametrize("what", ROWS)
def test_rows_that_are_no_numbers(what: str, kind: str) -> None:
    with pytest.raises(InputError) as refused:
        ROWS[what](NOT_NUMBERS[kind])
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("what", [name for name in MATRICES if name.strip() not in SIGNED])
def test_negative_numbers(what: str) -> None:
    with pytest.raises(InputError, match=r"negative|below 0|above 0"):
        MATRICES[what]([[-1, 0]] * 3)


@pytest.mark.parametrize("what", ["vectors", "attributes", "user vectors", "item vectors", "vectors "])
def test_numbers_that_overflow(what: str) -> None:
    with pytest.raises(InputError, match=r"1e\+300|1e\+37"):
        MATRICES[what]([[1e300, 1.0]] * 3)


@pytest.mark.parametrize("what", ["the numbers of item_bias", "weights of categories", "rating", "timestamp", "shown"])
def test_rows_that_overflow(what: str) -> None:
    with pytest.raises(InputError):
        ROWS[what]([1e300, 1.0])


def test_sparse_matrices() -> None:
    for bad in ([[NAN, 1.0]], [[-1.0, 1.0]], [[INF, 0.0]]):
        with pytest.raises(InputError, match="the numbers of relevant hold"):
            Context(relevant=csr_matrix(bad))
    with pytest.raises(InputError, match="ratings of the matrix hold 1e\\+300"):
        interactions_from_csr(csr_matrix([[1e300, 1.0]]))


def test_bool_and_fractions_are_no_item_numbers() -> None:
    for bad in ([[True, False]] * 3, [[0.5, 1.0]] * 3):
        with pytest.raises(InputError, match="integers"):
            MATRICES["candidates"](bad)
        with pytest.raises(InputError, match="integers"):
            MATRICES["numbers of the lists"](bad)


# -- ids --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "ids",
    [
        [None, 1],
        [NAN, 1.0],
        np.array([1, None], object),
        np.ma.masked_array([1, 2], mask=[0, 1]),
        [True, False],
        [1j, 2],
        np.array(["2020-01-01", "NaT"], "datetime64[D]"),
        ["", "a"],
        [["a"], ["b", "c"]],
    ],
    ids=repr,
)
def test_ids_that_are_none(ids: Any) -> None:
    for take in (
        lambda: Factors.from_arrays(THREE[:2], THREE, user_ids=ids),
        lambda: rp.from_arrays(ids, [1, 2]),
        lambda: rp.from_arrays([1, 2], ids),
        lambda: interactions_from_csr(csr_matrix([[1.0], [1.0]]), user_ids=ids),
    ):
        with pytest.raises(InputError):
            take()


@pytest.mark.parametrize("column", [[None, 1], [NAN, 1.0], [True, False], [[1], [2]], [b"a", b"b"]], ids=repr)
def test_columns_of_ids_that_are_none(column: list[Any]) -> None:
    frame = pl.DataFrame({"user_id": column, "item_id": [1, 2]})
    with pytest.raises(InputError, match="user_id"):
        rp.from_frames(frame)
    with pytest.raises(InputError, match="item_id"):
        rp.from_frames(frame.rename({"user_id": "item_id", "item_id": "user_id"}))


def test_ids_of_many_digits_stay_exact() -> None:
    long = [10**20, 10**20 + 1, 7]
    data = rp.from_arrays(long, [1, 2, 3])
    assert data.interactions.user_ids.tolist() == [str(10**20), str(10**20 + 1), "7"]
    factors = Factors.from_arrays(THREE, THREE, user_ids=long)
    assert factors.recommend(10**20, 1)[0].shape == (1,)


@pytest.mark.parametrize("wanted", [10**20, -(10**30), "99999999999999999999", "²", 2**63, 1.5, "07"])
def test_ids_that_integers_do_not_have(wanted: Any) -> None:
    with pytest.raises(InputError, match="is unknown"):
        Factors.from_arrays(THREE, THREE).recommend(wanted)


# -- weights of 0 -----------------------------------------------------------------------------------------------------


def test_a_weight_of_0_means_that_the_item_does_not_have_the_category() -> None:
    pairs = np.array([0, 1, 1, 2]), ["a", "a", "b", "c"]
    found = Categories.from_pairs(*pairs, 3, np.array([1.0, 0.0, 2.0, 0.0]))
    same = Categories.from_pairs(np.array([0, 1]), ["a", "b"], 3, np.array([1.0, 2.0]))
    assert found.names == same.names
    np.testing.assert_array_equal(found.dense(), same.dense())
    frame = pl.DataFrame({"item_id": [1, 1, 2], "category": ["a", "b", "a"], "weight": [0.0, 1.0, 3.0]})
    categories = rp.from_arrays([1, 1], [1, 2], categories=frame).categories
    assert categories is not None
    assert categories.dense().tolist() == [[0, 1], [3, 0]]
    Context(categories=categories)


# -- any array --------------------------------------------------------------------------------------------------------


@given(arrays(st.sampled_from([np.float64, np.float32, np.int64, np.bool_, np.complex128]), array_shapes()))
def test_any_array_is_returned_or_refused(values: Any) -> None:
    real = values.dtype.kind != "c"
    for read, fits in (
        (lambda: finite_array(values, "they", least=0), real and np.isfinite(values).all() and not (values < 0).any()),
        (lambda: float32_array(values, "they"), None),
        (lambda: whole_array(values, "they"), None),
    ):
        try:
            found = read()
        except InputError as problem:
            assert fits is not True
            assert str(problem).startswith("they ")
            continue
        assert fits is not False
        np.testing.assert_allclose(found, values, rtol=1e-6, atol=1e-38)
