"""Retention of a gain, from three kinds of lists of the same users: the base's, the run's and the served ones.

Retention is the gain of the served lists as a share of the promised gain. The bootstrap resamples users: all lists of a
user on several days are one unit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recprism.budget.audit import COST
from recprism.budget.problem import Lists, Problem
from recprism.budget.segments import EVERYONE, SegmentTable, by_segment, exposure_by_segment, item_segments
from recprism.common.checks import random_generator
from recprism.metrics import Context, evaluate
from recprism.metrics.statistics import bootstrap_means, percentile_interval
from recprism.operate._served_lists import ServedLists

ALL_DAYS = "all days"
NO_PROMISE = "the promised gain is not clear of 0"
ROUNDING = 1e-12

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Retention:
    """Retention on one day or all days, for one segment of users or everyone.

    Attributes:
        day: The day, or ``ALL_DAYS``.
        segment: The segment of users.
        lists: Number of lists.
        base: Mean of the metric in the base lists.
        promised: Mean in the run's lists.
        now: Mean in the served lists.
        share: (now - base) / (promised - base); None if the promised gain is not clear of 0.
        low: Lower end of its bootstrap interval; None for a metric of all lists together.
        high: Upper end of that interval.
        doubt: Why the floor does not apply to this row; empty if it applies.
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
        """Return the share and its interval as text."""
        if self.share is None:
            return self.doubt
        ends = "" if self.low is None or self.high is None else f" ({self.low:.0%} to {self.high:.0%})"
        return f"{self.share:.0%}{ends}"


@dataclass(frozen=True)
class Shown:
    """A segment of items and its share of all places in base lists, in the run's lists and in served lists."""

    segment: str
    items: int
    base: float
    promised: float
    now: float


@dataclass(frozen=True, eq=False)
class ComparedLists:
    """Three kinds of lists of the same users.

    Attributes:
        problem: The run's data and vectors.
        served: The served lists.
        base: (n_users, k) base lists of all users of the run.
        promised: (n_users, k) lists of the run's vectors, of all users.
    """

    problem: Problem
    served: ServedLists
    base: Lists
    promised: Lists

    def stacked(self, of: str) -> list[Lists]:
        """Return, day by day, the (n, k) lists of the users with a list on that day."""
        if of == "now":
            return [self.served.items[day] for day in self.served.days]
        lists: Lists = getattr(self, of)
        return [lists[self.served.users[day]] for day in self.served.days]

    def values(self, name: str, relevant: Any = None) -> tuple[Array, Array, Array]:
        """Evaluate a metric.

        Args:
            name: Name of the metric.
            relevant: Labels, if the metric needs them.

        Returns:
            (n_users,) values of base lists and of promised lists, and (n_days, n_users) values of served lists, NaN for
            users without a list.
        """
        problem = self.problem
        context = Context(
            relevant=relevant, train=problem.split.train, categories=problem.categories, vectors=problem.item_vectors
        )

        def evaluated(lists: Lists) -> Array:
            return evaluate(lists, context, [name], bootstrap=0).values[name]

        now = np.full((len(self.served.days), len(self.base)), np.nan)
        for row, day in zip(now, self.served.days, strict=True):
            lists, users = np.full_like(self.base, -1), self.served.users[day]
            lists[users] = self.served.items[day]
            row[users] = evaluated(lists)[users]
        return evaluated(self.base), evaluated(self.promised), now


@dataclass(frozen=True)
class Terms:
    """How rows are computed.

    Attributes:
        better: 1 if higher values of the metric are better, -1 if lower ones are.
        fewest: Lists that a row needs.
        bootstrap: Resamples of the interval.
        level: Coverage of the interval.
        seed: Seed of the resamples.
    """

    better: int
    fewest: int
    bootstrap: int
    level: float
    seed: int

    def doubt(self, lists: int) -> str:
        """Return why a number of lists is too small; empty if it is enough."""
        return f"only {lists:,} lists, {self.fewest:,} are needed" if lists < self.fewest else ""


# -- a value per user -------------------------------------------------------------------------------------------------


def of_users(triple: ComparedLists, name: str, segments: Mapping[str, Mask], terms: Terms) -> tuple[Retention, ...]:
    """Compute the rows of a metric with a value per user."""
    base, promised, now = triple.values(name)
    had = ~np.isnan(now - base - promised)
    of_day = [(day, had & (np.arange(len(had)) == at)[:, None]) for at, day in enumerate(triple.served.days)]
    rows = []
    for day, judged in [(ALL_DAYS, had), *of_day]:
        counts = judged.sum(0)  # lists of each user
        sums = np.stack([np.where(judged, now, 0).sum(0), counts * base, counts * promised])
        sums = np.where(counts > 0, sums, 0.0)
        asked = segments if day == ALL_DAYS or len(of_day) > 1 else {EVERYONE: segments[EVERYONE]}
        rows += [_row(day, segment, counts * mask, sums * mask, terms) for segment, mask in asked.items()]
    return _in_order(rows)


def _row(day: str, segment: str, counts: NDArray[Any], sums: Array, terms: Terms) -> Retention:
    """Compute a row; ``sums`` (3, n_users) are sums over each user's lists: served, base and promised."""
    present = counts > 0
    lists, users = int(counts.sum()), int(present.sum())
    if not users:
        return Retention(day, segment, 0, np.nan, np.nan, np.nan, None, None, None, terms.doubt(0) or NO_PROMISE)
    now, base, promised = (float(total) / lists for total in sums.sum(1))
    gains = np.stack([sums[0] - sums[1], sums[2] - sums[1]], axis=1)[present]
    drawn = bootstrap_means(gains, terms.bootstrap, random_generator(terms.seed))
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
    """Sort rows: everyone first, all days before single days."""
    return tuple(sorted(rows, key=lambda row: (row.segment != EVERYONE and row.day != ALL_DAYS, row.day != ALL_DAYS)))


# -- one value for all lists ------------------------------------------------------------------------------------------


def of_all(triple: ComparedLists, name: str, segments: Mapping[str, Mask], terms: Terms) -> tuple[Retention, ...]:
    """Compute the rows of a metric of all lists together: one value per day, and their mean over all days."""
    problem = triple.problem
    context = Context(
        popularity=problem.split.train.col_counts, categories=problem.categories, vectors=problem.item_vectors
    )

    def values(at: int, inside: Mask) -> list[float]:
        lists = (triple.stacked(of)[at][inside] for of in ("base", "promised", "now"))
        return [evaluate(it, context, [name], bootstrap=0)[name].mean for it in lists]

    rows: list[Retention] = []
    for segment, mask in segments.items():
        inside = [mask[triple.served.users[day]] for day in triple.served.days]
        counts = [int(it.sum()) for it in inside]
        means = np.array([values(at, it) if it.any() else [np.nan] * 3 for at, it in enumerate(inside)])
        together = np.nanmean(means[np.array(counts) > 0], axis=0) if any(counts) else np.full(3, np.nan)
        rows.append(_single(ALL_DAYS, segment, sum(counts), together, terms))
        if segment == EVERYONE or len(counts) > 1:
            rows += [
                _single(*of_day, terms)
                for of_day in zip(triple.served.days, repeat(segment), counts, means, strict=False)
            ]
    return _in_order(rows)


def _single(day: str, segment: str, lists: int, means: Array, terms: Terms) -> Retention:
    """Compute a row from the means of base, promised and served lists."""
    base, promised, now = means.tolist()
    gain = promised - base
    clear = terms.better * gain > ROUNDING  # False for NaN
    doubt = terms.doubt(lists) or ("" if clear else NO_PROMISE)
    return Retention(
        day, segment, lists, base, promised, now, (now - base) / gain if clear else None, None, None, doubt
    )


# -- exposure and accuracy --------------------------------------------------------------------------------------------


def exposure(triple: ComparedLists) -> tuple[Shown, ...]:
    """Compute the shares of the places for segments of items; empty if all served places are."""
    items = item_segments(triple.problem.split.train)
    base, promised, now = (np.concatenate(triple.stacked(of)) for of in ("base", "promised", "now"))
    if not (now >= 0).any():
        return ()
    planned, served = (exposure_by_segment(base, lists, items) for lists in (promised, now))
    return tuple(
        Shown(name, planned[name].items, planned[name].before, planned[name].after, served[name].after)
        for name in items
    )


def accuracy(triple: ComparedLists, relevant: Any, segments: Mapping[str, Mask]) -> SegmentTable:
    """Compare NDCG@10 of base and served lists by segment of users."""
    base, _, now = triple.values(COST, relevant)
    had = ~np.isnan(now)
    mean = np.divide(np.where(had, now, 0).sum(0), had.sum(0), out=np.full(len(base), np.nan), where=had.any(0))
    return by_segment(base, mean, {name: mask for name, mask in segments.items() if name != EVERYONE})
