"""The path from the base lists to more and more diverse ones.

No label is used to make the path: base scores stand in for accuracy. Held-out labels are therefore new to it, and can
certify how far a budget reaches. The audit, a certified budget, the report, the studio and the demo read the same path:
the lists of a problem are computed once (:meth:`recprism.budget.Problem.known_lists`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from recprism.budget.certificate import Certificate
from recprism.budget.certifying import Question, certify_together
from recprism.budget.evidence import possible_losses
from recprism.budget.problem import DEPTH, Lists, Problem, Ranker
from recprism.common.executor import Executor, LocalExecutor
from recprism.common.log import phase
from recprism.common.shares import Share
from recprism.data.categories import Categories
from recprism.data.split import Part, Split
from recprism.errors import InputError
from recprism.metrics.registry import parse
from recprism.rule.boosts import BoostSearch
from recprism.rule.goal import TERMS, Goal, Words
from recprism.rule.list_search import goal_units
from recprism.rule.rule import Rule

HISTORY_WEIGHT = 0.2
"""Weight of filling the categories of the user's own history. It matters little on MovieLens, where scores are good,
and much on sparse data (docs/frontier.md). It is fixed, so that no label is spent on it."""

Values = dict[str, NDArray[np.float64]]


class Compile(Protocol):
    """Compiles the lists that a rule makes in a context into something else that ranks."""

    def compile(self, problem: Problem, rule: Rule) -> Ranker:
        """Return what ranks."""

    def to_dict(self) -> dict[str, Any]:
        """Return how it compiles, in plain values."""


@dataclass(frozen=True, eq=False)
class PathPoint:
    """Lists at one trade-off, and what they are worth to every user.

    Attributes:
        trade_off: From 0, the base lists, towards 1, diversity alone.
        lists: ``(n_users, k)`` item numbers.
        values: Metric -> ``(n_users,)`` values on the held-out labels.
        judged: Metric -> the lists that the values judge, as long as its cut; ``lists`` for metrics that are not in it.
    """

    trade_off: float
    lists: Lists = field(repr=False)
    values: Values = field(repr=False)
    judged: Mapping[str, Lists] = field(default_factory=dict, repr=False)
    _losses: dict[str, tuple[PathPoint, NDArray[np.float64]]] = field(default_factory=dict, init=False, repr=False)

    def possible_loss(self, base: PathPoint, metric: str) -> NDArray[np.float64]:
        """Return ``(n_users,)`` the largest loss of a metric that the lists of each user allow.

        It is computed once: several budgets ask for it.
        """
        if metric not in self._losses or self._losses[metric][0] is not base:
            before, after = (it.judged.get(metric, it.lists) for it in (base, self))
            self._losses[metric] = base, possible_losses(before, after, metric)
        return self._losses[metric][1]

    def mean(self, metric: str) -> float:
        """Return the mean over the users who can be judged."""
        return float(np.nanmean(self.values[metric]))


@dataclass(frozen=True, eq=False)
class Path:
    """Lists from the base to more and more diverse ones, optimal for a goal at each trade-off.

    Attributes:
        goal: What to raise.
        base: The lists of the model as it is.
        points: The other points, nearest to the base first.
        part: The part whose labels judged.
        clusters: ``(n_users,)`` the cluster of each user; None if users are independent.
        has_limits: Whether a list that could lose more than a limit is replaced by the base list. Lists that were
            compiled are served as they are.
    """

    goal: Goal
    base: PathPoint
    points: tuple[PathPoint, ...]
    part: Part
    clusters: NDArray[np.int64] | None = field(default=None, repr=False)
    has_limits: bool = True

    def change(self, point: PathPoint, metric: str) -> float | None:
        """Return the relative change against the base; None if the base is 0."""
        before = self.base.mean(metric)
        return point.mean(metric) / before - 1 if before else None

    def question(self, budgets: Mapping[str, Share], weight: float = 1.0) -> Question:
        """Return the question which points keep all budgets.

        Args:
            budgets: Metric -> the share of it that may be lost.
            weight: Its share of the allowed error, relative to other questions on the same labels.
        """
        possible = None
        if self.has_limits:
            possible = [{name: it.possible_loss(self.base, name) for name in budgets} for it in self.points]
        return Question(self.base.values, [it.values for it in self.points], budgets, possible, weight, self.clusters)

    def certificate(self, budgets: Mapping[str, Share], *, confidence: Share = 0.95) -> Certificate:
        """Test which points keep all budgets.

        Args:
            budgets: Metric -> the share of it that may be lost.
            confidence: For all points together.
        """
        return certify_together([self.question(budgets)], confidence=confidence, part=self.part)[0]


def require_certifiable(metric: str) -> str:
    """Return the name of a metric that can be certified: one with a value for each user."""
    if not parse(metric)[0].per_user:
        raise InputError(
            f"{metric} has one value for all users together, so no test on users can certify it; choose a metric with "
            "a value for each user, such as recall@20"
        )
    return metric


def require_possible(goal: Goal, categories: Categories) -> None:
    """Refuse a goal of categories if the items have none."""
    term = goal.needing("categories")
    if term is not None and not len(categories):
        others = [it.name for it in TERMS.values() if "categories" not in it.needs and not it.is_exposure]
        raise InputError(
            f"the goal {term.name} needs categories of the items and there are none; choose "
            f"{' or '.join(others)}, or make the run again with --items FILE --category-column NAME"
        )


def require_labels(goal: Goal, problem: Problem) -> None:
    """Refuse a goal whose metric counts held-out items if the problem has none."""
    term = goal.needing("labels")
    if term is not None and not len(problem.split.part(problem.part)):
        raise InputError(
            f"the goal {term.name} is measured by held-out interactions and there are none; choose another goal, such "
            "as alpha_ndcg or subtopic_coverage"
        )


def deciding_part(split: Split, otherwise: Part) -> Part:
    """Return the part that certifies by default: validation, so that the test part is left to judge the choice."""
    return "validation" if len(split.validation) else otherwise


def lists_at(problem: Problem, goal: Words, trade_off: float) -> Lists:
    """Return ``(n_users, k)`` optimal lists at a trade-off; the problem remembers them."""
    goal = Goal.parse(goal)
    known = problem.known_lists(goal)
    if trade_off not in known:
        known[trade_off] = problem.lists_by(rule_at(problem, goal, trade_off))
    return known[trade_off]


def weighs_history(problem: Problem, goal: Goal) -> bool:
    """Whether the rule of a goal looks at the user's history; exposure alone does not, and it takes categories."""
    return bool(goal.searched) and len(problem.seen) > 0 and problem.categories.items.n_cols > 0


def rule_at(problem: Problem, goal: Words, trade_off: float) -> Rule:
    """Return the rule of a path's point.

    The boosts of exposure goals are found in the context of the part that certifies by default (``deciding_part``).
    They belong to the rule: every other context uses the same ones.
    """
    goal = Goal.parse(goal)
    require_possible(goal, problem.categories)
    term = goal.exposure
    if goal.needing("vectors") is not None:
        _ = problem.factors  # refuses scores without vectors
    sizes = (problem.k, problem.base.n_users, problem.base.n_items)
    rule = Rule(
        goals=goal.weights,
        trade_off=trade_off,
        history_weight=HISTORY_WEIGHT if weighs_history(problem, goal) else 0.0,
        history_window=problem.history_window if weighs_history(problem, goal) else None,
        units=problem.once(("units", goal), lambda: goal_units(goal.searched, problem.features, *sizes)),
        k=problem.k,
        candidates=DEPTH,
    )
    if term is None:
        return rule
    judge = problem.on(deciding_part(problem.split, problem.part))
    weight = goal.weights[term.name]
    search = judge.once(("boost search", term.name, weight), lambda: _boost_search(judge, term.name, weight))
    method = rule.reranker() if goal.searched else None
    boosts = judge.once(("boosts", goal, trade_off), lambda: search.at(trade_off, method, judge.features))
    return replace(rule, boosts=boosts.boost)


def _boost_search(problem: Problem, goal: str, weight: float) -> BoostSearch:
    """Return the search for the boosts of a path.

    Constraints are not used to find boosts; the rule keeps them when it runs on boosted scores.
    """
    about: dict[str, Any] = {"goal": goal, "weight": weight, "n_items": problem.base.n_items, "range_depth": DEPTH}
    return BoostSearch(*problem.candidates, problem.k, **about)


@phase("walking the path", __name__)
def walk(
    problem: Problem,
    goal: Words,
    metrics: Sequence[str],
    trade_offs: Sequence[float] | None = None,
    executor: Executor | None = None,
    on_point: Callable[[], None] = lambda: None,
    ends: Callable[[Path], bool] | None = None,
    through: Compile | None = None,
) -> Path:
    """Walk a path and judge every point.

    A walk that may end is one that certifies: its points are those of :func:`served_point`. The problem remembers the
    lists; :meth:`Problem.keep_path` stores them when those of every part are made.

    Args:
        problem: What is served.
        goal: What to raise, such as "sc", "sc+ilad" or "sc=2,ilad=1".
        metrics: Names with cuts.
        trade_offs: The points; those of the goal by default.
        executor: Where the points are made; this process by default.
        on_point: Called after each point.
        ends: Receives the path with each new point alone; returns whether the walk ends there.
        through: Compiles the rule of each point; its lists are judged instead of the rule's. They have no limit, and
            this process makes them.
    """
    goal = Goal.parse(goal)
    certifies = ends is not None
    base = served_base(problem, tuple(metrics)) if certifies else point_of(problem, problem.base_lists, 0.0, metrics)
    steps = goal.steps if trade_offs is None else trade_offs
    shared = problem, goal, tuple(metrics), certifies
    runner = executor or LocalExecutor()
    about: dict[str, Any] = {"part": problem.part, "clusters": problem.clusters, "has_limits": through is None}
    made = _made(runner, shared, steps, on_point)
    if through is not None:
        made = _compiled(shared, steps, through, on_point)
    points: list[PathPoint] = []
    for point in made:
        points.append(point)
        if ends is not None and ends(Path(goal, base, (point,), **about)):
            break
    if through is not None:
        return Path(goal, base, tuple(points), **about)
    known = problem.known_lists(goal)
    if any(point.trade_off not in known for point in points):  # made by another process
        known.update({point.trade_off: point.lists for point in points})
    return Path(goal, base, tuple(points), **about)


def _made(
    runner: Executor, shared: _Shared, steps: Sequence[float], on_point: Callable[[], None]
) -> Iterator[PathPoint]:
    """Yield the points of a path, several of them made at a time."""
    ready = None if shared[1].exposure is not None else _ready  # boosts of one trade-off begin with those of another
    size = _at_once(shared, len(steps)) if ready is not None and runner.in_process else len(steps)
    for start in range(0, len(steps), max(size, 1)):
        yield from runner.map(_point, shared, steps[start : start + size], before_threads=ready, on_done=on_point)


def _at_once(shared: _Shared, n_steps: int) -> int:
    """Return how many points threads make at a time; a walk that may end makes few beyond its end.

    Where users are tied together, one thread makes a point. Else all threads share the search of its lists, and while
    one point is checked and judged, by one thread, the lists of another one are searched.
    """
    _, goal, _, certifies = shared
    threads = torch.get_num_threads()
    if not goal.ties_users:
        return min(2, threads)
    return threads if certifies else n_steps


def _ready(shared: _Shared) -> None:
    """Compute what all points need, before threads ask for it at the same time."""
    problem, goal = shared[:2]
    _ = problem.features, problem.candidates, problem.context, problem.known_lists(goal)


def _compiled(
    shared: _Shared, steps: Sequence[float], through: Compile, on_point: Callable[[], None]
) -> Iterator[PathPoint]:
    """Yield the points of a path whose lists are compiled."""
    problem, goal, metrics, certifies = shared
    for trade_off in steps:
        if certifies:
            yield served_point(problem, goal, trade_off, metrics, through)
        else:
            lists = problem.rank(through.compile(problem, rule_at(problem, goal, trade_off)))[0]
            yield point_of(problem, lists, trade_off, metrics)
        on_point()


def _point(shared: _Shared, trade_off: float) -> PathPoint:
    problem, goal, metrics, certifies = shared
    if certifies:
        return served_point(problem, goal, trade_off, metrics)
    return point_of(problem, lists_at(problem, goal, trade_off), trade_off, metrics)


def point_of(problem: Problem, lists: Lists, trade_off: float, metrics: Sequence[str]) -> PathPoint:
    """Judge lists as a point of a path."""
    return PathPoint(trade_off, lists, problem.judge(lists, tuple(metrics)))


def served_base(problem: Problem, metrics: tuple[str, ...]) -> PathPoint:
    """Return the base of a path that is certified: every metric judges lists as long as its cut.

    The problem remembers it, because the paths of all goals have the same.
    """
    return problem.once(("served base", metrics), lambda: served_by(problem, problem.base, 0.0, metrics))


def served_point(
    problem: Problem, goal: Goal, trade_off: float, metrics: tuple[str, ...], through: Compile | None = None
) -> PathPoint:
    """Return a point of a path that is certified: the lists of the rule, as long as the cut of each metric.

    Known lists are not made again. With ``through``, the lists are those of the compiled rule.
    """
    if through is not None:
        return served_by(problem, through.compile(problem, rule_at(problem, goal, trade_off)), trade_off, metrics)
    cuts = [int(name.partition("@")[2]) for name in metrics]
    depth = max(cuts)
    if problem.constraints and any(cut != problem.k for cut in cuts):
        return served_by(problem, rule_at(problem, goal, trade_off), trade_off, metrics)
    if depth <= problem.k:
        return point_of(problem, lists_at(problem, goal, trade_off), trade_off, metrics)
    lists = problem.rank(rule_at(problem, goal, trade_off), depth)[0]
    judged = point_of(problem, lists, trade_off, metrics)
    return replace(judged, lists=lists[:, : problem.k], judged=dict.fromkeys(metrics, lists))


def served_by(problem: Problem, model: Ranker, trade_off: float, metrics: tuple[str, ...]) -> PathPoint:
    """Return a point whose lists vectors or a rule make; every metric judges lists as long as its cut."""
    cuts = {name: int(name.partition("@")[2]) for name in metrics}
    by_cut = {cut: problem.rank(model, cut)[0] for cut in {problem.k, *cuts.values()}}
    values = problem.evaluate(model, metrics, bootstrap=0).values
    judged = {name: by_cut[cut] for name, cut in cuts.items()}
    return PathPoint(trade_off, by_cut[problem.k], {name: values[name] for name in metrics}, judged)


_Shared = tuple[Problem, Goal, tuple[str, ...], bool]
"""What the points of a path share: problem, goal, metrics, and whether they certify."""
