"""The search with marginal credit: every player gets its own reward and takes the arm that fits it best.

A player's reward is a slope: an arm a earns a times the slope. Slopes add up over the iterations. A player takes the
arm with the largest (sum of slopes) * a - price * |a| - a^2 / 2. This is dual averaging with a price: an arm other than
0 has to earn the price, so that players without a clear direction stay at exactly 0.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor

from recprism.cmb._sampling import Sampling
from recprism.cmb.credit.marginal import MarginalCredit, to_items, to_users
from recprism.cmb.history import Follow, History, Progress, either
from recprism.cmb.players.arms import Arms
from recprism.cmb.search_loop import Judge, SearchResult, sum_of_magnitudes
from recprism.cmb.settings import CMBSettings
from recprism.cmb.space import FactorSpace
from recprism.common.threads import one_thread
from recprism.metrics import Context


def dual_averaging(
    space: FactorSpace,
    context: Context,
    asked: CMBSettings,
    *,
    follow: Follow | None = None,
    resume: Progress | None = None,
    sampling: Sampling | None = None,
) -> SearchResult:
    """Run the players from zero, or from where ``resume`` ended.

    Args:
        space: What is perturbed.
        context: What the metrics look at.
        asked: The objective, which is measured in every iteration and decides with ``keep="best"`` what is kept; what
            each player is paid for; the arms; and the number of iterations, list length, rate and price.
        follow: Called with the progress after every iteration.
        resume: The progress of an earlier search.
        sampling: Which users are ranked in each iteration; None for all.
    """
    objective, credit, arms = asked.objective, asked.marginal_credit, asked.arms
    judge = Judge(space, context, objective, sampling)
    slopes = kept = torch.zeros(space.n_players, device=context.device)
    if resume is not None and resume.steps:
        slopes, kept = (torch.as_tensor(resume.arrays[name]).to(slopes) for name in ("slopes", "kept"))
    history = History(objective, resume.steps if resume is not None else ())
    for number in range(len(history), asked.iterations):
        values = best_arms(slopes, arms, asked)
        size = sum(map(sum_of_magnitudes, _by_side(values, space)), 0.0)
        is_best, rewards = _step(judge.at(number), values, size, credit, asked.k, history)
        slopes = slopes + torch.cat(rewards)
        kept = values if asked.keep == "last" else either(is_best, values, kept)
        if follow is not None:
            follow(Progress(history.steps(), {"slopes": slopes.cpu().numpy(), "kept": kept.cpu().numpy()}))
    found = best_arms(slopes, arms, asked) if asked.keep == "last" else kept
    return SearchResult(found, history.steps())


def best_arms(slopes: Tensor, arms: Arms, asked: CMBSettings) -> Tensor:
    """(n_players,) the value of each player's best arm, from the sums of its rewards."""
    wanted = slopes * (asked.rate * arms.max_step / asked.iterations)
    wanted = wanted.sign() * (wanted.abs() - asked.lambda1 * arms.max_step).clamp(min=0)
    gap = 2 * arms.max_step / (arms.count - 1)
    nearest = ((wanted.clamp(-arms.max_step, arms.max_step) + arms.max_step) / gap).round().long()
    return arms.on(slopes.device)[nearest]


def _by_side(values: Tensor, space: FactorSpace) -> tuple[Tensor, ...]:
    return torch.split(values, [space.n_players_of(side) for side in space.sides])


def _step(
    judge: Judge, values: Tensor, size: float | Tensor, credit: MarginalCredit, k: int, history: History
) -> tuple[bool | Tensor, list[Tensor]]:
    """Rank and judge.

    Returns:
        Whether the reward of the lists is above all earlier ones, and the rewards of the players of each side, divided
        by their mean magnitude.
    """
    space = cast(FactorSpace, judge.space)
    user, item = space.moved(values)
    items, scores = space.rank(user, item, min(k + credit.candidates, len(item)))
    is_best = history.add(judge.outcome_of(items[:, :k], item if judge.objective.needs_vectors else None, size))
    with one_thread():
        with judge.rows_in_errors():
            worths = credit.worths(items, k, judge.context)
        pull = credit.pull(items, scores, space.base_scores(items), k, worths)
        rewards = []
        if "item" in space.sides:
            rewards.append(space.of_players(to_items(pull, items, user, len(item))))
        if "user" in space.sides:
            rewards.append(space.of_players(to_users(pull, items, item)))
        return is_best, [reward / (reward.abs().sum() / len(reward)).clamp(min=1e-20) for reward in rewards]
