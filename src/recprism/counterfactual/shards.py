"""Users in shards: each shard ranks and judges its own, and what it tells of them adds up.

A crew is whoever holds the shards: this process, or the workers of a cluster (``ray_crew``). It passes messages to its
members and gives back their answers in the order of the shards, so that sums are the same for any crew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import torch
from torch import Tensor

from recprism.counterfactual.parts import OwnMetric, part_of
from recprism.counterfactual.space import FactorSpace, Space
from recprism.errors import InputError
from recprism.metrics import Context, Lists
from recprism.metrics.together import Sums


@dataclass(frozen=True, eq=False)
class Shard:
    """Some users, and all that is known of them.

    users: the first, and the one behind the last; None for all of them
    metrics: the parts of psi
    needs_vectors: whether they take distances between perturbed vectors
    """

    users: tuple[int, int] | None
    space: Space
    context: Context
    metrics: tuple[OwnMetric, ...]
    needs_vectors: bool

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
        return self.judged(self.space.lists(own, k), own)

    def judged(self, lists: Tensor, own: Tensor) -> list[Sums]:
        context = self.context.with_vectors(self.space.vectors(own)) if self.needs_vectors else self.context
        judged = Lists(lists, context, check=False)
        return [part_of(metric, judged) for metric in self.metrics]


def sharded(space: Space, context: Context, metrics: Sequence[OwnMetric], needs_vectors: bool, n: int) -> list[Shard]:
    """``n`` shards of nearly as many users each; a single one is the space and the context as they are."""
    if n == 1:
        return [Shard(None, space, context, tuple(metrics), needs_vectors)]
    if not isinstance(space, FactorSpace):
        raise InputError("a scorer's users cannot be sharded, only those of vectors; leave shards at 1")
    n_users = len(space.user)
    if n > n_users:
        raise InputError(f"{n} shards for {n_users} users; ask for fewer shards")
    ends = [n_users * number // n for number in range(n + 1)]
    return [
        Shard(users, space.of_users(*users), context.of_users(*users), tuple(metrics), needs_vectors)
        for users in pairwise(ends)
    ]


class Crew(Protocol):
    """Whoever holds the shards."""

    def ask(self, question: str, *message: Any) -> list[Any]:
        """The answers to a method of the members, in the order of their shards."""
        ...

    def ask_one(self, question: str, *message: Any) -> Any:
        """The answer of one member, where all would say the same."""
        ...


class LocalCrew:
    """One member in this process, with all shards."""

    def __init__(self, member: Any) -> None:
        self._member = member

    def ask(self, question: str, *message: Any) -> list[Any]:
        answers: list[Any] = getattr(self._member, question)(*message)
        return answers

    def ask_one(self, question: str, *message: Any) -> Any:
        return getattr(self._member, question)(*message)


Recruit = Callable[[Callable[[Sequence[Shard]], Any], Sequence[Shard]], Crew]
"""(make a member from its shards, all shards) -> a crew; the member is made where it will work."""


def local_crew(member: Callable[[Sequence[Shard]], Any], shards: Sequence[Shard]) -> Crew:
    return LocalCrew(member(shards))
