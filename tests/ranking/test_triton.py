"""The fused engine against a sort of exact scores and against the other engines.

Runs where there is a CUDA device, and on any processor under Triton's interpreter: TRITON_INTERPRET=1.
"""

from __future__ import annotations

import os

import numpy as np
import pytest
import torch

from recprism.data.sparse_rows import SparseRows
from recprism.errors import InputError
from recprism.ranking import topk

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cuda" if torch.cuda.is_available() and not INTERPRETED else "cpu"
FUSED = pytest.mark.skipif(
    DEVICE == "cpu" and not INTERPRETED, reason="needs a CUDA device (or TRITON_INTERPRET=1), and torch sees none"
)
pytestmark = pytest.mark.gpu


def whole_factors(n_users: int, n_items: int, dim: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Small whole numbers: float32 scores are exact, and ties plentiful."""
    rng = np.random.default_rng(seed)
    draw = [rng.integers(-3, 4, (rows, dim)).astype(np.float32) for rows in (n_users, n_items)]
    return draw[0], draw[1]


def some_pairs(n_users: int, n_items: int, share: float) -> np.ndarray:
    """Random pairs to exclude; the first user has seen everything and the last one nothing."""
    seen = np.random.default_rng(1).random((n_users, n_items)) < share
    seen[:1], seen[1:][-1:] = True, False
    return seen


def fused(
    user: np.ndarray, item: np.ndarray, k: int, seen: np.ndarray | None = None, **options: int
) -> tuple[np.ndarray, np.ndarray]:
    vectors = [torch.from_numpy(np.ascontiguousarray(array, np.float32)).to(DEVICE) for array in (user, item)]
    exclude = None if seen is None else SparseRows.coerce(seen)
    items, scores = topk(*vectors, k, exclude=exclude, engine="triton", **options)
    assert items.device.type == DEVICE and items.dtype == torch.int64 and scores.dtype == torch.float32
    return items.cpu().numpy(), scores.cpu().numpy()


def sorted_lists(user: np.ndarray, item: np.ndarray, k: int, seen: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """The definition: a stable sort of the whole-number scores of the items not seen."""
    items = np.full((len(user), k), -1)
    scores = np.full((len(user), k), -np.inf, np.float32)
    exact = user.astype(np.int64) @ item.astype(np.int64).T
    for row, values in enumerate(exact):
        left = np.arange(len(item)) if seen is None else np.flatnonzero(~seen[row])
        best = left[np.argsort(-values[left], kind="stable")][:k]
        items[row, : len(best)], scores[row, : len(best)] = best, values[best]
    return items, scores


def assert_right(user: np.ndarray, item: np.ndarray, k: int, seen: np.ndarray | None, **options: int) -> None:
    """Place by place the float64 score of the given item is that of the definition, within 1e-5 of the scores' size."""
    items, scores = fused(user, item, k, seen, **options)
    exact = user.astype(np.float64) @ item.astype(np.float64).T
    if seen is not None:
        exact[seen] = -np.inf
    best = -np.sort(-exact, axis=1)[:, :k]
    assert ((items >= 0) == np.isfinite(best)).all()
    real = items >= 0
    assert all(len(set(row[row >= 0])) == (row >= 0).sum() for row in items)
    given = np.where(real, np.take_along_axis(exact, np.maximum(items, 0), 1), -np.inf)
    size = np.abs(user).astype(np.float64).sum(1)[:, None] * np.abs(item).max()
    near = 1e-5 * np.broadcast_to(
        np.minimum(np.maximum(np.abs(np.where(real, best, 0)), 1e-2 * size), size), best.shape
    )
    assert (np.abs(given - best)[real] <= near[real]).all()
    assert (np.abs(scores - given)[real] <= near[real]).all()


@FUSED
@pytest.mark.parametrize("share", [None, 0.1, 0.9])
@pytest.mark.parametrize(
    "shape",  # users, items, factors, places
    [(1, 100, 1, 1), (5, 700, 6, 20), (130, 333, 17, 7), (3, 1600, 70, 100), (2, 4100, 3, 256), (4, 513, 130, 20)],
)
def test_lists_are_those_of_a_sort(shape: tuple[int, int, int, int], share: float | None) -> None:
    n_users, n_items, dim, k = shape
    user, item = whole_factors(n_users, n_items, dim)
    seen = None if share is None else some_pairs(n_users, n_items, share)
    expected = sorted_lists(user, item, k, seen)
    items, scores = fused(user, item, k, seen)
    np.testing.assert_array_equal(items, expected[0])
    np.testing.assert_array_equal(scores, expected[1])


@FUSED
@pytest.mark.parametrize("group", [8, 16, 32])
def test_the_size_of_groups_changes_no_list(group: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from recprism.ranking import triton_engine

    plan = triton_engine.plan_for(3000, 10)
    assert plan is not None
    monkeypatch.setattr(triton_engine, "plan_for", lambda *_: triton_engine.Plan(group, plan.bins, plan.room))
    user, item = whole_factors(4, 3000, 5)
    seen = some_pairs(4, 3000, 0.3)
    np.testing.assert_array_equal(fused(user, item, 10, seen)[0], sorted_lists(user, item, 10, seen)[0])


@FUSED
def test_float32_separates_what_half_precision_cannot() -> None:
    user = np.array([[1.0, 0.0], [-1.0, 0.0]])
    item = np.stack([1 + np.random.default_rng(0).permutation(900) * 2.0**-22, np.ones(900)], 1)
    for row, items in zip((1, -1), fused(user, item, 20)[0], strict=True):
        np.testing.assert_array_equal(items, np.argsort(-row * item[:, 0])[:20])


@FUSED
@pytest.mark.parametrize("kind", ["normal", "long tail", "one direction", "tiny users", "zero users", "equal items"])
def test_vectors_of_any_kind(kind: str) -> None:
    rng = np.random.default_rng(2)
    user, item = rng.normal(size=(6, 20)).astype(np.float32), rng.normal(size=(1200, 20)).astype(np.float32)
    if kind == "long tail":
        item *= (10.0 ** rng.uniform(-6, 3, (1200, 1))).astype(np.float32)
    if kind == "one direction":
        item = item * np.float32(1e-3) + np.float32(1)
    if kind == "tiny users":
        user *= np.float32(1e-20)
    if kind == "zero users":
        user[::2] = 0
    if kind == "equal items":
        item[:] = item[0]
    assert_right(user, item, 20, some_pairs(6, 1200, 0.2))


@FUSED
def test_scores_that_float32_cannot_separate_are_equal() -> None:
    tiny = np.float32(1e-30)  # the square is too small for float32 and keeps only its sign
    items, scores = fused(np.array([[tiny]]), np.repeat([[-tiny], [0], [tiny]], 40, 0), 3)
    assert items.tolist() == [[0, 1, 2]]
    assert not np.signbit(scores).any()
    items, _ = fused(np.array([[1e30], [-1e30]]), np.arange(200)[:, None] * 1e5, 2)
    assert items.tolist() == [[199, 198], [0, 1]]


@FUSED
def test_blocks_and_repetition_change_no_bit() -> None:
    rng = np.random.default_rng(3)
    user, item = rng.normal(size=(300, 12)).astype(np.float32), rng.normal(size=(400, 12)).astype(np.float32)
    seen = some_pairs(300, 400, 0.1)
    lists = [fused(user, item, 5, seen, **options) for options in ({}, {}, {"block": 128})]
    for items, scores in lists[1:]:
        np.testing.assert_array_equal(items, lists[0][0])
        np.testing.assert_array_equal(scores, lists[0][1])


@FUSED
def test_long_lists_of_few_items_use_the_torch_engine() -> None:
    user, item = whole_factors(5, 60, 3)
    np.testing.assert_array_equal(fused(user, item, 40)[0], sorted_lists(user, item, 40, None)[0])


@pytest.mark.skipif(DEVICE == "cpu", reason="needs a CUDA device, and torch sees none")
@pytest.mark.parametrize("shape", [(3000, 5000, 50, 20), (1000, 30_000, 64, 100), (200, 120_000, 32, 10)])
def test_engines_agree_on_real_numbers(shape: tuple[int, int, int, int]) -> None:
    n_users, n_items, dim, k = shape
    rng = np.random.default_rng(4)
    user, item = (rng.normal(size=(rows, dim)).astype(np.float32) for rows in (n_users, n_items))
    owner = np.repeat(np.arange(n_users), 50)
    seen = SparseRows.from_pairs(owner, rng.integers(0, n_items, len(owner)), (n_users, n_items))
    vectors = [torch.from_numpy(array).cuda() for array in (user, item)]
    fused_lists, plain = (topk(*vectors, k, exclude=seen, engine=engine) for engine in ("auto", "torch"))
    torch.testing.assert_close(fused_lists[1], plain[1], rtol=1e-5, atol=0)
    assert (fused_lists[0] == plain[0]).float().mean() > 0.9995  # only scores closer than rounding may trade places
    on_cpu = topk(user, item, k, exclude=seen)
    np.testing.assert_allclose(fused_lists[1].cpu(), on_cpu[1], rtol=1e-5)


@pytest.mark.skipif(DEVICE == "cpu", reason="needs a CUDA device, and torch sees none")
def test_trained_vectors_of_all_sizes_and_the_memory_they_take() -> None:
    rng = np.random.default_rng(5)
    weight = (1 / np.sqrt(1 + np.arange(50))).astype(np.float32)
    user = rng.normal(size=(20_000, 50)).astype(np.float32) * weight
    item = (rng.normal(size=(20_000, 50)) * rng.gamma(1, 1, (20_000, 1))).astype(np.float32) * weight
    vectors = [torch.from_numpy(array).cuda() for array in (user, item)]
    topk(*(vector[:300] for vector in vectors), 20)
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    _, scores = topk(*vectors, 20)
    assert torch.cuda.max_memory_allocated() - before < 20_000 * 20_000 * 4 / 4  # far from a matrix of scores
    plain = topk(*vectors, 20, engine="torch")
    torch.testing.assert_close(scores, plain[1], rtol=1e-5, atol=0)


@pytest.mark.skipif(INTERPRETED, reason="the interpreter takes vectors on the processor")
def test_vectors_on_a_processor_are_refused() -> None:
    with pytest.raises(InputError, match="engine 'triton' got vectors on cpu"):
        topk(np.ones((2, 3)), np.ones((4, 3)), 1, engine="triton")


@FUSED
@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e38])
def test_what_cannot_be_ranked_is_named(bad: float) -> None:
    user, item = np.ones((3, 4), np.float32), np.ones((200, 4), np.float32)
    item[7, 2] = bad
    with pytest.raises(InputError, match="item row 7 leaves" if bad == 1e38 else "item vectors hold NaN or infinity"):
        fused(user * np.float32(10), item, 3)
