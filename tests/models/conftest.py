"""Small data sets for the models."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from recprism.data.interactions import Interactions
from recprism.data.sparse_rows import SparseRows
from recprism.data.split import Split, split_interactions

USERS_PER_BLOCK, ITEMS_PER_BLOCK = 30, 25


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    """Use one thread: data this small do not profit from more, and waiting for busy cores is slow."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def blocks() -> Split:
    """Two groups of users, each of whom has half of the items of their group; split 8:1:1."""
    generator = np.random.default_rng(5)
    pairs = [
        (block * USERS_PER_BLOCK + user, block * ITEMS_PER_BLOCK + item)
        for block in range(2)
        for user in range(USERS_PER_BLOCK)
        for item in generator.permutation(ITEMS_PER_BLOCK)[: ITEMS_PER_BLOCK // 2]
    ]
    user, item = np.array(pairs).T
    user_ids = np.array([f"u{number:02d}" for number in range(2 * USERS_PER_BLOCK)], dtype=object)
    return split_interactions(Interactions(user, item, user_ids, np.arange(100, 100 + 2 * ITEMS_PER_BLOCK)))


@pytest.fixture(scope="session")
def random_matrix() -> SparseRows:
    """40 users x 30 items: the first user has all items, the second none, and no other user has the last item."""
    generator = np.random.default_rng(3)
    dense = generator.random((40, 30)) < 0.3
    dense[0], dense[1], dense[:, 29] = True, False, False
    dense[0, 29] = True
    return SparseRows.coerce(dense)
