"""What diversity would cost: the audit of a trained model. Nothing is trained and nothing is changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from recprism._display import Displayed
from recprism._log import phase
from recprism.budget._popularity import beside_popularity
from recprism.budget.certificate import Certificate
from recprism.budget.path import Path, PathPoint, check_goal, deciding_part, require_possible, steps_towards, walk
from recprism.budget.scenario import Scenario
from recprism.budget.segments import SegmentTable, by_segment, exposure_by_segment, item_segments, user_segments
from recprism.cmb._executor import Executor, LocalExecutor
from recprism.data.progress import ProgressCallback, count_steps
from recprism.data.shares import CONFIDENCE, Share, share, shares
from recprism.data.split import Part
from recprism.data.subtopics import Subtopics
from recprism.metrics import Evaluation, evaluate
from recprism.rerank.optimal import WITHOUT_SUBTOPICS

if TYPE_CHECKING:
    import polars as pl

COST = "ndcg@10"
GUARDS = ("recall@20", "hit_rate@5")
BUDGETS = (0.005, 0.01, 0.02, 0.05, 0.1)
TOLD = (0.01, 0.05)
GOALS = ("subtopic_coverage", "ilad_subtopics", "catalogue_coverage")


@dataclass(frozen=True, eq=False)
class Reach:
    """How far a budget goes: the furthest certified point of a path, and the furthest whose measured loss keeps it.

    Either is None where there is none; without labels ``certificate`` is None, too. It is of the part that decides.
    """

    budget: float
    measured: PathPoint | None
    certified: PathPoint | None
    certificate: Certificate | None


@dataclass(frozen=True, eq=False, repr=False)
class Audit(Displayed):
    """What the lists are like now, what each point of diversity would cost, and who would pay.

    paths: goal -> path; reaches: goal -> how far each budget goes
    payers: who pays in NDCG@10, at the point ``shown``; exposure: what it does to head and tail items
    """

    now: Evaluation
    paths: Mapping[str, Path]
    reaches: Mapping[str, tuple[Reach, ...]]
    shown: PathPoint | None
    payers: SegmentTable | None
    exposure: SegmentTable | None
    certified: bool
    confidence: float

    def to_frame(self) -> pl.DataFrame:
        """Return one row per point of each path: relative changes, and the smallest budget that certifies it."""
        import polars as pl

        rows: list[dict[str, Any]] = []
        for goal, path in self.paths.items():
            certified = {
                it.certified.trade_off: it.budget for it in self.reaches[goal][::-1] if it.certified is not None
            }
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

    def _facts(self) -> dict[str, Any]:
        best = {goal: next((it for it in self.reaches[goal][::-1] if it.certified), None) for goal in self.paths}
        said = {
            goal: "nothing certified" if it is None else f"certified up to {100 * it.budget:g} % of {COST}"
            for goal, it in best.items()
        }
        return said if self.certified else dict.fromkeys(self.paths, "no labels to certify by")

    def decided_on(self, goal: str) -> str | None:
        """The part whose labels certify the points of a path; None without labels."""
        return next((it.certificate.part for it in self.reaches[goal] if it.certificate is not None), None)

    def to_dict(self) -> dict[str, Any]:
        """Plain values only, ready for JSON."""
        return {
            "now": self.now.to_dict(),
            "certified": self.certified,
            "confidence": self.confidence,
            "fronts": {goal: self._front(goal) for goal in self.paths},
            "shown_at": None if self.shown is None else self.shown.trade_off,
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
        reaches = [
            {
                "budget": reach.budget,
                "measured_at": None if reach.measured is None else reach.measured.trade_off,
                "certified_at": None if reach.certified is None else reach.certified.trade_off,
                "sentence": None if reach.certificate is None else reach.certificate.sentence(),
            }
            for reach in self.reaches[goal]
        ]
        return {"points": points, "budgets": reaches, "decided_on": self.decided_on(goal)}


def cost_of_diversity(
    scenario: Scenario,
    goals: Sequence[str] | None = None,
    budgets: Sequence[Share] = BUDGETS,
    *,
    guards: Mapping[str, Share] | None = None,
    confidence: Share = 0.95,
    show: Share = 0.01,
    executor: Executor | None = None,
    certify_on: Part | None = None,
    on_step: ProgressCallback | None = None,
) -> Audit:
    """Walk a path for each goal, and see how far each budget of NDCG@10 goes.

    Figures are those of the scenario's part. What is certified is so by the part whose labels decide, as in
    :func:`recprism.budget.within_budget`, on lists as of then: an audit and what it leads to agree.

    goals: unless named those of :func:`default_goals`
    guards: further metrics and the share of them that may be lost at any budget
    show: the budget whose point (of the first goal) is broken down by segments
    executor: where the points of a path are made, such as ``recprism.parallel.RayExecutor()``; None for this process
    on_step: receives the points of all paths that are done, and how many there are
    """
    goals = [check_goal(goal) for goal in goals or default_goals(scenario.subtopics)]
    for goal in goals:
        require_possible(goal, scenario.subtopics)
    allowed = [share(budget, "budget", ends=False) for budget in budgets]
    guards = shares(guards or {}, "guard", ends=False)
    confidence, show = share(confidence, "confidence", *CONFIDENCE), share(show, "show", ends=False)
    has_labels = len(scenario.split.part(scenario.part)) > 0
    labelled = (COST, *GUARDS, *guards) if has_labels else ()
    part = certify_on or deciding_part(scenario.split, scenario.part)
    decides_itself = not has_labels or part == scenario.part
    points = sum(len(steps_towards(goal)) for goal in goals)
    step = count_steps(on_step, "walking the paths", points if decides_itself else 2 * points)
    with executor or LocalExecutor() as workers:
        paths = {goal: _walked(scenario, goal, labelled, workers, step) for goal in goals}
        deciding = paths
        if not decides_itself:
            earlier = scenario.on(part)
            deciding = {goal: walk(earlier, goal, labelled, executor=workers, on_point=step) for goal in goals}
    with phase("certifying", __name__):
        reaches = {
            goal: tuple(_reach(paths[goal], deciding[goal], budget, guards, confidence) for budget in allowed)
            if has_labels
            else ()
            for goal in goals
        }
    shown = _shown(reaches[goals[0]], show) if has_labels else None
    base = paths[goals[0]].base
    return Audit(
        _now(scenario),
        paths,
        reaches,
        shown,
        None if shown is None else _payers(scenario, base, shown),
        None if shown is None else exposure_by_segment(base.lists, shown.lists, item_segments(scenario.split.train)),
        has_labels,
        confidence,
    )


def _walked(
    scenario: Scenario, goal: str, labelled: tuple[str, ...], executor: Executor, on_point: Callable[[], None]
) -> Path:
    names = tuple(dict.fromkeys((*labelled, *_own_metrics(goal, scenario))))
    return walk(scenario, goal, names, executor=executor, on_point=on_point)


def _now(scenario: Scenario) -> Evaluation:
    found = evaluate(scenario.base_lists, scenario.context, users=scenario.factors.user_ids)
    return beside_popularity(found, scenario.split, scenario.part, scenario.context)


def _own_metrics(goal: str, scenario: Scenario) -> tuple[str, ...]:
    names = dict.fromkeys((*goal.split("+"), *default_goals(scenario.subtopics)))
    return tuple(f"{name}@{scenario.k}" for name in names)


def default_goals(subtopics: Subtopics) -> tuple[str, ...]:
    """What an audit walks towards unless it is told: without categories, what needs none."""
    return GOALS if len(subtopics) else WITHOUT_SUBTOPICS


def _reach(path: Path, deciding: Path, budget: float, guards: Mapping[str, float], confidence: float) -> Reach:
    """deciding: the same path as of the part whose labels certify, point by point."""
    budgets = {COST: budget, **guards}
    certificate = deciding.certificate(budgets, confidence=confidence)
    kept = [
        point for point in path.points if all(-(path.change(point, name) or 0.0) <= it for name, it in budgets.items())
    ]
    last = certificate.last
    return Reach(budget, kept[-1] if kept else None, None if last is None else path.points[last], certificate)


def _shown(reaches: Sequence[Reach], budget: float) -> PathPoint | None:
    """The certified point of the budget asked for, or else the measured one."""
    found = min(reaches, key=lambda reach: abs(reach.budget - budget))
    return found.certified or found.measured


def _payers(scenario: Scenario, base: PathPoint, shown: PathPoint) -> SegmentTable:
    segments = user_segments(scenario.split.train, scenario.subtopics)
    return by_segment(base.values[COST], shown.values[COST], segments)


def sentences(cost: Audit) -> list[str]:
    """The audit in words: what is, what a budget buys, who pays."""
    said = []
    for goal, path in cost.paths.items():
        metric = f"{goal.split('+')[0]}@{path.base.lists.shape[1]}"
        said += [_in_words(path, metric, reach) for reach in cost.reaches[goal] if reach.budget in TOLD]
    if cost.payers is not None:
        changes = {row.segment: row.relative for row in cost.payers.rows if row.segment != "everyone"}
        known = {segment: change for segment, change in changes.items() if change is not None}
        worst = min(known, key=lambda segment: known[segment], default=None)
        if worst is not None:
            said.append(f"Who pays most: {worst} users, {100 * known[worst]:+.1f} % NDCG@10.")
    if not cost.certified:
        said.append("There are no held-out interactions: what diversity costs in accuracy is not known here.")
    return said


def _in_words(path: Path, metric: str, reach: Reach) -> str:
    def gain(point: PathPoint) -> str:
        return f"{100 * (path.change(point, metric) or 0.0):+.1f} % {metric}"

    budget = f"{100 * reach.budget:g} % of NDCG@10"
    if reach.certified is not None:
        return f"For {budget}, certified: {gain(reach.certified)}."
    if reach.measured is not None:
        return f"For {budget}, measured but not certified: {gain(reach.measured)}."
    return f"{budget} buys no point of this path towards {metric}."
