"""What a re-ranker may know: item vectors, subtopics, what each user cares for, what was shown before. No labels."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from recprism.data._memory import require_room
from recprism.data.incidence import Incidence
from recprism.errors import InputError
from recprism.metrics._tables import Rows, Topics
from recprism.metrics.context import Context
from recprism.rerank._arrays import as_tensor

HOW_TO_GIVE = {
    "vectors": "item vectors to compare: Features(vectors=<n_items x d>)",
    "subtopics": "what the items are about: Features(subtopics=<Subtopics, or items x subtopics>)",
    "user_subtopics": (
        "what each user cares for: Features(user_subtopics=subtopic_probabilities(<users x items>, <subtopics>))"
    ),
}


@dataclass(frozen=True, eq=False)
class Directions:
    """Items as directions; the dot product of two rows is their cosine.

    unit: (n_items, d) float64 of length 1; an all-zero vector stays zero
    known: (n_items,) bool: the vector has a direction
    """

    unit: Tensor
    known: Tensor

    @classmethod
    def of(cls, matrix: Tensor) -> Directions:
        unit = torch.nn.functional.normalize(matrix, dim=1, eps=torch.finfo(torch.float64).tiny)
        return cls(unit.contiguous(), (unit != 0).any(1))


class Features:
    """The side of re-ranking that does not hang on candidates; everything is optional and on one device.

    vectors: (n_items, d) item vectors, such as ``factors.item``; only directions matter
    subtopics: a Subtopics, or items x subtopics (values that are not 0 are weights)
    user_subtopics: (n_users, n_subtopics) how much each user cares for each subtopic, in any unit: rows are scaled to
        sum 1, and a row of zeros (a user of whom nothing is known) becomes uniform
    shown: (n_items,) how often each item was shown before the first of these lists; 0 each if not given
    providers: (n_items,) a number from 0 up for whoever each item comes from; each item its own if not given

    >>> features = Features(subtopics=[[1, 0], [0, 1], [1, 1]], user_subtopics=[[3, 1], [0, 0]])
    >>> features.n_items, features.intents(2).tolist()
    (3, [[0.75, 0.25], [0.5, 0.5]])
    """

    def __init__(
        self,
        *,
        vectors: ArrayLike | Tensor | None = None,
        subtopics: Any = None,
        user_subtopics: ArrayLike | Tensor | None = None,
        shown: ArrayLike | Tensor | None = None,
        providers: ArrayLike | Tensor | None = None,
        device: str | torch.device = "cpu",
    ) -> None:
        self.device = torch.device(device)
        self._topics = None if subtopics is None else Context(subtopics=subtopics, device=self.device).topics
        self._vectors = None if vectors is None else self._numbers(vectors, "vectors", "(n_items, d)", dims=2)
        self._shown = None if shown is None else self._amounts(shown, "shown", "(n_items,)", dims=1)
        self._providers = None if providers is None else self._numbered(providers)
        self._user_subtopics: Tensor | None = None
        if user_subtopics is not None:
            wanted = self._amounts(user_subtopics, "user_subtopics", "(n_users, n_subtopics)", dims=2)
            self._user_subtopics = _as_probabilities(wanted, self.topics.n_cols)
        self.n_items = self._agreed_number_of_items()

    @property
    def topics(self) -> Topics:
        if self._topics is None:
            raise InputError(f"needed but not given: {HOW_TO_GIVE['subtopics']}")
        return self._topics

    @cached_property
    def chances(self) -> Tensor:
        """(n_entries,) float64, one per entry of ``topics``: how surely the item serves the subtopic.

        A weight up to 1 is that chance; where any weight is above 1, all are divided by the largest.
        """
        weights = self.topics.weights
        return weights / weights.max().clamp(min=1) if len(weights) else weights

    @cached_property
    def chance_matrix(self) -> Tensor:
        """(n_items, n_subtopics) float64: ``chances``, 0 where the item does not have the subtopic."""
        rows = self.topics.rows
        require_room(
            rows.n_rows * rows.n_cols * 8,
            f"the chances of {rows.n_rows:,} items x {rows.n_cols:,} subtopics",
            lambda free: f"at most {free // (8 * rows.n_rows):,} subtopics fit: leave out rare ones",
            device=str(self.device),
        )
        full = torch.zeros((rows.n_rows, rows.n_cols), dtype=torch.float64, device=self.device)
        full[rows.row_of_entry, rows.indices.long()] = self.chances
        return full

    @cached_property
    def vector_directions(self) -> Directions:
        if self._vectors is None:
            raise InputError(f"needed but not given: {HOW_TO_GIVE['vectors']}")
        return Directions.of(self._vectors)

    @cached_property
    def subtopic_directions(self) -> Directions:
        return Directions.of(self.topics.weight_matrix)

    def intents(self, n_users: int) -> Tensor:
        """(n_users, n_subtopics) float64: each user's own probabilities of subtopics."""
        if self._user_subtopics is None:
            raise InputError(f"needed but not given: {HOW_TO_GIVE['user_subtopics']}")
        if len(self._user_subtopics) != n_users:
            raise InputError(
                f"user_subtopics has {len(self._user_subtopics)} rows and there are candidates for {n_users} users; "
                "give one row per user, in the same order"
            )
        return self._user_subtopics

    @cached_property
    def uniform_intents(self) -> Tensor:
        """(1, n_subtopics) float64: every subtopic the same."""
        n_subtopics = self.topics.n_cols
        return torch.full((1, n_subtopics), 1 / max(n_subtopics, 1), dtype=torch.float64, device=self.device)

    def shown_before(self, n_items: int) -> Tensor:
        """(n_items,) float64, a copy to count on; ``n_items`` holds where the features do not say."""
        if self._shown is not None:
            return self._shown.clone()
        return torch.zeros(n_items if self.n_items is None else self.n_items, dtype=torch.float64, device=self.device)

    def providers_of(self, n_items: int) -> Tensor:
        """(n_items,) int64; ``n_items`` holds where the features do not say."""
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
        if not bool(torch.isfinite(numbers).all()):
            raise InputError(f"{name} holds values that are not finite; remove or replace them first")
        return numbers

    def _amounts(self, values: ArrayLike | Tensor, name: str, shape: str, dims: int) -> Tensor:
        amounts = self._numbers(values, name, shape, dims)
        if bool((amounts < 0).any()):
            raise InputError(f"{name} holds negative values; it must count or weigh, from 0 up")
        return amounts

    def _agreed_number_of_items(self) -> int | None:
        sizes = {
            "vectors": None if self._vectors is None else len(self._vectors),
            "subtopics": None if self._topics is None else self._topics.n_items,
            "shown": None if self._shown is None else len(self._shown),
            "providers": None if self._providers is None else len(self._providers),
        }
        given = {name: size for name, size in sizes.items() if size is not None}
        if len(set(given.values())) > 1:
            told = ", ".join(f"{name}: {size}" for name, size in given.items())
            raise InputError(f"the features disagree on the number of items ({told}); index all of them alike")
        return next(iter(given.values()), None)


def subtopic_probabilities(interactions: Incidence | Any, subtopics: Any) -> NDArray[Any]:
    """(n_users, n_subtopics) float64: which part of each user's interactions goes to which subtopic.

    An interaction counts 1 in all, spread over the item's subtopics by their weights. Users whose items have no
    subtopics get a row of zeros, which Features takes as uniform.

    >>> subtopic_probabilities([[1, 1, 0], [0, 0, 0]], [[1, 0], [1, 1], [0, 1]]).tolist()
    [[0.75, 0.25], [0.0, 0.0]]
    """
    interactions = Incidence.coerce(interactions)
    topics = Context(subtopics=subtopics).topics
    if interactions.n_cols != topics.n_items:
        raise InputError(
            f"the interactions have {interactions.n_cols} items and the subtopics {topics.n_items}; index both alike"
        )
    return topics.spread_of(Rows.of(interactions, topics.weights.device)).numpy()


def _as_probabilities(wanted: Tensor, n_subtopics: int) -> Tensor:
    if wanted.shape[1] != n_subtopics:
        raise InputError(
            f"user_subtopics must have one column per subtopic, {n_subtopics}; got shape {tuple(wanted.shape)}"
        )
    nothing_known = wanted.sum(1, keepdim=True) == 0
    return torch.where(nothing_known, 1 / max(n_subtopics, 1), _scaled_to_sum_one(wanted)).contiguous()


def _scaled_to_sum_one(amount: Tensor) -> Tensor:
    """Rows of zeros stay as they are."""
    total = amount.sum(1, keepdim=True)
    return amount / torch.where(total > 0, total, 1.0)
