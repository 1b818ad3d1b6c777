"""The same on a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from recprism.data.split import Split
from recprism.models import BPRMF, LightGCN
from recprism.models.training import Checkpoint

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def _needs_cuda() -> None:
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device here: training on a GPU is not tested")


@pytest.mark.parametrize("model", [BPRMF(dim=8, batch_size=200), LightGCN(dim=8, batch_size=200)])
def test_cuda_trains_as_well_as_the_cpu_and_repeats_itself(model: Any, blocks: Split) -> None:
    checkpoints: list[Checkpoint] = []
    factors = model.fit(blocks, device="cuda", checkpoint=lambda *state: checkpoints.append(state))
    again = model.fit(blocks, device="cuda")
    resumed = model.fit(blocks, device="cuda", resume=checkpoints[0])
    for other in (again, resumed):
        assert factors.user.tobytes() == other.user.tobytes() and factors.item.tobytes() == other.item.tobytes()
    items, _ = factors.rank(10, exclude=blocks.seen_before_test)
    assert ((np.arange(60) >= 30)[:, None] == (items >= 25)).mean() > 0.99
