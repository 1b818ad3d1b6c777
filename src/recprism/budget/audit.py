"""The audit of a trained model: what diversity would cost. Nothing is trained or changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from recprism._display import Displayed
from recprism._log import phase
from recprism.budget._popularity import with_popularity
from recprism.budget.certificate import APPROXIMATE, Certificate
from recprism.budget.certifying import certify_together, is_refused
from recprism.budget.path import (
    Compile,
    Path,
    PathPoint,
    deciding_part,
    point_of,
    require_certifiable,
    require_labels,
    require_possible,
    walk,
)
from recprism.budget.scenario import Scenario
from recprism.budget.segments import SegmentTable, by_segment, exposure_by_segment, item_segments, user_segments
from recprism.cmb._executor import Executor, LocalExecutor
from recprism.data.progress import ProgressCallback, count_steps
from recprism.data.shares import CONFIDENCE, Share, share, shares
from recprism.data.split import Part
from recprism.errors import InputError
from recprism.metrics import Evaluation, evaluate
from recprism.metrics.registry import metric_name, with_gini
from recprism.rerank.goal import Goal, Words

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
        budget: The share of NDCG@10 that may be lost.
        measured: The furthest point of the audit's path whose measured loss keeps the budget; None if no point does.
        certified: The furthest certified point; None if no point is certified.
        certificate: Of the part whose labels certify; None without labels.
    """

    budget: float
    measured: PathPoint | None
    certified: PathPoint | None
    certificate: Certificate | None


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
        weights: The weight of each certificate, in the order of ``stops``.
    """

    now: Evaluation
    paths: Mapping[str, Path]
    stops: Mapping[str, tuple[BudgetStop, ...]]
    shown: PathPoint | None
    shown_for: str
    payers: SegmentTable | None
    exposure: SegmentTable | None
    certified: bool
    confidence: float
    weights: tuple[float, ...] = ()

    def to_frame(self) -> pl.DataFrame:
        """Return one row per measured point: relative changes, and the smallest budget that certifies it."""
        import polars as pl

        rows: list[dict[str, Any]] = []
        for goal, path in self.paths.items():
            certified = self.certified_for(goal)
            rows += [
                {
                    "goal": goal,
                    "trade_off": point.trade_off,
                    **{name: path.change(point, name) for name in path.base.values},
                    "certified_for": certified.get(point.trade_off),
                }
                for point in path.points
            ]
        return pl.DataFrame(rows, infer_schema_length=None)

    def certified_for(self, goal: str) -> dict[float, float]:
        """Return trade-off -> the smallest budget that certifies the point; points without one are left out."""
        found: dict[float, float] = {}
        for stop in self.stops[goal]:  # smallest budget first; a budget certifies all points up to its last one
            for point in self.paths[goal].points:
                if stop.certified is not None and point.trade_off <= stop.certified.trade_off:
                    found.setdefault(point.trade_off, stop.budget)
        return found

    def _facts(self) -> dict[str, Any]:
        best = {goal: next((it for it in self.stops[goal][::-1] if it.certified), None) for goal in self.paths}
        said = {
            goal: "nothing certified" if it is None else f"certified up to {100 * it.budget:g} % of {COST}"
            for goal, it in best.items()
        }
        return said if self.certified else dict.fromkeys(self.paths, "no labels to certify by")

    def sentences(self) -> list[str]:
        """Return the audit in words: what each budget achieves, and who pays."""
        said = []
        for goal, path in self.paths.items():
            metric = path.goal.metrics(path.base.lists.shape[1])[0]
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
        certificates = [it.certificate for of in self.stops.values() for it in of if it.certificate is not None]
        if len(certificates) < 2 or not any(it.last is not None for it in certificates):
            return []
        sure = replace(certificates[0], questions=1).sure()
        return [f"The {len(certificates)} questions of this audit (goals and budgets) are answered together: {sure}."]

    @property
    def judged_on(self) -> str:
        """The part that figures are measured on."""
        return next(iter(self.paths.values())).part

    def decided_on(self, goal: str) -> str | None:
        """Return the part whose labels certify the points of a path; None without labels."""
        return next((it.certificate.part for it in self.stops[goal] if it.certificate is not None), None)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values only, ready for JSON."""
        return {
            "now": self.now.to_dict(),
            "certified": self.certified,
            "confidence": self.confidence,
            "fronts": {goal: self._front(goal) for goal in self.paths},
            "shown_at": None if self.shown is None else self.shown.trade_off,
            "shown_for": self.shown_for,
            "payers": None if self.payers is None else self.payers.to_dict(),
            "exposure": None if self.exposure is None else self.exposure.to_dict(),
        }

    def _front(self, goal: str) -> dict[str, Any]:
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
                "sentence": None if stop.certificate is None else stop.certificate.sentence(),
            }
            for stop in self.stops[goal]
        ]
        return {"points": points, "budgets": stops, "decided_on": self.decided_on(goal)}


def cost_of_diversity(
    scenario: Scenario,
    goals: Sequence[Words] | None = None,
    budgets: Sequence[Share] | Mapping[Share, float] = BUDGETS,
    *,
    guards: Mapping[str, Share] | None = None,
    confidence: Share = 0.95,
    method: Literal["betting", "t"] = "betting",
    show: Share = 0.01,
    executor: Executor | None = None,
    certify_on: Part | None = None,
    through: Compile | None = None,
    on_step: ProgressCallback | None = None,
) -> Audit:
    """Walk a path for each goal, and find how far each budget of NDCG@10 reaches.

    The certifying part tests its own lists, as in ``within_budget``, so that an audit and a later result agree. It
    walks a path until every budget refuses. Figures are those of the scenario's part: of every fourth point and of the
    last certified one of each budget; of all points if a budget certifies none.

    Args:
        scenario: What is served.
        goals: What to raise; by default three goals, or two if the items have no categories.
        budgets: Shares of NDCG@10 that may be lost. All goals and budgets share the confidence; a mapping of budgets
            to weights says how the allowed error is split over them.
        guards: Further metrics, and the share of each that may be lost at any budget.
        confidence: Of all certificates together.
        method: The test of a point; see :func:`recprism.budget.certifying.certify`.
        show: The budget whose point (of the first goal) is broken down by segments.
        executor: Where the points of a path are made, such as ``recprism.parallel.RayExecutor()``; this process by
            default.
        certify_on: The part whose labels certify; validation by default, if the split has such labels.
        through: Compiles the rule of each point; the audit is then about the compiled lists.
        on_step: Receives the number of points that are done on all paths, and how many there are at most.

    Raises:
        InputError: If a goal is unknown or needs categories that the items do not have, or a share is out of range.
    """
    wanted = list(dict.fromkeys(map(Goal.parse, goals or default_goals(scenario))))
    for goal in wanted:
        require_possible(goal, scenario.subtopics)
        require_labels(goal, scenario)
    weights = _weights(budgets)
    allowed = sorted(weights)
    named = {require_certifiable(metric_name(name)): it for name, it in (guards or {}).items()}
    guards = shares(named, "guard", ends=False)
    if COST in guards:
        raise InputError(f"{COST} has the budgets already; leave it out of the guards")
    if through is not None and executor is not None:
        raise InputError("compiled lists are made in this process, so an executor has no effect; omit it")
    if not allowed:
        raise InputError("an audit needs at least one budget; name some, such as 0.01 and 0.05")
    confidence, show = share(confidence, "confidence", *CONFIDENCE), share(show, "show", ends=False)
    has_labels = len(scenario.split.part(scenario.part)) > 0
    labelled = (COST, *GUARDS, *guards) if has_labels else ()
    with executor or LocalExecutor() as workers:
        answers: list[Answer] = []
        asked: list[tuple[Goal, Mapping[str, float], float]] = []
        if has_labels:
            asked = [(goal, {COST: budget, **guards}, weights[budget]) for goal in wanted for budget in allowed]
            judge = scenario.on(certify_on or deciding_part(scenario.split, scenario.part))
            answers = _answers(judge, asked, confidence, method, workers, through, on_step)
        points = {goal: some_steps(goal, [it.last for of, _, it in answers if of == goal]) for goal in wanted}
        step = count_steps(on_step, "measuring the paths", sum(map(len, points.values())))
        metrics = {goal: tuple(dict.fromkeys((*labelled, *_own_metrics(goal, scenario)))) for goal in wanted}
        paths = {
            goal: walk(scenario, goal, metrics[goal], points[goal], workers, step, through=through) for goal in wanted
        }
    for goal, _, answer in answers:
        paths[goal] = _with_limits(scenario, paths[goal], answer)
    stops = {goal: tuple(_stop(paths[goal], of, it) for name, of, it in answers if name == goal) for goal in wanted}
    shown, shown_for = _shown(stops[wanted[0]], show, scenario.part) if has_labels else (None, "")
    base = paths[wanted[0]].base
    return Audit(
        _now(scenario),
        {str(goal): path for goal, path in paths.items()},
        {str(goal): it for goal, it in stops.items()},
        shown,
        shown_for,
        None if shown is None else _payers(scenario, base, shown),
        None if shown is None else exposure_by_segment(base.lists, shown.lists, item_segments(scenario.split.train)),
        has_labels,
        confidence,
        tuple(weight for _, _, weight in asked),
    )


def some_steps(goal: Goal, reached: Sequence[int | None]) -> tuple[float, ...]:
    """Return every fourth trade-off of a path, and those that budgets reach; all of them if a budget reaches none.

    Args:
        goal: The goal of the path.
        reached: The number of the last certified step of each budget; None if nothing is certified.
    """
    steps = goal.steps
    every = not reached or None in reached
    return tuple(it for at, it in enumerate(steps) if every or at % 4 == 3 or at in reached)


def _now(scenario: Scenario) -> Evaluation:
    found = evaluate(scenario.base_lists, scenario.context, users=scenario.base.user_ids)
    return with_popularity(found, scenario.split, scenario.part, scenario.context)


def _own_metrics(goal: Goal, scenario: Scenario) -> tuple[str, ...]:
    names = dict.fromkeys((*goal.weights, *default_goals(scenario)))
    return with_gini(f"{name}@{scenario.k}" for name in names)


def default_goals(scenario: Scenario) -> tuple[str, ...]:
    """Return the goals of an audit by default; without categories or vectors, those that need none."""
    goals = GOALS if len(scenario.subtopics) else WITHOUT_CATEGORIES
    has_vectors = scenario.item_vectors is not None
    return tuple(goal for goal in goals if has_vectors or Goal.parse(goal).needing("vectors") is None)


def _weights(budgets: Sequence[Share] | Mapping[Share, float]) -> dict[float, float]:
    """Return budget -> weight; equal weights by default."""
    given = budgets if isinstance(budgets, Mapping) else dict.fromkeys(budgets, 1.0)
    if any(not weight > 0 for weight in given.values()):
        raise InputError("a budget has a weight that is not above 0; leave out budgets that are not asked for")
    return {share(budget, "budget", ends=False): weight for budget, weight in given.items()}


Answer = tuple[Goal, Mapping[str, float], Certificate]
"""A goal, the budgets of one question about it, and the answer."""


def _answers(
    judge: Scenario,
    asked: Sequence[tuple[Goal, Mapping[str, float], float]],
    confidence: float,
    method: Literal["betting", "t"],
    executor: Executor,
    through: Compile | None,
    on_step: ProgressCallback | None,
) -> list[Answer]:
    """Answer goals, budgets and their weights on the certifying part; no path is walked further than a test needs."""
    goals, error = list(dict.fromkeys(goal for goal, _, _ in asked)), 1 - confidence
    step = count_steps(on_step, "certifying, at most", sum(len(goal.steps) for goal in goals))
    levels = [error * weight / sum(it for _, _, it in asked) for _, _, weight in asked]
    paths = {}
    for goal in goals:
        own = [(of, level) for (name, of, _), level in zip(asked, levels, strict=True) if name == goal]
        paths[goal] = _until_refused(judge, goal, own, error, method, executor, through, step)
    with phase("certifying", __name__):
        questions = [paths[goal].question(of, weight) for goal, of, weight in asked]
        found = certify_together(questions, confidence=confidence, method=method, part=judge.part)
    return _rising([(goal, of, it) for (goal, of, _), it in zip(asked, found, strict=True)])


def _rising(answers: Sequence[Answer]) -> list[Answer]:
    """Let a larger budget of a goal reach at least as far as a smaller one; budgets rise.

    Weights can give a smaller budget more of the allowed error, and so a further step.
    """
    found: list[Answer] = []
    for goal, of, certificate in answers:
        further = certificate.within(found[-1][2]) if found and found[-1][0] == goal else certificate
        found.append((goal, of, further))
    return found


def _until_refused(
    judge: Scenario,
    goal: Goal,
    asked: Sequence[tuple[Mapping[str, float], float]],
    most: float,
    method: Literal["betting", "t"],
    executor: Executor,
    through: Compile | None,
    on_point: Callable[[], None],
) -> Path:
    """Walk a path until no budget can certify a further point, at whatever level other questions pass on.

    Args:
        judge: What is served, on the certifying part.
        goal: The goal of the path.
        asked: Budgets of each question, and the level that it begins with.
        most: The largest level that a question can have.
        method: The test of a point.
        executor: Where the points are made.
        through: Compiles the rule of each point.
        on_point: Called after each point.
    """
    waiting = list(asked)

    def ends(path: Path) -> bool:
        waiting[:] = [it for it in waiting if not is_refused(path.question(it[0]), it[1], most, method=method)]
        return not waiting

    metrics = tuple(asked[0][0])
    return walk(judge, goal, metrics, executor=executor, on_point=on_point, ends=ends, through=through)


def _with_limits(scenario: Scenario, path: Path, answer: Certificate) -> Path:
    """Return the path with the certified step as it is served: lists beyond its limit are base lists."""
    if answer.last is None:
        return path
    at = [it.trade_off for it in path.points].index(path.goal.steps[answer.last])
    own = path.points[at]
    lists = scenario.within_limits(answer.limits, own.lists)
    if np.array_equal(lists, own.lists):
        return path
    served = point_of(scenario, lists, own.trade_off, tuple(path.base.values))
    return replace(path, points=(*path.points[:at], served, *path.points[at + 1 :]))


def _stop(path: Path, budgets: Mapping[str, float], certificate: Certificate) -> BudgetStop:
    """Find how far a budget reaches."""
    kept = [
        point for point in path.points if all(-(path.change(point, name) or 0.0) <= it for name, it in budgets.items())
    ]
    reached = None if certificate.last is None else path.goal.steps[certificate.last]
    certified = next((point for point in path.points if point.trade_off == reached), None)
    return BudgetStop(budgets[COST], kept[-1] if kept else None, certified, certificate)


def _shown(stops: Sequence[BudgetStop], budget: float, part: str) -> tuple[PathPoint | None, str]:
    """Return the point of the nearest certified budget, and the budget in words; without one, the measured point."""
    certified = [stop for stop in stops if stop.certified is not None]
    found = min(certified or stops, key=lambda stop: abs(stop.budget - budget))
    limit = f"{100 * found.budget:g} % budget"
    if found.certified is None:
        return found.measured, f"the furthest step that keeps the {limit} as measured on the {part} part; not certified"
    return found.certified, f"the certified step of the {limit}"


def _payers(scenario: Scenario, base: PathPoint, shown: PathPoint) -> SegmentTable:
    segments = user_segments(scenario.split.train, scenario.subtopics)
    return by_segment(base.values[COST], shown.values[COST], segments)


def _in_words(path: Path, metric: str, stop: BudgetStop) -> str:
    """Say what a budget gains; a refused one has no gain, because a measured one could be larger."""
    within = f"Within a {100 * stop.budget:g} % budget of NDCG@10"
    assert stop.certificate is not None  # there are labels
    if stop.certified is None:
        return f"{within}: refused, no step is certified. {stop.certificate.refusal()}"
    names = (name for name in with_gini((metric,)) if name in path.base.values)
    gain = " and ".join(f"{100 * (path.change(stop.certified, name) or 0.0):+.1f} % {name}" for name in names)
    kind = "approximately certified" if stop.certificate.method == APPROXIMATE else "certified"
    return (
        f"{within}: {gain}, measured on the {path.part} part; the budget is {kind} on the {stop.certificate.part} part."
    )
