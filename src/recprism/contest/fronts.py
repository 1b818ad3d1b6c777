"""The front of one run: ours and every rival, tuned on validation, evaluated once on the test part."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recprism.budget.path import require_possible
from recprism.budget.popularity import POPULARITY
from recprism.budget.problem import Problem
from recprism.common.executor import Executor, LocalExecutor
from recprism.contest.methods import GREEDY, OURS, RIVALS, Method, greedy, ours, possible, possible_rivals
from recprism.contest.tuning import TuningObjective, TuningUsers, best_within, relative_gain, tune
from recprism.metrics.registry import with_gini
from recprism.models.popularity import popularity
from recprism.rule.goal import Goal

BUDGETS = (0.005, 0.01, 0.02, 0.05, 0.1)
Arrays = list[NDArray[Any]]


@dataclass(frozen=True)
class FrontPoint:
    """Loss and gain of a method on the test part, for a budget that it kept on validation.

    Attributes:
        budget: The budget; None for popularity, which has none.
        loss: Relative loss of NDCG@10.
        gain: Relative gain in the goal; for Gini, how far it fell.
        p_value: Two-sided p-value of the difference to ours; None if it cannot be tested.
        gini: Relative change of the Gini index of exposure, for catalogue coverage; None for other goals.
    """

    budget: float | None
    loss: float
    gain: float
    p_value: float | None
    gini: float | None = None

    @property
    def keeps_budget(self) -> bool:
        """Whether the loss on the test part is within the budget."""
        return self.budget is not None and self.loss <= self.budget


@dataclass(frozen=True)
class Front:
    """The front of one method.

    Attributes:
        method: Name of the method.
        points: One point per budget.
        hypervolume: Area under the points up to the largest budget, in percent times percent.
    """

    method: str
    points: tuple[FrontPoint, ...]
    hypervolume: float

    @property
    def is_ours(self) -> bool:
        """Whether the method is the rule of recprism."""
        return self.method.startswith(OURS)

    def at(self, budget: float) -> FrontPoint | None:
        """Return the point for a budget; None if no setting kept it on validation."""
        return next((point for point in self.points if point.budget == budget), None)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def winner(fronts: Sequence[Front], budget: float) -> Front | None:
    """Return the front with the largest gain among those that keep the budget on the test part; None without a point.

    If none keeps it there, all compete. The choice is made on the test part; a tie goes to the first.
    """
    points = [(front, point) for front in fronts if (point := front.at(budget)) is not None]
    kept = [(front, point) for front, point in points if point.keeps_budget]
    return max(kept or points, key=lambda pair: pair[1].gain)[0] if points else None


def frontier(
    validation: Problem,
    test: Problem,
    goal: Goal,
    *,
    budgets: Sequence[float] = BUDGETS,
    rivals: Sequence[str] | None = None,
    on_method: Callable[[str], None] | None = None,
    executor: Executor | None = None,
) -> list[Front]:
    """Compute the fronts of ours, of every rival and of popularity, in this order.

    Args:
        validation: The problem on which methods are tuned.
        test: The problem on which they are evaluated.
        goal: A goal of the rule, or a goal of exposure. Gains are those of its first metric.
        budgets: Shares of NDCG@10 that may be lost.
        rivals: Names of the rivals; None for all that work with these data.
        on_method: Receives the name of each method.
        executor: Where methods are tuned, such as ``recprism.parallel.RayExecutor()``; this process by default.

    Raises:
        InputError: If there are no labels, or if the goal or a rival needs categories and there are none.
    """
    require_possible(goal, test.categories)
    for judged in (validation, test):
        judged.split.require_labels(judged.part, "a front")
    objective = TuningObjective(goals=goal.metrics(test.k)[:1])
    base = test.judge(test.base_lists, with_gini(objective.names))
    fronts: list[Front] = []
    mine: dict[float, NDArray[np.float64]] = {}
    named = possible_rivals(test.categories) if rivals is None else rivals
    rival = {GREEDY: greedy(goal), **RIVALS}
    methods = tuple(possible(it, test) for it in (ours(goal), *(rival[name] for name in named)))
    with executor or LocalExecutor() as workers:
        found = workers.map(_on_test, (TuningUsers(validation), test, tuple(budgets), objective), methods)
        for method in methods:
            if on_method is not None:
                on_method(method.name)
            values = next(found)
            points = tuple(_point(budget, values[budget], base, mine, objective) for budget in values)
            if not fronts:
                mine.update({budget: it[objective.goals[0]] for budget, it in values.items()})
            fronts.append(Front(method.name, points, hypervolume([(it.loss, it.gain) for it in points], max(budgets))))
    fronts.append(_popularity(test, base, objective))
    return fronts


def _popularity(test: Problem, base: dict[str, NDArray[np.float64]], objective: TuningObjective) -> Front:
    """Return the point of the non-personalised popularity baseline, which has no trade-off."""
    lists, _ = popularity(test.split).rank(test.k, exclude=test.seen)
    return Front(POPULARITY, (_point(None, test.judge(lists, with_gini(objective.names)), base, {}, objective),), 0.0)


def _on_test(
    shared: tuple[TuningUsers, Problem, tuple[float, ...], TuningObjective], method: Method
) -> dict[float, dict[str, NDArray[np.float64]]]:
    """Tune on validation for each budget and evaluate on the test part."""
    users, test, budgets, objective = shared
    tried = tune(method, users, budgets, objective)
    picks = {budget: best_within(tried, budget, objective.goals[0]) for budget in budgets}
    return {
        budget: test.judge(method(test, it.trade_off, it.choice), with_gini(objective.names))
        for budget, it in picks.items()
        if it is not None
    }


def _point(
    budget: float | None,
    values: dict[str, NDArray[np.float64]],
    base: dict[str, NDArray[np.float64]],
    ours: dict[float, NDArray[np.float64]],
    objective: TuningObjective,
) -> FrontPoint:
    means = {name: (float(np.nanmean(values[name])), float(np.nanmean(base[name]))) for name in values}
    goal = objective.goals[0]
    mine = None if budget is None else ours.get(budget)
    p_value = paired([mine], [values[goal]])[0] if mine is not None and len(values[goal]) > 1 else None
    changes = {name: new / old - 1 for name, (new, old) in means.items()}
    gini = next((change for name, change in changes.items() if name.startswith("gini@") and name != goal), None)
    return FrontPoint(budget, -changes[objective.cost], relative_gain(goal, *means[goal]), p_value, gini)


def hypervolume(points: Sequence[tuple[float, float]], limit: float) -> float:
    """Return the area that points dominate, in percent squared.

    Args:
        points: Pairs (loss, gain).
        limit: Largest loss.

    >>> hypervolume([(0.0, 0.1), (0.05, 0.3)], 0.1)  # 5 % x 10 % + 5 % x 30 %
    200.0
    """
    area, best, before = 0.0, 0.0, 0.0
    for loss, gain in sorted((max(loss, 0.0), gain) for loss, gain in points if loss <= limit):
        area += best * (loss - before)
        best, before = max(best, gain), loss
    return round(1e4 * (area + best * (limit - before)), 9)


def units_of(differences: Arrays) -> NDArray[np.float64]:
    """Return the independent differences: of users, averaged over seeds, or of seeds."""
    if len(differences[0]) == 1:
        units = np.concatenate(differences)
    else:
        stacked = np.stack(differences)
        units = np.nanmean(stacked[:, ~np.isnan(stacked).all(0)], 0)
    return np.asarray(units[~np.isnan(units)], np.float64)


def paired(ours: Arrays, theirs: Arrays) -> tuple[float, float]:
    """Test the difference of two methods, paired by user, or by seed for a metric with one value.

    Args:
        ours: One array of values per seed.
        theirs: The same for the other method.

    Returns:
        The two-sided p-value and the mean of ours minus theirs; users are averaged over the seeds first.
    """
    from scipy import stats

    by_unit = units_of([a.astype(np.float64) - b for a, b in zip(ours, theirs, strict=True)])
    if len(by_unit) < 2 or not np.ptp(by_unit) > 0:
        settled = len(by_unit) > 1 and by_unit[0] != 0
        return (0.0 if settled else 1.0), float(by_unit.mean()) if len(by_unit) else 0.0
    return float(stats.ttest_1samp(by_unit, 0.0).pvalue), float(by_unit.mean())
