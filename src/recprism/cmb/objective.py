"""The reward: psi squared, minus a price for the size of the perturbation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, cast

import torch
from torch import Tensor

from recprism.cmb._metric_values import AtCut, OwnMetric, mean_of
from recprism.cmb._sampling import mean_and_error
from recprism.common.checks import AMOUNT, WEIGHT, Check, Checked, OneOf
from recprism.errors import InputError
from recprism.metrics import Context, Lists, Metric
from recprism.metrics.registry import parse

MetricLike = str | Metric | OwnMetric
Goals = MetricLike | Mapping[MetricLike, float]
Number = float | Tensor  # a tensor of no dimensions where the number stays on a GPU


@dataclass(frozen=True)
class Objective(Checked):
    """The reward psi**2 - lambda1 * ``|delta|``, where psi combines accuracy and diversity.

    Attributes:
        diversity: The name of a registered metric ("subtopic_coverage", "alpha_ndcg"), a Metric, or any function
            f(lists, context) that returns a value per user or one number. Several as a mapping from each to its weight.
        accuracy: Likewise; None makes diversity the only objective.
        lambda1: The price of the perturbation's size; 0 for a single objective, as in the paper.
        lambda2: psi = lambda2 * accuracy + (1 - lambda2) * diversity.
        penalty: ``|delta|`` is the "sum" of all absolute values (the paper's formula) or their "mean". With the sum the
            price outweighs psi by orders of magnitude, and players learn to be small instead of diverse.
    """

    diversity: Goals = "subtopic_coverage"
    accuracy: MetricLike | None = None
    lambda1: float = 0.0
    lambda2: float = 0.9
    penalty: Literal["sum", "mean"] = "sum"

    rules: ClassVar[Mapping[str, Check]] = {"lambda1": AMOUNT, "lambda2": WEIGHT, "penalty": OneOf(("sum", "mean"))}

    def __post_init__(self) -> None:
        require_goals(self.goals)
        super().__post_init__()

    @property
    def goals(self) -> Mapping[MetricLike, float]:
        """The metrics of diversity and their weights."""
        return self.diversity if isinstance(self.diversity, Mapping) else {self.diversity: 1.0}

    @property
    def metrics(self) -> tuple[tuple[float, OwnMetric], ...]:
        """Weights and functions of the parts of psi."""
        share = 1.0 if self.accuracy is None else 1 - self.lambda2
        goals = tuple((share * weight, resolve(goal)) for goal, weight in self.goals.items())
        return goals if self.accuracy is None else ((self.lambda2, resolve(self.accuracy)), *goals)

    @property
    def needs(self) -> frozenset[str]:
        """What the metrics look at; "anything" for a function of your own."""
        parts = [*self.goals, *(() if self.accuracy is None else (self.accuracy,))]
        known = [parse(part)[0] if isinstance(part, str) else part for part in parts]
        return frozenset(need for part in known for need in (part.needs if isinstance(part, Metric) else ("anything",)))

    @property
    def needs_vectors(self) -> bool:
        """Whether a metric may take distances between perturbed vectors."""
        return not self.needs.isdisjoint({"vectors", "anything"})

    @property
    def name(self) -> str:
        """The name in tables, such as "subtopic_coverage-recall"; several goals are joined by +."""
        goals = "+".join(name_of(goal) for goal in self.goals)
        return goals if self.accuracy is None else f"{goals}-{name_of(self.accuracy)}"

    def psi(self, lists: Lists) -> Number:
        """The weighted sum of the mean over users of each metric, without NaN values.

        Returns:
            A float for lists on the CPU. On a GPU a float64 that stays there, to be checked when it is read.
        """
        total = cast(Tensor, sum(weight * mean_of(metric, lists) for weight, metric in self.metrics))
        return total if total.device.type == "cuda" else self.checked(float(total))

    def psi_of_sample(self, values: Sequence[Tensor], n_users: int) -> tuple[Number, Number]:
        """psi of all ``n_users`` and its standard error, from the values (n,) of some of them for each metric."""
        psi, error = mean_and_error([weight for weight, _ in self.metrics], values, n_users)
        return (psi, error) if psi.device.type == "cuda" else (self.checked(float(psi)), float(error))

    def checked(self, psi: float) -> float:
        """``psi``, if it is a finite number; an error otherwise."""
        if math.isnan(psi):
            raise InputError(f"{self.name} is not a number on these lists; no user could be judged")
        if math.isinf(psi):
            raise InputError(f"{self.name} is infinite on these lists; a metric must give finite numbers")
        return psi

    @property
    def per_user(self) -> bool:
        """Whether psi may be a mean over users; for a function of your own this is known when it is called."""
        return all(part.per_user for part in self._parts if isinstance(part, Metric))

    @property
    def surely_per_user(self) -> bool:
        """Whether psi is known to be a mean over users, which holds for registered metrics only."""
        return self.per_user and all(isinstance(part, Metric) for part in self._parts)

    @property
    def _parts(self) -> list[Metric | OwnMetric]:
        parts = [*self.goals, *(() if self.accuracy is None else (self.accuracy,))]
        return [parse(part)[0] if isinstance(part, str) else part for part in parts]

    def reward(self, psi: Number, size: Number, n_players: int, error: Number = 0.0) -> Number:
        """The reward of a perturbation.

        Args:
            psi: The value of the lists.
            size: Sum of ``|delta|`` over all players.
            n_players: Number of players.
            error: Standard error of psi. Its square is subtracted, because the square of an estimate is too large by
                the variance on average.
        """
        return psi**2 - error**2 - self.lambda1 * (size if self.penalty == "sum" else size / n_players)


def resolve(metric: MetricLike) -> OwnMetric:
    """The function of a metric's name; a cut in the name ("subtopic_coverage@10") takes the first places of a list."""
    if not isinstance(metric, str):
        return metric
    known, k = parse(metric)
    return known if k is None else AtCut(known, k)


def require_goals(goals: Mapping[MetricLike, float]) -> None:
    """Raise an error unless there is a goal, every goal is a metric, and every weight is a number from 0 up."""
    if not goals:
        raise InputError("diversity needs at least one metric, each with a weight from 0 up")
    for goal, weight in goals.items():
        if not isinstance(goal, (str, Metric)) and not callable(goal):
            raise InputError(f"diversity is {goal!r}; name a metric, or pass a function of lists and context")
        AMOUNT.read(f"the weight of {name_of(goal)}", weight)


def name_of(metric: MetricLike) -> str:
    """The name of a metric, as tables show it."""
    if isinstance(metric, str):
        return metric
    return str(getattr(metric, "name", None) or getattr(metric, "__name__", "own"))


def own_metric(function: OwnMetric, name: str, *, per_user: bool = True) -> Metric:
    """Give a function of your own a name that tables can show.

    ``recprism.metrics.register`` makes it available by that name.

    Args:
        function: f(lists, context) that returns a value per user or one number.
        name: The name to show.
        per_user: Whether it returns a value per user.
    """

    def call(lists: Lists, context: Context) -> Tensor:
        return torch.as_tensor(function(lists, context), dtype=torch.float64)

    return Metric(name, call, per_user=per_user, bounds=(-float("inf"), float("inf")))
