"""The path of a run towards a goal, kept in the run: whoever asks for a budget afterwards has the answer at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recprism.study.certificate import certify
from recprism.study.cost import COST
from recprism.study.methods import Situation
from recprism.study.path import check_goal, served_at, steps_towards
from recprism.study.run import Run

METRICS = (COST, "recall@10", "sc@10", "alpha_ndcg@10", "ilad_subtopics@10", "pc@10")
OF_LABELS = (COST, "recall@10")
OF_SUBTOPICS = ("sc@10", "alpha_ndcg@10", "ilad_subtopics@10")
FORMAT = 1
Told = Callable[[int, int], None]


@dataclass(frozen=True, eq=False)
class StoredPath:
    """From the lists as they are (point 0) to ever more diverse ones, as vectors baked on the user side serve them.

    trade_offs: (n,) 0 first
    lists: (n, n_users, k) item numbers, -1 where nothing is left
    means: metric -> (n,)
    upper: (n,) one-sided upper confidence bounds of the loss of NDCG@10, each of its point alone; None without labels
    """

    goal: str
    trade_offs: tuple[float, ...]
    lists: NDArray[np.int32]
    means: dict[str, tuple[float, ...]]
    upper: tuple[float, ...] | None
    confidence: float
    users: int

    @property
    def metric(self) -> str:
        """What the (first) goal is measured by."""
        return f"{self.goal.partition('+')[0]}@{self.lists.shape[2]}"

    def change(self, metric: str, point: int) -> float | None:
        """Relative to the lists as they are; None where these have 0."""
        before = self.means[metric][0]
        return self.means[metric][point] / before - 1 if before else None

    def loss(self, point: int) -> float | None:
        """Measured, of NDCG@10; None without labels."""
        change = self.change(COST, point) if COST in self.means else None
        return None if change is None else -change

    def reach(self, budget: float, *, certified: bool = True) -> int:
        """The furthest point that keeps a budget.

        Certified: every point up to it has its upper bound within the budget, which is the fixed-sequence test of
        ``certify`` read for any budget. Measured: its own loss is within it. Without labels nothing is known to keep
        any, so the answer is 0.
        """
        if self.upper is None:
            return 0
        if certified:
            return int(np.logical_and.accumulate(np.asarray(self.upper) <= budget).sum()) - 1
        return max(at for at in range(len(self.trade_offs)) if (self.loss(at) or 0.0) <= budget)


def stored_path(run: Run, goal: str, on_step: Told | None = None) -> StoredPath:
    """The path of a run, read where it is stored for the very vectors that the run has, else made and stored."""
    stored = run.load_path(check_goal(goal))
    if stored is not None and stored[1].get("format") == FORMAT:
        return _from_facts(stored[0]["lists"], stored[1])
    made_from = run.fingerprint()
    found = make_path(Situation(run.factors(), run.split(), run.subtopics(), "test"), goal, on_step=on_step)
    facts = {name: value for name, value in vars(found).items() if name != "lists"}
    run.save_path(goal, {"lists": found.lists}, {"format": FORMAT, **facts}, made_from)
    return found


def _from_facts(lists: NDArray[np.int32], facts: Mapping[str, Any]) -> StoredPath:
    """JSON has no tuples."""
    return StoredPath(
        facts["goal"],
        tuple(facts["trade_offs"]),
        lists,
        {name: tuple(values) for name, values in facts["means"].items()},
        None if facts["upper"] is None else tuple(facts["upper"]),
        facts["confidence"],
        facts["users"],
    )


def make_path(situation: Situation, goal: str, *, confidence: float = 0.95, on_step: Told | None = None) -> StoredPath:
    """Walk the whole path, and judge every point on the situation's part."""
    steps = (0.0, *steps_towards(goal))
    names = _metrics(situation, goal)
    lists, values = [], []
    for at, trade_off in enumerate(steps):
        if on_step is not None:
            on_step(at, len(steps))
        served = served_at(situation, goal, trade_off)[1] if trade_off else situation.base_lists
        lists.append(served.astype(np.int32))
        values.append(situation.judge(served, names))
    upper, users = None, situation.factors.n_users
    if COST in names:
        checks = [point.checks[0] for point in certify(values[0], values, {COST: 0.5}, confidence=confidence).points]
        upper, users = tuple(check.upper for check in checks), checks[0].users
    means = {name: tuple(float(np.nanmean(point[name])) for point in values) for name in names}
    return StoredPath(goal, steps, np.stack(lists), means, upper, confidence, users)


def _metrics(situation: Situation, goal: str) -> tuple[str, ...]:
    """As far as labels and subtopics allow, with the goal among them."""
    own = tuple(f"{name}@{situation.k}" for name in check_goal(goal).split("+"))
    missing = set() if len(situation.split.part(situation.part)) else set(OF_LABELS)
    missing |= set() if len(situation.subtopics) else set(OF_SUBTOPICS)
    return tuple(name for name in dict.fromkeys((*METRICS, *own)) if name not in missing)
