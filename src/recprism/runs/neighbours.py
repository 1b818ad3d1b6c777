"""Item-to-item neighbours before and after a change: moved item vectors also change "similar items".

Vectors are compared as on a "similar items" page: by inner product and by cosine, without the item bias.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recprism.common.checks import random_generator
from recprism.common.shares import percent
from recprism.data.sparse_rows import SparseRows
from recprism.errors import InputError
from recprism.models import Factors
from recprism.models.perturbation import Perturbation
from recprism.ranking import topk
from recprism.runs.event_log import STEPS
from recprism.runs.run import Run

K = 10
MOST_SCORES = 1 << 31  # per search: all items of catalogues up to 46,340, a sample of larger ones
ITEMS_AT_ONCE = 1 << 14
EVENT = "neighbours"  # the key of the event at the end of a search

Matrix = NDArray[np.float32]
Items = NDArray[np.int64]


@dataclass(frozen=True)
class NeighbourOverlap:
    """How many of every item's nearest items stay.

    Attributes:
        items: Size of the catalogue.
        asked: How many items were looked up: all of them, or a sample.
        k: Neighbours of each item; fewer than requested only in a tiny catalogue.
        moved: Whether any item vector moved. If not, both overlaps are exactly 1 without a search.
        inner_product: Share of the k nearest items that stay, by inner product; the mean over items.
        cosine: The same by cosine.
        whole_by_cosine: Share of the items that keep all k.
    """

    items: int
    asked: int
    k: int
    moved: bool
    inner_product: float
    cosine: float
    whole_by_cosine: float

    def sentence(self) -> str:
        """Return the overlap in words."""
        if not self.moved:
            return f"Trained item vectors stay, so items keep their {self.k} nearest items by them: overlap exactly 1."
        whose = "items keep" if self.asked == self.items else f"{self.asked:,} items drawn from {self.items:,} keep"
        cosine, product, whole = (percent(it, ".1f") for it in (self.cosine, self.inner_product, self.whole_by_cosine))
        return (
            f"Item-to-item neighbours: {whose} {cosine} of their {self.k} nearest items by cosine and {product} by "
            f"inner product; {whole} keep all by cosine."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values only, ready for JSON."""
        return asdict(self)


def neighbours_of(run: Run) -> NeighbourOverlap:
    """Return the overlap of the run's change: noted when it was found, or computed."""
    found = noted(run)
    if found is None:
        changed = run.load_result().vectors
        found = overlap_of(run.factors(), Perturbation() if changed is None else changed.change)
    return found


def noted(run: Run) -> NeighbourOverlap | None:
    """Return what the end of the last search noted; None without a change."""
    ends = [event for event in run.events(without=STEPS) if str(event["event"]).startswith("diversified")]
    last = ends[-1].get(EVENT) if ends and run.is_diversified() else None
    return None if last is None else NeighbourOverlap(**last)


def overlap_of(factors: Factors, change: Perturbation) -> NeighbourOverlap:
    """Compare the item vectors of the base with the changed ones; without a change of item vectors no search runs."""
    moved = change.item is not None and bool(change.item.any())
    after = change.applied_to(factors).item if moved else factors.item
    return neighbour_overlap(factors.item, after)


def neighbour_overlap(before: Matrix, after: Matrix, k: int = K) -> NeighbourOverlap:
    """Compare every item's k nearest other items before and after.

    Memory grows with n_items and not with its square. In a large catalogue, a sample of the items is looked up among
    all items.

    Args:
        before: ``(n_items, d)`` item vectors.
        after: ``(n_items, d)`` item vectors.
        k: Neighbours of each item.

    Raises:
        InputError: If the shapes differ.

    >>> turned = neighbour_overlap(np.eye(3) + 0.1, np.eye(3) + 0.1, k=1)
    >>> turned.moved, turned.cosine
    (False, 1.0)
    """
    old, new = (np.ascontiguousarray(matrix, np.float32) for matrix in (before, after))
    if old.shape != new.shape or old.ndim != 2:
        raise InputError(f"item vectors have shape {old.shape} before and {new.shape} after; they must agree")
    n, k = len(old), min(k, len(old) - 1)
    if k < 1 or np.array_equal(old, new):
        return NeighbourOverlap(n, n, k, False, 1.0, 1.0, 1.0)
    asked = _drawn(n)
    product = _shares_kept(old, new, asked, k, lambda matrix: matrix)
    cosine = _shares_kept(old, new, asked, k, _directions)
    means = float(product.mean()), float(cosine.mean()), float((cosine == 1).mean())
    return NeighbourOverlap(n, len(asked), k, True, *means)


def _drawn(n: int) -> Items:
    most = max(1, MOST_SCORES // n)
    return np.arange(n) if n <= most else np.sort(random_generator(0).choice(n, most, replace=False))


def _shares_kept(
    old: Matrix, new: Matrix, asked: Items, k: int, prepared: Callable[[Matrix], Matrix]
) -> NDArray[np.float64]:
    """Return ``(len(asked),)`` shares of each item's k nearest items that are the same in both."""
    before, after = prepared(old), prepared(new)
    kept = np.empty(len(asked))
    for start in range(0, len(asked), ITEMS_AT_ONCE):
        block = asked[start : start + ITEMS_AT_ONCE]
        itself = SparseRows.from_pairs(np.arange(len(block)), block, (len(block), len(old)))
        first, second = (topk(matrix[block], matrix, k, exclude=itself)[0] for matrix in (before, after))
        both = np.sort(np.concatenate([first, second], axis=1), axis=1)
        kept[start : start + len(block)] = (both[:, 1:] == both[:, :-1]).sum(axis=1) / k  # an item is in a list once
    return kept


def _directions(matrix: Matrix) -> Matrix:
    """Scale vectors to length 1; vectors of length 0 stay."""
    length: Matrix = np.linalg.norm(matrix, axis=1, keepdims=True)
    length[length == 0] = 1
    return matrix / length
