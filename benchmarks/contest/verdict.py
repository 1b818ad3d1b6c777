"""The outcome of the contest: gains at equal losses, with intervals from draws of the whole procedure."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from os import cpu_count
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from contest.cases import World
from contest.contest import (
    BASE,
    GOALS,
    PAPER,
    PAPER_ROWS,
    curve_path,
    entrant_of,
    read_choices,
    read_values,
    rivals_of,
    seconds_by_world,
)
from contest.curves import COST, LEVELS, load_curves
from contest.equal_loss import DRAWS, Array, Curves, Weights, chosen, drawn_curves, over_seeds, read
from recprism.budget.popularity import POPULARITY
from recprism.common.files import write_text
from recprism.common.version import __version__
from recprism.contest.methods import OURS, Choice
from recprism.metrics.registry import parse
from recprism.metrics.statistics import percentile_interval

LEVEL = 0.95
Outcome = Literal["won", "tied", "lost"]


@dataclass(frozen=True)
class Estimate:
    """A figure with its 95 % interval.

    Attributes:
        value: The figure, with all users and seeds counted once.
        low: Lower end.
        high: Upper end.
    """

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, draws: Array) -> Estimate:
        """Return the first draw, which counts all once, with the interval of the others."""
        low, high = percentile_interval(draws[1:, None], LEVEL)
        return cls(float(draws[0]), float(low[0]), float(high[0]))

    @classmethod
    def mean_of(cls, several: Mapping[str, Sequence[Estimate]]) -> Estimate:
        """Return the mean of figures, with an interval that comes from theirs.

        Figures of one data set share users, so they may err together: their distances to the ends are added. Data sets
        are independent: the squares are added (MOVER: Zou and Donner, 2008).

        Args:
            several: Data set -> its figures.
        """
        every = [it for own in several.values() for it in own]
        value = np.mean([it.value for it in every])
        below = np.linalg.norm([sum(it.value - it.low for it in own) for own in several.values()]) / len(every)
        above = np.linalg.norm([sum(it.high - it.value for it in own) for own in several.values()]) / len(every)
        return cls(float(value), float(value - below), float(value + above))

    def __str__(self) -> str:
        return f"{100 * self.value:+.1f} % [{100 * self.low:+.1f}, {100 * self.high:+.1f}]"

    @property
    def outcome(self) -> Outcome:
        """ "won" above 0, "lost" below 0, "tied" if the interval has 0 in it."""
        return "won" if self.low > 0 else "lost" if self.high < 0 else "tied"


@dataclass(frozen=True)
class Entry:
    """One method in one cell.

    Attributes:
        method: Name of the method.
        choice: The settings that all users together choose.
        gain: Its gain at the loss of the cell, as a share of the base.
        lead: Gain of ours minus this one; None for ours.
    """

    method: str
    choice: Choice
    gain: Estimate
    lead: Estimate | None = None


@dataclass(frozen=True)
class Point:
    """Lists without a trade-off: their own loss and gain on the test, on the first seed."""

    method: str
    loss: float
    gain: float


@dataclass(frozen=True)
class CellVerdict:
    """One goal at one loss in one world.

    Attributes:
        world: Name of the world.
        goal: The metric of the goal.
        level: The loss of NDCG@10 on the test at which all methods are read.
        seeds: Number of seeds.
        base: Value of the goal in the base lists.
        ours: The lists of the rule.
        scores_alone: Ours with the scores alone as relevance, without history.
        at_price_0: Loss and gain of the settings of ours without any price: what relevance alone does.
        rivals: The rivals, greedy on our objective first.
        best: Ours minus the best rival other than greedy. In every draw, validation says which one that is.
        best_name: The rival that all users together choose on validation.
        others: Methods for comparison.
    """

    world: str
    goal: str
    level: float
    seeds: int
    base: float
    ours: Entry
    scores_alone: Entry
    at_price_0: Point
    rivals: tuple[Entry, ...]
    best: Estimate
    best_name: str
    others: tuple[Point, ...]

    @property
    def greedy(self) -> Estimate:
        """Ours minus greedy on the same objective."""
        lead = self.rivals[0].lead
        assert lead is not None
        return lead

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return {**asdict(self), "outcome": self.best.outcome, "outcome_greedy": self.greedy.outcome}


@dataclass(frozen=True)
class Pooled:
    """Ours minus others, as a mean over worlds.

    Attributes:
        goal: The metric of the goal.
        level: The loss of NDCG@10.
        against: "greedy" or "best", the best rival other than greedy.
        worlds: Number of worlds.
        lead: Mean lead, with an interval that comes from those of the worlds; the worlds are given. Worlds of one data
            set may err together.
        above: In how many worlds the lead is above 0.
    """

    goal: str
    level: float
    against: str
    worlds: int
    lead: Estimate
    above: int


def world_verdicts(folder: Path, world: World, seeds: int) -> list[CellVerdict]:
    """Decide the cells of one world."""
    reader = _World(folder, world, min(seeds, world.seeds))
    return [reader.cell(goal, level) for goal in GOALS for level in LEVELS]


def keep_verdicts(folder: Path, world: World, found: Sequence[CellVerdict]) -> None:
    """Write the cells of a world with what they took, as WORLD.json."""
    record = {
        "world": world.slug,
        "version": __version__,
        "machine": f"{platform.machine()}, {cpu_count()} cores",
        "seconds": seconds_by_world(folder).get(world.slug, 0.0),
        "draws": DRAWS,
        "choices": {name: len(own) for name, own in read_choices(folder / world.slug / "seed-0").items()},
        "cells": [cell.to_dict() for cell in found],
    }
    write_text(folder / f"{world.slug}.json", json.dumps(record))


def record_of(folder: Path, worlds: Sequence[World], earlier: Mapping[str, Any]) -> dict[str, Any]:
    """Return the records of the worlds that are decided, and the means of their leads.

    Args:
        folder: The folder of the contest.
        worlds: The worlds, in the order of the record.
        earlier: An earlier record. It has the worlds that were decided elsewhere; those of the folder replace its own.
    """
    known = {it["world"]: it for it in earlier.get("worlds", ())}
    for it in worlds:
        path = folder / f"{it.slug}.json"
        if path.exists():
            known[it.slug] = json.loads(path.read_text(encoding="utf-8"))
    recorded = {it: known[it.slug] for it in worlds if it.slug in known}
    leads: dict[tuple[str, float, str], dict[str, list[Estimate]]] = {}
    for world, cell in ((world, cell) for world, record in recorded.items() for cell in record["cells"]):
        for against, lead in (("greedy", cell["rivals"][0]["lead"]), ("best", cell["best"])):
            of_data = leads.setdefault((cell["goal"], cell["level"], against), {})
            of_data.setdefault(world.dataset, []).append(Estimate(**lead))
    means = [_pooled(*key, own) for key, own in leads.items()]
    return {"worlds": list(recorded.values()), "pooled": [asdict(it) for it in means]}


def _pooled(goal: str, level: float, against: str, leads: Mapping[str, Sequence[Estimate]]) -> Pooled:
    every = [it for own in leads.values() for it in own]
    return Pooled(goal, level, against, len(every), Estimate.mean_of(leads), sum(it.value > 0 for it in every))


class _World:
    """Reads one world; curves of all draws are computed once for each method and goal."""

    def __init__(self, folder: Path, world: World, seeds: int) -> None:
        self.world, self.seeds, self.folder = world, seeds, folder / world.slug
        self._drawn: dict[tuple[str, str], tuple[dict[int, Curves], dict[int, Curves]]] = {}

    @cached_property
    def bases(self) -> dict[tuple[str, int], dict[str, Array]]:
        """Part and seed -> metric -> values of the base lists."""
        found = {("test", seed): read_values(self._of(seed), "test", BASE)[""] for seed in range(self.seeds)}
        return found | {("validation", 0): read_values(self._of(0), "validation", BASE)[""]}

    @cached_property
    def weights(self) -> Weights:
        return Weights.drawn(len(self.bases["validation", 0][COST]), self.seeds)

    @cached_property
    def choices(self) -> dict[str, list[Choice]]:
        return read_choices(self._of(0))

    def _of(self, seed: int) -> Path:
        return self.folder / f"seed-{seed}"

    def drawn(self, name: str, goal: str) -> tuple[dict[int, Curves], dict[int, Curves]]:
        """Return choice -> curves in every draw, on validation and on the test."""
        if (name, goal) not in self._drawn:
            users, seeds = self.weights.users, self.weights.seeds
            stored = load_curves(curve_path(self._of(0), "validation", name))
            validation = {at: drawn_curves(it, self.bases["validation", 0], goal, users) for at, it in stored.items()}
            tests = [load_curves(curve_path(self._of(seed), "test", name)) for seed in range(self.seeds)]
            test = {
                at: over_seeds(
                    [drawn_curves(of[at], self.bases["test", seed], goal, users) for seed, of in enumerate(tests)],
                    seeds,
                )
                for at in tests[0]
            }
            self._drawn[name, goal] = validation, test
        return self._drawn[name, goal]

    def cell(self, goal: str, level: float) -> CellVerdict:
        """Return the verdict of a cell."""
        mine, my_gain, _ = self._entry(entrant_of(goal, OURS), goal, level)
        alone, _, _ = self._entry(entrant_of(goal, OURS), goal, level, scores_alone=True)
        rivals, gains, promises = [], [], []
        for name in rivals_of(goal):
            entry, gain, promise = self._entry(name, goal, level)
            rivals.append(Entry(entry.method, entry.choice, entry.gain, Estimate.of(my_gain - gain)))
            gains.append(gain)
            promises.append(promise)
        best = np.argmax(promises[1:], 0) + 1
        return CellVerdict(
            self.world.slug,
            goal,
            level,
            self.seeds,
            float(np.mean([np.nanmean(self.bases["test", seed][goal]) for seed in range(self.seeds)])),
            mine,
            alone,
            self._at_price_0(goal, level),
            tuple(rivals),
            Estimate.of(my_gain - np.choose(best, gains)),
            rivals[int(best[0])].method,
            tuple(self._others(goal)),
        )

    def _entry(self, name: str, goal: str, level: float, *, scores_alone: bool = False) -> tuple[Entry, Array, Array]:
        """Return the entry of a method, its gain on the test and on validation in every draw."""
        picks, promise = self._picks(name, goal, level, scores_alone=scores_alone)
        gain = read(self.drawn(name, goal)[1], picks, level)
        return Entry(name, dict(self.choices[name][int(picks[0])]), Estimate.of(gain)), gain, promise

    def _picks(
        self, name: str, goal: str, level: float, *, scores_alone: bool = False
    ) -> tuple[NDArray[np.int64], Array]:
        """Return the choices of all draws, and their gains on validation."""
        validation, space = self.drawn(name, goal)[0], self.choices[name]
        read_on_test = self.drawn(name, goal)[1]
        allowed = {at: it for at, it in validation.items() if at in read_on_test}
        if scores_alone:
            allowed = {at: it for at, it in allowed.items() if not space[at].get("history_weight")}
        picks = chosen(allowed, level)
        return picks, read(allowed, picks, level)

    def _at_price_0(self, goal: str, level: float) -> Point:
        name = entrant_of(goal, OURS)
        own = self.drawn(name, goal)[1][int(self._picks(name, goal, level)[0][0])]
        return Point(OURS, float(own.losses[0, 0]), float(own.gains[0, 0]))

    def _others(self, goal: str) -> list[Point]:
        files = {POPULARITY: (POPULARITY, "")} | {f"paper's CMB, {row}": (PAPER, row) for row in PAPER_ROWS}
        sign, base = (1.0 if parse(goal)[0].higher_is_better else -1.0), self.bases["test", 0]
        found = []
        for name, (file, row) in files.items():
            if not curve_path(self._of(0), "test", file).exists():
                continue
            values = read_values(self._of(0), "test", file)[row]
            change = {it: float(np.nanmean(values[it]) / np.nanmean(base[it]) - 1) for it in (COST, goal)}
            found.append(Point(name, -change[COST], sign * change[goal]))
        return found
