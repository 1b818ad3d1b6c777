"""The directions of a change of scores: its singular vectors, which do not depend on the axes of the model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from recprism.cmb.factors.change import Change
from recprism.models import Factors

Array = NDArray[np.float64]


def directions(change: Change, n: int) -> tuple[Array, Array]:
    """(n_users, n) and (n_items, n): the strongest directions; their product is what they add to the scores."""
    users, items = change.score_change
    (left, left_small), (right, right_small) = np.linalg.qr(users), np.linalg.qr(items)
    u, strengths, v = np.linalg.svd(left_small @ right_small.T, full_matrices=False)
    root = np.sqrt(strengths[:n])
    return left @ u[:, :n] * root, right @ v[:n].T * root


def with_directions_alone(change: Change, n: int) -> Factors:
    """The base with the n strongest directions of its change and without the rest."""
    users, items = directions(change, n)
    user, item = np.hstack([change.base.user, users]), np.hstack([change.base.item, items])
    return replace(change.base, user=user.astype(np.float32), item=item.astype(np.float32))
