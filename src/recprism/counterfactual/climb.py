"""The loop under marginal credit: every player hears its own reward and takes the arm that it speaks for.

A player's reward is a slope: an arm a earns a times it. Over the iterations slopes add up, and a player takes the arm
with the largest (sum of slopes) * a - price * |a| - a^2 / 2, which is dual averaging with a price: an arm other than 0
has to be paid for, so that players without a case stay at exactly 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from recprism.counterfactual.arms import Arms
from recprism.counterfactual.credit.marginal import MarginalCredit, to_items, to_users
from recprism.counterfactual.ledger import Follow, Ledger, Outcome, Progress, either
from recprism.counterfactual.objective import Objective
from recprism.counterfactual.play import Keep
from recprism.counterfactual.search import Found, sum_of_magnitudes
from recprism.counterfactual.space import FactorSpace
from recprism.errors import InputError
from recprism.metrics import Context, Lists
from recprism.ranking.threads import one_thread


@dataclass(frozen=True)
class ClimbSettings:
    """iterations: steps; k: length of the lists
    rate: how far a player with an average, steady reward has come at the end, in units of the reach
    price: what an arm must earn to be taken at all, in the same units; larger leaves more players at exactly 0
    keep: the last iteration's perturbation, or that of the iteration with the highest reward
    """

    iterations: int = 40
    k: int = 10
    rate: float = 0.2
    price: float = 0.0
    keep: Keep = "last"

    def __post_init__(self) -> None:
        if self.iterations < 1 or self.k < 1 or self.rate <= 0 or self.price < 0:
            raise InputError(
                f"iterations={self.iterations}, k={self.k} and rate={self.rate} must be above 0, "
                f"price={self.price} not below"
            )


def climb(
    space: FactorSpace,
    context: Context,
    objective: Objective,
    credit: MarginalCredit,
    arms: Arms,
    settings: ClimbSettings,
    *,
    follow: Follow | None = None,
    resume: Progress | None = None,
) -> Found:
    """Run the players from zero, or from where ``resume`` stands."""
    slopes = torch.zeros(space.n_players, device=context.device)
    kept: Tensor | None = None
    known = resume.steps if resume is not None else ()
    ledger = Ledger(objective, known)
    if resume is not None and known:
        slopes, kept = (torch.as_tensor(resume.arrays[name]).to(slopes) for name in ("slopes", "kept"))
    arm_values = arms.values.to(context.device)
    for _ in range(len(known), settings.iterations):
        values = _best_arms(slopes, arms, arm_values, settings)
        outcome, reward = _look(space, context, objective, credit, values, settings)
        is_best = ledger.add(outcome)
        kept = values if kept is None or settings.keep == "last" else either(is_best, values, kept)
        slopes = slopes + reward
        if follow is not None:
            arrays = {"slopes": slopes.cpu().numpy(), "kept": kept.cpu().numpy()}
            follow(Progress(ledger.steps(), arrays))
    if settings.keep == "last":
        kept = _best_arms(slopes, arms, arm_values, settings)
    assert kept is not None
    return Found(kept, ledger.steps())


def _best_arms(slopes: Tensor, arms: Arms, arm_values: Tensor, settings: ClimbSettings) -> Tensor:
    """(n_players,) values: the best of each player's arms; arm_values: those of the arms, beside the slopes."""
    scale = settings.rate * arms.reach / settings.iterations
    wanted = slopes * scale
    wanted = wanted.sign() * (wanted.abs() - settings.price * arms.reach).clamp(min=0)
    gap = 2 * arms.reach / (arms.count - 1)
    nearest = ((wanted.clamp(-arms.reach, arms.reach) + arms.reach) / gap).round().long()
    return arm_values[nearest]


def _look(
    space: FactorSpace,
    context: Context,
    objective: Objective,
    credit: MarginalCredit,
    values: Tensor,
    settings: ClimbSettings,
) -> tuple[Outcome, Tensor]:
    """What the lists are worth under ``values``, and the reward of each player: 1 on average over a side's players."""
    user, item = space.moved(values)
    depth = min(settings.k + credit.candidates, space.item.shape[0])
    items, scores = space.rank(user, item, depth)
    judged = context.with_vectors(item) if objective.needs_vectors else context
    psi = objective.psi(Lists(items[:, : settings.k], judged, check=False))
    with one_thread():
        pull = credit.pull(items, scores, space.base_scores(items), settings.k, context)
        rewards = {"item": lambda: to_items(pull, items, user, len(item)), "user": lambda: to_users(pull, items, item)}
        sides = [_of_size_one(space.of_players(rewards[side]())) for side in space.sides]
    size = sum_of_magnitudes(values)
    return Outcome(psi, size, objective.reward(psi, size, space.n_players)), torch.cat(sides)


def _of_size_one(reward: Tensor) -> Tensor:
    return reward / reward.abs().mean().clamp(min=1e-20)
