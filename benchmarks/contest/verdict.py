"""The outcome of the contest: effect sizes with intervals, and paired tests corrected for the number of rivals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from contest.cases import World
from contest.contest import (
    BUDGETS,
    FIRST_SEED,
    OBJECTIVE,
    PAPER_ROWS,
    REWEIGHTED,
    key,
    read_judged,
    served_name,
)
from contest.promotion import PROMOTION
from recprism.budget.popularity import POPULARITY
from recprism.common.checks import random_generator
from recprism.contest.fronts import paired, units_of
from recprism.contest.methods import GREEDY, OURS, RIVALS
from recprism.contest.tuning import relative_gain
from recprism.metrics.registry import parse
from recprism.metrics.statistics import bootstrap_means, holm, percentile_interval

LEVEL = 0.05
RESAMPLES = 2000
Outcome = Literal["won", "tied", "lost"]
Arrays = list[NDArray[Any]]


@dataclass(frozen=True)
class MethodResult:
    """One method in one cell, on the test: relative changes, means over seeds.

    Attributes:
        method: Name of the method.
        loss: Loss of NDCG@10.
        gain: Gain in the goal; for Gini, how far it fell.
    """

    method: str
    loss: float
    gain: float


@dataclass(frozen=True)
class Effect:
    """The gain of ours minus that of another method, as a share of the base's value.

    Attributes:
        mean: Mean over users and seeds.
        low: Lower end of the 95 % interval; None if there is only one seed to resample.
        high: Its upper end.
    """

    mean: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Duel:
    """Ours against one rival.

    Attributes:
        rival: The result of the rival.
        effect: Ours minus the rival; the interval is not corrected for the number of rivals.
        p_value: Two-sided p-value of a paired t test, before correction.
        outcome: "won", "tied" or "lost", after Holm's correction over the rivals of the cell.
    """

    rival: MethodResult
    effect: Effect
    p_value: float
    outcome: Outcome


@dataclass(frozen=True)
class CellVerdict:
    """The outcome for one goal and budget in one world.

    Attributes:
        world: Name of the world.
        goal: The metric of the goal.
        budget: Share of NDCG@10 that may be lost.
        seeds: Number of seeds.
        unit: What the pairs are: "users", each with the mean over the seeds, or "seeds" for a metric of all lists.
        base: Value of the goal in the base lists.
        ours: The lists of the rule.
        served: What dials or boosts serve; None for a model without vectors.
        duels: One entry per rival; greedy on our objective is the first.
        others: Methods for comparison that are no rivals: popularity; on the first seed, promotion and the paper's
            CMB with its two controls.
    """

    world: str
    goal: str
    budget: float
    seeds: int
    unit: str
    base: float
    ours: MethodResult
    served: MethodResult | None
    duels: tuple[Duel, ...]
    others: tuple[MethodResult, ...]

    @property
    def outcome(self) -> Outcome:
        """Won against all, lost to any, or neither."""
        outcomes = {duel.outcome for duel in self.duels}
        return "lost" if "lost" in outcomes else "won" if outcomes == {"won"} else "tied"

    @property
    def greedy(self) -> Duel:
        """Ours against greedy on the same objective."""
        return self.duels[0]

    @property
    def best(self) -> Duel:
        """Ours against the rival with the largest gain among those that keep the budget, or lose no more than ours."""
        allowed = [duel for duel in self.duels if duel.rival.loss <= max(self.budget, self.ours.loss)]
        return max(allowed or self.duels, key=lambda it: it.rival.gain)

    @property
    def popularity(self) -> MethodResult:
        """The popularity baseline."""
        return next(it for it in self.others if it.method == POPULARITY)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return {**asdict(self), "outcome": self.outcome, "best_rival": self.best.rival.method}


def table(folder: Path, worlds: Sequence[World], *, seeds: int) -> list[CellVerdict]:
    """Read the files of ``compare`` and decide every cell.

    Args:
        folder: Folder of the contest.
        worlds: The worlds.
        seeds: Number of seeds.
    """
    return [
        _Cell(folder, world, min(seeds, world.seeds), goal, budget).verdict()
        for world in worlds
        for budget in BUDGETS
        for goal in OBJECTIVE.goals
    ]


@dataclass(frozen=True)
class _Values:
    """Values of one method in one cell, by seed: of every user, or (1,) for a metric of all lists."""

    cost: Arrays
    goal: Arrays


@dataclass(frozen=True)
class _Cell:
    """Reads the values of one cell."""

    folder: Path
    world: World
    seeds: int
    goal: str
    budget: float

    def verdict(self) -> CellVerdict:
        label = self.goal.partition("@")[0]
        base = self._known("base", "")
        mine = self._known(f"{OURS}:{label}") or base
        names = {GREEDY: f"{GREEDY}:{label}", **{name: name for name in (*RIVALS, REWEIGHTED)}}
        rivals = {name: values for name, file in names.items() if (values := self._values(file)) is not None}
        tests = {name: paired(mine.goal, values.goal) for name, values in rivals.items()}
        corrected = holm([p for p, _ in tests.values()])
        result = self._result(OURS, mine, base)
        duels = []
        for (name, values), adjusted in zip(rivals.items(), corrected, strict=True):
            found, (p, lead) = self._result(name, values, base), tests[name]
            better = lead * self._sign
            outcome = _outcome(result, found, self.budget, better, float(adjusted))
            duels.append(Duel(found, self._effect(mine, values, base), p, outcome))
        served = self._values(served_name(self.goal))
        return CellVerdict(
            self.world.slug,
            self.goal,
            self.budget,
            self.seeds,
            "users" if len(base.goal[0]) > 1 else "seeds",
            float(np.mean([np.nanmean(it) for it in base.goal])),
            result,
            None if served is None else self._result("served", served, base),
            tuple(duels),
            tuple(self._others()),
        )

    @property
    def _sign(self) -> float:
        return 1.0 if parse(self.goal)[0].higher_is_better else -1.0

    def _others(self) -> list[MethodResult]:
        files = {"one number per item": (PROMOTION, None), POPULARITY: (POPULARITY, "")}
        files |= {f"paper's CMB, {row}": ("cmb", row) for row in PAPER_ROWS}
        found = []
        for name, (file, cell) in files.items():
            of = replace(self, seeds=1) if file in FIRST_SEED else self
            values = of._values(file, cell)
            if values is not None:
                found.append(of._result(name, values, of._known("base", "")))
        return found

    def _known(self, name: str, cell: str | None = None) -> _Values:
        values = self._values(name, cell)
        assert values is not None, name
        return values

    def _values(self, name: str, cell: str | None = None) -> _Values | None:
        """Return the values of a method; those of the base if tuning found nothing within the budget.

        None if the method was not judged in this world.
        """
        cell = key(self.goal, self.budget) if cell is None else cell
        stored = [read_judged(self.folder, self.world, seed, name) for seed in range(self.seeds)]
        known = [it for it in stored if it is not None]
        if len(known) < self.seeds:
            return None
        if f"{cell}/{self.goal}" not in known[0]:
            return self._known("base", "")
        return _Values(*([it[f"{cell}/{metric}"] for it in known] for metric in (OBJECTIVE.cost, self.goal)))

    def _result(self, name: str, values: _Values, base: _Values) -> MethodResult:
        def change(metric: str, new: Arrays, old: Arrays) -> float:
            pairs = zip(new, old, strict=True)
            return float(np.mean([relative_gain(metric, float(np.nanmean(a)), float(np.nanmean(b))) for a, b in pairs]))

        cost = change(OBJECTIVE.cost, values.cost, base.cost)
        return MethodResult(name, -cost, change(self.goal, values.goal, base.goal))

    def _effect(self, mine: _Values, values: _Values, base: _Values) -> Effect:
        scale = [self._sign / float(np.nanmean(it)) for it in base.goal]
        differences = [by * (a.astype(np.float64) - b) for by, a, b in zip(scale, mine.goal, values.goal, strict=True)]
        return effect(differences)


def effect(differences: Arrays) -> Effect:
    """Return the mean of paired differences with its 95 % interval.

    Users are resampled with replacement, each with the mean over its seeds: the same users are in every seed. For a
    metric of all lists there is one value per seed, and the interval is that of the t distribution over seeds.

    Args:
        differences: One array per seed, (n_users,) or (1,).
    """
    units = units_of(differences)
    mean = float(units.mean()) if len(units) else 0.0
    if len(differences[0]) == 1:
        if len(units) < 2:
            return Effect(mean, None, None)
        half = float(stats.t.ppf(0.975, len(units) - 1) * units.std(ddof=1) / np.sqrt(len(units)))
        return Effect(mean, mean - half, mean + half)
    low, high = percentile_interval(bootstrap_means(units[:, None], RESAMPLES, random_generator(0)), 1 - LEVEL)
    return Effect(mean, float(low[0]), float(high[0]))


def _outcome(ours: MethodResult, rival: MethodResult, budget: float, better: float, p_value: float) -> Outcome:
    """Decide a duel; a gain counts only for a method that keeps the budget or loses no more than the other."""
    if p_value > LEVEL:
        return "tied"
    winner, other = (ours, rival) if better > 0 else (rival, ours)
    counts = winner.loss <= budget or winner.loss <= other.loss
    return ("won" if better > 0 else "lost") if counts else "tied"
