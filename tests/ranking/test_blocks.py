"""Lists computed in blocks of any size are bit for bit the lists of one call."""

from __future__ import annotations

import numpy as np
import pytest

from recprism.data.sparse_rows import SparseRows
from recprism.ranking import topk, topk_blocks

N_USERS, N_ITEMS, K = 230, 170, 12


@pytest.fixture(scope="module")
def world() -> tuple[np.ndarray, np.ndarray, SparseRows]:
    """Small whole numbers as factors, so that ties are plentiful; the first user has seen all but four items."""
    rng = np.random.default_rng(0)
    user, item = (rng.integers(-2, 3, (n, 3)).astype(np.float32) for n in (N_USERS, N_ITEMS))
    seen = rng.random((N_USERS, N_ITEMS)) < 0.3
    seen[0, 4:] = True
    return user, item, SparseRows.coerce(seen)


@pytest.mark.parametrize("engine", ["auto", "torch"])
@pytest.mark.parametrize(("users", "items"), [(1000, 1000), (64, 50), (229, 169), (229, 1), (230, 5)])
def test_blocks_give_the_lists_of_one_call(
    world: tuple[np.ndarray, np.ndarray, SparseRows], users: int, items: int, engine: str
) -> None:
    user, item, seen = world
    blocks = topk_blocks(user, item, K, exclude=seen, users_at_a_time=users, items_at_a_time=items, engine=engine)
    rows, lists, scores = zip(*blocks, strict=True)
    assert [part.start for part in rows] == list(range(0, N_USERS, users))
    expected = topk(user, item, K, exclude=seen, engine=engine)
    np.testing.assert_array_equal(np.concatenate(lists), expected[0])
    np.testing.assert_array_equal(np.concatenate(scores), expected[1])


def test_scores_of_real_numbers_do_not_depend_on_the_blocks() -> None:
    rng = np.random.default_rng(1)
    user, item = (rng.standard_normal((n, 33), np.float32) for n in (90, 301))
    ((_, items, scores),) = topk_blocks(user, item, 20, items_at_a_time=37)
    expected = topk(user, item, 20)
    np.testing.assert_array_equal(items, expected[0])
    np.testing.assert_array_equal(scores, expected[1])


def test_columns_of_a_matrix() -> None:
    dense = np.random.default_rng(2).random((9, 14)) < 0.4
    for first, last in ((0, 14), (3, 9), (5, 5), (13, 14)):
        np.testing.assert_array_equal(SparseRows.coerce(dense).take_cols(first, last).dense(), dense[:, first:last])


def test_no_users() -> None:
    assert list(topk_blocks(np.empty((0, 2), np.float32), np.ones((3, 2), np.float32), 2)) == []
