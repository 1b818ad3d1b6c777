"""The path towards a goal with the figures of every point, from which any budget is answered at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from recprism.budget.audit import COST
from recprism.budget.certifying import smallest_budgets
from recprism.budget.path import Path, PathPoint, deciding_part, lists_at, point_of, require_labels
from recprism.budget.problem import Problem
from recprism.common.progress import ProgressCallback, count_steps
from recprism.data.split import Part
from recprism.metrics.registry import with_gini
from recprism.rule.goal import Goal, Words
from recprism.rule.limits import limit_of

METRICS = with_gini(
    (COST, "recall@10", "subtopic_coverage@10", "alpha_ndcg@10", "ilad_subtopics@10", "catalogue_coverage@10")
)
OF_LABELS = (COST, "recall@10")
OF_CATEGORIES = ("subtopic_coverage@10", "alpha_ndcg@10", "ilad_subtopics@10")


@dataclass(frozen=True, eq=False)
class StoredPath:
    """A path with the figures of every point.

    Attributes:
        goal: What to raise.
        trade_offs: ``(n,)`` 0 first.
        lists: ``(n, n_users, k)`` item numbers, -1 in places without an item.
        means: Metric -> ``(n,)`` means of these lists, on the test part.
        losses: ``(n,)`` losses of NDCG@10 on the part that certifies; None without labels.
        certified_within: ``(n,)`` the smallest budget that certifies the point and all before it, as the only question.
        confidence: Of a certificate.
        part: The part that certifies.
        users: How many users of it are judged.
    """

    goal: Goal
    trade_offs: tuple[float, ...]
    lists: NDArray[np.int32] = field(repr=False)
    means: dict[str, tuple[float, ...]]
    losses: tuple[float, ...] | None
    certified_within: tuple[float, ...] | None
    confidence: float
    part: Part
    users: int

    @property
    def metric(self) -> str:
        """What the (first) goal is measured by."""
        return self.goal.metrics(self.lists.shape[2])[0]

    def change(self, metric: str, point: int) -> float | None:
        """Return the relative change against the base lists; None if these have 0."""
        before = self.means[metric][0]
        return self.means[metric][point] / before - 1 if before else None

    def reach(self, budget: float, *, certified: bool = True) -> int:
        """Return the furthest point that keeps a budget of NDCG@10.

        Args:
            budget: A share of NDCG@10.
            certified: The budget must certify it and every point before it. Otherwise its own measured loss must be
                within it. Without labels nothing is known to keep a budget, so the answer is 0.
        """
        if self.certified_within is None or self.losses is None:
            return 0
        if certified:
            return int((np.asarray(self.certified_within) <= budget).sum()) - 1
        return max(at for at, loss in enumerate(self.losses) if loss <= budget)


def make_path(
    problem: Problem, goal: Words, *, confidence: float = 0.95, on_step: ProgressCallback | None = None
) -> StoredPath:
    """Walk the whole path.

    Args:
        problem: What is served; every point is judged on its part.
        goal: What to raise, as in :meth:`recprism.rule.Goal.parse`.
        confidence: Of the bounds of the losses, which the certifying part judges.
        on_step: Receives how many points are done, and how many there are.
    """
    goal = Goal.parse(goal)
    require_labels(goal, problem)
    names = _metrics(problem, goal)
    part = deciding_part(problem.split, problem.part)
    judge = problem.on(part)
    step = count_steps(on_step, "walking the path", len(goal.steps) * (1 if judge is problem else 2))
    deciding = _points(judge, goal, names if judge is problem else (COST,), step)
    # The limit of a step is that of the part which certifies, as in `within_budget`.
    limits = {it.trade_off: limit_of(it.possible_loss(deciding[0], COST)) for it in deciding}
    points = deciding if judge is problem else _points(problem, goal, names, step, limits)
    problem.keep_path(goal)
    losses, within, users = None, None, problem.base.n_users
    if COST in deciding[0].values:
        losses, within, users = _price(Path(goal, deciding[0], tuple(deciding), part, judge.clusters), confidence)
    means = {name: tuple(point.mean(name) for point in points) for name in names}
    lists = np.stack([point.lists for point in points]).astype(np.int32)
    trade_offs = tuple(point.trade_off for point in points)
    return StoredPath(goal, trade_offs, lists, means, losses, within, confidence, part, users)


def _points(
    problem: Problem,
    goal: Goal,
    metrics: tuple[str, ...],
    on_point: Callable[[], None],
    limits: Mapping[float, float] | None = None,
) -> list[PathPoint]:
    """Return the base and the points of the path; ``limits``: trade-off -> the largest loss that a list may allow."""
    points = [point_of(problem, problem.base_lists, 0.0, metrics)]
    for trade_off in goal.steps:
        lists = lists_at(problem, goal, trade_off)
        if limits is not None:
            lists = problem.within_limits({COST: limits[trade_off]}, lists)
        points.append(point_of(problem, lists, trade_off, metrics))
        on_point()
    return points


def _price(path: Path, confidence: float) -> tuple[tuple[float, ...], tuple[float, ...], int]:
    """Return what every point loses, the smallest budget that certifies it, and how many users judge it."""
    losses, budgets = smallest_budgets(path.question({COST: 0.5}), COST, confidence=confidence)
    return tuple(losses), tuple(budgets), int((~np.isnan(path.base.values[COST])).sum())


def _metrics(problem: Problem, goal: Goal) -> tuple[str, ...]:
    """Return the metrics that labels and categories allow, with the goal among them."""
    missing = set() if len(problem.split.part(problem.part)) else set(OF_LABELS)
    missing |= set() if len(problem.categories) else set(OF_CATEGORIES)
    return with_gini(name for name in dict.fromkeys((*METRICS, *goal.metrics(problem.k))) if name not in missing)
