"""A small world whose metrics were computed by hand."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from recprism.metrics import Context


@pytest.fixture
def world() -> Context:
    """Six items: 0 and 1 have category A, 2 has A and B, 3 has B, 4 has C, 5 has none. User 2 has nothing held out."""
    return Context(
        relevant=[[1, 0, 0, 1, 0, 0], [0, 0, 0, 0, 1, 0], [0, 0, 0, 0, 0, 0]],
        train=[[0, 1, 0, 0, 0, 0], [0, 0, 1, 0, 0, 0], [0, 0, 0, 0, 0, 1]],
        categories=[[1, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0], [0, 0, 1], [0, 0, 0]],
        vectors=[[1.0, 0.0], [2.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [1.0, 1.0], [0.0, 0.0]],
        attributes=np.eye(6),
        popularity=[8, 4, 2, 1, 1, 0],
    )


@pytest.fixture
def items() -> NDArray[np.int64]:
    return np.array([[0, 1, 3, 4], [2, 4, -1, -1], [5, 0, 2, 3]])
