"""Users in shards: each shard ranks and judges its own users, and the sums of all shards add up."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from recprism.cmb._metric_parts import OwnMetric, part_of, rows_among_all, values_of
from recprism.cmb._sampling import Sampling
from recprism.cmb.space import FactorSpace, Space
from recprism.errors import InputError
from recprism.metrics import Context, Lists
from recprism.metrics.metric import Sums


@dataclass(frozen=True, eq=False)
class Shard:
    """Some users and the data about them.

    Attributes:
        users: The first user, and the one after the last; None for all users.
        space: What is perturbed, for these users.
        context: What the metrics look at, for these users.
        metrics: The parts of psi.
        needs_vectors: Whether the metrics take distances between perturbed vectors.
        sampling: Which of all users are drawn in an iteration; None for all.
        rows: (n,) row of each of these users among all; None if these are all users.
    """

    users: tuple[int, int] | None
    space: Space
    context: Context
    metrics: tuple[OwnMetric, ...]
    needs_vectors: bool
    sampling: Sampling | None = None
    rows: NDArray[np.int64] | None = None

    def at(self, iteration: int) -> Shard:
        """The shard of the users that are ranked in an iteration: all of them, unless users are sampled."""
        if self.sampling is None:
            return self
        assert isinstance(self.space, FactorSpace)  # the users of a scorer are never sampled
        rows, first = self.sampling.rows(iteration), 0
        if self.users is not None:
            rows, first = rows[slice(*np.searchsorted(rows, self.users))], self.users[0]
        space, context = self.space.of_users(rows - first), self.context.of_users(rows - first)
        return replace(self, space=space, context=context, rows=rows)

    def own(self, values: Tensor) -> Tensor:
        """The values that move the vectors of this shard, out of those of all players (item side first)."""
        if self.users is None or not isinstance(self.space, FactorSpace) or "user" not in self.space.sides:
            return values
        of_items = self.space.n_players - len(self.space.user) * self.space.per_vector
        start, end = (of_items + user * self.space.per_vector for user in self.users)
        return torch.cat([values[:of_items], values[start:end]])

    def parts(self, values: Tensor, k: int) -> list[Sums]:
        """Rank under the perturbation ``values`` of all players, and judge the lists by each metric."""
        own = self.own(values)
        return self.judged(self.space.lists(own, k), self.space.vectors(own) if self.needs_vectors else None)

    def judged(self, lists: Tensor, vectors: Tensor | None) -> list[Sums]:
        """Judge lists by each metric: sums over users, or the value of each user if users are sampled."""
        context = self.context if vectors is None else self.context.with_vectors(vectors)
        judged = Lists(lists, context, check=False)
        part = part_of if self.sampling is None else values_of
        with self.rows_in_errors():
            return [part(metric, judged) for metric in self.metrics]

    def rows_in_errors(self) -> AbstractContextManager[None]:
        """In errors raised inside, the row of a user is its row among all users."""
        return rows_among_all(self.rows)


def sharded(
    space: Space,
    context: Context,
    metrics: Sequence[OwnMetric],
    needs_vectors: bool,
    n: int,
    sampling: Sampling | None = None,
) -> list[Shard]:
    """Split the users into ``n`` shards of nearly equal size; a single one has the space and the context unchanged."""
    if n == 1:
        return [Shard(None, space, context, tuple(metrics), needs_vectors, sampling)]
    if not isinstance(space, FactorSpace):
        raise InputError("a scorer's users cannot be sharded, only those of vectors; leave shards at 1")
    n_users = len(space.user)
    if n > n_users:
        raise InputError(f"{n} shards for {n_users} users; ask for fewer shards")
    ends = [n_users * number // n for number in range(n + 1)]
    shards = []
    for users in pairwise(ends):
        rows = np.arange(*users)
        some = space.of_users(rows), context.of_users(rows)
        shards.append(Shard(users, *some, tuple(metrics), needs_vectors, sampling, rows))
    return shards
