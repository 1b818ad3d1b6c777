"""What of a diversified run is worth showing: who paid, which users tell most, which items moved through which factors.

Everything here reads what others found and picks from it; nothing is searched for, and nothing is claimed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recprism.budget.audit import COST
from recprism.budget.scenario import Scenario
from recprism.budget.segments import SegmentTable, by_segment, exposure_by_segment, item_segments, user_segments
from recprism.explain.change import Change
from recprism.explain.evaluator import Evaluator
from recprism.explain.explanation import Explanation
from recprism.metrics import parse

FloatArray = NDArray[np.float64]
LARGEST_GAIN, MOST_SWAPS, LARGEST_LOSS = "gained most", "most swaps", "paid most"


@dataclass(frozen=True, eq=False)
class Heat:
    """Items by factors.

    items: (n,) item numbers; factors: (m,) factor numbers; values: (n, m)
    side: whose vectors moved. "item": values are what was added to the item's vector. "user": item vectors stayed, so
        values are what each factor added to the item's score against the one it replaced, the mean over the lists that
        it came into
    """

    items: NDArray[np.int64]
    factors: NDArray[np.int64]
    values: FloatArray
    side: str


@dataclass(frozen=True)
class Telling:
    """A user worth looking at: the row number, and what for."""

    row: int
    reason: str


def who_pays(scenario: Scenario, change: Change) -> tuple[SegmentTable | None, SegmentTable]:
    """What a change did to NDCG@10 of each segment of users, and to the places of each segment of items; no users'
    table where the part has no labels."""
    before = scenario.base_lists
    after = np.asarray(change.after.rank(scenario.k, exclude=scenario.seen)[0], np.int64)
    shown = exposure_by_segment(before, after, item_segments(scenario.split.train))
    if not len(scenario.split.part(scenario.part)):
        return None, shown
    old, new = (scenario.judge(lists, (COST,))[COST] for lists in (before, after))
    return by_segment(old, new, user_segments(scenario.split.train, scenario.subtopics)), shown


def item_heat(explanation: Explanation, n_items: int = 15, n_factors: int = 10) -> Heat | None:
    """The items that moved most and the factors they moved in; None where nothing moved."""
    if explanation.change.item is not None:
        delta = explanation.change.item.astype(np.float64)
        return _largest(np.arange(len(delta)), delta, np.abs(delta).sum(axis=1), (n_items, n_factors), "item")
    swaps = explanation.swaps
    if not len(swaps) or "user" not in swaps.parts:
        return None
    items, of_item, lists = np.unique(swaps.came, return_inverse=True, return_counts=True)
    sums = np.zeros((len(items), swaps.parts["user"].shape[1]))
    np.add.at(sums, of_item, swaps.parts["user"])
    return _largest(items, sums / lists[:, None], lists.astype(np.float64), (n_items, n_factors), "user")


def _largest(
    items: NDArray[np.int64], values: FloatArray, weights: FloatArray, shape: tuple[int, int], side: str
) -> Heat | None:
    """The rows of the largest weights, and the columns that are largest in them."""
    rows = np.argsort(-weights, kind="stable")[: shape[0]]
    rows = rows[weights[rows] > 0]
    if not len(rows):
        return None
    columns = np.argsort(-np.abs(values[rows]).mean(axis=0), kind="stable")[: shape[1]]
    return Heat(items[rows], columns, values[np.ix_(rows, columns)], side)


def telling_users(explanation: Explanation, judge: Evaluator, n: int = 10) -> list[Telling]:
    """Users whose lists changed: who gained most in the objective, who lost most accuracy, who saw most swaps."""
    swaps = np.bincount(explanation.swaps.users, minlength=explanation.change.base.n_users).astype(np.float64)
    before, after = judge.values(explanation.change.base), judge.values(explanation.change.after)

    def gained(metric: str) -> FloatArray:
        """In the better direction: of calibration error, say, less is a gain."""
        sign = -1.0 if parse(metric)[0].higher_is_better is False else 1.0
        difference = sign * np.nan_to_num(after[metric] - before[metric])
        return difference if difference.shape == swaps.shape else np.zeros_like(swaps)

    wanted = (
        (LARGEST_GAIN, gained(explanation.objective), n - n // 3 - n // 3),
        (LARGEST_LOSS, -gained(explanation.cost), n // 3),
        (MOST_SWAPS, swaps, n),
    )
    chosen: dict[int, str] = {}
    for reason, values, share in wanted:
        room = min(share, n - len(chosen))
        order = [int(row) for row in np.lexsort((-swaps, -values)) if values[row] > 0 and swaps[row] > 0]
        chosen |= dict.fromkeys([row for row in order if row not in chosen][:room], reason)
    return [Telling(row, reason) for row, reason in chosen.items()]
