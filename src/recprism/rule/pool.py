"""The candidates of a batch of users: checked, ranked by score, with scores scaled per user."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from recprism.common.memory import require_room
from recprism.common.threads import share_work
from recprism.errors import InputError
from recprism.rule._arrays import Term, as_array, as_tensor
from recprism.rule.kernels import greedy

USERS_AT_ONCE = 128  # large compared with the cost of a call, small enough to share the work evenly
COMPILED_FOR = ("cpu",)  # types of devices


@dataclass(frozen=True, eq=False)
class Pool:
    """Candidates in ranked order; a position in a row is a rank, and 0 is the best.

    Attributes:
        items: Item numbers, (n_users, n_candidates) int64; -1 in empty places, which are all at the end.
        relevance: Each user's scores scaled to 0 .. 1, (n_users, n_candidates) float64. All are 0 if the scores are
            equal; -inf in empty places.
        lengths: Number of candidates of each user, (n_users,) int64.
        n_items: Size of the catalogue, or 1 + the largest item number.
    """

    items: Tensor
    relevance: Tensor
    lengths: Tensor
    n_items: int

    @classmethod
    def of(
        cls, candidates: ArrayLike | Tensor, scores: ArrayLike | Tensor, device: torch.device, n_items: int | None
    ) -> Pool:
        """Check and rank the candidates; equal scores keep the given order.

        Args:
            candidates: Item numbers, (n_users, n_candidates); -1 in empty places.
            scores: (n_users, n_candidates); -inf in empty places.
            device: Where to work.
            n_items: Size of the catalogue; None if unknown.

        Raises:
            InputError: Shapes or values are invalid, or a user has a candidate twice.
        """
        _require_integers(candidates)
        items = as_tensor(candidates, "candidates", device, torch.int64)
        score = as_tensor(scores, "scores", device, torch.float64)
        _require_shapes(items, score)
        require_room(
            items.numel() * 40,  # ranked items and scores, the order, and what is sorted
            f"the candidates of {items.shape[0]:,} users x {items.shape[1]:,}",
            lambda free: (
                f"at most {free // (40 * max(1, items.shape[0])):,} candidates each fit, or fewer users at a time"
            ),
            device=str(device),
        )
        ranked = compiled_ranked(items, score, n_items) if device.type in COMPILED_FOR else None
        return plain_ranked(items, score, n_items) if ranked is None else ranked

    @property
    def n_users(self) -> int:
        return len(self.items)

    @property
    def depth(self) -> int:
        """Number of places per user."""
        return self.items.shape[1]

    @property
    def device(self) -> torch.device:
        return self.items.device

    @cached_property
    def real(self) -> Tensor:
        """Whether a place holds a candidate, (n_users, n_candidates) bool."""
        return self.items >= 0

    def to(self, device: str) -> Pool:
        return Pool(self.items.to(device), self.relevance.to(device), self.lengths.to(device), self.n_items)

    def at_least(self, depth: int) -> Pool:
        """Return the pool with at least ``depth`` places; added places are empty."""
        missing = max(0, depth - self.depth)
        if missing == 0:
            return self
        items = torch.nn.functional.pad(self.items, (0, missing), value=-1)
        relevance = torch.nn.functional.pad(self.relevance, (0, missing), value=-torch.inf)
        return Pool(items, relevance, self.lengths, self.n_items)

    def take(self, positions: Tensor, *, by_rank: bool) -> Tensor:
        """Return the items at ``positions``, (n_users, k), sorted by rank if ``by_rank``; position -1 gives -1."""
        by = compiled_taken if self.device.type in COMPILED_FOR else plain_taken
        return by(self.items, positions, by_rank)

    def choose(self, kernel: Callable[..., None], k: int, *terms: Term) -> Tensor:
        """Choose by a kernel, which works on the CPU.

        Args:
            kernel: Called as ``kernel(first, last, (items, relevance, lengths), positions, *terms)`` for blocks of
                users.
            k: Length of the lists.
            *terms: Tensors, numbers, and tuples of them.

        Returns:
            Positions, (n_users, k), on the device of the pool; -1 where nothing is chosen.
        """
        positions = self._nothing_chosen(k)
        on_all_cores(kernel, self.n_users, USERS_AT_ONCE, self._candidates, positions, *terms)
        return positions.to(self.device)

    def choose_in_turn(self, kernel: Callable[..., None], k: int, *terms: Term) -> Tensor:
        """Choose for one user after another by ``kernel((items, relevance, lengths), positions, *terms)``."""
        positions = self._nothing_chosen(k)
        kernel(*map(as_array, (self._candidates, positions, *terms)))
        return positions.to(self.device)

    @property
    def _candidates(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.items, self.relevance, self.lengths

    def _nothing_chosen(self, k: int) -> Tensor:
        return torch.from_numpy(np.full((self.n_users, k), -1, np.int64))


def on_all_cores(kernel: Callable[..., Any], n_users: int, step: int, *terms: Term) -> list[Any]:
    """Call ``kernel(first, last, *terms)`` for each block of ``step`` users and return the results."""
    arrays = [as_array(term) for term in terms]
    return share_work(lambda first, last: kernel(first, last, *arrays), n_users, step)


def compiled_ranked(items: Tensor, score: Tensor, n_items: int | None) -> Pool | None:
    """Build the pool on the CPU; None if the candidates are invalid.

    No torch operation works on whole pools here; ``as_tensor`` explains why.
    """
    n_items = int(np.max(items.numpy(), initial=-1)) + 1 if n_items is None else n_items
    pool = Pool(torch.empty_like(items), torch.empty_like(score), torch.empty(len(items), dtype=torch.int64), n_items)
    return pool if _fill(pool, items, score) or _fill(pool, *_by_score(items.numpy(), score.numpy())) else None


def _fill(pool: Pool, items: Tensor, score: Tensor) -> bool:
    share = max(USERS_AT_ONCE, -(-len(items) // torch.get_num_threads()))  # each thread has an array over the catalogue
    terms = (items, score, pool.items, pool.relevance, pool.lengths, pool.n_items)
    return all(on_all_cores(greedy.ranked, pool.n_users, share, *terms))


def _by_score(items: Any, score: Any) -> Iterator[Tensor]:
    """Sort both by score, best first; equal scores keep their order."""
    order = np.argsort(-score, axis=1, kind="stable")
    return (torch.from_numpy(np.take_along_axis(array, order, 1)) for array in (items, score))


def compiled_taken(items: Tensor, positions: Tensor, by_rank: bool) -> Tensor:
    """Implement ``Pool.take`` on the CPU."""
    chosen, at = torch.empty_like(positions), as_array(positions)
    if by_rank:  # a position is a rank; as an unsigned number, -1 (no candidate) is the largest and goes last
        at = np.sort(at.view(np.uint64), axis=1).view(np.int64)
    greedy.taken(as_array(items), at, as_array(chosen))
    return chosen


def plain_ranked(items: Tensor, score: Tensor, n_items: int | None) -> Pool:
    """Build the pool in torch; raise an error if the candidates are invalid."""
    n_items = (int(items.max()) + 1 if items.numel() else 0) if n_items is None else n_items
    _require_possible_values(items, score, n_items)
    empty = (items < 0) | torch.isneginf(score)
    score, order = score.masked_fill(empty, -torch.inf).sort(dim=1, descending=True, stable=True)
    items = items.masked_fill(empty, -1).gather(1, order)
    _require_distinct(items)
    lengths = (items >= 0).sum(1)
    return Pool(items, _scaled(score, lengths), lengths, n_items)


def _scaled(score: Tensor, lengths: Tensor) -> Tensor:
    """Scale ranked scores of each user to 0 .. 1."""
    if score.shape[1] == 0:
        return score
    low = score.gather(1, (lengths[:, None] - 1).clamp(min=0))
    span = score[:, :1] - low
    relevance = (score - low) / torch.where(span > 0, span, 1.0)
    return relevance.masked_fill(torch.isneginf(score), -torch.inf)


def plain_taken(items: Tensor, positions: Tensor, by_rank: bool) -> Tensor:
    """Implement ``Pool.take`` in torch."""
    if by_rank:  # a position is a rank; -1 (no candidate) goes last
        positions = torch.where(positions < 0, items.shape[1], positions).sort(1).values
        positions = torch.where(positions == items.shape[1], -1, positions)
    return items.gather(1, positions.clamp(min=0)).masked_fill(positions < 0, -1)


def _require_integers(candidates: ArrayLike | Tensor) -> None:
    dtype = candidates.dtype if isinstance(candidates, Tensor | np.ndarray) else None
    if dtype is not None and "int" not in str(dtype):
        raise InputError(f"candidates must hold item numbers (integers), got {dtype}; scores go second")


def _require_shapes(items: Tensor, score: Tensor) -> None:
    if items.ndim != 2:
        raise InputError(f"candidates must have shape (n_users, n_candidates), got {tuple(items.shape)}")
    if items.shape != score.shape:
        raise InputError(
            f"candidates have shape {tuple(items.shape)} and scores {tuple(score.shape)}; give one score per candidate"
        )


def _require_possible_values(items: Tensor, score: Tensor, n_items: int) -> None:
    outside = (items < -1) | (items >= n_items)
    if bool(outside.any()):
        user, place = outside.nonzero()[0].tolist()
        raise InputError(
            f"candidate {place + 1} of user {user} is item {int(items[user, place])}; "
            f"items go from 0 to {n_items - 1}, and -1 is an empty place"
        )
    invalid = ~(score < torch.inf)  # true for NaN, too
    if bool(invalid.any()):
        user, place = invalid.nonzero()[0].tolist()
        raise InputError(
            f"candidate {place + 1} of user {user} has score {float(score[user, place])}; "
            "scores must be numbers, or -inf for an empty place"
        )


def _require_distinct(items: Tensor) -> None:
    ordered = items.sort(1).values
    twice = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)
    if bool(twice.any()):
        user, place = twice.nonzero()[0].tolist()
        raise InputError(f"item {int(ordered[user, place])} is a candidate of user {user} more than once")
