"""The search with marginal credit: every player gets its own reward and takes the arm that fits it best.

A player's reward is a slope: an arm a earns a times the slope. Slopes add up over the iterations. A player takes the
arm with the largest (sum of slopes) * a - price * |a| - a^2 / 2. This is dual averaging with a price: an arm other than
0 has to earn the price, so that players without a clear direction stay at exactly 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from functools import partial
from itertools import accumulate, pairwise
from typing import Any, cast

import torch
from numpy.typing import NDArray
from torch import Tensor

from recprism.cmb._marginal_players import DualAveragingSettings, Look, MarginalPlayers, MarginalWorker, Pay
from recprism.cmb._sampling import Sampling
from recprism.cmb._shards import Shard, sharded
from recprism.cmb.credit.marginal import MarginalCredit, joint_deviation
from recprism.cmb.history import Follow, History, Progress
from recprism.cmb.objective import Number, Objective
from recprism.cmb.players.arms import Arms
from recprism.cmb.search_loop import SearchResult, outcome_of, sum_of_magnitudes
from recprism.cmb.space import FactorSpace
from recprism.common.executor import Executor, LocalExecutor, WorkerPool
from recprism.metrics import Context
from recprism.metrics.metric import added

Pool = WorkerPool[MarginalWorker, MarginalPlayers | None]


def dual_averaging(
    space: FactorSpace,
    context: Context,
    objective: Objective,
    credit: MarginalCredit,
    arms: Arms,
    settings: DualAveragingSettings,
    *,
    follow: Follow | None = None,
    resume: Progress | None = None,
    shards: int = 1,
    executor: Executor | None = None,
    sampling: Sampling | None = None,
) -> SearchResult:
    """Run the players from zero, or from where ``resume`` ended.

    Args:
        space: What is perturbed.
        context: What the metrics look at.
        objective: What is measured in every iteration; with ``keep="best"`` it decides what is kept.
        credit: What each player is paid for.
        arms: The values that players choose from.
        settings: Number of iterations, list length, rate, price and what to keep.
        follow: Called with the progress after every iteration.
        resume: The progress of an earlier search.
        shards: How many parts the users are split into.
        executor: Where the workers run; None for this process. Item players stay in this process, and the players of a
            user live with the shard of the user.
        sampling: Which users are ranked in each iteration; None for all.
    """
    metrics = [metric for _, metric in objective.metrics]
    parts = sharded(space, context, metrics, objective.needs_vectors, shards, sampling)
    items, users = _start(space, parts, context.device, resume)
    history = History(objective, resume.steps if resume is not None else ())
    with executor or LocalExecutor() as entered:
        pool: Pool = entered.start_workers(partial(MarginalWorker, credit, arms, settings), parts)
        with closing(pool):
            pool.set_states(users)
            size: Number | None = None  # mean magnitude of the last rewards of the user players, over all shards
            for number in range(len(history), settings.iterations):
                of_items = None if items is None else items.best_arms(arms, settings)
                posted = None if of_items is None else pool.post(of_items)
                looks = pool.advance(MarginalWorker.look, number, posted, size)
                moved = sum([look.size for look in looks], 0.0 if of_items is None else sum_of_magnitudes(of_items))
                sums = [look.parts for look in looks]
                is_best = history.add(outcome_of(objective, sums, moved, space.n_players, sampling, number))
                exposure = _joint_exposure(looks)
                if exposure is None:
                    spreads = [look.spreads for look in looks]
                else:
                    spreads = pool.advance(MarginalWorker.weigh, number, posted, exposure)
                deviations = [joint_deviation(of_goal) for of_goal in zip(*spreads, strict=True)]
                pays = pool.advance(MarginalWorker.credit, number, posted, exposure, deviations, is_best)
                if items is not None and of_items is not None:
                    items = _paid(items.keeping(of_items, is_best, settings.keep), pays)
                size = _mean_of_users(pays, space)
                if follow is not None:
                    follow(Progress(history.steps(), _arrays(_all_players(items, pool, size))))
            players = _all_players(items, pool, size)
    kept = players.best_arms(arms, settings) if settings.keep == "last" else players.kept
    return SearchResult(kept, history.steps())


def _start(
    space: FactorSpace, shards: Sequence[Shard], device: torch.device, resume: Progress | None
) -> tuple[MarginalPlayers | None, list[MarginalPlayers | None]]:
    """Item players, and the players of each shard's users; None for a side without players."""
    slopes = kept = torch.zeros(space.n_players, device=device)
    if resume is not None and resume.steps:
        slopes, kept = (torch.as_tensor(resume.arrays[name]).to(slopes) for name in ("slopes", "kept"))
    n_items = space.n_players_of("item") if "item" in space.sides else 0
    items = MarginalPlayers(slopes[:n_items], kept[:n_items]) if n_items else None
    if "user" not in space.sides:
        return items, [None] * len(shards)
    counts = [cast(FactorSpace, shard.space).n_players_of("user") for shard in shards]
    cuts = [slice(*pair) for pair in pairwise(accumulate([n_items, *counts]))]
    return items, [MarginalPlayers(slopes[cut], kept[cut]) for cut in cuts]


def _joint_exposure(looks: Sequence[Look]) -> Tensor | None:
    """(n_items,) over all shards, if a goal needs it."""
    counts = [(look.exposure,) for look in looks if look.exposure is not None]
    return added(counts)[0] if counts else None  # type: ignore[arg-type]


def _paid(items: MarginalPlayers, pays: Sequence[Pay]) -> MarginalPlayers:
    """Item players after the rewards of all shards, added in the order of the shards."""
    (total,) = added([(pay.to_items,) for pay in pays if pay.to_items is not None])
    return MarginalPlayers(items.slopes, items.kept, total).after(total.abs().mean().clamp(min=1e-20))


def _mean_of_users(pays: Sequence[Pay], space: FactorSpace) -> Tensor | None:
    """The mean magnitude of the rewards of all user players, if there are any."""
    magnitudes = [(pay.to_users,) for pay in pays if pay.to_users is not None]
    if not magnitudes:
        return None
    (total,) = added(magnitudes)  # type: ignore[arg-type]
    return (total / space.n_players_of("user")).clamp(min=1e-20)


def _all_players(items: MarginalPlayers | None, pool: Pool, size: Number | None) -> MarginalPlayers:
    """The players of both sides: items first, then users in the order of their shards."""
    users = [state.after(size) for state in pool.states() if state is not None]
    both = [*(() if items is None else (items,)), *users]
    return MarginalPlayers(torch.cat([it.slopes for it in both]), torch.cat([it.kept for it in both]))


def _arrays(players: MarginalPlayers) -> dict[str, NDArray[Any]]:
    return {"slopes": players.slopes.cpu().numpy(), "kept": players.kept.cpu().numpy()}
