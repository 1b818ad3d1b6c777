"""The compiled kernels, the plain ones in small pieces, and those on a GPU give the same."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest
import torch
from torch import Tensor

from recprism.metrics import METRICS, Context, Lists
from recprism.metrics import compiled as cpu_module
from recprism.metrics import lists as lists_module
from recprism.metrics import operations as kernels_module
from recprism.metrics.compiled import COMPILED
from recprism.metrics.lists import kernels_for
from recprism.metrics.operations import PLAIN, Kernels

SIZES = {"few users": (7, 30, 5), "one place": (50, 30, 1), "several threads": (1500, 80, 20), "no users": (0, 30, 5)}


def world(n_users: int, n_items: int, depth: int, device: str = "cpu") -> tuple[Tensor, Context]:
    generator = np.random.default_rng(n_users)
    items = np.argsort(generator.random((n_users, n_items)), axis=1)[:, :depth]
    items[generator.random(items.shape) < 0.1] = -1  # also in the middle
    categories = (generator.random((n_items, 9)) < 0.2) * generator.uniform(0.1, 2, (n_items, 9))
    vectors = generator.standard_normal((n_items, 13)) * (generator.random((n_items, 1)) < 0.9)
    context = Context(
        relevant=generator.random((n_users, n_items)) < 0.2,
        train=generator.random((n_users, n_items)) < 0.1,
        categories=categories,
        vectors=vectors,
        attributes=categories,
        device=device,
    )
    return torch.from_numpy(items), context


def all_values(kernels: Kernels, items: Tensor, context: Context, monkeypatch: pytest.MonkeyPatch) -> dict[str, Tensor]:
    monkeypatch.setattr(lists_module, "kernels_for", lambda _device: kernels)
    lists = Lists(items, context)
    depth = items.shape[1]
    metrics = [metric for metric in METRICS.values() if metric.min_places <= depth]
    return {f"{metric.name}@{k}": metric(lists.at(k)).cpu() for metric in metrics for k in {1, depth // 2 or 1, depth}}


def assert_same(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        torch.testing.assert_close(found[name], values, rtol=1e-6, atol=2e-6, equal_nan=True, msg=name)


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
def test_compiled_and_plain_kernels_agree(size: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    items, context = world(*size)
    assert_same(all_values(COMPILED, items, context, monkeypatch), all_values(PLAIN, items, context, monkeypatch))


def test_the_number_of_threads_does_not_change_a_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    items, context = world(1500, 80, 20)
    before = torch.get_num_threads()
    found = []
    for threads in (1, 3):
        torch.set_num_threads(threads)
        monkeypatch.setattr(cpu_module, "MIN_USERS", 64)
        found.append(all_values(COMPILED, items, context, monkeypatch))
    torch.set_num_threads(before)
    for name, values in found[0].items():
        assert torch.equal(values.nan_to_num(), found[1][name].nan_to_num()), name


def test_plain_kernels_do_not_depend_on_how_many_users_they_take_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    items, context = world(40, 30, 20)
    at_once = all_values(PLAIN, items, context, monkeypatch)
    monkeypatch.setattr(kernels_module, "MAX_CELLS", 900)
    assert_same(all_values(PLAIN, items, context, monkeypatch), at_once)


@pytest.mark.parametrize("kernels", [PLAIN, COMPILED], ids=["torch", "numba"])
@pytest.mark.parametrize(
    ("items", "user"),
    [
        ([[0, 1], [1, 0]], None),
        ([[0, -1], [-1, -1]], None),
        ([[0, 1], [2, 9]], 1),
        ([[0, -2], [2, 9]], 0),
        ([[0, 1], [1, 1]], 1),
    ],
)
def test_faults_are_found(kernels: Kernels, items: list[list[int]], user: int | None) -> None:
    assert kernels.first_fault(torch.tensor(items), 9) == user


def test_kernels_are_chosen_for_the_device() -> None:
    assert kernels_for(torch.device("cpu")) is COMPILED
    on_cuda = kernels_for(torch.device("cuda"))
    assert on_cuda is PLAIN if find_spec("triton") is None else type(on_cuda).__name__ == "FusedKernels"


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
def test_a_gpu_gives_the_same(size: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    items, context = world(*size)
    expected = all_values(PLAIN, items, context, monkeypatch)
    items, context = world(*size, device="cuda")
    assert_same(all_values(PLAIN, items.cuda(), context, monkeypatch), expected)
