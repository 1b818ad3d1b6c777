"""The path from the base lists to ever more diverse ones, and how far along it a budget is certified to reach.

No label is used to make the path: base scores stand in for accuracy. So held-out labels are new to it, and can certify.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from recprism._log import phase
from recprism.budget.certificate import Certificate, certify
from recprism.budget.scenario import Lists, Scenario
from recprism.cmb._fleet import Fleet, OwnProcess
from recprism.data.progress import ProgressCallback, count_steps
from recprism.data.shares import CONFIDENCE, Share, share, shares
from recprism.data.split import Part, Split
from recprism.data.subtopics import Subtopics
from recprism.dials.solve import CompiledVectors, bake
from recprism.errors import InputError
from recprism.metrics import parse
from recprism.metrics.registry import canonical
from recprism.models.perturbation import Perturbation
from recprism.rerank.constraints.constrained import Constrained, Violations
from recprism.rerank.optimal import GOALS, TIED_TOGETHER, WITHOUT_SUBTOPICS, Optimal

TRADE_OFFS = (0.05, 0.08, 0.12, 0.16, 0.2, 0.25, 0.3, 0.4)
STEPS_TOWARDS = {"catalogue_coverage": (0.01, 0.02, 0.03, 0.05, 0.08, 0.12, 0.2, 0.4)}
"""Where a goal is reached at other trade-offs: an item that nobody shows costs little to show once."""

DEPTH = 100
HISTORY_WEIGHT = 0.2
"""What it counts that a list fills the subtopics of the user's own history: nearly nothing on MovieLens, where scores
are good, and much on sparse data (docs/frontier.md). Fixed, so that no label is spent on it."""

Values = dict[str, NDArray[np.float64]]
Constraints = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class PathPoint:
    """Lists at one trade-off, and the values of every user on the held-out labels (empty where there are none)."""

    trade_off: float
    lists: Lists
    values: Values

    def mean(self, metric: str) -> float:
        return float(np.nanmean(self.values[metric]))


@dataclass(frozen=True, eq=False)
class Path:
    """base: the lists as they are; points: nearest the base first, optimal for the goal; part: whose labels judged."""

    goal: str
    base: PathPoint
    points: tuple[PathPoint, ...]
    part: Part

    def change(self, point: PathPoint, metric: str) -> float | None:
        """Relative change against the base; None where the base is 0."""
        before = self.base.mean(metric)
        return point.mean(metric) / before - 1 if before else None

    def certificate(self, budgets: Mapping[str, Share], *, confidence: Share = 0.95) -> Certificate:
        base, *values = ({name: it.values[name] for name in budgets} for it in (self.base, *self.points))
        return certify(base, values, budgets, confidence=confidence, part=self.part)


def check_goal(goal: str) -> str:
    """A goal of optimal lists, or several joined by +, with aliases such as "sc" written out."""
    names = [canonical(name) for name in goal.split("+")]
    for name in names:
        if name not in GOALS:
            raise InputError(f"there is no path towards {name!r}; goals are {', '.join(GOALS)}, several joined by +")
    return "+".join(names)


def require_possible(goal: str, subtopics: Subtopics) -> None:
    """Refuse a goal of subtopics where the items have none."""
    needing = [name for name in check_goal(goal).split("+") if name not in WITHOUT_SUBTOPICS]
    if needing and not len(subtopics):
        raise InputError(
            f"the goal {needing[0]} needs categories of the items and there are none; choose "
            f"{' or '.join(WITHOUT_SUBTOPICS)}, or make the run again with --items FILE --subtopic-column NAME"
        )


def steps_towards(goal: str) -> tuple[float, ...]:
    """The trade-offs of a path, fixed before any label is seen."""
    return STEPS_TOWARDS.get(check_goal(goal), TRADE_OFFS)


def lists_at(scenario: Scenario, goal: str, trade_off: float, constraints: Constraints | None = None) -> Lists:
    """(n_users, k) optimal lists, within an editor's constraints where there are any."""
    require_possible(goal, scenario.subtopics)
    items, scores = (array[:, :DEPTH] for array in scenario.candidates)
    method = constrained(scenario, goal, trade_off, _for_who_may_see(scenario, constraints or {}))
    return np.asarray(method(items, scores, scenario.k, features=scenario.features), np.int64)


def served_at(
    scenario: Scenario,
    goal: str,
    trade_off: float,
    *,
    side: Literal["user", "item"] = "user",
    constraints: Constraints | None = None,
    depth: int | None = None,
) -> tuple[CompiledVectors, Lists]:
    """Vectors that hold the optimal lists, and the (n_users, depth) lists that these vectors give."""
    wanted = lists_at(scenario, goal, trade_off, constraints)
    # A user's own vector can hold the order of a list, too; vectors that all users share cannot.
    baked = bake(scenario.factors, wanted, side, exclude=scenario.seen, order=side == "user")
    vectors = baked.perturbation.applied_to(scenario.factors)
    served, _ = vectors.rank(scenario.k if depth is None else depth, exclude=scenario.seen)
    return baked, np.asarray(served, np.int64)


def _for_who_may_see(scenario: Scenario, constraints: Constraints) -> Constraints:
    """Pins for each user, without those of items that the user has seen and is never shown again."""
    if not isinstance(constraints.get("pinned"), Mapping):
        return constraints
    pinned = np.full((scenario.factors.n_users, max(constraints["pinned"])), -1, np.int64)
    for place, item in constraints["pinned"].items():
        has_seen = np.zeros(scenario.factors.n_users, bool)
        has_seen[scenario.seen.row_of_entry[scenario.seen.indices == item]] = True
        pinned[~has_seen, place - 1] = item
    return {**constraints, "pinned": pinned}


def constrained(scenario: Scenario, goal: str, trade_off: float, constraints: Constraints) -> Constrained:
    """Optimal lists that keep an editor's constraints: the settings of ``Constrained``, subtopics by name."""
    history_weight = HISTORY_WEIGHT if len(scenario.seen) and scenario.subtopics.items.n_cols else 0.0
    inner = Optimal(
        trade_off=trade_off, goals=dict.fromkeys(check_goal(goal).split("+"), 1.0), history_weight=history_weight
    )
    known = {"popularity": scenario.split.train.col_counts, "names": scenario.subtopics.names}
    return Constrained(inner, **{**known, **constraints})


@phase("walking the path", __name__)
def walk(
    scenario: Scenario,
    goal: str,
    metrics: Sequence[str],
    trade_offs: Sequence[float] | None = None,
    workers: Fleet | None = None,
    on_point: Callable[[], None] = lambda: None,
) -> Path:
    """Optimal lists at every trade-off, judged by ``metrics`` (names with cuts).

    workers: who makes the points; this process unless given
    on_point: called after each point
    """
    steps = steps_towards(goal) if trade_offs is None else trade_offs
    base = PathPoint(0.0, scenario.base_lists, scenario.judge(scenario.base_lists, tuple(metrics)))
    shared = scenario, goal, tuple(metrics)
    # Lists that hang together are searched by one thread: then each trade-off has its own, once the features are made.
    ready = (lambda _: scenario.features) if TIED_TOGETHER in goal.split("+") else None
    points = (workers or OwnProcess()).each(_point, shared, steps, before_threads=ready, on_done=on_point)
    return Path(goal, base, tuple(points), scenario.part)


def _point(shared: tuple[Scenario, str, tuple[str, ...]], trade_off: float) -> PathPoint:
    """shared: scenario, goal, metrics."""
    scenario, goal, metrics = shared
    lists = lists_at(scenario, goal, trade_off)
    return PathPoint(trade_off, lists, scenario.judge(lists, metrics))


@dataclass(frozen=True, eq=False)
class Diversified:
    """A perturbation that keeps its budgets.

    certificate: of the points that were tried, by the lists that vectors made for them give; where another part than
        the scenario's decides, those vectors were made as of then, and the ones kept here are made anew
    baked: None, with an empty perturbation, where not even the first point is certified
    violations: of the editor's constraints, in the lists that the vectors give
    """

    goal: str
    side: str
    trade_off: float
    perturbation: Perturbation
    certificate: Certificate
    baked: CompiledVectors | None
    violations: Violations | None = None

    def to_dict(self) -> dict[str, Any]:
        about = {"goal": self.goal, "side": self.side, "trade_off": self.trade_off}
        words = None if self.baked is None else self.baked.sentence()
        violations = None if self.violations is None else self.violations.to_dict()
        return {**about, "baked": words, "violations": violations, "certificate": self.certificate.to_dict()}


def deciding_part(split: Split, otherwise: Part) -> Part:
    """Whose labels decide where nothing is said: a choice that reads the test part leaves nothing to judge it by."""
    return "validation" if len(split.validation) else otherwise


@phase("walking the path and certifying", __name__)
def within_budget(
    scenario: Scenario,
    goal: str,
    budgets: Mapping[str, Share],
    *,
    side: Literal["user", "item"] = "user",
    constraints: Constraints | None = None,
    confidence: Share = 0.95,
    trade_offs: Sequence[float] | None = None,
    certify_on: Part | None = None,
    on_step: ProgressCallback | None = None,
) -> Diversified:
    """The most diverse vectors whose loss is certified to stay within all budgets.

    constraints: what editors ask for, settings of ``recprism.rerank.Constrained`` (banned, pinned, min_share,
        max_share, tail_floor, per_user_diversity); what cannot be met is in ``violations``
    certify_on: the part whose labels decide how far it goes: validation where there are such labels, unless named, and
        the test part stays unread. The path is walked as of then; the point it ends at is made anew for the lists to
        serve
    on_step: receives the points of the path that are done, and how many there are at most

    Walks the path: lists, vectors that hold them, the lists that these vectors give, the test. It ends at the first
    point that fails; nothing is made anew after the test on the scenario's own part.
    """
    goal = check_goal(goal)
    for name in budgets:
        parse(name)
    budgets = shares(budgets, "budget", ends=False)
    confidence = share(confidence, "confidence", *CONFIDENCE)
    part = certify_on or deciding_part(scenario.split, scenario.part)
    judge = scenario if part == scenario.part else scenario.on(part)
    judge.split.require_labels(part, "a certified budget")
    names = tuple(budgets)
    depth = max(int(name.partition("@")[2]) for name in names)
    base = judge.judge(judge.factors.rank(depth, exclude=judge.seen)[0], names)
    passed: list[tuple[CompiledVectors, Lists]] = []
    tested: list[Values] = []
    certificate: Certificate | None = None
    steps = steps_towards(goal) if trade_offs is None else trade_offs
    step = count_steps(on_step, "walking the path", len(steps) + 1)
    for trade_off in steps:
        baked, served = served_at(judge, goal, trade_off, side=side, constraints=constraints, depth=depth)
        tested.append(judge.judge(served, names))
        certificate = certify(base, tested, budgets, confidence=confidence, part=part)
        step()
        if certificate.last != len(tested) - 1:
            break
        passed.append((baked, served[:, : scenario.k]))
    assert certificate is not None
    if not passed:
        return Diversified(goal, side, 0.0, Perturbation(), certificate, None)
    (baked, served), trade_off = passed[-1], steps[len(passed) - 1]
    if judge is not scenario:
        baked, served = served_at(scenario, goal, trade_off, side=side, constraints=constraints)
    step()
    violations = (
        constrained(scenario, goal, trade_off, constraints).report(served, features=scenario.features)
        if constraints
        else None
    )
    return Diversified(goal, side, trade_off, baked.perturbation, certificate, baked, violations)
