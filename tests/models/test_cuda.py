"""Training on a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from recprism.data.sparse_rows import SparseRows
from recprism.data.split import Split
from recprism.models import BPRMF, LightGCN
from recprism.models._sparse import Graph
from recprism.models.training import Checkpoint

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def _needs_cuda() -> None:
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device here: training on a GPU is not tested")


@pytest.mark.parametrize("model", [BPRMF(dim=8, batch_size=200), LightGCN(dim=8, batch_size=200)])
def test_cuda_trains_as_well_as_the_cpu_and_is_reproducible(model: Any, blocks: Split) -> None:
    checkpoints: list[Checkpoint] = []
    factors = model.fit(blocks, device="cuda", checkpoint=lambda *state: checkpoints.append(state))
    again = model.fit(blocks, device="cuda")
    resumed = model.fit(blocks, device="cuda", resume=checkpoints[0])
    for other in (again, resumed):
        assert factors.user.tobytes() == other.user.tobytes() and factors.item.tobytes() == other.item.tobytes()
    items, _ = factors.rank(10, exclude=blocks.seen_before_test)
    assert ((np.arange(60) >= 30)[:, None] == (items >= 25)).mean() > 0.99


def test_split_sums_of_popular_items_are_the_same() -> None:
    rng = np.random.default_rng(0)
    taken = rng.random((700, 40)) < rng.uniform(0, 1, 40) ** 3  # from no user to hundreds per item
    taken[:, :2] = [True, False]
    train = SparseRows.coerce(taken)
    vectors = torch.from_numpy(rng.normal(size=(740, 9)).astype(np.float32))
    one, other = (Graph.of(train, torch.device(at)).smooth(vectors.to(at), 3) for at in ("cpu", "cuda"))
    torch.testing.assert_close(one, other.cpu(), rtol=1e-4, atol=1e-5)
