"""The loop: players choose, lists change, everybody is paid, players learn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from recprism.cmb._sampling import Sampling
from recprism.cmb._shards import Recruit, Shard, local_crew, sharded
from recprism.cmb.history import Follow, History, Outcome, Progress, Step
from recprism.cmb.objective import Number, Objective
from recprism.cmb.players.arms import Arms
from recprism.cmb.players.play import Play, SearchSettings
from recprism.cmb.players.policies import Policy
from recprism.cmb.space import Space
from recprism.metrics import Context, Lists
from recprism.metrics._decomposable import Sums


@dataclass(frozen=True, eq=False)
class SearchResult:
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
    shards: int = 1,
    recruit: Recruit = local_crew,
    sampling: Sampling | None = None,
) -> SearchResult:
    """Run the players.

    ``follow`` sees where the search stands after every new iteration. ``resume`` replays the steps of an earlier search
    without ranking a single list: its rewards are known, and choices hang on nothing else. On a GPU the loop waits for
    ``follow`` and for patience; where there is neither, nothing leaves the GPU before the end.

    sampling: whose lists pay, where not all do
    shards, recruit: into how many shards users go, and who holds them; every member replays the players by itself
    """
    metrics = [metric for _, metric in objective.metrics]
    parts = sharded(space, context, metrics, objective.needs_vectors, shards, sampling)
    play = partial(Play, space.n_players, policy, arms, settings, seed, context.device)
    crew = recruit(partial(Searchers, play, settings.k), parts)
    known = () if resume is None else resume.steps[: settings.iterations]
    history = History(objective, known)
    rewards: list[Number] = [step.reward for step in known]
    while len(rewards) < settings.iterations and not _is_over(history, settings.patience):
        answers = crew.ask("judge", rewards)
        told = [answer.parts for answer in answers]
        outcome = outcome_of(objective, told, answers[0].size, space.n_players, sampling, len(rewards))
        history.add(outcome)
        rewards.append(outcome.reward)
        if follow is not None:
            follow(Progress(history.steps()))
    values = crew.ask_one("kept", rewards)
    steps = history.steps()
    return SearchResult(values, steps, _has_converged(steps, settings.patience))


class Answer(NamedTuple):
    """What a shard has to say of an iteration: the size of the perturbation, the same for all, and its own parts."""

    size: Number
    parts: list[Sums]


class Searchers:
    """A member of the crew of a search: some shards, and the players, replayed from the rewards that it is told."""

    def __init__(self, play: Callable[[], Play], k: int, shards: Sequence[Shard]) -> None:
        self._play, self._k, self._shards = play(), k, shards

    def judge(self, rewards: Sequence[Number]) -> list[Answer]:
        """Of every shard; ``rewards`` of all iterations so far, of which a new member has heard none."""
        values = self._play.values_after(rewards)
        size = sum_of_magnitudes(values)
        return [Answer(size, shard.at(len(rewards)).parts(values, self._k)) for shard in self._shards]

    def kept(self, rewards: Sequence[Number]) -> Tensor:
        return self._play.kept_after(rewards)


def outcome_of(
    objective: Objective,
    parts: Sequence[Sequence[Sums]],
    size: Number,
    n_players: int,
    sampling: Sampling | None,
    iteration: int,
) -> Outcome:
    """From what the shards told of an iteration."""
    if sampling is None:
        psi = objective.psi_of(parts)
        return Outcome(psi, size, objective.reward(psi, size, n_players))
    psi, error = objective.psi_of_sample(parts, sampling.n_users)
    reward = objective.reward(psi, size, n_players, error)
    return Outcome(psi, size, reward, error, sampling.size_at(iteration))


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


def _is_over(history: History, patience: int | None) -> bool:
    return patience is not None and _has_converged(history.steps(), patience)


def _has_converged(history: Sequence[Step], patience: int | None) -> bool:
    if patience is None or len(history) <= patience:
        return False
    best = max(range(len(history)), key=lambda number: history[number].reward)
    return len(history) - 1 - best >= patience
