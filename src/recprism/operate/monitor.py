"""Monitoring: how much of the promised gain the served lists retain, compared user by user with base and run.

The promised gain is the gain of the run's vectors in their goal, for the users who had a list. It needs no labels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from recprism.budget.audit import COST
from recprism.budget.segments import EVERYONE, SegmentChange, SegmentTable, user_segments
from recprism.common.progress import ProgressCallback, count_steps
from recprism.common.shares import Share, share
from recprism.data.readers.known_pairs import KnownPairs, known_pairs
from recprism.data.readers.tables import TableReader
from recprism.metrics.evaluation import plain_row
from recprism.metrics.registry import parse
from recprism.metrics.suite import deepest_cut
from recprism.operate._served_lists import ONE_DAY, read_served, shared_places
from recprism.operate.check import junit
from recprism.operate.retention import (
    ALL_DAYS,
    ComparedLists,
    Retention,
    Shown,
    Terms,
    accuracy,
    exposure,
    of_all,
    of_users,
)
from recprism.runs.jobs.list_files import read_pairs
from recprism.runs.run import Run

FLOOR = 0.8
FEWEST_LISTS = 30
SAME = 0.999  # share of all places above which lists count as the base's


@dataclass(frozen=True, eq=False)
class Monitored:
    """How much of a run's promised gain is alive in the served lists.

    Attributes:
        run: The run directory.
        metric: The metric of the goal.
        floor: Least share of the promised gain.
        confident: Whether the floor applies to the low end of the interval.
        each_segment: Whether the floor applies to every segment as well.
        level: Coverage of the intervals.
        rows: All days and everyone first; then each day, the segments, and segments by day.
        exposure: Shares of the places for segments of items.
        accuracy: NDCG@10 of base and served lists; None without labels.
        budget: The share of NDCG@10 that the run may lose; None without a budget.
        like_promised: Share of the served places with an item of the user's promised list.
        like_base: Share of the served places with an item of the user's base list.
        notes: What was left out, and where labels come from.
    """

    run: str
    metric: str
    floor: float
    confident: bool
    each_segment: bool
    level: float
    rows: tuple[Retention, ...]
    exposure: tuple[Shown, ...]
    accuracy: SegmentTable | None
    budget: float | None
    like_promised: float
    like_base: float
    notes: tuple[str, ...]

    @property
    def days(self) -> tuple[Retention, ...]:
        """Everyone, day by day."""
        return tuple(row for row in self.rows if row.segment == EVERYONE and row.day != ALL_DAYS)

    @property
    def segments(self) -> tuple[Retention, ...]:
        """All days, segment by segment, everyone first."""
        return tuple(row for row in self.rows if row.day == ALL_DAYS)

    @property
    def judged(self) -> tuple[Retention, ...]:
        """The rows to which the floor applies."""
        rows = self.days + (self.segments[1:] if self.each_segment else ())
        return tuple(row for row in rows if not row.doubt)

    @property
    def is_over_budget(self) -> bool:
        """Whether the served lists lose more of NDCG@10 than the run's budget."""
        if self.accuracy is None or self.budget is None:
            return False
        row: SegmentChange = self.accuracy[EVERYONE]
        change = row.low if self.confident else row.relative
        return change is not None and -change > self.budget

    @property
    def passed(self) -> bool:
        """Whether every row reaches the floor and accuracy is within the budget."""
        return bool(self.judged) and not any(map(self.falls_short, self.judged)) and not self.is_over_budget

    def falls_short(self, row: Retention) -> bool:
        """Whether a row is below the floor."""
        value = row.low if self.confident and row.low is not None else row.share
        return value is not None and value < self.floor

    def verdict(self) -> str:
        """Return the verdict in one sentence; a failure names the row that is furthest below the floor."""
        promise = f"of the promised gain in {self.metric} is alive"
        wanted = f"at least {self.floor:.0%} wanted"
        if not self.judged:
            return f"FAILS: nothing can be judged: {self.days[-1].day}, {self.days[-1].doubt}."
        short = [row for row in self.judged if self.falls_short(row)]
        if short:
            worst = min(short, key=lambda row: row.share or 0.0)
            where = _where(worst)
            return f"FAILS: {worst.words()} {promise}{where}, {wanted}{self._cause()}."
        first = self.rows[0]
        if self.is_over_budget:
            assert self.accuracy is not None and self.budget is not None
            loss = -(self.accuracy[EVERYONE].relative or 0.0)
            return f"FAILS: {first.words()} {promise}, but {COST} fell by {loss:.2%}, at most {self.budget:.2%} wanted."
        least = min(self.judged, key=lambda row: row.share or 0.0)
        lowest = f", least{_where(least)}: {least.words()}" if len(self.judged) > 1 else ""
        return f"holds: {first.words()} {promise} in {first.lists:,} lists{lowest}; {wanted}."

    def _cause(self) -> str:
        return ": the served lists are the base's, so the rule is not in use" if self.like_base > SAME else ""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return {
            **{name: getattr(self, name) for name in ("run", "metric", "floor", "confident", "level", "passed")},
            "verdict": self.verdict(),
            "rows": [{**plain_row(row), "below_floor": self.falls_short(row)} for row in self.rows],
            "exposure": [asdict(row) for row in self.exposure],
            "accuracy": None if self.accuracy is None else self.accuracy.to_dict(),
            **{name: getattr(self, name) for name in ("budget", "like_promised", "like_base")},
            "notes": list(self.notes),
        }

    def to_junit(self) -> str:
        """Return JUnit XML with one test case per judged row."""
        cases = {
            f"{row.day}, {row.segment}": f"{row.words()} of the promised gain" if self.falls_short(row) else None
            for row in self.judged
        }
        return junit("recprism monitor", self.run, cases or {"anything": self.verdict()})


def monitor(
    run: Run,
    lists: str | Path,
    *,
    floor: Share = FLOOR,
    metric: str | None = None,
    held_out: str | Path | None = None,
    day_column: str | None = None,
    confident: bool = False,
    each_segment: bool = False,
    fewest: int = FEWEST_LISTS,
    live: bool = True,
    bootstrap: int = 1000,
    level: float = 0.95,
    seed: int = 0,
    on_step: ProgressCallback | None = None,
    columns: Mapping[str, str] | None = None,
) -> Monitored:
    """Measure how much of the promised gain is alive in a file of served lists.

    Args:
        run: A diversified run.
        lists: A file with user_id, item_id, rank and optionally a day.
        floor: Least share of the promised gain, for everyone on every day.
        metric: The metric to measure; by default the goal of the run.
        held_out: A file with user_id and item_id of later interactions; with it NDCG@10 is compared with the base's.
        day_column: Name of the column with the day.
        confident: Apply the floor to the low end of the interval.
        each_segment: Apply the floor to every segment of users as well.
        fewest: Lists that a row needs to be judged.
        live: The served lists are live ones: all known interactions count as seen.
        bootstrap: Resamples of the intervals.
        level: Coverage of the intervals.
        seed: Seed of the resamples.
        on_step: Receives progress.
        columns: Our column name -> the name in the files.
    """
    floor = share(floor, "floor")
    step = count_steps(on_step, "measuring", 2)
    result = run.load_result()
    problem = result.context(live=live)
    metric = metric or result.objective
    kind, cut = parse(metric)
    k = cut or problem.k
    name, depth = f"{kind.name}@{k}", deepest_cut([(kind, k), COST])
    ids, reader = (problem.base.user_ids, problem.base.item_ids), TableReader(columns or {})
    served = read_served(lists, *ids, depth, reader=reader, day_column=day_column)
    labels = None if held_out is None else known_pairs(read_pairs(held_out, reader), *ids, str(held_out))
    reader.require_used()
    base, promised = (problem.rank(model, depth)[0] for model in (problem.base, result.model))
    step()
    triple = ComparedLists(problem, served, base, promised)
    segments = {EVERYONE: np.ones(len(base), bool)} | user_segments(problem.split.train, problem.categories)
    terms = Terms(-1 if kind.higher_is_better is False else 1, fewest, bootstrap, level, seed)
    like = {
        of: shared_places(triple.stacked("now"), triple.stacked(of), problem.base.n_items)
        for of in ("promised", "base")
    }
    asked = run.within
    rows = of_users(triple, name, segments, terms) if kind.per_user else of_all(triple, name, segments, terms)
    step()
    return Monitored(
        str(run.path),
        name,
        floor,
        confident,
        each_segment,
        level,
        rows,
        exposure(triple),
        None if labels is None else accuracy(triple, labels.matrix, segments),
        None if asked is None else asked.budgets.get(COST),
        like["promised"],
        like["base"],
        (*served.notes(depth), *_label_notes(labels, str(held_out))),
    )


def _label_notes(labels: KnownPairs | None, where: str) -> tuple[str, ...]:
    if labels is None:
        return ("accuracy is not known without --held-out",)
    shown = "interactions after these lists were seen favour them: only labels of a control group are fair to both"
    left_out = labels.note(where)
    return (shown,) if left_out is None else (shown, left_out)


def _where(row: Retention) -> str:
    day = "" if row.day in (ALL_DAYS, ONE_DAY) else f" on {row.day}"
    return day if row.segment == EVERYONE else f"{day} for {row.segment} users"
