"""The directions of a change of scores: groups of users and the items raised and lowered for them.

For any invertible M the vectors P M and Q inv(M)^T give the same scores, so a factor is a matter of taste. The matrix
of score changes is not, nor are its singular vectors: the axes of an explanation that needs none of the model's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from recprism.errors import InputError
from recprism.explain.change import Change, with_bias
from recprism.models import Factors

FloatArray = NDArray[np.float64]

NEGLIGIBLE = 1e-6  # of the strongest direction: below it is what float32 vectors leave behind by rounding


@dataclass(frozen=True, eq=False)
class Direction:
    """The score of user u for item j changes by strength * users[u] * items[j].

    share: of the sum of squared score changes
    users: (n_users,) and items: (n_items,), each of length 1; the users' longer tail is positive, so what has a
        positive coordinate among the items is raised for those users
    """

    strength: float
    share: float
    users: FloatArray
    items: FloatArray


@dataclass(frozen=True, eq=False)
class Directions:
    """The strongest directions of a change, strongest first.

    strengths, shares: (n,); users: (n_users, n); items: (n_items, n); coordinates as in :class:`Direction`
    centred: the directions are those of the personal part, the change less what it gives to everybody alike; shares
        are then shares of that part
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
        """The changed recommender without these directions: scores are exact, vectors are longer by one column each."""
        return self._with_columns(self.change.after, numbers, -1.0)

    def turned(self, number: int, scale: float) -> Factors:
        """The changed recommender with one direction made stronger or weaker: 1 leaves it, 0 erases it."""
        return self._with_columns(self.change.after, (number,), scale - 1)

    def kept(self, *numbers: int) -> Factors:
        """The base with these directions alone (and, where centred, what everybody gets alike)."""
        base = with_bias(self.change.base, self.change.bias) if self.centred else self.change.base
        return self._with_columns(base, numbers, 1.0)

    def _with_columns(self, factors: Factors, numbers: Sequence[int], scale: float) -> Factors:
        for number in numbers:
            self[number]  # says so where there is no such direction
        chosen = list(numbers)
        root = np.sqrt(self.strengths[chosen])
        users = np.hstack([factors.user, (self.users[:, chosen] * root).astype(np.float32)])
        items = np.hstack([factors.item, (scale * self.items[:, chosen] * root).astype(np.float32)])
        return replace(factors, user=users, item=items)


def directions(change: Change, n: int | None = None, *, centred: bool = False) -> Directions:
    """The ``n`` strongest directions of the change of scores (all of them if None); of its personal part if centred."""
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
    """U (n, r), s (r,), V (m, r) with U s V^T = left @ right.T, without ever writing that n x m matrix.

    left: (n, r), right: (m, r)
    """
    left_basis, left_small = np.linalg.qr(left)
    right_basis, right_small = np.linalg.qr(right)
    u, s, vt = np.linalg.svd(left_small @ right_small.T, full_matrices=False)
    return left_basis @ u, s, right_basis @ vt.T


def longer_tail(columns: FloatArray) -> FloatArray:
    """(d,) the sign of each column's longer tail: a rule for signs that small changes of the values do not upset."""
    return np.where((columns**3).sum(axis=0) < 0, -1.0, 1.0)
