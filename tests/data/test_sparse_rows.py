from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import coo_array, csr_matrix

from recprism.data import SparseRows
from recprism.errors import InputError


@st.composite
def pair_lists(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, tuple[int, int]]:
    shape = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    pairs = draw(st.lists(st.tuples(st.integers(0, shape[0] - 1), st.integers(0, shape[1] - 1)), max_size=30))
    rows, cols = np.array(pairs, np.int64).reshape(-1, 2).T
    return rows, cols, shape


@given(pair_lists())
def test_agrees_with_scipy(case: tuple[np.ndarray, np.ndarray, tuple[int, int]]) -> None:
    rows, cols, shape = case
    ours = SparseRows.from_pairs(rows, cols, shape)
    dense = coo_array((np.ones(len(rows)), (rows, cols)), shape=shape).toarray() > 0
    assert (ours.dense() == dense).all()
    assert (ours.to_scipy().toarray() > 0).tolist() == dense.tolist()
    assert (ours.transpose().dense() == dense.T).all()
    assert ours.row_counts.tolist() == dense.sum(1).tolist()
    assert ours.col_counts.tolist() == dense.sum(0).tolist()
    assert (SparseRows.coerce(csr_matrix(dense)).dense() == dense).all()
    assert (SparseRows.coerce(dense).dense() == dense).all()


@given(pair_lists(), st.data())
def test_take_rows_and_union(case: tuple[np.ndarray, np.ndarray, tuple[int, int]], data: st.DataObject) -> None:
    rows, cols, shape = case
    ours = SparseRows.from_pairs(rows, cols, shape)
    wanted = np.array(data.draw(st.lists(st.integers(0, shape[0] - 1), max_size=8)), np.int64)
    assert (ours.take_rows(wanted).dense() == ours.dense()[wanted]).all()
    half = len(rows) // 2
    first, second = (SparseRows.from_pairs(rows[part], cols[part], shape) for part in (slice(half), slice(half, None)))
    assert (first.union(second).dense() == ours.dense()).all()


def test_explicit_zeros_are_no_entries() -> None:
    matrix = csr_matrix((np.array([1.0, 0.0]), np.array([0, 1]), np.array([0, 2])), shape=(1, 2))
    assert SparseRows.coerce(matrix).indices.tolist() == [0]


def test_numbers_outside_the_shape_are_named() -> None:
    with pytest.raises(InputError, match=r"column numbers run from 0 to 5, outside 0 \.\. 2"):
        SparseRows.from_pairs(np.array([0, 0]), np.array([0, 5]), (1, 3))
    with pytest.raises(InputError, match=r"\(1, 3\) and \(2, 3\)"):
        SparseRows.empty((1, 3)).union(SparseRows.empty((2, 3)))
    with pytest.raises(InputError, match="two dimensions"):
        SparseRows.coerce(np.zeros(3))
