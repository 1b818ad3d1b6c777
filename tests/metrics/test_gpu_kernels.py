"""Kernels for a GPU against those in plain torch, on a CUDA device or under Triton's interpreter."""

from __future__ import annotations

import os

import numpy as np
import pytest
import torch

from recprism.metrics import Context
from recprism.metrics.operations import PLAIN

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cuda" if torch.cuda.is_available() and not INTERPRETED else "cpu"
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        DEVICE == "cpu" and not INTERPRETED, reason="needs a CUDA device (or TRITON_INTERPRET=1), and torch sees none"
    ),
]


def lists_and_context(n_users: int, k: int, n_categories: int) -> tuple[torch.Tensor, Context]:
    rng = np.random.default_rng(k)
    n_items = 3 * k + 5
    items = np.stack([rng.permutation(n_items)[:k] for _ in range(n_users)])
    items[::5, k // 2 :] = -1
    relevant = rng.random((n_users, n_items)) < 0.2
    relevant[1:2] = False
    categories = (rng.random((n_items, n_categories)) < 0.3) * rng.uniform(0.5, 2, (n_items, n_categories))
    return torch.from_numpy(items).to(DEVICE), Context(relevant=relevant, categories=categories, device=DEVICE)


@pytest.mark.parametrize(("n_users", "k", "n_categories"), [(1, 1, 1), (70, 20, 18), (33, 7, 40), (5, 100, 3)])
def test_fused_kernels_agree_with_plain_ones(n_users: int, k: int, n_categories: int) -> None:
    from recprism.metrics._gpu import FUSED

    items, context = lists_and_context(n_users, k, n_categories)
    for fused, plain in (
        (FUSED.growth(items, context.categories), PLAIN.growth(items, context.categories)),
        (FUSED.found(items, context.relevant), PLAIN.found(items, context.relevant)),
    ):
        for one, other in zip(fused, plain, strict=True):
            torch.testing.assert_close(one, other.to(torch.float64), rtol=1e-12, atol=1e-12)


def test_no_user_has_held_out_items() -> None:
    from recprism.metrics._gpu import FUSED

    items, _ = lists_and_context(4, 5, 2)
    context = Context(relevant=np.zeros((4, 20), bool), device=DEVICE)
    assert all(not bool(values.any()) for values in FUSED.found(items, context.relevant))
