"""The difference between two sets of factors: the input of an explanation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recprism.errors import InputError
from recprism.models import Factors
from recprism.models.perturbation import Perturbation

Matrix = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Change:
    """A recommender and what was added to its vectors, by whatever method.

    The score of user u for item j changes by p_u . item_j + user_u . (q_j + item_j). The joint effect of both sides is
    attributed to the user side.

    Attributes:
        base: The recommender before the change.
        item: (n_items, d) float32 change of the item vectors; None if they did not move.
        user: (n_users, d) float32 change of the user vectors; None if they did not move.
    """

    base: Factors
    item: Matrix | None = None
    user: Matrix | None = None

    def __post_init__(self) -> None:
        if self.item is None and self.user is None:
            raise InputError("neither item nor user vectors changed; there is nothing to explain")
        for name, side in (("item", self.item), ("user", self.user)):
            expected = getattr(self.base, name).shape
            if side is not None and side.shape != expected:
                raise InputError(f"the change of the {name} vectors has shape {side.shape}; the base has {expected}")

    @classmethod
    def between(cls, base: Factors, after: Factors) -> Change:
        """Return the difference of two sets of factors.

        Args:
            base: The factors before.
            after: The factors after, with the same users and items in the same order.

        Raises:
            InputError: If users, items, dimensions or item biases differ.
        """
        for name in ("user_ids", "item_ids"):
            if not np.array_equal(getattr(base, name), getattr(after, name)):
                raise InputError(f"the two sets of factors differ in {name}; compare vectors of the same ones")
        if base.dim != after.dim:
            raise InputError(f"the two sets of factors have {base.dim} and {after.dim} columns; they must agree")
        if not _same_bias(base, after):
            raise InputError("the two sets of factors differ in item_bias; explain the change of the vectors alone")
        sides = {name: getattr(after, name) - getattr(base, name) for name in ("item", "user")}
        return cls(base, **{name: side for name, side in sides.items() if side.any()})

    @classmethod
    def of(cls, base: Factors, perturbation: Perturbation) -> Change:
        """Return the change that a perturbation makes to ``base``."""
        sides = {"item": perturbation.item, "user": perturbation.user}
        return cls(base, **{name: side.cpu().numpy() for name, side in sides.items() if side is not None})

    @property
    def sides(self) -> dict[str, Matrix]:
        """The sides that moved, by name."""
        return {name: side for name, side in (("item", self.item), ("user", self.user)) if side is not None}

    @property
    def after(self) -> Factors:
        """The changed recommender."""
        return self.base.with_vectors(**{name: getattr(self.base, name) + side for name, side in self.sides.items()})

    def replaced(self, **sides: Matrix) -> Change:
        """Return the same recommender with other values on the sides that moved (erased, shuffled, ...)."""
        return Change(self.base, **{**self.sides, **sides})

    @cached_property
    def score_change(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """(n_users, r) and (n_items, r) matrices whose product is the change of every score; r is d per moved side."""
        left, right = [], []
        if self.item is not None:
            left.append(self.base.user)
            right.append(self.item)
        if self.user is not None:
            left.append(self.user)
            right.append(self.after.item)
        return np.hstack(left).astype(np.float64), np.hstack(right).astype(np.float64)

    @cached_property
    def bias(self) -> NDArray[np.float64]:
        """``(n_items,)`` mean rise of an item's score over all users, which is plain promotion."""
        users, items = self.score_change
        return np.asarray(items @ users.mean(axis=0))

    @property
    def bias_alone(self) -> Factors:
        """The base with each item raised by the same amount for all users."""
        return with_bias(self.base, self.bias)

    @property
    def without_bias(self) -> Factors:
        """The changed recommender without that amount; the personal part of the change remains."""
        return with_bias(self.after, -self.bias)


def with_bias(factors: Factors, bias: NDArray[Any]) -> Factors:
    """Return the same vectors with ``bias`` (n_items,) added to every user's scores."""
    own = 0.0 if factors.item_bias is None else factors.item_bias
    return replace(factors, item_bias=(own + bias).astype(np.float32))


def with_bias_column(factors: Factors) -> Factors:
    """Add a factor that is 1 for every user: moving it alone gives a bias per item."""
    ones, zeros = (np.full((n, 1), value, np.float32) for n, value in ((factors.n_users, 1.0), (factors.n_items, 0.0)))
    return factors.with_vectors(user=np.hstack([factors.user, ones]), item=np.hstack([factors.item, zeros]))


def _same_bias(base: Factors, after: Factors) -> bool:
    if base.item_bias is None or after.item_bias is None:
        return base.item_bias is after.item_bias
    return np.array_equal(base.item_bias, after.item_bias)
