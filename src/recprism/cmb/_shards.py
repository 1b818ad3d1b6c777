"""Users in shards: each shard ranks and judges its own, and what it tells of them adds up.

A crew is whoever holds the shards: this process, or the workers of a cluster (``ray_crew``). It passes messages to its
members and gives back their answers in the order of the shards, so that sums are the same for any crew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from recprism.cmb._metric_parts import OwnMetric, part_of, rows_among_all, values_of
from recprism.cmb._sampling import Sampling
from recprism.cmb.space import FactorSpace, Space
from recprism.errors import InputError
from recprism.metrics import Context, Lists
from recprism.metrics._decomposable import Sums


@dataclass(frozen=True, eq=False)
class Shard:
    """Some users, and all that is known of them.

    users: the first, and the one behind the last; None for all of them
    metrics: the parts of psi
    needs_vectors: whether they take distances between perturbed vectors
    sampling: which of all users are drawn in an iteration; None for all
    rows: (n,) of its users among all, where these are drawn or a part
    """

    users: tuple[int, int] | None
    space: Space
    context: Context
    metrics: tuple[OwnMetric, ...]
    needs_vectors: bool
    sampling: Sampling | None = None
    rows: NDArray[np.int64] | None = None

    def at(self, iteration: int) -> Shard:
        """The shard of the users whose lists pay in an iteration: all of them, unless they are sampled."""
        if self.sampling is None:
            return self
        assert isinstance(self.space, FactorSpace)  # nobody samples the users of a scorer
        rows, first = self.sampling.rows(iteration), 0
        if self.users is not None:
            rows, first = rows[slice(*np.searchsorted(rows, self.users))], self.users[0]
        space, context = of_users(self.space, self.context, rows - first)
        return replace(self, space=space, context=context, rows=rows)

    def own(self, values: Tensor) -> Tensor:
        """Those of the values of all players (item side first) that move what this shard ranks with."""
        if self.users is None or not isinstance(self.space, FactorSpace) or "user" not in self.space.sides:
            return values
        of_items = self.space.n_players - len(self.space.user) * self.space.per_vector
        start, end = (of_items + user * self.space.per_vector for user in self.users)
        return torch.cat([values[:of_items], values[start:end]])

    def parts(self, values: Tensor, k: int) -> list[Sums]:
        """What the lists under the perturbation, ``values`` of all players, give to each metric."""
        own = self.own(values)
        return self.judged(self.space.lists(own, k), self.space.vectors(own) if self.needs_vectors else None)

    def judged(self, lists: Tensor, vectors: Tensor | None) -> list[Sums]:
        """Sums over users; where they are sampled the value of each, since their spread is needed."""
        context = self.context if vectors is None else self.context.with_vectors(vectors)
        judged = Lists(lists, context, check=False)
        part = part_of if self.sampling is None else values_of
        with self.telling_rows():
            return [part(metric, judged) for metric in self.metrics]

    def telling_rows(self) -> AbstractContextManager[None]:
        """An error inside that names the row of one of its users names that among all."""
        return rows_among_all(self.rows)


def sharded(
    space: Space,
    context: Context,
    metrics: Sequence[OwnMetric],
    needs_vectors: bool,
    n: int,
    sampling: Sampling | None = None,
) -> list[Shard]:
    """``n`` shards of nearly as many users each; a single one is the space and the context as they are."""
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
        some = of_users(space, context, rows)
        shards.append(Shard(users, *some, tuple(metrics), needs_vectors, sampling, rows))
    return shards


def of_users(space: FactorSpace, context: Context, rows: NDArray[np.int64]) -> tuple[FactorSpace, Context]:
    """Both for some of the users; a context that knows no users stays as it is."""
    return space.of_users(rows), context.of_users(rows)


class Crew(Protocol):
    """Whoever holds the shards."""

    def ask(self, question: str, *message: Any) -> list[Any]:
        """The answers to a method of the members, in the order of their shards."""
        ...

    def ask_one(self, question: str, *message: Any) -> Any:
        """The answer of one member, where all would say the same."""
        ...

    def start(self, states: list[Any]) -> None:
        """What each shard's member is to remember from here on; it stays where the member is."""
        ...

    def advance(self, question: str, *message: Any) -> list[Any]:
        """As ``ask``, of a method that takes what the members remember and gives it back changed."""
        ...

    def states(self) -> list[Any]:
        """What is remembered of each shard."""
        ...

    def post(self, array: Tensor) -> Any:
        """A large array for several questions; a message may hold what this returns in its place."""
        ...


class LocalCrew:
    """One member in this process, with all shards."""

    def __init__(self, member: Any) -> None:
        self._member = member
        self._states: list[Any] = []

    def ask(self, question: str, *message: Any) -> list[Any]:
        answers: list[Any] = getattr(self._member, question)(*message)
        return answers

    def ask_one(self, question: str, *message: Any) -> Any:
        return getattr(self._member, question)(*message)

    def start(self, states: list[Any]) -> None:
        self._states = states

    def advance(self, question: str, *message: Any) -> list[Any]:
        answers: list[Any]
        answers, self._states = getattr(self._member, question)(self._states, *message)
        return answers

    def states(self) -> list[Any]:
        return self._states

    def post(self, array: Tensor) -> Any:
        return array


Recruit = Callable[[Callable[[Sequence[Shard]], Any], Sequence[Shard]], Crew]
"""(make a member from its shards, all shards) -> a crew; the member is made where it will work."""


def local_crew(member: Callable[[Sequence[Shard]], Any], shards: Sequence[Shard]) -> Crew:
    return LocalCrew(member(shards))
