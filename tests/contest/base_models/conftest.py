"""One thread for small models, and a world in which the next item is known."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from recprism.data import Interactions, Split
from recprism.data.split import split_interactions

CYCLE, LENGTH = 12, 9


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def cycle() -> Split:
    """48 users who walk through the same cycle of 12 items from different places; the last two steps are held out."""
    step, user = (axis.ravel() for axis in np.meshgrid(np.arange(LENGTH), np.arange(4 * CYCLE)))
    interactions = Interactions(
        user, (user + step) % CYCLE, np.arange(4 * CYCLE), np.arange(CYCLE), None, step.astype(np.int64)
    )
    return split_interactions(interactions, "leave-last")
