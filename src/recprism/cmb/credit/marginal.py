"""Marginal credit: a player is paid for the effect of its own factor on the items at the edge of the lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from recprism.cmb.credit.worth import marginal_gain_of
from recprism.cmb.objective import MetricLike, require_goals
from recprism.common.checks import COUNT, POSITIVE, WEIGHT, Check, Checked
from recprism.metrics import Context

PULLS_AT_A_TIME = 1 << 28  # on a GPU, in one dense matrix


@dataclass(frozen=True)
class MarginalCredit(Checked):
    """Per user, the candidates near the cut get a worth; players get the part of it that their factor moves.

    Attributes:
        goals: Metric (name, Metric or function of your own) -> weight.
        accuracy: Weight of the base score against the goals, from 0 (diversity alone) to 1. No labels are needed.
        candidates: How many items outside the list are considered.
        width: How far from the cut an item counts, in standard deviations of the user's candidate scores.
    """

    goals: Mapping[MetricLike, float]
    accuracy: float = 0.5
    candidates: int = 40
    width: float = 1.0

    rules: ClassVar[Mapping[str, Check]] = {"accuracy": WEIGHT, "candidates": COUNT, "width": POSITIVE}

    def __post_init__(self) -> None:
        require_goals(self.goals)
        super().__post_init__()

    def worths(self, items: Tensor, k: int, context: Context) -> list[Tensor]:
        """The worth of each candidate for each goal, centred for each user.

        Args:
            items: (n_users, k + m) the lists and the candidates after them.
            k: Length of the lists.
            context: What the metrics look at.

        Returns:
            (n_users, k + m) for each goal.
        """
        return [_centred(marginal_gain_of(goal)(items, k, context), items >= 0) for goal in self.goals]

    def pull(self, items: Tensor, scores: Tensor, base_scores: Tensor, k: int, worths: Sequence[Tensor]) -> Tensor:
        """In which direction each candidate should move, and how much it matters.

        Args:
            items: (n_users, k + m) candidates by falling score under the perturbation, -1 in empty places.
            scores: (n_users, k + m) these scores.
            base_scores: (n_users, k + m) scores of the base model.
            k: Length of the lists.
            worths: (n_users, k + m) for each goal.

        Returns:
            (n_users, k + m) float32.
        """
        real = items >= 0
        edge = self._at_the_edge(scores, real, k)
        wanted = self.accuracy * _standard(base_scores, real)
        for weight, worth in zip(self.goals.values(), worths, strict=True):
            # One unit for all users: a user whose list can gain little must not count as much as the others.
            wanted = wanted + (1 - self.accuracy) * weight * worth / _deviation(worth, real).clamp(min=1e-12)
        # A list has a fixed length: one item enters when another leaves, so the pulls of a user sum to 0.
        mean = (wanted * edge).sum(1, keepdim=True) / edge.sum(1, keepdim=True).clamp(min=1e-12)
        return (wanted - mean) * edge

    def _at_the_edge(self, scores: Tensor, real: Tensor, k: int) -> Tensor:
        scores = torch.where(real, scores, 0.0)
        cut = (scores[:, k - 1 : k] + scores[:, k : k + 1]) / 2
        spread = scores.std(1, keepdim=True).clamp(min=1e-12)
        return torch.exp(-(((scores - cut) / (self.width * spread)) ** 2)) * real


def to_items(pull: Tensor, items: Tensor, user: Tensor, n_items: int) -> Tensor:
    """(n_items, d) the reward of item players: the sum over users of the pull on the item times the user's factor."""
    if items.device.type == "cuda":
        return _to_items_by_product(pull, items, user, n_items)
    n_users, width = items.shape
    rows = torch.arange(n_users, device=items.device).repeat_interleave(width)
    place = torch.stack([items.clamp(min=0).flatten(), rows])
    pulls = torch.sparse_coo_tensor(place, pull.flatten(), (n_items, n_users), check_invariants=False)
    rewards: Tensor = torch.sparse.mm(pulls, user)
    return rewards


def _to_items_by_product(pull: Tensor, items: Tensor, user: Tensor, n_items: int) -> Tensor:
    """The same by dense products, some users at a time.

    A GPU adds up sparse entries in any order, which changes bits, and their number would have to be waited for.
    """
    rewards = user.new_zeros(n_items, user.shape[1])
    place = torch.where(items >= 0, items, n_items).T
    for start in range(0, len(user), step := max(1, PULLS_AT_A_TIME // (n_items + 1))):
        some = slice(start, start + step)
        pulls = user.new_zeros(n_items + 1, len(user[some])).scatter_(0, place[:, some], pull[some].T)
        rewards.addmm_(pulls[:-1], user[some])
    return rewards


def to_users(pull: Tensor, items: Tensor, item: Tensor) -> Tensor:
    """(n_users, d) the reward of user players: the sum over candidates of the pull times the item's factor."""
    return torch.bmm(pull.unsqueeze(1), item[items.clamp(min=0)]).squeeze(1)


def _centred(values: Tensor, real: Tensor) -> Tensor:
    values = torch.where(real, values, 0.0)
    return torch.where(real, values - values.sum(1, keepdim=True) / real.sum(1, keepdim=True).clamp(min=1), 0.0)


def _deviation(values: Tensor, real: Tensor) -> Tensor:
    """() the standard deviation of the values in non-empty places; they are 0 elsewhere."""
    if values.device.type == "cpu":
        return values[real].std()
    # Selecting the values would wait for the GPU to count them.
    n = real.sum()
    return ((torch.where(real, values - values.sum() / n, 0.0) ** 2).sum() / (n - 1)).sqrt()


def _standard(values: Tensor, real: Tensor) -> Tensor:
    centred = _centred(values, real)
    deviation = (centred**2).sum(1, keepdim=True) / real.sum(1, keepdim=True).clamp(min=1)
    return centred / deviation.sqrt().clamp(min=1e-12)
