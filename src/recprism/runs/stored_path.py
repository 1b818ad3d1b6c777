"""The path of a run towards a goal, kept in the run: whoever asks for a budget afterwards has the answer at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recprism.budget.audit import COST
from recprism.budget.certificate import certify
from recprism.budget.path import Values, check_goal, deciding_part, served_at, steps_towards
from recprism.budget.scenario import Scenario
from recprism.data.progress import ProgressCallback, count_steps
from recprism.runs.run import Run

METRICS = (COST, "recall@10", "subtopic_coverage@10", "alpha_ndcg@10", "ilad_subtopics@10", "catalogue_coverage@10")
OF_LABELS = (COST, "recall@10")
OF_SUBTOPICS = ("subtopic_coverage@10", "alpha_ndcg@10", "ilad_subtopics@10")
FORMAT = 2


@dataclass(frozen=True, eq=False)
class StoredPath:
    """From the lists as they are (point 0) to ever more diverse ones, as vectors baked on the user side serve them.

    trade_offs: (n,) 0 first
    lists: (n, n_users, k) item numbers, -1 where nothing is left
    means: metric -> (n,) of these lists, on the test part
    losses: (n,) of NDCG@10 on the part whose labels decide, which leaves the test part to judge; None without labels
    upper: (n,) their one-sided upper confidence bounds, each of its point alone
    part: the part that decides; users: those of it who are judged
    """

    goal: str
    trade_offs: tuple[float, ...]
    lists: NDArray[np.int32]
    means: dict[str, tuple[float, ...]]
    losses: tuple[float, ...] | None
    upper: tuple[float, ...] | None
    confidence: float
    part: str
    users: int

    @property
    def metric(self) -> str:
        """What the (first) goal is measured by."""
        return f"{self.goal.partition('+')[0]}@{self.lists.shape[2]}"

    def change(self, metric: str, point: int) -> float | None:
        """Relative to the lists as they are; None where these have 0."""
        before = self.means[metric][0]
        return self.means[metric][point] / before - 1 if before else None

    def reach(self, budget: float, *, certified: bool = True) -> int:
        """The furthest point that keeps a budget.

        Certified: every point up to it has its upper bound within the budget, which is the fixed-sequence test of
        ``certify`` read for any budget. Measured: its own loss is within it. Without labels nothing is known to keep
        any, so the answer is 0.
        """
        if self.upper is None or self.losses is None:
            return 0
        if certified:
            return int(np.logical_and.accumulate(np.asarray(self.upper) <= budget).sum()) - 1
        return max(at for at, loss in enumerate(self.losses) if loss <= budget)


def stored_path(run: Run, goal: str, on_step: ProgressCallback | None = None) -> StoredPath:
    """The path of a run, read where it is stored for the very vectors that the run has, else made and stored."""
    stored = run.load_path(check_goal(goal))
    if stored is not None and stored[1].get("format") == FORMAT:
        return _from_facts(stored[0]["lists"], stored[1])
    made_from = run.fingerprint()
    found = make_path(Scenario(run.factors(), run.split(), run.subtopics(), "test"), goal, on_step=on_step)
    facts = {name: value for name, value in vars(found).items() if name != "lists"}
    run.save_path(goal, {"lists": found.lists}, {"format": FORMAT, **facts}, made_from)
    return found


def _from_facts(lists: NDArray[np.int32], facts: Mapping[str, Any]) -> StoredPath:
    """JSON has no tuples."""
    losses, upper = (None if facts[name] is None else tuple(facts[name]) for name in ("losses", "upper"))
    means = {name: tuple(values) for name, values in facts["means"].items()}
    about = (facts["confidence"], facts["part"], facts["users"])
    return StoredPath(facts["goal"], tuple(facts["trade_offs"]), lists, means, losses, upper, *about)


def make_path(
    scenario: Scenario, goal: str, *, confidence: float = 0.95, on_step: ProgressCallback | None = None
) -> StoredPath:
    """Walk the whole path, every point judged on the scenario's part, and its price on the part that decides."""
    steps = (0.0, *steps_towards(goal))
    names = _metrics(scenario, goal)
    part = deciding_part(scenario.split, scenario.part)
    judge = scenario if part == scenario.part else scenario.on(part)
    lists: list[NDArray[np.int32]] = []
    values: list[Values] = []
    deciding: list[Values] = []
    step = count_steps(on_step, "walking the path", len(steps))
    for trade_off in steps:
        lists.append(_served(scenario, goal, trade_off))
        values.append(scenario.judge(lists[-1], names))
        if judge is not scenario:
            deciding.append(judge.judge(_served(judge, goal, trade_off), (COST,)))
        step()
    judged = deciding or values
    price = _price(judged, confidence) if COST in judged[0] else (None, None, scenario.factors.n_users)
    losses, upper, users = price
    means = {name: tuple(float(np.nanmean(point[name])) for point in values) for name in names}
    return StoredPath(goal, steps, np.stack(lists), means, losses, upper, confidence, part, users)


def _served(scenario: Scenario, goal: str, trade_off: float) -> NDArray[np.int32]:
    served = served_at(scenario, goal, trade_off)[1] if trade_off else scenario.base_lists
    return served.astype(np.int32)


def _price(values: Sequence[Values], confidence: float) -> tuple[tuple[float, ...], tuple[float, ...], int]:
    """What every point loses, its upper bound, and how many users say so."""
    points = certify(values[0], values, {COST: 0.5}, confidence=confidence).points
    checks = [point.checks[0] for point in points]
    return tuple(check.loss for check in checks), tuple(check.upper for check in checks), checks[0].users


def _metrics(scenario: Scenario, goal: str) -> tuple[str, ...]:
    """As far as labels and subtopics allow, with the goal among them."""
    own = tuple(f"{name}@{scenario.k}" for name in check_goal(goal).split("+"))
    missing = set() if len(scenario.split.part(scenario.part)) else set(OF_LABELS)
    missing |= set() if len(scenario.subtopics) else set(OF_SUBTOPICS)
    return tuple(name for name in dict.fromkeys((*METRICS, *own)) if name not in missing)
