"""The audit of a trained model: what diversity would cost. Nothing is trained or changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from recprism.budget._answers import Answer, answers_of
from recprism.budget.certificate import APPROXIMATE, Certificate
from recprism.budget.path import Path, PathPoint, point_of, require_labels, require_possible, walk
from recprism.budget.popularity import with_popularity
from recprism.budget.problem import Problem
from recprism.budget.question import BudgetQuestion
from recprism.budget.segments import SegmentTable, by_segment, exposure_by_segment, item_segments, user_segments
from recprism.common.display import Displayed
from recprism.common.executor import Executor, LocalExecutor
from recprism.common.progress import ProgressCallback, count_steps
from recprism.common.shares import Share, share
from recprism.errors import InputError
from recprism.metrics import Evaluation, evaluate
from recprism.metrics.registry import with_gini
from recprism.rule.goal import Goal

if TYPE_CHECKING:
    import polars as pl

COST = "ndcg@10"
GUARDS = ("recall@20", "hit_rate@5")
BUDGETS = (0.01, 0.05)
GOALS = ("subtopic_coverage", "ilad_subtopics", "catalogue_coverage")
WITHOUT_CATEGORIES = ("ilad", "catalogue_coverage")


@dataclass(frozen=True, eq=False)
class BudgetStop:
    """How far along a path a budget reaches.

    Attributes:
        question: The goal and its budgets.
        measured: The furthest point of the audit's path whose measured loss keeps the budget; None if no point does.
        certified: The furthest certified point; None if no point is certified.
        certificate: Of the part whose labels certify.
    """

    question: BudgetQuestion
    measured: PathPoint | None
    certified: PathPoint | None
    certificate: Certificate

    @property
    def budget(self) -> float:
        """The share of NDCG@10 that may be lost."""
        return self.question.budgets[COST]


@dataclass(frozen=True, eq=False, repr=False)
class Audit(Displayed):
    """What the lists are like now, what more diverse lists would cost, and who would pay.

    Attributes:
        now: The lists of the model as it is.
        paths: Goal -> path.
        stops: Goal -> how far each budget reaches; empty without labels.
        shown: The point that ``payers`` and ``exposure`` are about.
        shown_for: In words, the budget of that point and what says that the point keeps it; "" without labels.
        payers: Changes of NDCG@10 by segments of users.
        exposure: Changes of exposure by segments of items.
        certified: Whether there are labels to certify by.
        confidence: Of all certificates together.
    """

    now: Evaluation
    paths: Mapping[Goal, Path]
    stops: Mapping[Goal, tuple[BudgetStop, ...]]
    shown: PathPoint | None
    shown_for: str
    payers: SegmentTable | None
    exposure: SegmentTable | None
    certified: bool
    confidence: float

    def to_frame(self) -> pl.DataFrame:
        """Return one row per measured point: relative changes, and the smallest budget that certifies it."""
        import polars as pl

        rows: list[dict[str, Any]] = []
        for goal, path in self.paths.items():
            certified = self.certified_for(goal)
            rows += [
                {
                    "goal": str(goal),
                    "trade_off": point.trade_off,
                    **{name: path.change(point, name) for name in path.base.values},
                    "certified_for": certified.get(point.trade_off),
                }
                for point in path.points
            ]
        return pl.DataFrame(rows, infer_schema_length=None)

    def certified_for(self, goal: Goal) -> dict[float, float]:
        """Return trade-off -> the smallest budget that certifies the point; points without one are left out."""
        found: dict[float, float] = {}
        for stop in self.stops[goal]:  # smallest budget first; a budget certifies all points up to its last one
            for point in self.paths[goal].points:
                if stop.certified is not None and point.trade_off <= stop.certified.trade_off:
                    found.setdefault(point.trade_off, stop.budget)
        return found

    def _facts(self) -> dict[str, Any]:
        best = {str(goal): next((it for it in self.stops[goal][::-1] if it.certified), None) for goal in self.paths}
        said = {
            goal: "nothing certified" if it is None else f"certified up to {100 * it.budget:g} % of {COST}"
            for goal, it in best.items()
        }
        return said if self.certified else dict.fromkeys(best, "no labels to certify by")

    def sentences(self) -> list[str]:
        """Return the audit in words: what each budget achieves, and who pays."""
        said = []
        for goal, path in self.paths.items():
            metric = goal.metrics(path.base.lists.shape[1])[0]
            said += [_in_words(path, metric, stop) for stop in self.stops[goal]]
        said += self._together()
        said += self.who_pays()
        if not self.certified:
            said.append("There are no held-out interactions: what diversity costs in accuracy is not known here.")
        return said

    def who_pays(self) -> list[str]:
        """Return who pays, and at which budget, in words; nothing without labels."""
        if self.payers is None:
            return []
        return [f"{self.payers.sentence().removesuffix('.')} (at {self.shown_for})."]

    def _together(self) -> list[str]:
        """Say what the confidence is about, if several questions share it."""
        certificates = [it.certificate for of in self.stops.values() for it in of]
        if len(certificates) < 2 or not any(it.last is not None for it in certificates):
            return []
        sure = replace(certificates[0], questions=1).sure()
        return [f"The {len(certificates)} questions of this audit (goals and budgets) are answered together: {sure}."]

    @property
    def judged_on(self) -> str:
        """The part that figures are measured on."""
        return next(iter(self.paths.values())).part

    def decided_on(self, goal: Goal) -> str | None:
        """Return the part whose labels certify the points of a path; None without labels."""
        return next((it.certificate.part for it in self.stops[goal]), None)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values only, ready for JSON."""
        return {
            "now": self.now.to_dict(),
            "certified": self.certified,
            "confidence": self.confidence,
            "fronts": {str(goal): self._front(goal) for goal in self.paths},
            "shown_at": None if self.shown is None else self.shown.trade_off,
            "shown_for": self.shown_for,
            "payers": None if self.payers is None else self.payers.to_dict(),
            "exposure": None if self.exposure is None else self.exposure.to_dict(),
        }

    def _front(self, goal: Goal) -> dict[str, Any]:
        path = self.paths[goal]
        names = tuple(path.base.values)
        points = [
            {"trade_off": point.trade_off, **{name: path.change(point, name) for name in names}}
            for point in path.points
        ]
        stops = [
            {
                "budget": stop.budget,
                "measured_at": None if stop.measured is None else stop.measured.trade_off,
                "certified_at": None if stop.certified is None else stop.certified.trade_off,
                "measured_on": path.part,
                "sentence": stop.certificate.sentence(),
            }
            for stop in self.stops[goal]
        ]
        return {"points": points, "budgets": stops, "decided_on": self.decided_on(goal)}


def cost_of_diversity(
    problem: Problem,
    questions: Sequence[BudgetQuestion],
    *,
    show: Share = 0.01,
    executor: Executor | None = None,
    on_step: ProgressCallback | None = None,
) -> Audit:
    """Walk a path for each goal, and find how far each budget of NDCG@10 reaches.

    The certifying part tests its own lists, as in ``within_budget``, so that an audit and a later result agree. It
    walks a path until every budget refuses. Figures are those of the problem's part: of every fourth point and of the
    last certified one of each budget; of all points if a budget certifies none.

    Args:
        problem: What is served.
        questions: Goals and budgets, as :meth:`BudgetQuestion.each` returns them. They share the confidence by their
            weights.
        show: The budget whose point (of the first goal) is broken down by segments.
        executor: Where the points of a path are made, such as ``recprism.parallel.RayExecutor()``; this process by
            default.
        on_step: Receives the number of points that are done on all paths, and how many there are at most.

    Raises:
        InputError: If a goal needs categories that the items do not have, a share is out of range, or the questions
            differ in more than goals, budgets of NDCG@10 and weights.
    """
    questions, show = _together(questions), share(show, "show", ends=False)
    first, through = questions[0], questions[0].through
    steps = {it.goal: it.steps for it in questions}
    wanted = list(steps)
    for goal in wanted:
        require_possible(goal, problem.categories)
        require_labels(goal, problem)
    if through is not None and executor is not None:
        raise InputError("compiled lists are made in this process, so an executor has no effect; omit it")
    has_labels = len(problem.split.part(problem.part)) > 0
    labelled = (COST, *GUARDS, *first.budgets) if has_labels else ()
    with executor or LocalExecutor() as workers:
        answers: list[Answer] = []
        if has_labels:
            answers = answers_of(problem.on(first.part_in(problem)), questions, workers, on_step)
        points = {goal: some_steps(steps[goal], [it.last for of, it in answers if of.goal == goal]) for goal in wanted}
        step = count_steps(on_step, "measuring the paths", sum(map(len, points.values())))
        metrics = {goal: tuple(dict.fromkeys((*labelled, *_own_metrics(goal, problem)))) for goal in wanted}
        paths: dict[Goal, Path] = {}
        for goal in wanted:
            paths[goal] = walk(problem, goal, metrics[goal], points[goal], workers, step, through=through)
            problem.keep_path(goal)
    for question, answer in answers:
        paths[question.goal] = _with_limits(problem, paths[question.goal], question, answer)
    stops = {goal: tuple(_stop(paths[goal], of, it) for of, it in answers if of.goal == goal) for goal in wanted}
    shown, shown_for = _shown(stops[wanted[0]], show, problem.part) if has_labels else (None, "")
    if shown_for and len(wanted) > 1:
        shown_for += f" for {wanted[0]}"
    base = paths[wanted[0]].base
    return Audit(
        _now(problem),
        paths,
        stops,
        shown,
        shown_for,
        None if shown is None else _payers(problem, base, shown),
        None if shown is None else exposure_by_segment(base.lists, shown.lists, item_segments(problem.split.train)),
        has_labels,
        first.confidence,
    )


def _together(questions: Sequence[BudgetQuestion]) -> list[BudgetQuestion]:
    """Return the questions of an audit, the smallest budget of each goal first."""
    goals, first = list(dict.fromkeys(it.goal for it in questions)), questions[0]
    for it in questions:
        own = {**it.budgets, COST: first.budgets.get(COST, 0.0)}
        if COST not in it.budgets or replace(it, goal=first.goal, budgets=own, weight=first.weight) != first:
            raise InputError(
                f"the questions of an audit differ in goals, budgets of {COST} and weights alone; make them with "
                "BudgetQuestion.each"
            )
    return sorted(questions, key=lambda it: (goals.index(it.goal), it.budgets[COST]))


def some_steps(steps: Sequence[float], reached: Sequence[int | None]) -> tuple[float, ...]:
    """Return every fourth trade-off of a path, and those that budgets reach; all of them if a budget reaches none.

    Args:
        steps: The trade-offs of the path.
        reached: The number of the last certified step of each budget; None if nothing is certified.
    """
    every = not reached or None in reached
    return tuple(it for at, it in enumerate(steps) if every or at % 4 == 3 or at in reached)


def _now(problem: Problem) -> Evaluation:
    found = evaluate(problem.base_lists, problem.context, users=problem.base.user_ids)
    return with_popularity(found, problem.split, problem.part, problem.context)


def _own_metrics(goal: Goal, problem: Problem) -> tuple[str, ...]:
    names = dict.fromkeys((*goal.weights, *default_goals(problem)))
    return with_gini(f"{name}@{problem.k}" for name in names)


def default_goals(problem: Problem) -> tuple[str, ...]:
    """Return the goals of an audit by default; without categories or vectors, those that need none."""
    goals = GOALS if len(problem.categories) else WITHOUT_CATEGORIES
    has_vectors = problem.item_vectors is not None
    return tuple(goal for goal in goals if has_vectors or Goal.parse(goal).needing("vectors") is None)


def _with_limits(problem: Problem, path: Path, question: BudgetQuestion, answer: Certificate) -> Path:
    """Return the path with the certified step as it is served: lists beyond its limit are base lists."""
    if answer.last is None:
        return path
    at = [it.trade_off for it in path.points].index(question.steps[answer.last])
    own = path.points[at]
    lists = problem.within_limits(answer.limits, own.lists)
    if np.array_equal(lists, own.lists):
        return path
    served = point_of(problem, lists, own.trade_off, tuple(path.base.values))
    return replace(path, points=(*path.points[:at], served, *path.points[at + 1 :]))


def _stop(path: Path, question: BudgetQuestion, certificate: Certificate) -> BudgetStop:
    """Find how far a budget reaches."""
    kept = [
        point
        for point in path.points
        if all(-(path.change(point, name) or 0.0) <= it for name, it in question.budgets.items())
    ]
    reached = None if certificate.last is None else question.steps[certificate.last]
    certified = next((point for point in path.points if point.trade_off == reached), None)
    return BudgetStop(question, kept[-1] if kept else None, certified, certificate)


def _shown(stops: Sequence[BudgetStop], budget: float, part: str) -> tuple[PathPoint | None, str]:
    """Return the point of the nearest certified budget, and the budget in words; without one, the measured point."""
    certified = [stop for stop in stops if stop.certified is not None]
    found = min(certified or stops, key=lambda stop: abs(stop.budget - budget))
    limit = f"{100 * found.budget:g} % budget"
    if found.certified is None:
        return found.measured, f"the furthest step that keeps the {limit} as measured on the {part} part; not certified"
    return found.certified, f"the certified step of the {limit}"


def _payers(problem: Problem, base: PathPoint, shown: PathPoint) -> SegmentTable:
    segments = user_segments(problem.split.train, problem.categories)
    return by_segment(base.values[COST], shown.values[COST], segments)


def _in_words(path: Path, metric: str, stop: BudgetStop) -> str:
    """Say what a budget gains; a refused one has no gain, because a measured one could be larger."""
    within = f"Within a {100 * stop.budget:g} % budget of NDCG@10"
    if stop.certified is None:
        return f"{within}: refused for {metric}, no step is certified. {stop.certificate.refusal()}"
    names = (name for name in with_gini((metric,)) if name in path.base.values)
    gain = " and ".join(f"{100 * (path.change(stop.certified, name) or 0.0):+.1f} % {name}" for name in names)
    kind = "approximately certified" if stop.certificate.method == APPROXIMATE else "certified"
    return (
        f"{within}: {gain}, measured on the {path.part} part; the budget is {kind} on the {stop.certificate.part} part."
    )
