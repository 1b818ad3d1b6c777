"""The loop under marginal credit: every player hears its own reward and takes the arm that it speaks for.

A player's reward is a slope: an arm a earns a times it. Over the iterations slopes add up, and a player takes the arm
with the largest (sum of slopes) * a - price * |a| - a^2 / 2, which is dual averaging with a price: an arm other than 0
has to be paid for, so that players without a case stay at exactly 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from recprism.cmb._marginal_players import DualAveragingSettings, Look, MarginalPlayers, MarginalWorker, Pay
from recprism.cmb._sampling import Sampling
from recprism.cmb._shards import Crew, Recruit, Shard, local_crew, sharded
from recprism.cmb.credit.marginal import MarginalCredit, joint_deviation
from recprism.cmb.history import Follow, History, Progress
from recprism.cmb.objective import Number, Objective
from recprism.cmb.players.arms import Arms
from recprism.cmb.search_loop import SearchResult, outcome_of, sum_of_magnitudes
from recprism.cmb.space import FactorSpace
from recprism.metrics import Context
from recprism.metrics._decomposable import added


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
    recruit: Recruit = local_crew,
    sampling: Sampling | None = None,
) -> SearchResult:
    """Run the players from zero, or from where ``resume`` stands.

    shards, recruit: into how many shards users go, and who holds them; item players stay here, a user's with its shard
    sampling: whose lists pay, where not all do
    """
    metrics = [metric for _, metric in objective.metrics]
    parts = sharded(space, context, metrics, objective.needs_vectors, shards, sampling)
    crew = recruit(partial(MarginalWorker, credit, arms, settings), parts)
    items, users = _start(space, parts, context.device, resume)
    crew.start(users)
    size: Number | None = None  # of what users' players were paid last, over all shards
    history = History(objective, resume.steps if resume is not None else ())
    for number in range(len(history), settings.iterations):
        of_items = None if items is None else items.best_arms(arms, settings)
        posted = None if of_items is None else crew.post(of_items)
        looks: list[Look] = crew.advance("look", number, posted, size)
        moved = sum([look.size for look in looks], 0.0 if of_items is None else sum_of_magnitudes(of_items))
        told = [look.parts for look in looks]
        is_best = history.add(outcome_of(objective, told, moved, space.n_players, sampling, number))
        exposure = _joint_exposure(looks)
        spreads = (
            [look.spreads for look in looks] if exposure is None else crew.advance("weigh", number, posted, exposure)
        )
        deviations = [joint_deviation(of_goal) for of_goal in zip(*spreads, strict=True)]
        pays: list[Pay] = crew.advance("credit", number, posted, exposure, deviations, is_best)
        if items is not None and of_items is not None:
            items = _paid(items.keeping(of_items, is_best, settings.keep), pays)
        size = _mean_of_users(pays, space)
        if follow is not None:
            follow(Progress(history.steps(), _arrays(items, crew, size)))
    players = _all_players(items, crew, size)
    kept = players.best_arms(arms, settings) if settings.keep == "last" else players.kept
    return SearchResult(kept, history.steps())


def _start(
    space: FactorSpace, shards: Sequence[Shard], device: torch.device, resume: Progress | None
) -> tuple[MarginalPlayers | None, list[MarginalPlayers | None]]:
    """Item players, and the players of each shard's users; None where a side has none."""
    slopes = kept = torch.zeros(space.n_players, device=device)
    if resume is not None and resume.steps:
        slopes, kept = (torch.as_tensor(resume.arrays[name]).to(slopes) for name in ("slopes", "kept"))
    n_items = len(space.item) * space.per_vector if "item" in space.sides else 0
    items = MarginalPlayers(slopes[:n_items], kept[:n_items]) if n_items else None
    if "user" not in space.sides:
        return items, [None] * len(shards)
    ends = [(0, len(space.user)) if shard.users is None else shard.users for shard in shards]
    cuts = [slice(*(n_items + user * space.per_vector for user in pair)) for pair in ends]
    return items, [MarginalPlayers(slopes[cut], kept[cut]) for cut in cuts]


def _joint_exposure(looks: Sequence[Look]) -> Tensor | None:
    """(n_items,) over all shards, where a goal asked for it."""
    counts = [(look.exposure,) for look in looks if look.exposure is not None]
    return added(counts)[0] if counts else None  # type: ignore[arg-type]


def _paid(items: MarginalPlayers, pays: Sequence[Pay]) -> MarginalPlayers:
    """Item players after what all shards pay them together, added in the order of the shards."""
    (total,) = added([(pay.to_items,) for pay in pays if pay.to_items is not None])
    return MarginalPlayers(items.slopes, items.kept, total).after(total.abs().mean().clamp(min=1e-20))


def _mean_of_users(pays: Sequence[Pay], space: FactorSpace) -> Tensor | None:
    """The mean magnitude of what all users' players were paid, where there are any."""
    magnitudes = [(pay.to_users,) for pay in pays if pay.to_users is not None]
    if not magnitudes:
        return None
    (total,) = added(magnitudes)  # type: ignore[arg-type]
    return (total / (len(space.user) * space.per_vector)).clamp(min=1e-20)


def _all_players(items: MarginalPlayers | None, crew: Crew, size: Number | None) -> MarginalPlayers:
    """Those of both sides, item side first, users in the order of their shards."""
    users = [state.after(size) for state in crew.states() if state is not None]
    everybody = [*(() if items is None else (items,)), *users]
    return MarginalPlayers(torch.cat([it.slopes for it in everybody]), torch.cat([it.kept for it in everybody]))


def _arrays(items: MarginalPlayers | None, crew: Crew, size: Number | None) -> dict[str, NDArray[Any]]:
    players = _all_players(items, crew, size)
    return {"slopes": players.slopes.cpu().numpy(), "kept": players.kept.cpu().numpy()}
