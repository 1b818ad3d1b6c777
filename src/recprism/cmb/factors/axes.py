"""Canonical axes: the same recommender with factors that do not depend on the accident of a training run.

For any invertible M the vectors P M and Q inv(M)^T give the same scores, so trained axes are arbitrary. The singular
vectors of P Q^T are not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from recprism.cmb.factors.change import Change
from recprism.errors import InputError
from recprism.models import Factors

FloatArray = NDArray[np.float64]

NEGLIGIBLE = float(np.finfo(np.float32).eps)  # of the strongest axis: below float32 precision
TIE = 0.01


@dataclass(frozen=True, eq=False)
class Axes:
    """A recommender on canonical axes, and the maps to and from its own axes.

    Attributes:
        base: The recommender on its own axes.
        factors: The recommender on the new axes, with the same scores; empty columns of the base are dropped.
        strengths: (r,) norm of each axis' part of all scores: the singular values of P Q^T.
        user_map: (d, r) with ``factors.user = base.user @ user_map``.
        item_map: (d, r) with ``factors.item = base.item @ item_map``.
        ties: Groups of adjacent axes with nearly equal strengths, for which only the spanned plane is meaningful.
    """

    base: Factors
    factors: Factors
    strengths: FloatArray
    user_map: FloatArray
    item_map: FloatArray
    ties: tuple[tuple[int, ...], ...]

    def to_original(self, change: Change) -> Change:
        """Express a change on the axes of the base; every score changes by the same amount."""
        return Change(self.base, **_mapped(change, item=self.user_map.T, user=self.item_map.T))

    def to_canonical(self, change: Change) -> Change:
        """Express a change of the base on these axes; exact if no column of the base is empty."""
        return Change(self.factors, **_mapped(change, item=self.item_map, user=self.user_map))


def canonical(factors: Factors, *, tie: float = TIE) -> Axes:
    """Express a recommender on canonical axes; all scores and lists stay the same.

    The axes are the singular vectors of P Q^T, by descending strength. The strengths are shared evenly between users
    and items. The longer tail of the items is positive.

    Args:
        factors: The recommender.
        tie: Axes whose strengths differ by less than this share are reported as tied.

    Raises:
        InputError: If all scores are 0.
    """
    user_map, item_map, strengths = _singular_axes(factors)
    signs = _longer_tail(factors.item @ item_map)
    user_map, item_map = user_map * signs, item_map * signs
    user, item = factors.user @ user_map, factors.item @ item_map
    turned = replace(factors, user=user.astype(np.float32), item=item.astype(np.float32))
    norms = np.linalg.norm(user, axis=0) * np.linalg.norm(item, axis=0)
    return Axes(factors, turned, norms, user_map, item_map, _ties(strengths, tie))


def _singular_axes(factors: Factors) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return maps (d, r) of users and items and strengths (r,), without forming the n_users x n_items matrix."""
    user_small, item_small = (np.linalg.qr(side.astype(np.float64))[1] for side in (factors.user, factors.item))
    left, strengths, right = np.linalg.svd(user_small @ item_small.T)
    kept = strengths > NEGLIGIBLE * strengths[0]
    if not kept.any():
        raise InputError("all scores of these factors are 0; there are no axes to find")
    size = int(kept.sum())
    root = np.sqrt(strengths[:size])
    # P times this is (P Q^T) V / root = U root: no inverse is needed, whatever the ranks of P and Q.
    return item_small.T @ right[:size].T / root, user_small.T @ left[:, :size] / root, strengths[:size]


def _longer_tail(columns: FloatArray) -> FloatArray:
    """(d,) sign of each column's longer tail: a sign convention that is stable under small changes."""
    return np.where((columns**3).sum(axis=0) < 0, -1.0, 1.0)


def _ties(strengths: FloatArray, tie: float) -> tuple[tuple[int, ...], ...]:
    close = np.flatnonzero(strengths[:-1] - strengths[1:] < tie * strengths[:-1])
    groups: list[list[int]] = []
    for first in close.tolist():
        if groups and groups[-1][-1] == first:
            groups[-1].append(first + 1)
        else:
            groups.append([first, first + 1])
    return tuple(tuple(group) for group in groups)


def _mapped(change: Change, item: FloatArray, user: FloatArray) -> dict[str, NDArray[np.float32]]:
    maps = {"item": item, "user": user}
    return {name: (side @ maps[name]).astype(np.float32) for name, side in change.sides.items()}
