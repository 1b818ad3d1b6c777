"""Is what was promised still alive? Lists that a stack served, beside the base's and the run's own, user by user.

The promise is what the run's vectors gain in their goal for the very users who had a list: no label is needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from recprism.budget.audit import COST
from recprism.budget.segments import EVERYONE, SegmentChange, SegmentTable, user_segments
from recprism.data._known_pairs import KnownPairs, known_pairs
from recprism.data._readers.tables import TableReader
from recprism.data.progress import ProgressCallback, count_steps
from recprism.data.shares import Share, share
from recprism.deploy._served_lists import ONE_DAY, read_served, shared_places
from recprism.deploy.check import junit
from recprism.deploy.live import live_factors, live_scenario
from recprism.deploy.retention import (
    ALL_DAYS,
    ListTriple,
    Retention,
    Shown,
    Terms,
    accuracy,
    exposure,
    of_all,
    of_users,
)
from recprism.metrics import deepest_cut, parse
from recprism.metrics.evaluation import plain_row
from recprism.runs.jobs.list_files import read_pairs
from recprism.runs.jobs.train import scenario_of
from recprism.runs.run import Run

FLOOR = 0.8
FEWEST_LISTS = 30
SAME = 0.999  # of all places: beyond it, lists are the base's own


@dataclass(frozen=True, eq=False)
class Monitored:
    """What is alive of a run's promise.

    rows: all days and everyone first; then each day, the segments, and segments by day
    exposure: head and tail items; accuracy: NDCG@10 of base and served lists, where labels were given
    budget: the share of NDCG@10 that the run may lose, None where none was given
    like_promised, like_base: share of the served places that hold an item of the user's own promised or base list
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
        """The rows that the floor is laid to."""
        rows = self.days + (self.segments[1:] if self.each_segment else ())
        return tuple(row for row in rows if not row.doubt)

    @property
    def too_dear(self) -> bool:
        """Whether the served lists lose more of NDCG@10 than the run's budget."""
        if self.accuracy is None or self.budget is None:
            return False
        row: SegmentChange = self.accuracy[EVERYONE]
        change = row.low if self.confident else row.relative
        return change is not None and -change > self.budget

    @property
    def passed(self) -> bool:
        return bool(self.judged) and not any(map(self.falls_short, self.judged)) and not self.too_dear

    def falls_short(self, row: Retention) -> bool:
        value = row.low if self.confident and row.low is not None else row.share
        return value is not None and value < self.floor

    def verdict(self) -> str:
        """In one sentence; where the floor does not hold, about the row that is furthest below it."""
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
        if self.too_dear:
            assert self.accuracy is not None and self.budget is not None
            loss = -(self.accuracy[EVERYONE].relative or 0.0)
            return f"FAILS: {first.words()} {promise}, but {COST} fell by {loss:.2%}, at most {self.budget:.2%} wanted."
        least = min(self.judged, key=lambda row: row.share or 0.0)
        lowest = f", least{_where(least)}: {least.words()}" if len(self.judged) > 1 else ""
        return f"holds: {first.words()} {promise} in {first.lists:,} lists{lowest}; {wanted}."

    def _cause(self) -> str:
        return ": the served lists are the base's, so the new vectors are not in use" if self.like_base > SAME else ""

    def to_dict(self) -> dict[str, Any]:
        """Plain values only, ready for JSON."""
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
        """One test case per row that is judged."""
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
    live: bool = False,
    bootstrap: int = 1000,
    level: float = 0.95,
    seed: int = 0,
    on_step: ProgressCallback | None = None,
    columns: Mapping[str, str] | None = None,
) -> Monitored:
    """How much of what ``run`` promised is alive in a file of served lists (user_id, item_id, rank[, day]).

    floor: least share of the promised gain, of everyone on every day; of every segment too with ``each_segment``
    metric: instead of the one the run was diversified for
    held_out: user_id, item_id that users took; with them NDCG@10 is compared with the base's, too
    confident: judge by the low end of the interval
    fewest: lists that a row needs to be judged
    live: what was shipped takes all known interactions as seen, so the promise is that of the live lists
    columns: our name -> the name in the files
    """
    floor = share(floor, "floor")
    step = count_steps(on_step, "measuring", 2)
    result, scenario = run.diversified(), live_scenario(run) if live else scenario_of(run)
    metric = metric or result.objective
    kind, cut = parse(metric)
    k = cut or scenario.k
    name, depth = f"{kind.name}@{k}", deepest_cut([(kind, k), COST])
    ids, reader = (scenario.factors.user_ids, scenario.factors.item_ids), TableReader(columns or {})
    served = read_served(lists, *ids, depth, reader=reader, day_column=day_column)
    labels = None if held_out is None else known_pairs(read_pairs(held_out, reader), *ids, str(held_out))
    reader.require_used()
    base, promised = (
        np.asarray(factors.rank(depth, exclude=scenario.seen)[0], np.int64)
        for factors in (result.base, live_factors(run) if live else result.factors)
    )
    step()
    three = ListTriple(scenario, served, base, promised)
    segments = {EVERYONE: np.ones(len(base), bool)} | user_segments(scenario.split.train, scenario.subtopics)
    terms = Terms(-1 if kind.higher_is_better is False else 1, fewest, bootstrap, level, seed)
    like = {
        of: shared_places(three.stacked("now"), three.stacked(of), len(scenario.factors.item))
        for of in ("promised", "base")
    }
    rows = of_users(three, name, segments, terms) if kind.per_user else of_all(three, name, segments, terms)
    step()
    return Monitored(
        str(run.path),
        name,
        floor,
        confident,
        each_segment,
        level,
        rows,
        exposure(three),
        None if labels is None else accuracy(three, labels.matrix, segments),
        _budget_of(run),
        like["promised"],
        like["base"],
        (*served.notes(depth), *_label_notes(labels, str(held_out))),
    )


def _budget_of(run: Run) -> float | None:
    wanted = run.config.diversify
    return None if wanted is None or wanted.within is None else wanted.within.budgets.get(COST)


def _label_notes(labels: KnownPairs | None, where: str) -> tuple[str, ...]:
    if labels is None:
        return ("accuracy is not known without --held-out",)
    shown = "what users took after seeing these lists speaks for them: labels of a control group judge both alike"
    left_out = labels.note(where)
    return (shown,) if left_out is None else (shown, left_out)


def _where(row: Retention) -> str:
    day = "" if row.day in (ALL_DAYS, ONE_DAY) else f" on {row.day}"
    return day if row.segment == EVERYONE else f"{day} for {row.segment} users"
