"""Who won: ours against every rival in every cell, by paired tests with Holm's correction over all of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from recprism.budget._popularity import POPULARITY
from recprism.metrics._statistics import holm
from recprism.paper.contest import (
    AT_ONCE,
    BUDGETS,
    OURS,
    PAPER_ROWS,
    PROMOTION,
    YARDSTICK,
    ContestCase,
    key,
    read_judged,
)
from recprism.paper.tuning import RIVALS

LEVEL = 0.05
Outcome = Literal["won", "tied", "lost"]


@dataclass(frozen=True)
class MethodResult:
    """One method in one cell, on the test: relative loss of NDCG@10 and relative gain in the goal, means over seeds."""

    method: str
    loss: float
    gain: float


@dataclass(frozen=True)
class Duel:
    """Ours against one rival; p_value is two-sided and not yet corrected."""

    rival: MethodResult
    p_value: float
    outcome: Outcome


@dataclass(frozen=True)
class CellVerdict:
    """One goal and budget in one world.

    ceiling: our lists before they were put into vectors
    beside: who is no rival but belongs into the picture: one number per item, the paper's CMB and its two controls,
        and popularity
    """

    world: str
    goal: str
    budget: float
    ours: MethodResult
    ceiling: MethodResult
    at_once: MethodResult
    best_rival: MethodResult
    duels: tuple[Duel, ...]
    beside: tuple[MethodResult, ...]

    @property
    def outcome(self) -> Outcome:
        """Won against all, lost to any, or neither."""
        outcomes = {duel.outcome for duel in self.duels}
        return "lost" if "lost" in outcomes else "won" if outcomes == {"won"} else "tied"

    @property
    def popularity(self) -> MethodResult:
        return next(it for it in self.beside if it.method == POPULARITY)

    @property
    def share_of_ceiling(self) -> float:
        return self.ours.gain / self.ceiling.gain if self.ceiling.gain else 1.0

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "outcome": self.outcome, "share_of_ceiling": self.share_of_ceiling}


@dataclass(frozen=True)
class _Values:
    """Of one method in one cell, by seed: cost and goal of every user, or (1,) where a metric has one value."""

    method: str
    cost: list[NDArray[Any]]
    goal: list[NDArray[Any]]


@dataclass(frozen=True)
class _Raw:
    """A cell before correction.

    standings: ours, the ceiling, all goals at once; rivals: each with its p-value and by how much ours lead
    """

    world: str
    goal: str
    budget: float
    standings: tuple[MethodResult, MethodResult, MethodResult]
    rivals: tuple[tuple[MethodResult, float, float], ...]
    beside: tuple[MethodResult, ...]


def table(folder: Path, worlds: Iterable[tuple[str, str]], *, seeds: int, split: str = "random") -> list[CellVerdict]:
    """Read what ``compare`` kept and judge every cell."""
    raw = [
        _cell([ContestCase(dataset, model, seed, split) for seed in range(seeds)], folder, goal, budget)
        for dataset, model in worlds
        for budget in BUDGETS
        for goal in YARDSTICK.goals
    ]
    corrected = iter(holm([p for cell in raw for _, p, _ in cell.rivals]).tolist())
    return [_verdict(cell, corrected) for cell in raw]


def _verdict(cell: _Raw, corrected: Iterator[float]) -> CellVerdict:
    ours, budget = cell.standings[0], cell.budget
    duels = tuple(
        Duel(rival, p, _outcome(ours, rival, budget, lead, next(corrected))) for rival, p, lead in cell.rivals
    )
    allowed = [duel.rival for duel in duels if duel.rival.loss <= max(budget, ours.loss)]
    best = max(allowed or [duel.rival for duel in duels], key=lambda it: it.gain)
    return CellVerdict(cell.world, cell.goal, budget, *cell.standings, best, duels, cell.beside)


def _cell(worlds: Sequence[ContestCase], folder: Path, goal: str, budget: float) -> _Raw:
    label = goal.partition("@")[0]
    base = _values(worlds, folder, "base", "", goal)
    names = (f"{OURS}:{label}:baked", f"{OURS}:{label}", f"{AT_ONCE}:baked")
    ours, ceiling, at_once = (_values(worlds, folder, name, key(goal, budget), goal) or base for name in names)
    rivals = [_values(worlds, folder, name, key(goal, budget), goal) or base for name in RIVALS]
    pairs = tuple(
        (_standing(name, rival, base), *paired(ours.goal, rival.goal))
        for name, rival in zip(RIVALS, rivals, strict=True)
    )
    standings = (_standing(OURS, ours, base), _standing("ceiling", ceiling, base), _standing(AT_ONCE, at_once, base))
    return _Raw(worlds[0].slug, goal, budget, standings, pairs, _beside(worlds, folder, goal, budget, base))


def _beside(
    worlds: Sequence[ContestCase], folder: Path, goal: str, budget: float, base: _Values
) -> tuple[MethodResult, ...]:
    label = f"{PROMOTION}:{goal.partition('@')[0]}"
    promotion = _values(worlds, folder, label, key(goal, budget), goal) or base
    paper = [_values(worlds, folder, "cmb", row, goal) for row in PAPER_ROWS]
    return (
        _standing("one number per item", promotion, base),
        *(_standing(f"paper's CMB, {row}", it, base) for row, it in zip(PAPER_ROWS, paper, strict=True)),
        _standing(POPULARITY, _values(worlds, folder, POPULARITY, "", goal), base),
    )


def _values(worlds: Sequence[ContestCase], folder: Path, name: str, cell: str, goal: str) -> Any:
    """None where tuning found nothing within the budget: such a method serves the base lists."""
    stored = [read_judged(folder, world, name) for world in worlds]
    if f"{cell}/{goal}" not in stored[0]:
        return None
    return _Values(name, [it[f"{cell}/{YARDSTICK.cost}"] for it in stored], [it[f"{cell}/{goal}"] for it in stored])


def _standing(name: str, values: _Values, base: _Values) -> MethodResult:
    def change(new: list[NDArray[Any]], old: list[NDArray[Any]]) -> float:
        return float(np.mean([np.nanmean(a) / np.nanmean(b) - 1 for a, b in zip(new, old, strict=True)]))

    return MethodResult(name, -change(values.cost, base.cost), change(values.goal, base.goal))


def paired(ours: list[NDArray[Any]], theirs: list[NDArray[Any]]) -> tuple[float, float]:
    """p-value and mean of ours - theirs: over users, each one's mean over the seeds; over seeds for a single value."""
    from scipy import stats

    differences = [a.astype(np.float64) - b for a, b in zip(ours, theirs, strict=True)]
    by_unit = np.concatenate(differences) if len(differences[0]) == 1 else np.nanmean(np.stack(differences), 0)
    by_unit = by_unit[~np.isnan(by_unit)]
    if len(by_unit) < 2 or not np.ptp(by_unit) > 0:
        settled = len(by_unit) > 1 and by_unit[0] != 0
        return (0.0 if settled else 1.0), float(by_unit.mean()) if len(by_unit) else 0.0
    return float(stats.ttest_1samp(by_unit, 0.0).pvalue), float(by_unit.mean())


def _outcome(ours: MethodResult, rival: MethodResult, budget: float, better: float, p_value: float) -> Outcome:
    """A gain only counts for whoever keeps the budget, or at least loses no more than the other."""
    if p_value > LEVEL:
        return "tied"
    winner, other = (ours, rival) if better > 0 else (rival, ours)
    counts = winner.loss <= budget or winner.loss <= other.loss
    return ("won" if better > 0 else "lost") if counts else "tied"
