"""The directions of a change of scores: groups of users, and the items raised and lowered for them.

For any invertible M the vectors P M and Q inv(M)^T give the same scores, so factors are arbitrary. The matrix of score
changes and its singular vectors are not. They give axes that do not depend on the axes of the model.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from recprism.cmb.factors.change import Change, with_bias
from recprism.errors import InputError
from recprism.models import Factors

FloatArray = NDArray[np.float64]

NEGLIGIBLE = 1e-6  # of the strongest direction: smaller ones come from float32 rounding


@dataclass(frozen=True, eq=False)
class Direction:
    """One direction: the score of user u for item j changes by strength * users[u] * items[j].

    The longer tail of the users is positive. Items with a positive coordinate are therefore raised for those users.

    Attributes:
        strength: Singular value.
        share: Share of the sum of squared score changes.
        users: (n_users,) coordinates of norm 1.
        items: (n_items,) coordinates of norm 1.
    """

    strength: float
    share: float
    users: FloatArray
    items: FloatArray


@dataclass(frozen=True, eq=False)
class Directions:
    """The strongest directions of a change, strongest first.

    Attributes:
        change: The change of the vectors.
        strengths: (n,) singular values.
        shares: (n,) shares of the sum of squared score changes.
        users: (n_users, n) coordinates as in :class:`Direction`.
        items: (n_items, n) coordinates as in :class:`Direction`.
        centred: Whether the directions belong to the personal part: the change minus its mean over all users. Shares
            are then shares of that part.
    """

    change: Change
    strengths: FloatArray
    shares: FloatArray
    users: FloatArray
    items: FloatArray
    centred: bool

    def __len__(self) -> int:
        return len(self.strengths)

    def __getitem__(self, number: int) -> Direction:
        if not 0 <= number < len(self):
            raise IndexError(f"there is no direction {number}; there are {len(self)}, from 0 on")
        return Direction(
            float(self.strengths[number]), float(self.shares[number]), self.users[:, number], self.items[:, number]
        )

    def __iter__(self) -> Iterator[Direction]:
        return (self[number] for number in range(len(self)))

    def erased(self, *numbers: int) -> Factors:
        """Return the changed recommender without these directions; scores are exact, each adds a column."""
        return self._with_columns(self.change.after, numbers, -1.0)

    def kept(self, *numbers: int) -> Factors:
        """Return the base with these directions alone and, if centred, the part that is the same for all users."""
        base = with_bias(self.change.base, self.change.bias) if self.centred else self.change.base
        return self._with_columns(base, numbers, 1.0)

    def _with_columns(self, factors: Factors, numbers: Sequence[int], scale: float) -> Factors:
        for number in numbers:
            self[number]  # raises an error if there is no such direction
        chosen = list(numbers)
        root = np.sqrt(self.strengths[chosen])
        users = np.hstack([factors.user, (self.users[:, chosen] * root).astype(np.float32)])
        items = np.hstack([factors.item, (scale * self.items[:, chosen] * root).astype(np.float32)])
        return replace(factors, user=users, item=items)


def directions(change: Change, n: int | None = None, *, centred: bool = False) -> Directions:
    """Compute the strongest directions of a change of scores.

    Args:
        change: The change of the vectors.
        n: Number of directions; None for all.
        centred: Use the personal part of the change only: the change minus its mean over all users.

    Raises:
        InputError: If ``n`` is less than 1.
    """
    if n is not None and n < 1:
        raise InputError(f"n={n}: ask for at least one direction")
    users, items = change.score_change
    if centred:
        users = users - users.mean(axis=0)
    left, strengths, right = low_rank_svd(users, items)
    energy = strengths**2
    real = strengths > NEGLIGIBLE * strengths[0] if energy.any() else np.zeros(len(strengths), bool)
    shares = energy / max(float(energy.sum()), np.finfo(float).tiny)
    kept = np.flatnonzero(real)[:n]
    signs = longer_tail(left[:, kept])
    return Directions(change, strengths[kept], shares[kept], left[:, kept] * signs, right[:, kept] * signs, centred)


def low_rank_svd(left: FloatArray, right: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Compute the SVD of ``left @ right.T`` without forming that n x m matrix.

    Args:
        left: (n, r).
        right: (m, r).

    Returns:
        U (n, r), s (r,) and V (m, r) with U s V^T = left @ right.T.
    """
    left_basis, left_small = np.linalg.qr(left)
    right_basis, right_small = np.linalg.qr(right)
    u, s, vt = np.linalg.svd(left_small @ right_small.T, full_matrices=False)
    return left_basis @ u, s, right_basis @ vt.T


def longer_tail(columns: FloatArray) -> FloatArray:
    """(d,) sign of each column's longer tail: a sign convention that is stable under small changes."""
    return np.where((columns**3).sum(axis=0) < 0, -1.0, 1.0)
