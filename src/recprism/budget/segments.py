"""Who pays: changes by segments of users (activity and taste) and of items (popularity).

Segments come from the training history alone. Held-out interactions judge the change and must not choose the groups.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from recprism.budget._payer_test import loses_more
from recprism.common.display import Displayed
from recprism.common.shares import percent, percent_interval
from recprism.data.categories import Categories
from recprism.data.sparse_rows import SparseRows
from recprism.errors import InputError
from recprism.metrics.evaluation import frame_of, plain_row

if TYPE_CHECKING:
    import polars as pl

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
EVERYONE = "everyone"


@dataclass(frozen=True)
class SegmentChange:
    """The change of a metric for one segment of users.

    Attributes:
        segment: Its name.
        users: How many users are judged before and after.
        before: Their mean before.
        after: Their mean after.
        relative: after / before - 1; None if the mean before is 0.
        low: Lower end of the interval of the relative change; None for fewer than two users.
        high: Upper end of the interval.
        p_value: Two-sided paired t test of no change, not corrected for the number of segments.
        p_loses_more: Test that the segment loses more than all other users, in relative terms; corrected for the
            number of segments (see ``SegmentTable.paying``). None if it could not be tested.
    """

    segment: str
    users: int
    before: float
    after: float
    relative: float | None
    low: float | None
    high: float | None
    p_value: float | None
    p_loses_more: float | None = None

    def in_percent(self) -> str:
        """Return the relative change with its interval, in percent."""
        return f"{percent(self.relative, '+.1f')}, {percent_interval(self.low, self.high)}"


@dataclass(frozen=True)
class ExposureChange:
    """The change of exposure for one segment of items.

    Attributes:
        segment: Its name.
        items: How many items it has.
        before: Its share of all places in the lists before.
        after: Its share after.
        relative: after / before - 1; None if the share before is 0.
        low: Lower end of the interval of the relative change over users; None for fewer than two lists.
        high: Upper end of the interval.
    """

    segment: str
    items: int
    before: float
    after: float
    relative: float | None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, repr=False)
class SegmentTable(Displayed):
    """Changes by segments of users, or by segments of items.

    Attributes:
        rows: One per segment.
        confidence: Of the intervals, and of the claim that a segment pays more; None without rows.
    """

    rows: tuple[SegmentChange, ...] | tuple[ExposureChange, ...]
    confidence: float | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, segment: str) -> Any:
        rows = {row.segment: row for row in self.rows}
        if segment not in rows:
            raise InputError(f"there is no segment {segment!r}; there are {', '.join(rows)}")
        return rows[segment]

    @property
    def paying(self) -> tuple[SegmentChange, ...]:
        """Segments of users that lose more than the other users beyond chance, the largest loss first.

        With no real difference, there is one in at most 5 % of cases (at a confidence of 0.95), whatever the number of
        segments: studentised permutation tests against all other users, corrected by Holm.
        """
        most = 1 - (self.confidence or 1.0) + 1e-12  # 1 - 0.95 is a little more than 0.05
        found = [
            row
            for row in self.rows
            if isinstance(row, SegmentChange) and _is_at_most(row.p_loses_more, most) and (row.relative or 0.0) < 0
        ]
        return tuple(sorted(found, key=lambda row: row.relative or 0.0))

    def sentence(self, metric: str = "NDCG@10") -> str:
        """Say who pays more than the other users; no segment is named if chance explains the difference."""
        if not self.paying:
            return "Who pays: no group clearly pays more than the others."
        named = ", ".join(f"{row.segment} users ({row.in_percent()} {metric})" for row in self.paying)
        return f"Who pays more than the others, beyond chance: {named}."

    def to_dict(self) -> dict[str, Any]:
        """Return plain values only, ready for JSON; NaN becomes None."""
        return {
            "rows": [plain_row(row) for row in self.rows],
            "confidence": self.confidence,
            "paying": [row.segment for row in self.paying],
        }

    def to_frame(self) -> pl.DataFrame:
        """Return one row per segment, one column per field."""
        return frame_of(type(self.rows[0]) if self.rows else ExposureChange, self.rows)

    def _facts(self) -> dict[str, Any]:
        return {"segments": len(self), "confidence": self.confidence}


def by_segment(
    before: ArrayLike, after: ArrayLike, segments: Mapping[str, Mask], *, confidence: float = 0.95
) -> SegmentTable:
    """Compare a metric before and after a change of lists, for everyone and for each segment.

    Args:
        before: ``(n_users,)`` values of one metric; NaN users are left out.
        after: ``(n_users,)`` values.
        segments: Name -> ``(n_users,)`` bool.
        confidence: Of the intervals.

    Raises:
        InputError: If the shapes differ, or no user is judged in both.

    >>> halves = {"first": np.array([True, True, False, False])}
    >>> table = by_segment([0.2, 0.4, 0.5, 0.5], [0.1, 0.2, 0.5, 0.5], halves)
    >>> table["first"].relative, table["everyone"].users
    (-0.5, 4)
    """
    old, new = np.asarray(before, np.float64), np.asarray(after, np.float64)
    if old.ndim != 1 or old.shape != new.shape:
        raise InputError(f"before has shape {old.shape} and after {new.shape}; one value per user is needed in both")
    if not 0 < confidence < 1:
        raise InputError(f"confidence must be above 0 and below 1, such as 0.95; got {confidence}")
    judged = ~np.isnan(old - new)
    if not judged.any():
        raise InputError(f"none of {len(old)} users is judged both before and after; all values are NaN or missing")
    masks = {EVERYONE: np.ones(len(old), bool)} | _as_masks(segments, len(old), "user")
    rows = [_change(name, old[judged & mask], new[judged & mask], confidence) for name, mask in masks.items()]
    tested = loses_more(old[judged], new[judged], [mask[judged] for name, mask in masks.items() if name != EVERYONE])
    named = (replace(row, p_loses_more=p_value) for row, p_value in zip(rows[1:], tested, strict=True))
    return SegmentTable((rows[0], *named), confidence)


def exposure_by_segment(
    before: ArrayLike, after: ArrayLike, segments: Mapping[str, Mask], *, confidence: float = 0.95
) -> SegmentTable:
    """Compare the share of places of each segment of items before and after.

    Args:
        before: ``(n_users, k)`` item numbers, -1 in empty places.
        after: ``(n_users, k)`` item numbers of the same users.
        segments: Name -> ``(n_items,)`` bool.
        confidence: Of the intervals over users.

    Raises:
        InputError: If lists show no item, or items that the segments do not cover, or are not of the same users.
    """
    n_items = len(next(iter(segments.values()), ()))
    masks = _as_masks(segments, n_items, "item")
    if not masks:
        return SegmentTable(())
    old, new = (_checked_lists(lists, n_items) for lists in (before, after))
    if len(old) != len(new):
        raise InputError(f"there are {len(old)} lists before and {len(new)} after; both must be of the same users")

    def row(name: str, mask: Mask) -> ExposureChange:
        # a user's places in the segment, scaled so that the mean over users is the share of all places
        found = _change(name, _places_of(old, mask), _places_of(new, mask), confidence)
        return ExposureChange(name, int(mask.sum()), found.before, found.after, found.relative, found.low, found.high)

    return SegmentTable(tuple(row(name, mask) for name, mask in masks.items()), confidence)


# -- segments ---------------------------------------------------------------------------------------------------------


def user_segments(train: SparseRows, categories: Categories | None = None) -> dict[str, Mask]:
    """Return six segments of users, each about a third of them.

    Args:
        train: The training interactions.
        categories: Without them, "focused" and "broad" are left out.

    Returns:
        Name -> ``(n_users,)`` bool: "light" and "heavy" have the fewest and the most training items. "niche" and
        "mainstream" have the least and the most popular ones, on average. "focused" and "broad" have training items of
        the fewest and the most categories, by entropy.
    """
    traits = {("light", "heavy"): train.row_counts.astype(np.float64), ("niche", "mainstream"): mean_popularity(train)}
    if categories:
        traits["focused", "broad"] = history_breadth(train, categories)
    segments: dict[str, Mask] = {}
    for (low, high), trait in traits.items():
        segments[low], segments[high] = outer_thirds(trait)
    return segments


def item_segments(train: SparseRows) -> dict[str, Mask]:
    """Return the segments "head", "mid" and "tail", each with a third of the training interactions.

    An item across a border belongs to the more popular side.

    Returns:
        Name -> ``(n_items,)`` bool; empty without training interactions.
    """
    if not len(train):
        return {}
    order = np.argsort(-train.col_counts, kind="stable")
    falling = train.col_counts[order]
    third = np.empty(train.n_cols, np.int64)
    third[order] = np.minimum(3 * (np.cumsum(falling) - falling) // len(train), 2)
    return {name: third == number for number, name in enumerate(("head", "mid", "tail"))}


def outer_thirds(trait: Array) -> tuple[Mask, Mask]:
    """Return the lower and the upper third; users with equal values stay together, NaN users are in neither.

    >>> [mask.tolist() for mask in outer_thirds(np.array([5.0, 1.0, 3.0]))]
    [[False, True, False], [True, False, False]]
    """
    if np.isnan(trait).all():
        none = np.zeros(len(trait), bool)
        return none, none
    first, second = np.nanquantile(trait, [1 / 3, 2 / 3])
    if first == second:  # more than a third are equal: they are in the middle
        return trait < first, trait > second
    return trait <= first, trait >= second


def mean_popularity(train: SparseRows) -> Array:
    """Return ``(n_users,)`` mean popularity of the user's training items; NaN for users without any."""
    return _mean_per_user(train, train.col_counts[train.indices].astype(np.float64))


def history_breadth(train: SparseRows, categories: Categories) -> Array:
    """Return ``(n_users,)`` entropy of the categories of the user's history, over that of an even spread.

    An item counts once, shared among its categories by weight. Users without an item that has any are NaN.
    """
    if categories.items.n_rows != train.n_cols:
        raise InputError(f"categories are of {categories.items.n_rows} items and the split has {train.n_cols}")
    weights = categories.dense().astype(np.float64)
    shared = weights / np.maximum(weights.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny)
    mass = np.zeros((train.n_rows, len(categories)))
    np.add.at(mass, train.row_of_entry, shared[train.indices])
    total = mass.sum(axis=1, keepdims=True)
    share = np.divide(mass, total, out=np.full_like(mass, np.nan), where=total > 0)
    nats = -(share * np.log(share, out=np.zeros_like(share), where=share > 0)).sum(axis=1)
    spread: Array = np.maximum(nats, 0.0) / math.log(max(len(categories), 2))
    return spread


# -- arithmetic -------------------------------------------------------------------------------------------------------


def _change(segment: str, old: Array, new: Array, confidence: float) -> SegmentChange:
    n = len(old)
    if not n:
        return SegmentChange(segment, 0, math.nan, math.nan, None, None, None, None)
    before, after = float(old.mean()), float(new.mean())
    relative = after / before - 1 if before else None
    half = None if relative is None or n < 2 else _half_width(old, new, confidence)
    low, high = (None, None) if half is None or relative is None else (relative - half, relative + half)
    return SegmentChange(segment, n, before, after, relative, low, high, _p_value(new - old) if n > 1 else None)


def _half_width(old: Array, new: Array, confidence: float) -> float:
    """Return half the interval of a ratio of means, linearised: from the standard error of new - ratio * old."""
    from scipy.special import stdtrit

    residuals = new - new.mean() / old.mean() * old
    error = residuals.std(ddof=1) / math.sqrt(len(old)) / old.mean()
    return float(stdtrit(len(old) - 1, (1 + confidence) / 2) * error)


def _p_value(differences: Array) -> float:
    from scipy.special import stdtr

    mean, deviation = float(differences.mean()), float(differences.std(ddof=1))
    if deviation < 1e-12:  # all users changed alike
        return 0.0 if abs(mean) > 1e-12 else 1.0
    return float(2 * stdtr(len(differences) - 1, -abs(mean) / deviation * math.sqrt(len(differences))))


def _mean_per_user(train: SparseRows, of_entry: Array) -> Array:
    sums = np.bincount(train.row_of_entry, weights=of_entry, minlength=train.n_rows)
    means: Array = np.divide(sums, train.row_counts, out=np.full(train.n_rows, np.nan), where=train.row_counts > 0)
    return means


def _checked_lists(lists: ArrayLike, n_items: int) -> NDArray[np.int64]:
    items = np.asarray(lists).astype(np.int64)
    if not (items >= 0).any():
        raise InputError(f"lists of shape {items.shape} show no item; there is no exposure to share")
    if items.max() >= n_items:
        raise InputError(f"the lists hold item {items.max()} and the segments cover {n_items} items; number them alike")
    return items


def _places_of(lists: NDArray[np.int64], mask: Mask) -> Array:
    """Return ``(n_users,)`` places with an item of the segment, over the mean number of filled places."""
    filled = lists >= 0
    places: Array = (mask[lists] & filled).sum(axis=1) * (len(lists) / filled.sum())
    return places


def _is_at_most(p_value: float | None, most: float) -> bool:
    return p_value is not None and p_value <= most


def _as_masks(segments: Mapping[str, Mask], size: int, side: str) -> dict[str, Mask]:
    masks = {name: np.asarray(mask) for name, mask in segments.items()}
    for name, mask in masks.items():
        if mask.dtype != bool or mask.shape != (size,):
            raise InputError(
                f"segment {name!r} is {mask.dtype} of shape {mask.shape}; a bool for each of {size} {side}s is needed"
            )
    return masks
