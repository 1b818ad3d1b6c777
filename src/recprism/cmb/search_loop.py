"""The search with one shared reward: players choose arms, lists change, all players get the same reward and learn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from recprism.cmb._sampling import Sampling
from recprism.cmb._shards import Shard, sharded
from recprism.cmb.history import Follow, History, Outcome, Progress, Step
from recprism.cmb.objective import Number, Objective
from recprism.cmb.players.arms import Arms
from recprism.cmb.players.play import Play, SearchSettings
from recprism.cmb.players.policies import Policy
from recprism.cmb.space import Space
from recprism.common.executor import Executor, LocalExecutor, WorkerPool
from recprism.metrics import Context, Lists
from recprism.metrics.metric import Sums


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
    shards: int = 1,
    executor: Executor | None = None,
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
        shards: How many parts the users are split into. It can change the last digits of sums.
        executor: Where the workers run; None for this process. Every worker replays the players itself.
        sampling: Which users are ranked in each iteration; None for all.

    Returns:
        The perturbation and the history.
    """
    metrics = [metric for _, metric in objective.metrics]
    parts = sharded(space, context, metrics, objective.needs_vectors, shards, sampling)
    play = partial(Play, space.n_players, policy, arms, settings, seed, context.device)
    known = () if resume is None else resume.steps[: settings.iterations]
    history = History(objective, known)
    rewards: list[Number] = [step.reward for step in known]
    with executor or LocalExecutor() as entered:
        pool: WorkerPool[SearchWorker, None] = entered.start_workers(partial(SearchWorker, play, settings.k), parts)
        with closing(pool):
            while len(rewards) < settings.iterations and not _is_over(history, settings.patience):
                answers = pool.call(SearchWorker.judge, rewards)
                sums = [answer.parts for answer in answers]
                outcome = outcome_of(objective, sums, answers[0].size, space.n_players, sampling, len(rewards))
                history.add(outcome)
                rewards.append(outcome.reward)
                if follow is not None:
                    follow(Progress(history.steps()))
            values = pool.call_one(SearchWorker.kept, rewards)
    steps = history.steps()
    return SearchResult(values, steps, _has_converged(steps, settings.patience))


class Answer(NamedTuple):
    """A shard's part of an iteration.

    Attributes:
        size: Of the whole perturbation; the same for all shards.
        parts: Sums of each metric over the users of the shard.
    """

    size: Number
    parts: list[Sums]


class SearchWorker:
    """Some shards, and the players, replayed from the rewards.

    Args:
        play: Makes the players.
        k: Length of the lists.
        shards: The shards of this worker.
    """

    def __init__(self, play: Callable[[], Play], k: int, shards: Sequence[Shard]) -> None:
        self._play, self._k, self._shards = play(), k, shards

    def judge(self, rewards: Sequence[Number]) -> list[Answer]:
        """Rank and judge the next iteration, for every shard.

        Args:
            rewards: Of all iterations so far; a restarted worker replays all of them.
        """
        values = self._play.values_after(rewards)
        size = sum_of_magnitudes(values)
        return [Answer(size, shard.at(len(rewards)).parts(values, self._k)) for shard in self._shards]

    def kept(self, rewards: Sequence[Number]) -> Tensor:
        """(n_players,) the perturbation to keep after these rewards."""
        return self._play.kept_after(rewards)


def outcome_of(
    objective: Objective,
    parts: Sequence[Sequence[Sums]],
    size: Number,
    n_players: int,
    sampling: Sampling | None,
    iteration: int,
) -> Outcome:
    """Join the parts of all shards into the outcome of an iteration."""
    if sampling is None:
        psi = objective.psi_of(parts)
        return Outcome(psi, size, objective.reward(psi, size, n_players))
    psi, error = objective.psi_of_sample(parts, sampling.n_users)
    reward = objective.reward(psi, size, n_players, error)
    return Outcome(psi, size, reward, error, sampling.size_at(iteration))


def judge(space: Space, context: Context, objective: Objective, values: Tensor, k: int) -> Outcome:
    """Rank under the perturbation ``values`` (n_players,) and compute the reward of the lists."""
    if objective.needs_vectors:
        context = context.with_vectors(space.vectors(values))
    psi = objective.psi(Lists(space.lists(values, k), context, check=False))
    size = sum_of_magnitudes(values)
    return Outcome(psi, size, objective.reward(psi, size, space.n_players))


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
