"""Tuning by the same number of trials for every method, on the validation part alone.

For each budget a method has 40 trials: eight choices of settings, drawn by one seeded rule, with five trade-offs each.
A method with fewer choices has more trade-offs. The trade-offs of a choice approach the one that uses up the budget.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recprism.budget.problem import Problem
from recprism.common.checks import random_generator
from recprism.contest.methods import Choice, Method, possible
from recprism.data.sparse_rows import SparseRows
from recprism.errors import InputError
from recprism.metrics.registry import parse

TRIALS = 40
"""Trials of a method for one budget."""
CHOICES = 8
"""Choices of settings that these trials are divided among, if a method has as many."""
USERS = 2000
"""Largest number of users whose validation labels tune."""
FIRST = 0.2  # trade-off of the first trial of a choice
AIM = 0.95  # share of the budget that trade-offs approach
SMALLEST_STEP, LARGEST_STEP = 0.5, 2.5  # of the log-odds of the trade-off, while one side of the budget is missing
INNER = 0.2, 0.8  # part of the interval between both sides in which the next trade-off lies
ENDS = 12.0  # log-odds at which trade-offs end
DRAWS = 23  # makes the draws of choices independent of others with the same seed


@dataclass(frozen=True)
class Trial:
    """One trial of a method, with loss and gains as shares of the base's values.

    Attributes:
        method: Name of the method.
        budget: The budget that it was tried for.
        trade_off: The trade-off.
        choice: The discrete choice.
        loss: Relative loss of the metric of the budget.
        gains: Metric -> relative gain; what should fall counts as gained where it falls.
    """

    method: str
    budget: float
    trade_off: float
    choice: Choice
    loss: float
    gains: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class TuningObjective:
    """The metrics of the trials.

    Attributes:
        cost: The metric of the budget.
        goals: The metrics that should rise, or fall if less is better.
    """

    cost: str = "ndcg@10"
    goals: tuple[str, ...] = (
        "subtopic_coverage@10",
        "alpha_ndcg_relevant@10",
        "ilad_subtopics@10",
        "shown_often@10",
        "gini@10",
    )

    @property
    def names(self) -> tuple[str, ...]:
        """All metrics."""
        return (self.cost, *self.goals)

    def means(self, problem: Problem, lists: NDArray[Any]) -> dict[str, float]:
        """Return metric -> mean over the users."""
        return {name: float(np.nanmean(values)) for name, values in problem.judge(lists, self.names).items()}


def relative_gain(metric: str, new: float, base: float) -> float:
    """Return the change as a share of the base; a fall of Gini is a gain. 0 if the base is 0."""
    sign = 1.0 if parse(metric)[0].higher_is_better else -1.0
    return sign * (new / base - 1) if base else 0.0


class TuningUsers:
    """The problems that tune: at most ``USERS`` users with labels, drawn by seed.

    A method whose lists depend on each other makes them for all users, because their number matters. The labels of the
    same drawn users measure its loss.

    Args:
        validation: The problem of the validation part.
        users: Largest number of users.
    """

    def __init__(self, validation: Problem, users: int = USERS) -> None:
        self._whole = validation
        labelled = np.flatnonzero(validation.split.part(validation.part).row_counts)
        self.rows = labelled
        if len(labelled) > users:
            self.rows = np.sort(random_generator(0, DRAWS).choice(labelled, users, replace=False))

    @cached_property
    def alone(self) -> Problem:
        """The drawn users alone."""
        whole = self._whole
        split = whole.split.of_users(self.rows)
        return Problem(whole.base.of_users(self.rows), split, whole.categories, whole.part, whole.k)

    @cached_property
    def together(self) -> Problem:
        """All users, with the labels of the drawn ones."""
        whole = self._whole
        labels = whole.split.part(whole.part)
        kept = np.isin(labels.row_of_entry, self.rows)
        pairs = SparseRows.from_pairs(labels.row_of_entry[kept], labels.indices[kept].astype(np.int64), labels.shape)
        drawn: dict[str, Any] = {whole.part: pairs}
        return Problem(whole.base, replace(whole.split, **drawn), whole.categories, whole.part, whole.k)

    def of(self, method: Method) -> Problem:
        """Return the problem that tunes a method."""
        return self.together if method.together else self.alone


def drawn_choices(method: Method, budget: float, trials: int = TRIALS) -> list[tuple[Choice, int]]:
    """Return the choices that are tried for a budget, and how many trade-offs each has; they add up to ``trials``.

    The draw depends on the budget and on the number of choices alone: methods with as many choices have the same.
    """
    order = random_generator(0, DRAWS, round(1e6 * budget)).permutation(len(method.space))[:CHOICES]
    each, more = divmod(trials, len(order))
    return [(method.space[at], each + (place < more)) for place, at in enumerate(order)]


def tune(
    method: Method,
    users: TuningUsers,
    budgets: Sequence[float],
    objective: TuningObjective | None = None,
    trials: int = TRIALS,
) -> list[Trial]:
    """Try a method for each budget.

    Args:
        method: The method to tune.
        users: The users who tune it.
        budgets: Shares of the cost metric that may be lost.
        objective: The metrics.
        trials: Number of trials for each budget.

    Raises:
        InputError: If the base lists have no accuracy.
    """
    objective, problem = objective or TuningObjective(), users.of(method)
    method = possible(method, problem)
    base = problem.once(("base", objective), lambda: objective.means(problem, problem.base_lists))
    if not base[objective.cost] > 0:
        raise InputError(f"the base lists have {objective.cost} = 0; there is no accuracy to keep a budget of")
    tried: list[Trial] = []
    for budget in budgets:
        for choice, number in drawn_choices(method, budget, trials):
            points: list[tuple[float, float]] = []
            for _ in range(number):
                trade_off = next_trade_off(points, budget)
                if any(trade_off == before for before, _ in points):  # the end of the scale keeps the budget
                    break
                means = objective.means(problem, method(problem, trade_off, choice))
                loss = 1 - means[objective.cost] / base[objective.cost]
                gains = {name: relative_gain(name, means[name], base[name]) for name in objective.goals}
                tried.append(Trial(method.name, budget, trade_off, choice, loss, gains))
                points.append((trade_off, loss))
    return tried


def next_trade_off(points: Sequence[tuple[float, float]], budget: float) -> float:
    """Return the trade-off to try next: where the loss would meet the budget.

    Losses grow with the trade-off. Between the largest trade-off within the budget and the smallest beyond it, the
    logarithm of the loss is interpolated over the log-odds of the trade-off. Where a loss has no logarithm, the middle
    is taken. While one side is missing, the loss is taken to be proportional to the odds.

    Args:
        points: Pairs (trade-off, loss) tried so far.
        budget: Share of the cost metric that may be lost.

    >>> next_trade_off([], 0.01)
    0.2
    >>> round(next_trade_off([(0.2, 0.02)], 0.01), 3)  # too much was lost
    0.106
    """
    if not points:
        return FIRST
    aim = AIM * budget
    lower = max((point for point in points if point[1] <= aim), default=None)
    beyond = [point for point in points if point[1] > aim and (lower is None or point[0] > lower[0])]
    upper = min(beyond, default=None)
    if lower is None or upper is None:
        trade_off, loss = upper or lower or (FIRST, aim)
        step = abs(math.log(aim / loss)) if loss > 0 else LARGEST_STEP
        step = min(max(step, SMALLEST_STEP), LARGEST_STEP)
        x = _log_odds(trade_off) + (step if upper is None else -step)
    else:
        share = 0.5
        if lower[1] > 0:
            share = (math.log(aim) - math.log(lower[1])) / (math.log(upper[1]) - math.log(lower[1]))
        low, high = _log_odds(lower[0]), _log_odds(upper[0])
        x = low + min(max(share, INNER[0]), INNER[1]) * (high - low)
    return 1 / (1 + math.exp(-min(max(x, -ENDS), ENDS)))


def _log_odds(trade_off: float) -> float:
    return math.log(trade_off / (1 - trade_off))


def best_within(tried: Sequence[Trial], budget: float, goal: str) -> Trial | None:
    """Return the trial for a budget that keeps it and gains most; None if none keeps it."""
    allowed = [it for it in tried if it.budget == budget and it.loss <= budget]
    return max(allowed, key=lambda it: it.gains[goal], default=None)
