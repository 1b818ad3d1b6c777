"""The loop: players choose, lists change, everybody is paid, players learn. It asks and tells, and owns the state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from recprism.counterfactual.arms import Arms
from recprism.counterfactual.ledger import Follow, Ledger, Outcome, Progress, Step
from recprism.counterfactual.objective import Number, Objective
from recprism.counterfactual.players import Players, Ties
from recprism.counterfactual.policies import Policy
from recprism.counterfactual.space import Space
from recprism.errors import InputError
from recprism.metrics import Context, Lists

Keep = Literal["last", "greedy", "best"]


@dataclass(frozen=True)
class SearchSettings:
    """iterations: T, the most there will be
    k: length of the lists that pay the reward
    ties: see Players
    keep: which perturbation is the result: that of the last iteration, exploration included (the paper's); every
        player's best
        arm at the end; or that of the iteration with the highest reward
    patience: stop when the best reward has not risen for so many iterations; None runs all of them
    """

    iterations: int = 200
    k: int = 20
    ties: Ties = "zero"
    keep: Keep = "best"
    patience: int | None = None

    def __post_init__(self) -> None:
        if self.iterations < 1 or self.k < 1:
            raise InputError(f"iterations={self.iterations} and k={self.k} must be at least 1")
        if self.ties not in ("first", "random", "zero"):
            raise InputError(f"ties is first, random or zero, not {self.ties!r}")
        if self.keep not in ("last", "greedy", "best"):
            raise InputError(f"keep is last, greedy or best, not {self.keep!r}")
        if self.patience is not None and self.patience < 1:
            raise InputError(f"patience is a number of iterations, at least 1; got {self.patience}")


@dataclass(frozen=True, eq=False)
class Found:
    """The outcome of a search.

    values: (n_players,) the perturbation that is kept, in units of the arms
    history: every iteration
    converged: whether patience ended it
    """

    values: Tensor
    history: tuple[Step, ...]
    converged: bool = False


def search(
    space: Space,
    context: Context,
    objective: Objective,
    policy: Policy,
    arms: Arms,
    settings: SearchSettings,
    *,
    seed: int = 0,
    follow: Follow | None = None,
    resume: Progress | None = None,
) -> Found:
    """Run the players.

    ``follow`` sees where the search stands after every new iteration. ``resume`` replays the steps of an earlier search
    without ranking a single list: its rewards are known, and choices hang on nothing else. On a GPU the loop waits for
    ``follow`` and for patience; where there is neither, nothing leaves the GPU before the end.
    """
    values = arms.values.to(context.device)
    zero = arms.nearest_to_zero
    players = Players(
        space.n_players, arms.count, settings.iterations, ties=settings.ties, zero=zero, device=context.device
    )
    known = resume.steps if resume is not None else ()
    ledger = Ledger(objective)
    kept: Tensor | None = None
    for iteration in range(settings.iterations):
        chosen = policy.choose(players, iteration, seed)
        is_known = iteration < len(known)
        if is_known:
            outcome = Outcome.of(known[iteration])
        else:  # index_select, since indexing wakes torch's threads for a little work
            outcome = judge(space, context, objective, values.index_select(0, chosen), settings.k)
        players.learn(chosen, outcome.reward)
        is_best = ledger.add(outcome)
        if settings.keep == "last" or kept is None:
            kept = chosen
        elif settings.keep == "best":
            kept = either(is_best, chosen, kept)
        if follow is not None and not is_known:
            follow(Progress(ledger.steps()))
        if settings.patience is not None and _has_converged(ledger.steps(), settings.patience):
            break
    if settings.keep == "greedy" or kept is None:
        kept = players.greedy(seed)
    history = ledger.steps()
    return Found(values[kept], history, _has_converged(history, settings.patience))


def judge(space: Space, context: Context, objective: Objective, values: Tensor, k: int) -> Outcome:
    """Rank under the perturbation ``values`` (n_players,) and pay for what the lists became."""
    if objective.needs_vectors:
        context = context.with_vectors(space.vectors(values))
    psi = objective.psi(Lists(space.lists(values, k), context, check=False))
    size = sum_of_magnitudes(values)
    return Outcome(psi, size, objective.reward(psi, size, space.n_players))


def sum_of_magnitudes(values: Tensor) -> Number:
    """The sum of |values| in float64, the same on any number of threads; on a GPU it stays there."""
    if values.device.type == "cpu":  # in one thread: to wake torch's others takes longer
        return float(np.abs(values.numpy()).sum(dtype=np.float64))
    return values.abs().sum(dtype=torch.float64)


def either(first: bool | Tensor, one: Tensor, other: Tensor) -> Tensor:
    """The one or the other, without waiting where a GPU knows which."""
    if isinstance(first, Tensor):
        return torch.where(first, one, other)
    return one if first else other


def _has_converged(history: Sequence[Step], patience: int | None) -> bool:
    if patience is None or len(history) <= patience:
        return False
    best = max(range(len(history)), key=lambda number: history[number].reward)
    return len(history) - 1 - best >= patience
