"""Highlights of a result, for its pages: who pays, and example users.

These functions select from results that already exist. They search for nothing and make no claim.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recprism.budget.audit import COST
from recprism.budget.problem import Problem
from recprism.budget.segments import SegmentTable, by_segment, exposure_by_segment, item_segments, user_segments
from recprism.metrics.registry import parse

FloatArray = NDArray[np.float64]
Values = Mapping[str, NDArray[np.float64]]
TYPICAL, PAYS_MOST, MOST_CHANGED = "typical", "pays most", "changed most"


@dataclass(frozen=True)
class HighlightedUser:
    """A user whose lists are worth showing.

    Attributes:
        row: The row number of the user.
        reason: Why the user was selected.
    """

    row: int
    reason: str


def who_pays(problem: Problem, after: NDArray[Any]) -> tuple[SegmentTable | None, SegmentTable]:
    """Measure the effect of other lists on segments of users and of items.

    Args:
        problem: The base model and its labels.
        after: (n_users, k) item numbers of the other lists.

    Returns:
        The change of NDCG@10 per segment of users (None without labels), and the exposure per segment of items.
    """
    before = problem.base_lists
    shown = exposure_by_segment(before, after, item_segments(problem.split.train))
    if not len(problem.split.part(problem.part)):
        return None, shown
    old, new = (problem.judge(lists, (COST,))[COST] for lists in (before, after))
    return by_segment(old, new, user_segments(problem.split.train, problem.categories)), shown


def example_users(
    lists: tuple[NDArray[Any], NDArray[Any]], values: tuple[Values, Values], objective: str, cost: str
) -> list[HighlightedUser]:
    """Select three users whose lists changed, by a fixed criterion: two typical ones, and the one who pays most.

    Typical are the users nearest to the median in the number of new items, in what they gain of the objective, and in
    their cost before and its loss; each distance counts in units of its mean. Users who cannot be judged are last.
    Without a user who pays, the third is the one whose list changed most.

    Args:
        lists: (n_users, k) item numbers, before and after, as they are shown.
        values: Metric -> (n_users,) values, before and after. A metric without a value per user selects no one.
        objective: The metric whose gain counts.
        cost: The metric of accuracy.
    """
    new = (lists[1][:, :, None] != lists[0][:, None, :]).all(2) & (lists[1] >= 0)
    swaps = new.sum(1).astype(np.float64)
    changed = np.flatnonzero(swaps)
    if not len(changed):
        return []
    gain, loss = _gained(values, objective, swaps)[changed], -_gained(values, cost, swaps)[changed]
    unjudged = np.isnan(loss)
    traits = (swaps[changed], gain, loss, values[0].get(cost, swaps)[changed])
    far = np.sum([_from_median(it) for it in traits], axis=0)
    pays = bool((loss > 0).any())
    last = changed[np.lexsort((-swaps[changed], np.where(unjudged, np.inf, -loss) if pays else -swaps[changed]))[0]]
    typical = [int(row) for row in changed[np.lexsort((far, unjudged))] if row != last][:2]
    found = [HighlightedUser(row, TYPICAL) for row in typical]
    return [*found, HighlightedUser(int(last), PAYS_MOST if pays else MOST_CHANGED)]


def _from_median(values: FloatArray) -> FloatArray:
    """Return the distances from the median, in units of their mean; NaN counts as the median."""
    known = values[~np.isnan(values)]
    off = np.nan_to_num(np.abs(values - np.median(known))) if len(known) else np.zeros_like(values)
    return off / (off.mean() or 1.0)


def _gained(values: tuple[Values, Values], metric: str, like: FloatArray) -> FloatArray:
    """Return the change of a metric in its better direction, (n_users,); 0 without a value per user."""
    before, after = values
    if metric not in after or after[metric].shape != like.shape:
        return np.zeros_like(like)
    sign = -1.0 if parse(metric)[0].higher_is_better is False else 1.0
    return sign * (after[metric] - before[metric])
