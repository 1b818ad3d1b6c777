"""Top-k against a sort of exact scores: small whole numbers as factors make float32 scores exact and ties plentiful."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from recprism.data.sparse_rows import SparseRows
from recprism.errors import InputError
from recprism.ranking import topk

ENGINES = ("cpu", "torch")
CUDA = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device, and torch sees none")


def whole_factors(
    n_users: int, n_items: int, dim: int, largest: int = 3, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    draw = [rng.integers(-largest, largest + 1, (rows, dim)).astype(np.float32) for rows in (n_users, n_items)]
    return draw[0], draw[1]


def some_pairs(n_users: int, n_items: int, share: float, seed: int = 0) -> np.ndarray:
    """Random pairs to exclude; the first user has seen everything and the last one nothing."""
    seen = np.random.default_rng(seed).random((n_users, n_items)) < share
    seen[:1], seen[1:][-1:] = True, False
    return seen


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


def assert_is_definition(
    user: np.ndarray, item: np.ndarray, k: int, seen: np.ndarray | None, *, engine: str, block: int | None = None
) -> None:
    exclude = None if seen is None else SparseRows.coerce(seen)
    items, scores = topk(user, item, k, exclude=exclude, engine=engine, block=block)
    expected_items, expected_scores = sorted_lists(user, item, k, seen)
    assert items.dtype == np.int64
    assert scores.dtype == np.float32
    np.testing.assert_array_equal(items, expected_items)
    np.testing.assert_array_equal(scores, expected_scores)


@pytest.fixture
def torch_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("share", [None, 0.0, 0.1, 0.9])
@pytest.mark.parametrize(
    "shape",  # users, items, factors, places
    [
        (1, 1, 1, 1),
        (3, 5, 2, 10),  # more places than items
        (7, 48, 3, 48),  # a whole panel, every item wanted
        (8, 47, 130, 5),
        (64, 49, 1, 20),
        (65, 700, 4, 20),  # one user more than a block
        (300, 97, 6, 7),  # several tasks
        (20, 2000, 8, 300),
    ],
)
def test_lists_are_those_of_a_sort(shape: tuple[int, int, int, int], share: float | None, engine: str) -> None:
    n_users, n_items, dim, k = shape
    user, item = whole_factors(n_users, n_items, dim)
    seen = None if share is None else some_pairs(n_users, n_items, share)
    assert_is_definition(user, item, k, seen, engine=engine)


@pytest.mark.parametrize("engine", ENGINES)
@given(data=st.data())
def test_any_small_input_gives_the_lists_of_a_sort(engine: str, data: st.DataObject) -> None:
    n_users, n_items, dim = (
        data.draw(st.integers(1, top), label=name) for top, name in ((20, "n"), (130, "m"), (5, "d"))
    )
    user, item = whole_factors(n_users, n_items, dim, data.draw(st.integers(0, 5)), data.draw(st.integers(0, 99)))
    seen = some_pairs(n_users, n_items, data.draw(st.floats(0, 1)), seed=1)
    block = data.draw(st.none() | st.integers(1, 30), label="block")
    assert_is_definition(user, item, data.draw(st.integers(1, 140), label="k"), seen, engine=engine, block=block)


@pytest.mark.parametrize("dim", [1, 6])
def test_many_users_get_the_lists_of_a_sort(dim: int) -> None:
    user, item = whole_factors(2500, 300, dim)
    user[::7] = 0  # every seventh user has no vector
    assert_is_definition(user, item, 20, some_pairs(2500, 300, 0.5), engine="cpu")


@pytest.mark.parametrize("height", [-np.inf, -1, 0, 2, 1e30, np.nan])
def test_no_guess_of_a_bar_changes_a_list(height: float, monkeypatch: pytest.MonkeyPatch) -> None:
    from recprism.ranking import _cpu_engine as cpu

    user, item = whole_factors(2500, 200, 3)
    learn = cpu.learn_guess
    monkeypatch.setattr(cpu, "learn_guess", lambda *seen: learn(*seen)._replace(height=np.float32(height)))
    assert_is_definition(user, item, 20, some_pairs(2500, 200, 0.5), engine="cpu")


def test_vectors_whose_squares_leave_float32_are_ranked() -> None:
    user, item = whole_factors(2500, 200, 3)
    items, _ = topk(user * np.float32(1e-25), item * np.float32(1e25), 20, engine="cpu")
    assert (items >= 0).all()
    assert (items[:, 0] == sorted_lists(user, item, 1, None)[0][:, 0]).mean() > 0.5  # rounding may break ties


@pytest.mark.parametrize("engine", ENGINES)
def test_scores_that_rise_or_fall_with_the_item_number(engine: str) -> None:
    user = np.array([[1.0], [-1.0], [0.0]], np.float32)
    item = np.arange(5000, dtype=np.float32)[:, None]
    items, _ = topk(user, item, 3, engine=engine)
    assert items.tolist() == [[4999, 4998, 4997], [0, 1, 2], [0, 1, 2]]


@pytest.mark.parametrize("engine", ENGINES)
def test_negative_zero_ties_with_zero(engine: str) -> None:
    tiny = np.float32(1e-30)  # the square is too small for float32 and keeps only its sign
    items, scores = topk(np.array([[tiny]]), np.array([[-tiny], [0], [tiny]], np.float32), 3, engine=engine)
    assert items.tolist() == [[0, 1, 2]]
    assert not np.signbit(scores).any()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("n_users", "n_items"), [(0, 5), (4, 0), (0, 0)])
def test_no_users_or_no_items(n_users: int, n_items: int, engine: str) -> None:
    user, item = np.zeros((n_users, 3), np.float32), np.zeros((n_items, 3), np.float32)
    items, scores = topk(user, item, 2, exclude=SparseRows.empty((n_users, n_items)), engine=engine)
    assert items.shape == scores.shape == (n_users, 2)
    assert (items == -1).all()
    assert (scores == -np.inf).all()


def test_engines_agree_on_real_numbers() -> None:
    rng = np.random.default_rng(0)
    user, item = rng.standard_normal((500, 50), np.float32), rng.standard_normal((3000, 50), np.float32)
    seen = some_pairs(500, 3000, 0.02)
    exact = np.where(seen, -np.inf, user.astype(np.float64) @ item.astype(np.float64).T)
    best_scores = -np.sort(-exact, axis=1)[:, :20]
    lists = [topk(user, item, 20, exclude=SparseRows.coerce(seen), engine=engine) for engine in ENGINES]
    for items, scores in lists:
        np.testing.assert_allclose(scores, best_scores, rtol=1e-5)
        np.testing.assert_allclose(scores[1:], np.take_along_axis(exact, items, axis=1)[1:], rtol=1e-5)
    assert (lists[0][0] == lists[1][0]).mean() > 0.999  # only scores closer than rounding may trade places


@pytest.mark.parametrize("exclude", [sparse.csr_matrix, sparse.coo_array, SparseRows.coerce])
def test_any_sparse_matrix_excludes(exclude: type) -> None:
    user, item = whole_factors(9, 30, 3)
    seen = some_pairs(9, 30, 0.3)
    items, _ = topk(user, item, 30, exclude=exclude(seen))
    np.testing.assert_array_equal(items, sorted_lists(user, item, 30, seen)[0])


@pytest.mark.parametrize("engine", ENGINES)
def test_arrays_give_arrays_and_tensors_give_tensors(engine: str) -> None:
    user, item = whole_factors(9, 30, 3)
    items, scores = topk(user, item, 4, engine=engine)
    assert isinstance(items, np.ndarray)
    assert isinstance(scores, np.ndarray)
    tensors = topk(torch.from_numpy(user).requires_grad_(), torch.from_numpy(item), 4, engine=engine)
    assert all(isinstance(tensor, torch.Tensor) and not tensor.requires_grad for tensor in tensors)
    np.testing.assert_array_equal(tensors[0], items)
    np.testing.assert_array_equal(tensors[1], scores)


@pytest.mark.parametrize("engine", ENGINES)
def test_any_layout_and_number_type_will_do(engine: str) -> None:
    user, item = whole_factors(9, 30, 4)
    expected, _ = topk(user, item, 4, engine=engine)
    frozen = item.copy()
    frozen.flags.writeable = False
    others = [
        (np.asfortranarray(user), item[::-1][::-1]),
        (user.astype(np.float64), item.astype(np.int8)),
        (user, frozen),
        (torch.from_numpy(user).double(), torch.from_numpy(item.T.copy()).T),
    ]
    for other_user, other_item in others:
        np.testing.assert_array_equal(topk(other_user, other_item, 4, engine=engine)[0], expected)


def test_the_bits_of_a_list_do_not_depend_on_threads_or_other_users(torch_threads: None) -> None:
    rng = np.random.default_rng(0)
    user, item = rng.standard_normal((2100, 50), np.float32), rng.standard_normal((1000, 50), np.float32)
    results = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        results.append(topk(user, item, 20, engine="cpu"))
    results.append(topk(user, item, 20, engine="cpu", block=1000))
    alone = [topk(user[row : row + 1], item, 20, engine="cpu") for row in range(0, 2100, 100)]
    for items, scores in results[1:]:
        np.testing.assert_array_equal(items, results[0][0])
        np.testing.assert_array_equal(scores, results[0][1])
    np.testing.assert_array_equal(np.concatenate([items for items, _ in alone]), results[0][0][::100])
    np.testing.assert_array_equal(np.concatenate([scores for _, scores in alone]), results[0][1][::100])


def run_python(code: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env=os.environ | environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(("engine", "n_users"), [("cpu", 20_000), ("torch", 3_000)])
def test_memory_does_not_grow_with_users_times_items(engine: str, n_users: int) -> None:
    grown = run_python(f"""
import resource, numpy as np
from recprism.ranking import topk
rng = np.random.default_rng(0)
user, item = rng.standard_normal(({n_users}, 2), np.float32), rng.standard_normal((50_000, 2), np.float32)
topk(user[:100], item, 5, engine={engine!r})
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
topk(user, item, 5, engine={engine!r})
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
""")
    assert int(grown) < 300  # MiB; the full score matrix would take 3,815 or 572


def is_arm() -> bool:
    return platform.machine().lower() in ("aarch64", "arm64")


def has_avx512() -> bool:
    from llvmlite import binding

    return bool(binding.get_host_cpu_features().get("avx512f"))


OTHER_TILES = [  # the machine that the kernel is made for, its vectors, and the settings of numba
    pytest.param("x86_64", 8, {}, id="AVX2 tile on ARM", marks=pytest.mark.skipif(not is_arm(), reason="on ARM64")),
    pytest.param("aarch64", 4, {}, id="NEON tile on x86", marks=pytest.mark.skipif(is_arm(), reason="not on ARM64")),
    pytest.param(
        "x86_64",
        8,
        {"NUMBA_CPU_NAME": "haswell", "NUMBA_CPU_FEATURES": "+avx2,+fma"},
        id="AVX2 beside AVX-512",
        marks=pytest.mark.skipif(is_arm() or not has_avx512(), reason="needs AVX-512"),
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(("machine", "lanes", "environment"), OTHER_TILES)
def test_the_kernel_of_another_machine_gives_the_same_bits(
    machine: str, lanes: int, environment: dict[str, str], tmp_path: Path
) -> None:
    """Every kernel is plain LLVM code, so this machine can run those of others, only slower."""
    rng = np.random.default_rng(0)
    user, item = rng.standard_normal((3000, 20), np.float32), rng.standard_normal((500, 20), np.float32)
    seen = rng.random((3000, 500)) < 0.2
    np.savez(tmp_path / "in.npz", user=user, item=item, seen=seen)
    code = f"""
import platform
platform.machine = lambda: {machine!r}
import numpy as np
from recprism.data.sparse_rows import SparseRows
from recprism.ranking._kernels import registers
from recprism.ranking import topk
assert registers.LANES == {lanes}
given = np.load({str(tmp_path / "in.npz")!r})
items, scores = topk(given["user"], given["item"], 30, exclude=SparseRows.coerce(given["seen"]), engine="cpu")
np.savez({str(tmp_path / "out.npz")!r}, items=items, scores=scores)
"""
    run_python(code, NUMBA_CACHE_DIR=str(tmp_path), **environment)
    lists = np.load(tmp_path / "out.npz")
    items, scores = topk(user, item, 30, exclude=SparseRows.coerce(seen), engine="cpu")
    np.testing.assert_array_equal(lists["items"], items)
    np.testing.assert_array_equal(lists["scores"], scores)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"user": np.ones(3)}, r"user vectors have shape \(3,\)"),
        ({"item": np.ones((4, 2))}, r"user vectors have shape \(2, 3\) and item vectors \(4, 2\)"),
        ({"k": 0}, "k is 0"),
        ({"k": 1.5}, "k is 1.5"),
        ({"block": -1}, "block is -1"),
        ({"engine": "gpu"}, "engine 'gpu' is not known; choose one of auto, cpu, torch"),
        ({"exclude": sparse.csr_matrix((4, 2))}, r"exclude has shape \(4, 2\) for 2 users and 4 items"),
        (
            {"user": np.array([[0, 0, 0], [0, np.nan, 0]])},
            r"user vectors hold NaN or infinity, first in row 1 \(1 rows",
        ),
        ({"item": np.full((4, 3), -np.inf)}, "item vectors hold NaN or infinity, first in row 0"),
        ({"item": np.full((4, 3), 1e300)}, "item vectors hold NaN or infinity, first in row 0"),
        (
            {"user": np.array([[0, 0, 0], [0, 1e30, 0]]), "item": np.array([[1e30, 0, 0], [0, 1e30, 0]])},
            "user row 1 and item row 1 leaves the float32 range",
        ),
    ],
)
def test_what_cannot_be_ranked_is_named(change: dict[str, object], message: str) -> None:
    arguments = {"user": np.ones((2, 3)), "item": np.ones((4, 3)), "k": 1} | change
    with pytest.raises(InputError, match=message):
        topk(**arguments)


def test_large_vectors_with_finite_scores_are_ranked() -> None:
    items, _ = topk(np.array([[1e30, 0], [0, 1e30]]), np.array([[1e5, 1e8], [1e8, 1e5]]), 2)
    assert items.tolist() == [[1, 0], [0, 1]]


@pytest.mark.gpu
@CUDA
@pytest.mark.parametrize("k", [1, 20, 600])
def test_a_gpu_gives_the_lists_of_a_sort(k: int) -> None:
    user, item = whole_factors(300, 500, 6)
    seen = some_pairs(300, 500, 0.2)
    vectors = [torch.from_numpy(array).cuda() for array in (user, item)]
    items, scores = topk(*vectors, k, exclude=SparseRows.coerce(seen), block=70)
    assert items.is_cuda
    assert scores.is_cuda
    expected = sorted_lists(user, item, k, seen)
    np.testing.assert_array_equal(items.cpu(), expected[0])
    np.testing.assert_array_equal(scores.cpu(), expected[1])


@pytest.mark.gpu
@CUDA
def test_vectors_on_two_devices_are_refused() -> None:
    user, item = (torch.ones(2, 3), torch.ones(4, 3).cuda())
    with pytest.raises(InputError, match="move them to one device"):
        topk(user, item, 1)
    with pytest.raises(InputError, match="engine 'cpu' got vectors on cuda"):
        topk(item, item, 1, engine="cpu")
