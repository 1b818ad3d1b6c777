"""Item-to-item neighbours before and after: who moves item vectors that others share, moves "similar items" as well.

Vectors are compared as a "similar items" page compares them: by inner product and by cosine, without the item bias.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recprism.data.incidence import Incidence
from recprism.data.shares import percent
from recprism.errors import InputError
from recprism.models import Factors
from recprism.models.perturbation import Perturbation
from recprism.ranking import topk
from recprism.runs.run import STEPS, Run

K = 10
MOST_SCORES = 1 << 31  # of one search; all items up to 46,340 of them, a sample of the items beyond
ITEMS_AT_ONCE = 1 << 14
EVENT = "neighbours"  # the key under which the end of a search notes them

Matrix = NDArray[np.float32]
Items = NDArray[np.int64]


@dataclass(frozen=True)
class NeighbourOverlap:
    """How much of every item's nearest items stays.

    items: of the catalogue; asked: items whose neighbours were looked up, all of them or a sample
    k: neighbours of each; smaller than asked for only in a tiny catalogue
    moved: whether any item vector moved; if not, both overlaps are exactly 1 without a search
    inner_product, cosine: share of the k nearest items that stay, the mean over items
    whole_by_cosine: share of the items that keep all of them
    """

    items: int
    asked: int
    k: int
    moved: bool
    inner_product: float
    cosine: float
    whole_by_cosine: float

    def sentence(self) -> str:
        if not self.moved:
            return f"Item vectors stay as they are, so every item keeps its {self.k} nearest items: overlap exactly 1."
        whose = "items keep" if self.asked == self.items else f"{self.asked:,} items drawn from {self.items:,} keep"
        cosine, product, whole = (percent(it, ".1f") for it in (self.cosine, self.inner_product, self.whole_by_cosine))
        return (
            f"Item-to-item neighbours: {whose} {cosine} of their {self.k} nearest items by cosine and {product} by "
            f"inner product; {whole} keep all by cosine."
        )

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def neighbours_of(run: Run) -> NeighbourOverlap:
    """Of the run's perturbation: as it was noted when that was found, or computed."""
    return noted(run) or overlap_of(run.factors(), run.diversified().change)


def noted(run: Run) -> NeighbourOverlap | None:
    """What the end of the last search noted; None for runs of before, and for those without a perturbation."""
    ends = [event for event in run.events(without=STEPS) if str(event["event"]).startswith("diversified")]
    last = ends[-1].get(EVENT) if ends and run.is_diversified() else None
    return None if last is None else NeighbourOverlap(**last)


def overlap_of(factors: Factors, change: Perturbation, k: int = K) -> NeighbourOverlap:
    """Of the base's item vectors and the changed ones; a change of user vectors alone needs no search."""
    moved = change.item is not None and bool(change.item.any())
    after = change.applied_to(factors).item if moved else factors.item
    return neighbour_overlap(factors.item, after, k)


def neighbour_overlap(before: Matrix, after: Matrix, k: int = K, *, seed: int = 0) -> NeighbourOverlap:
    """The overlap of every item's k nearest other items; before, after: (n_items, d).

    Memory grows with n_items and not with its square. Of a catalogue beyond MOST_SCORES a sample of items is looked
    up, in the whole catalogue; ``seed`` draws it.

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
    asked = _drawn(n, seed)
    product = _shares_kept(old, new, asked, k, lambda matrix: matrix)
    cosine = _shares_kept(old, new, asked, k, _directions)
    means = float(product.mean()), float(cosine.mean()), float((cosine == 1).mean())
    return NeighbourOverlap(n, len(asked), k, True, *means)


def _drawn(n: int, seed: int) -> Items:
    most = max(1, MOST_SCORES // n)
    return np.arange(n) if n <= most else np.sort(np.random.default_rng(seed).choice(n, most, replace=False))


def _shares_kept(
    old: Matrix, new: Matrix, asked: Items, k: int, prepared: Callable[[Matrix], Matrix]
) -> NDArray[np.float64]:
    """(len(asked),) share of each item's k nearest that are the same in both."""
    before, after = prepared(old), prepared(new)
    kept = np.empty(len(asked))
    for start in range(0, len(asked), ITEMS_AT_ONCE):
        block = asked[start : start + ITEMS_AT_ONCE]
        itself = Incidence.from_pairs(np.arange(len(block)), block, (len(block), len(old)))
        first, second = (topk(matrix[block], matrix, k, exclude=itself)[0] for matrix in (before, after))
        both = np.sort(np.concatenate([first, second], axis=1), axis=1)
        kept[start : start + len(block)] = (both[:, 1:] == both[:, :-1]).sum(axis=1) / k  # each stands once in a list
    return kept


def _directions(matrix: Matrix) -> Matrix:
    """Vectors of length 1; one of length 0 has no direction and stays."""
    length: Matrix = np.linalg.norm(matrix, axis=1, keepdims=True)
    length[length == 0] = 1
    return matrix / length
