"""Three kinds of lists for the same users, the base's, the run's and those that were served: what is alive of a gain.

Alive is the gain of the served lists as a share of the promised one. Intervals draw users anew: the lists of one user
on several days are one draw.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recprism.budget.audit import COST
from recprism.budget.scenario import Lists, Scenario
from recprism.budget.segments import EVERYONE, SegmentTable, by_segment, exposure_by_segment, item_segments
from recprism.deploy._served_lists import ServedLists
from recprism.metrics import Context, evaluate
from recprism.metrics._statistics import bootstrap_means, percentile_interval

ALL_DAYS = "all days"
NO_PROMISE = "the promised gain is not clear of 0"
ROUNDING = 1e-12

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Retention:
    """One day, or all, and one segment of users, or everyone.

    lists: judged; base, promised, now: the metric's mean over them in the three kinds of lists
    share: (now - base) / (promised - base); None where the promised gain is not clear of 0
    low, high: ends of its bootstrap interval; None for a metric of all lists together
    doubt: why the row judges nothing, empty where it does
    """

    day: str
    segment: str
    lists: int
    base: float
    promised: float
    now: float
    share: float | None
    low: float | None
    high: float | None
    doubt: str

    def words(self) -> str:
        if self.share is None:
            return self.doubt
        ends = "" if self.low is None or self.high is None else f" ({self.low:.0%} to {self.high:.0%})"
        return f"{self.share:.0%}{ends}"


@dataclass(frozen=True)
class Shown:
    """A segment of items: its share of all places in the base's lists, the run's, and those that were served."""

    segment: str
    items: int
    base: float
    promised: float
    now: float


@dataclass(frozen=True, eq=False)
class ListTriple:
    """Three kinds of lists of the same users; base, promised: (n_users, k) of all users of the run."""

    scenario: Scenario
    served: ServedLists
    base: Lists
    promised: Lists

    def stacked(self, of: str) -> list[Lists]:
        """Day by day, the (n, k) lists of the users who had one that day."""
        if of == "now":
            return [self.served.items[day] for day in self.served.days]
        lists: Lists = getattr(self, of)
        return [lists[self.served.users[day]] for day in self.served.days]

    def values(self, name: str, relevant: Any = None) -> tuple[Array, Array, Array]:
        """Of base and promised lists, (n_users,); of the served ones, (n_days, n_users), NaN for users without."""
        scenario = self.scenario
        context = Context(
            relevant=relevant,
            train=scenario.split.train,
            subtopics=scenario.subtopics,
            vectors=scenario.factors.item,
        )

        def judge(lists: Lists) -> Array:
            return evaluate(lists, context, [name], bootstrap=0).values[name]

        now = np.full((len(self.served.days), len(self.base)), np.nan)
        for row, day in zip(now, self.served.days, strict=True):
            lists, users = np.full_like(self.base, -1), self.served.users[day]
            lists[users] = self.served.items[day]
            row[users] = judge(lists)[users]
        return judge(self.base), judge(self.promised), now


@dataclass(frozen=True)
class Terms:
    """How rows are judged.

    better: 1 where more of the metric is better, -1 where less is; fewest: lists that a row needs
    """

    better: int
    fewest: int
    bootstrap: int
    level: float
    seed: int

    def doubt(self, lists: int) -> str:
        return f"only {lists:,} lists, {self.fewest:,} are needed" if lists < self.fewest else ""


# -- a value per user -------------------------------------------------------------------------------------------------


def of_users(three: ListTriple, name: str, segments: Mapping[str, Mask], terms: Terms) -> tuple[Retention, ...]:
    base, promised, now = three.values(name)
    had = ~np.isnan(now - base - promised)
    of_day = [(day, had & (np.arange(len(had)) == at)[:, None]) for at, day in enumerate(three.served.days)]
    rows = []
    for day, judged in [(ALL_DAYS, had), *of_day]:
        counts = judged.sum(0)  # lists of each user
        sums = np.stack([np.where(judged, now, 0).sum(0), counts * base, counts * promised])
        sums = np.where(counts > 0, sums, 0.0)
        asked = segments if day == ALL_DAYS or len(of_day) > 1 else {EVERYONE: segments[EVERYONE]}
        rows += [_row(day, segment, counts * mask, sums * mask, terms) for segment, mask in asked.items()]
    return _in_order(rows)


def _row(day: str, segment: str, counts: NDArray[Any], sums: Array, terms: Terms) -> Retention:
    """sums: (3, n_users) the metric added up over the lists of each user, in served, base and promised lists."""
    present = counts > 0
    lists, users = int(counts.sum()), int(present.sum())
    if not users:
        return Retention(day, segment, 0, np.nan, np.nan, np.nan, None, None, None, terms.doubt(0) or NO_PROMISE)
    now, base, promised = (float(total) / lists for total in sums.sum(1))
    gains = np.stack([sums[0] - sums[1], sums[2] - sums[1]], axis=1)[present]
    drawn = bootstrap_means(gains, terms.bootstrap, np.random.default_rng(terms.seed))
    low, high = percentile_interval(drawn[:, 1:], terms.level)
    if terms.better * (low[0] if terms.better > 0 else high[0]) <= 0:
        return Retention(day, segment, lists, base, promised, now, None, None, None, terms.doubt(lists) or NO_PROMISE)
    with np.errstate(divide="ignore", invalid="ignore"):
        ends = percentile_interval(drawn[:, :1] / drawn[:, 1:], terms.level)
    share = float(gains[:, 0].sum() / gains[:, 1].sum())
    return Retention(
        day, segment, lists, base, promised, now, share, float(ends[0][0]), float(ends[1][0]), terms.doubt(lists)
    )


def _in_order(rows: list[Retention]) -> tuple[Retention, ...]:
    """Everyone first, all days before each."""
    return tuple(sorted(rows, key=lambda row: (row.segment != EVERYONE and row.day != ALL_DAYS, row.day != ALL_DAYS)))


# -- one value for all lists ------------------------------------------------------------------------------------------


def of_all(three: ListTriple, name: str, segments: Mapping[str, Mask], terms: Terms) -> tuple[Retention, ...]:
    """A metric of all lists together: day by day on the users of the day; over all days, the mean of the days."""
    scenario = three.scenario
    context = Context(
        popularity=scenario.split.train.col_counts, subtopics=scenario.subtopics, vectors=scenario.factors.item
    )

    def values(at: int, inside: Mask) -> list[float]:
        lists = (three.stacked(of)[at][inside] for of in ("base", "promised", "now"))
        return [evaluate(it, context, [name], bootstrap=0)[name].mean for it in lists]

    rows: list[Retention] = []
    for segment, mask in segments.items():
        inside = [mask[three.served.users[day]] for day in three.served.days]
        counts = [int(it.sum()) for it in inside]
        means = np.array([values(at, it) if it.any() else [np.nan] * 3 for at, it in enumerate(inside)])
        together = np.nanmean(means[np.array(counts) > 0], axis=0) if any(counts) else np.full(3, np.nan)
        rows.append(_single(ALL_DAYS, segment, sum(counts), together, terms))
        if segment == EVERYONE or len(counts) > 1:
            rows += [
                _single(*of_day, terms)
                for of_day in zip(three.served.days, repeat(segment), counts, means, strict=False)
            ]
    return _in_order(rows)


def _single(day: str, segment: str, lists: int, means: Array, terms: Terms) -> Retention:
    """means: of base, promised and served lists."""
    base, promised, now = means.tolist()
    gain = promised - base
    clear = terms.better * gain > ROUNDING  # and not for NaN, of no lists
    doubt = terms.doubt(lists) or ("" if clear else NO_PROMISE)
    return Retention(
        day, segment, lists, base, promised, now, (now - base) / gain if clear else None, None, None, doubt
    )


# -- beside it --------------------------------------------------------------------------------------------------------


def exposure(three: ListTriple) -> tuple[Shown, ...]:
    items = item_segments(three.scenario.split.train)
    base, promised, now = (np.concatenate(three.stacked(of)) for of in ("base", "promised", "now"))
    if not (now >= 0).any():
        return ()
    planned, served = (exposure_by_segment(base, lists, items) for lists in (promised, now))
    return tuple(
        Shown(name, planned[name].items, planned[name].before, planned[name].after, served[name].after)
        for name in items
    )


def accuracy(three: ListTriple, relevant: Any, segments: Mapping[str, Mask]) -> SegmentTable:
    base, _, now = three.values(COST, relevant)
    had = ~np.isnan(now)
    mean = np.divide(np.where(had, now, 0).sum(0), had.sum(0), out=np.full(len(base), np.nan), where=had.any(0))
    return by_segment(base, mean, {name: mask for name, mask in segments.items() if name != EVERYONE})
