"""Data that a re-ranker may use: item vectors, categories, user interests and exposure; no labels."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from recprism.common.checks import LARGEST
from recprism.data.sparse_rows import SparseRows
from recprism.errors import InputError
from recprism.metrics.context import Context
from recprism.metrics.tables import CategoryMatrix, Rows
from recprism.rule._arrays import as_tensor
from recprism.rule.earlier import Earlier

HOW_TO_GIVE = {
    "vectors": "item vectors to compare: Features(vectors=<n_items x d>)",
    "categories": "what the items are about: Features(categories=<Categories, or items x categories>)",
    "user_categories": (
        "what each user cares for: Features(user_categories=category_probabilities(<users x items>, <categories>))"
    ),
}


@dataclass(frozen=True, eq=False)
class Directions:
    """Items as unit vectors; the dot product of two rows is their cosine.

    Attributes:
        unit: (n_items, d) float64 of length 1; an all-zero vector stays zero.
        known: Whether the vector is not zero, (n_items,) bool.
    """

    unit: Tensor
    known: Tensor

    @classmethod
    def of(cls, matrix: Tensor) -> Directions:
        unit = torch.nn.functional.normalize(matrix, dim=1, eps=torch.finfo(torch.float64).tiny)
        return cls(unit.contiguous(), (unit != 0).any(1))


class Features:
    """Data on items and users for re-rankers; all of it is optional.

    Args:
        vectors: Item vectors, (n_items, d), such as ``factors.item``; only directions matter.
        categories: A ``Categories``, or a matrix, (n_items, n_categories), whose values other than 0 are weights.
        user_categories: Interest of each user in each category, (n_users, n_categories), in any unit. Rows are scaled
            to sum 1; a row of zeros (an unknown user) becomes uniform.
        shown: How often each item was shown before the first of these lists, (n_items,); 0 by default.
        providers: Number of the provider of each item, from 0, (n_items,). By default each item is its own provider.
        device: Where the data are kept, and where candidates are ranked.

    Raises:
        InputError: The arrays have wrong shapes or values, or disagree on the number of items.

    >>> features = Features(categories=[[1, 0], [0, 1], [1, 1]], user_categories=[[3, 1], [0, 0]])
    >>> features.n_items, features.intents(2).tolist()
    (3, [[0.75, 0.25], [0.5, 0.5]])

    Stability: stable.
    """

    def __init__(
        self,
        *,
        vectors: ArrayLike | Tensor | None = None,
        categories: Any = None,
        user_categories: ArrayLike | Tensor | None = None,
        shown: ArrayLike | Tensor | None = None,
        providers: ArrayLike | Tensor | None = None,
        device: str | torch.device = "cpu",
    ) -> None:
        self.device = torch.device(device)
        self._directions: dict[str, Directions] = {}  # shared with the features of some users
        self._categories = None if categories is None else Context(categories=categories, device=self.device).categories
        self._vectors = None if vectors is None else self._numbers(vectors, "vectors", "(n_items, d)", dims=2)
        self._shown = None if shown is None else self._amounts(shown, "shown", "(n_items,)", dims=1)
        self._providers = None if providers is None else self._numbered(providers)
        self._user_categories: Tensor | None = None
        self.earlier: Earlier | None = None
        if user_categories is not None:
            wanted = self._amounts(user_categories, "user_categories", "(n_users, n_categories)", dims=2)
            self._user_categories = _as_probabilities(wanted, self.categories.n_cols)
        self.n_items = self._agreed_number_of_items()

    @property
    def categories(self) -> CategoryMatrix:
        if self._categories is None:
            raise InputError(f"needed but not given: {HOW_TO_GIVE['categories']}")
        return self._categories

    @cached_property
    def chances(self) -> Tensor:
        """Probability that the item serves the category, for each entry of ``categories``, (n_entries,) float64.

        Weights up to 1 are used as they are. If any weight is above 1, all are divided by the largest.
        """
        weights = self.categories.weights
        return weights / weights.max().clamp(min=1) if len(weights) else weights

    @property
    def vector_directions(self) -> Directions:
        vectors = self._vectors
        if vectors is None:
            raise InputError(f"needed but not given: {HOW_TO_GIVE['vectors']}")
        return self._directions_once("vectors", lambda: vectors)

    @property
    def category_directions(self) -> Directions:
        return self._directions_once("categories", lambda: self.categories.weight_matrix)

    def _directions_once(self, kind: str, matrix: Callable[[], Tensor]) -> Directions:
        if kind not in self._directions:
            self._directions[kind] = Directions.of(matrix())
        return self._directions[kind]

    def intents(self, n_users: int) -> Tensor:
        """Return each user's probabilities of categories, (n_users, n_categories) float64."""
        if self._user_categories is None:
            raise InputError(f"needed but not given: {HOW_TO_GIVE['user_categories']}")
        if len(self._user_categories) != n_users:
            raise InputError(
                f"user_categories has {len(self._user_categories)} rows and there are candidates for {n_users} users; "
                "give one row per user, in the same order"
            )
        return self._user_categories

    def of_users(self, users: ArrayLike | Tensor) -> Features:
        """Return the features with the rows of some users."""
        some = copy(self)
        if self._user_categories is not None:
            some._user_categories = self._user_categories[torch.as_tensor(users, device=self.device)]
        if self.earlier is not None:
            some.earlier = self.earlier.of_users(np.asarray(users))
        return some

    def after(self, earlier: Earlier | None) -> Features:
        """Return the features of lists that come after other pages."""
        some = copy(self)
        some.earlier = earlier
        return some

    def with_user_categories(self, user: int, weights: Tensor) -> Features:
        """Return the features with other interests of one user, (n_categories,), in any unit."""
        some = copy(self)
        if self._user_categories is not None:
            some._user_categories = self._user_categories.clone()
            some._user_categories[user] = _as_probabilities(weights[None].to(self.device), self.categories.n_cols)[0]
        return some

    @cached_property
    def uniform_intents(self) -> Tensor:
        """The uniform distribution over categories, (1, n_categories) float64."""
        n_categories = self.categories.n_cols
        return torch.full((1, n_categories), 1 / max(n_categories, 1), dtype=torch.float64, device=self.device)

    def shown_before(self, n_items: int) -> Tensor:
        """Return a copy of ``shown``, (n_items,) float64; ``n_items`` is used if no feature has a number of items."""
        if self._shown is not None:
            return self._shown.clone()
        return torch.zeros(n_items if self.n_items is None else self.n_items, dtype=torch.float64, device=self.device)

    def providers_of(self, n_items: int) -> Tensor:
        """Return the providers, (n_items,) int64; ``n_items`` is used if no feature has a number of items."""
        if self._providers is not None:
            return self._providers
        return torch.arange(n_items if self.n_items is None else self.n_items, device=self.device)

    def _numbered(self, providers: ArrayLike | Tensor) -> Tensor:
        amounts = self._amounts(providers, "providers", "(n_items,)", dims=1)
        if bool((amounts != amounts.floor()).any()):
            raise InputError("providers holds values that are not whole; number the providers from 0 up")
        return amounts.long()

    def _numbers(self, values: ArrayLike | Tensor, name: str, shape: str, dims: int) -> Tensor:
        numbers = as_tensor(values, name, self.device, torch.float64)
        if numbers.ndim != dims:
            raise InputError(f"{name} must have shape {shape}, got {tuple(numbers.shape)}")
        if not bool((numbers.abs() < LARGEST).all()):
            raise InputError(f"{name} holds values that are not finite, or {LARGEST:g} and more; replace them first")
        return numbers

    def _amounts(self, values: ArrayLike | Tensor, name: str, shape: str, dims: int) -> Tensor:
        amounts = self._numbers(values, name, shape, dims)
        if bool((amounts < 0).any()):
            raise InputError(f"{name} holds negative values; it must count or weigh, from 0 up")
        return amounts

    def _agreed_number_of_items(self) -> int | None:
        sizes = {
            "vectors": None if self._vectors is None else len(self._vectors),
            "categories": None if self._categories is None else self._categories.n_items,
            "shown": None if self._shown is None else len(self._shown),
            "providers": None if self._providers is None else len(self._providers),
        }
        given = {name: size for name, size in sizes.items() if size is not None}
        if len(set(given.values())) > 1:
            sizes_given = ", ".join(f"{name}: {size}" for name, size in given.items())
            raise InputError(f"the features disagree on the number of items ({sizes_given}); index all of them alike")
        return next(iter(given.values()), None)


def category_probabilities(interactions: SparseRows | Any, categories: Any) -> NDArray[Any]:
    """Compute the share of each user's interactions that goes to each category.

    An interaction counts 1, shared among the item's categories by their weights. A user whose items have no categories
    gets a row of zeros, which :class:`Features` treats as uniform.

    Args:
        interactions: (n_users, n_items).
        categories: A ``Categories``, or a matrix, (n_items, n_categories).

    Returns:
        Probabilities, (n_users, n_categories) float64.

    Raises:
        InputError: The numbers of items differ.

    >>> category_probabilities([[1, 1, 0], [0, 0, 0]], [[1, 0], [1, 1], [0, 1]]).tolist()
    [[0.75, 0.25], [0.0, 0.0]]

    Stability: stable.
    """
    interactions = SparseRows.coerce(interactions)
    matrix = Context(categories=categories).categories
    if interactions.n_cols != matrix.n_items:
        raise InputError(
            f"the interactions have {interactions.n_cols} items and the categories {matrix.n_items}; index both alike"
        )
    return matrix.spread_of(Rows.of(interactions, matrix.weights.device)).numpy()


def _as_probabilities(wanted: Tensor, n_categories: int) -> Tensor:
    if wanted.shape[1] != n_categories:
        raise InputError(
            f"user_categories must have one column per category, {n_categories}; got shape {tuple(wanted.shape)}"
        )
    nothing_known = wanted.sum(1, keepdim=True) == 0
    return torch.where(nothing_known, 1 / max(n_categories, 1), _scaled_to_sum_one(wanted)).contiguous()


def _scaled_to_sum_one(amount: Tensor) -> Tensor:
    """Scale rows to sum 1; rows of zeros do not change."""
    total = amount.sum(1, keepdim=True)
    return amount / torch.where(total > 0, total, 1.0)
