"""The search with one shared reward: players choose arms, lists change, all players get the same reward and learn."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from recprism.cmb._metric_values import rows_among_all, values_of
from recprism.cmb._sampling import Sampling
from recprism.cmb.history import Follow, History, Outcome, Progress, Step
from recprism.cmb.objective import Number, Objective
from recprism.cmb.players.arms import Arms
from recprism.cmb.players.play import Play, SearchSettings
from recprism.cmb.players.policies import Policy
from recprism.cmb.space import FactorSpace, Space
from recprism.metrics import Context, Lists


@dataclass(frozen=True, eq=False)
class SearchResult:
    """The outcome of a search.

    Attributes:
        values: (n_players,) the perturbation to keep, in units of the arms.
        history: Every iteration.
        converged: Whether ``patience`` ended the search.
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
    sampling: Sampling | None = None,
) -> SearchResult:
    """Run the players from the start, or from where an earlier search ended.

    On a GPU the loop waits for ``follow`` and for ``patience``. Without both, nothing leaves the GPU before the end.

    Args:
        space: What is perturbed.
        context: What the metrics look at.
        objective: What the reward is computed from.
        policy: How players choose arms.
        arms: The values that players choose from.
        settings: Number of iterations, list length, ties, what to keep, and patience.
        seed: Of the players' random draws.
        follow: Called with the progress after every new iteration.
        resume: The progress of an earlier search. Its rewards are replayed without ranking any list, because choices
            depend only on the seed and the rewards.
        sampling: Which users are ranked in each iteration; None for all.

    Returns:
        The perturbation and the history.
    """
    judge = Judge(space, context, objective, sampling)
    play = Play(space.n_players, policy, arms, settings, seed, context.device)
    known = () if resume is None else resume.steps[: settings.iterations]
    history = History(objective, known)
    rewards: list[Number] = [step.reward for step in known]
    while len(rewards) < settings.iterations and not _is_over(history, settings.patience):
        outcome = judge.at(len(rewards)).outcome(play.values_after(rewards), settings.k)
        history.add(outcome)
        rewards.append(outcome.reward)
        if follow is not None:
            follow(Progress(history.steps()))
    steps = history.steps()
    return SearchResult(play.kept_after(rewards), steps, _has_converged(steps, settings.patience))


@dataclass(frozen=True, eq=False)
class Judge:
    """What a perturbation is judged by.

    Attributes:
        space: What is perturbed.
        context: What the metrics look at.
        objective: What the reward is computed from.
        sampling: Which users are ranked in each iteration; None for all.
        rows: (n,) row of each user of ``space`` among all; None if these are all users.
    """

    space: Space
    context: Context
    objective: Objective
    sampling: Sampling | None = None
    rows: NDArray[np.int64] | None = None

    def at(self, iteration: int) -> Judge:
        """The judge with the users that are ranked in an iteration: all of them, unless users are sampled."""
        if self.sampling is None:
            return self
        assert isinstance(self.space, FactorSpace)  # the users of a scorer are never sampled
        rows = self.sampling.rows(iteration)
        return replace(self, space=self.space.of_users(rows), context=self.context.of_users(rows), rows=rows)

    def outcome(self, values: Tensor, k: int) -> Outcome:
        """Rank under the perturbation ``values`` (n_players,), and compute the reward of the lists."""
        vectors = self.space.vectors(values) if self.objective.needs_vectors else None
        return self.outcome_of(self.space.lists(values, k), vectors, sum_of_magnitudes(values))

    def outcome_of(self, lists: Tensor, vectors: Tensor | None, size: Number) -> Outcome:
        """Compute the reward of lists.

        Args:
            lists: (n_users, k) item numbers, -1 in empty places.
            vectors: (n_items, d) perturbed vectors, if the objective needs them.
            size: Sum of the magnitudes of all values.
        """
        context = self.context if vectors is None else self.context.with_vectors(vectors)
        judged, n_players = Lists(lists, context, check=False), self.space.n_players
        with self.rows_in_errors():
            if self.rows is None or self.sampling is None:
                psi = self.objective.psi(judged)
                return Outcome(psi, size, self.objective.reward(psi, size, n_players))
            values = [values_of(metric, judged) for _, metric in self.objective.metrics]
            psi, error = self.objective.psi_of_sample(values, self.sampling.n_users)
        return Outcome(psi, size, self.objective.reward(psi, size, n_players, error), error, len(self.rows))

    def rows_in_errors(self) -> AbstractContextManager[None]:
        """In errors raised inside, the row of a user is its row among all users."""
        return rows_among_all(self.rows)


def sum_of_magnitudes(values: Tensor) -> Number:
    """The sum of |values| in float64, the same for any number of threads; on a GPU it stays there."""
    if values.device.type == "cpu":  # numpy uses one thread: waking torch's threads takes longer than the sum
        return float(np.abs(values.numpy()).sum(dtype=np.float64))
    return values.abs().sum(dtype=torch.float64)


def _is_over(history: History, patience: int | None) -> bool:
    return patience is not None and _has_converged(history.steps(), patience)


def _has_converged(history: Sequence[Step], patience: int | None) -> bool:
    if patience is None or len(history) <= patience:
        return False
    best = max(range(len(history)), key=lambda number: history[number].reward)
    return len(history) - 1 - best >= patience
