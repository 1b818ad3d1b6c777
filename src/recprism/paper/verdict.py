"""The outcome of the contest: paired tests of ours and every rival, with Holm's correction over all cells."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import compress
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from recprism.budget._popularity import POPULARITY
from recprism.metrics._statistics import holm
from recprism.metrics.registry import with_gini
from recprism.paper.contest import (
    AT_ONCE,
    BUDGETS,
    OBJECTIVE,
    OURS,
    PAPER_ROWS,
    PROMOTION,
    ContestCase,
    key,
    read_judged,
)
from recprism.paper.tuning import RIVALS

LEVEL = 0.05
Outcome = Literal["won", "tied", "lost"]


@dataclass(frozen=True)
class MethodResult:
    """One method in one cell, on the test: relative changes, means over seeds.

    Attributes:
        method: Name of the method.
        loss: Loss of NDCG@10.
        gain: Gain in the goal.
        gini: Change of the Gini index of exposure, for catalogue coverage; None for other goals, and for values that
            an earlier version kept without it.
    """

    method: str
    loss: float
    gain: float
    gini: float | None = None


@dataclass(frozen=True)
class Duel:
    """Ours against one rival.

    Attributes:
        rival: The result of the rival.
        p_value: Two-sided p-value before correction.
        outcome: "won", "tied" or "lost", after correction.

    Stability: experimental.
    """

    rival: MethodResult
    p_value: float
    outcome: Outcome


@dataclass(frozen=True)
class CellVerdict:
    """The outcome for one goal and budget in one case.

    Attributes:
        world: Name of the case.
        goal: The metric of the goal.
        budget: Share of NDCG@10 that may be lost.
        ours: Our lists as the vectors serve them.
        ceiling: Our lists before they were compiled into vectors.
        at_once: Ours for all goals at once.
        best_rival: The rival with the largest gain among those that keep the budget.
        duels: One entry per rival.
        others: Methods for comparison that are no rivals: promotion, the paper's CMB with its two controls, and
            popularity.

    Stability: experimental.
    """

    world: str
    goal: str
    budget: float
    ours: MethodResult
    ceiling: MethodResult
    at_once: MethodResult
    best_rival: MethodResult
    duels: tuple[Duel, ...]
    others: tuple[MethodResult, ...]

    @property
    def outcome(self) -> Outcome:
        """Won against all, lost to any, or neither."""
        outcomes = {duel.outcome for duel in self.duels}
        return "lost" if "lost" in outcomes else "won" if outcomes == {"won"} else "tied"

    @property
    def popularity(self) -> MethodResult:
        """The popularity baseline."""
        return next(it for it in self.others if it.method == POPULARITY)

    @property
    def share_of_ceiling(self) -> float:
        """Our gain with vectors as a share of the gain with lists."""
        return self.ours.gain / self.ceiling.gain if self.ceiling.gain else 1.0

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        plain = asdict(self)
        plain["beside"] = plain.pop("others")
        return {**plain, "outcome": self.outcome, "share_of_ceiling": self.share_of_ceiling}


@dataclass(frozen=True)
class _Values:
    """Values of one method in one cell, by seed: of every user, or (1,) for a metric with one value."""

    method: str
    cost: list[NDArray[Any]]
    goal: list[NDArray[Any]]
    gini: list[NDArray[Any]] | None = None


@dataclass(frozen=True)
class _Raw:
    """A cell before correction.

    Attributes:
        results: Ours, the ceiling, and all goals at once.
        rivals: Each rival with its p-value and our mean lead.
        others: Methods for comparison.
    """

    case: str
    goal: str
    budget: float
    results: tuple[MethodResult, MethodResult, MethodResult]
    rivals: tuple[tuple[MethodResult, float, float], ...]
    others: tuple[MethodResult, ...]


def table(folder: Path, cases: Iterable[tuple[str, str]], *, seeds: int, split: str = "random") -> list[CellVerdict]:
    """Read the files of ``compare`` and decide every cell.

    Args:
        folder: Folder of the contest.
        cases: Pairs of data set and model.
        seeds: Number of seeds.
        split: Method of the split.
    """
    raw = [
        _cell([ContestCase(dataset, model, seed, split) for seed in range(seeds)], folder, goal, budget)
        for dataset, model in cases
        for budget in BUDGETS
        for goal in OBJECTIVE.goals
    ]
    corrected = iter(holm([p for cell in raw for _, p, _ in cell.rivals]).tolist())
    return [_verdict(cell, corrected) for cell in raw]


def _verdict(cell: _Raw, corrected: Iterator[float]) -> CellVerdict:
    ours, budget = cell.results[0], cell.budget
    duels = tuple(
        Duel(rival, p, _outcome(ours, rival, budget, lead, next(corrected))) for rival, p, lead in cell.rivals
    )
    allowed = [duel.rival for duel in duels if duel.rival.loss <= max(budget, ours.loss)]
    best = max(allowed or [duel.rival for duel in duels], key=lambda it: it.gain)
    return CellVerdict(cell.case, cell.goal, budget, *cell.results, best, duels, cell.others)


def _cell(cases: Sequence[ContestCase], folder: Path, goal: str, budget: float) -> _Raw:
    label = goal.partition("@")[0]
    base = _values(cases, folder, "base", "", goal)
    names = (f"{OURS}:{label}:baked", f"{OURS}:{label}", f"{AT_ONCE}:baked")
    ours, ceiling, at_once = (_values(cases, folder, name, key(goal, budget), goal) or base for name in names)
    rivals = [_values(cases, folder, name, key(goal, budget), goal) or base for name in RIVALS]
    pairs = tuple(
        (_result(name, rival, base), *paired(ours.goal, rival.goal)) for name, rival in zip(RIVALS, rivals, strict=True)
    )
    results = (_result(OURS, ours, base), _result("ceiling", ceiling, base), _result(AT_ONCE, at_once, base))
    return _Raw(cases[0].slug, goal, budget, results, pairs, _context_methods(cases, folder, goal, budget, base))


def _context_methods(
    cases: Sequence[ContestCase], folder: Path, goal: str, budget: float, base: _Values
) -> tuple[MethodResult, ...]:
    label = f"{PROMOTION}:{goal.partition('@')[0]}"
    promotion = _values(cases, folder, label, key(goal, budget), goal) or base
    paper = [_values(cases, folder, "cmb", row, goal) for row in PAPER_ROWS]
    return (
        _result("one number per item", promotion, base),
        *(_result(f"paper's CMB, {row}", it, base) for row, it in zip(PAPER_ROWS, paper, strict=True)),
        _result(POPULARITY, _values(cases, folder, POPULARITY, "", goal), base),
    )


def _values(cases: Sequence[ContestCase], folder: Path, name: str, cell: str, goal: str) -> Any:
    """Return the values of a method; None if tuning found nothing within the budget, so that it serves base lists."""
    stored = [read_judged(folder, case, name) for case in cases]
    if f"{cell}/{goal}" not in stored[0]:
        return None
    names = [OBJECTIVE.cost, *with_gini((goal,))]
    known = (all(f"{cell}/{metric}" in it for it in stored) for metric in names)
    return _Values(name, *([it[f"{cell}/{metric}"] for it in stored] for metric in compress(names, known)))


def _result(name: str, values: _Values, base: _Values) -> MethodResult:
    def change(new: list[NDArray[Any]], old: list[NDArray[Any]]) -> float:
        return float(np.mean([np.nanmean(a) / np.nanmean(b) - 1 for a, b in zip(new, old, strict=True)]))

    gini = None if values.gini is None or base.gini is None else change(values.gini, base.gini)
    return MethodResult(name, -change(values.cost, base.cost), change(values.goal, base.goal), gini)


def paired(ours: list[NDArray[Any]], theirs: list[NDArray[Any]]) -> tuple[float, float]:
    """Test the difference of two methods, paired by user, or by seed for a metric with one value.

    Args:
        ours: One array of values per seed.
        theirs: The same for the other method.

    Returns:
        The two-sided p-value and the mean of ours minus theirs; users are averaged over the seeds first.
    """
    from scipy import stats

    differences = [a.astype(np.float64) - b for a, b in zip(ours, theirs, strict=True)]
    by_unit = np.concatenate(differences) if len(differences[0]) == 1 else np.nanmean(np.stack(differences), 0)
    by_unit = by_unit[~np.isnan(by_unit)]
    if len(by_unit) < 2 or not np.ptp(by_unit) > 0:
        settled = len(by_unit) > 1 and by_unit[0] != 0
        return (0.0 if settled else 1.0), float(by_unit.mean()) if len(by_unit) else 0.0
    return float(stats.ttest_1samp(by_unit, 0.0).pvalue), float(by_unit.mean())


def _outcome(ours: MethodResult, rival: MethodResult, budget: float, better: float, p_value: float) -> Outcome:
    """Decide a duel; a gain counts only for a method that keeps the budget or loses no more than the other."""
    if p_value > LEVEL:
        return "tied"
    winner, other = (ours, rival) if better > 0 else (rival, ours)
    counts = winner.loss <= budget or winner.loss <= other.loss
    return ("won" if better > 0 else "lost") if counts else "tied"
