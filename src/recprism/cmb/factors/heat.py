"""The items that moved most, and the factors that moved them, for reports. Nothing is searched for or claimed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recprism.cmb.factors.explanation import Explanation

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Heat:
    """A heat map of items by factors.

    Attributes:
        items: (n,) item numbers.
        factors: (m,) factor numbers.
        values: (n, m) if ``side`` is "item", the change of the item's vector. If it is "user", item vectors did not
            move. A value is then the factor's contribution to the item's score relative to the item it replaced, as a
            mean over the lists that it entered.
        side: Whose vectors moved.
    """

    items: NDArray[np.int64]
    factors: NDArray[np.int64]
    values: FloatArray
    side: str


def item_heat(explanation: Explanation, n_items: int = 15, n_factors: int = 10) -> Heat | None:
    """Select the items that moved most and the factors in which they moved; None if nothing moved."""
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
    """Select the rows with the largest weights, and the columns with the largest values in these rows."""
    rows = np.argsort(-weights, kind="stable")[: shape[0]]
    rows = rows[weights[rows] > 0]
    if not len(rows):
        return None
    columns = np.argsort(-np.abs(values[rows]).mean(axis=0), kind="stable")[: shape[1]]
    return Heat(items[rows], columns, values[np.ix_(rows, columns)], side)
