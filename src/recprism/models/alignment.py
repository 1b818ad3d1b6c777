"""Rotate the vectors of a retrained model onto the axes of the old one, so that both can be compared."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recprism.errors import InputError
from recprism.models.factors import Factors


@dataclass(frozen=True, eq=False)
class Aligned:
    """A recommender rotated onto the axes of another one; scores and lists do not change.

    Attributes:
        factors: The rotated recommender.
        turn: Orthogonal matrix, (d, d); factors.item = item @ turn and factors.user = user @ turn.
        users: Number of users that both models have.
        items: Number of items that both models have.
        unlike: ``|new - old| / |old|`` over all vectors that both models have, after the rotation.
        unlike_before: The same before the rotation.
    """

    factors: Factors
    turn: NDArray[np.float64]
    users: int
    items: int
    unlike: float
    unlike_before: float


def align(factors: Factors, to: Factors) -> Aligned:
    """Rotate ``factors`` so that its vectors are as near as possible to those of ``to``.

    This is the orthogonal Procrustes problem on the ids that both models have. The same rotation for users and items
    preserves dot products, lengths and cosines.

    Args:
        factors: The model to rotate.
        to: The model whose axes are the target.

    Returns:
        The rotated model and how well it fits.

    Raises:
        InputError: The models have vectors of different lengths, or no item in common.
    """
    if factors.dim != to.dim:
        raise InputError(
            f"the new vectors have {factors.dim} columns and the old ones {to.dim}; "
            "vectors of different widths have no axes in common: train with the same dim"
        )
    items, users = common(factors.item_ids, to.item_ids), common(factors.user_ids, to.user_ids)
    if not len(items[0]):
        raise InputError("the two models have no item in common; check that both use the same item ids")
    new = np.vstack([factors.item[items[0]], factors.user[users[0]]]).astype(np.float64)
    old = np.vstack([to.item[items[1]], to.user[users[1]]]).astype(np.float64)
    left, _, right = np.linalg.svd(new.T @ old)
    turn = left @ right
    length = float(np.linalg.norm(old)) or 1.0
    turned = replace(factors, user=_turned(factors.user, turn), item=_turned(factors.item, turn))
    return Aligned(
        turned,
        turn,
        len(users[0]),
        len(items[0]),
        float(np.linalg.norm(new @ turn - old)) / length,
        float(np.linalg.norm(new - old)) / length,
    )


def common(new: NDArray[Any], old: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the positions of shared ids in each array, in the same order; ids of different types never match.

    >>> common(np.array([3, 5, 9]), np.array([9, 4, 3]))
    (array([0, 2]), array([2, 0]))
    """
    if new.dtype.kind != old.dtype.kind:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    _, at_new, at_old = np.intersect1d(new, old, assume_unique=True, return_indices=True)
    return at_new, at_old


def _turned(vectors: NDArray[np.float32], turn: NDArray[np.float64]) -> NDArray[np.float32]:
    return np.ascontiguousarray(vectors.astype(np.float64) @ turn, np.float32)
