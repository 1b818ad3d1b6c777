"""The lists that the vectors must return, and the margin by which they must win."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from recprism.data.sparse_rows import SparseRows
from recprism.errors import InputError
from recprism.models import Factors


@dataclass(frozen=True, eq=False)
class Wanted:
    """Rows of a user, a list, and items that cannot be recommended. A user may have several rows.

    Attributes:
        users: Numbers of users, (n_rows,) int64.
        lists: Item numbers, (n_rows, k) int64; -1 in empty places.
        exclude: Items that cannot be recommended in the row, (n_rows, n_items); none of them is on its list.
        margin: How far a list item must score above other items, (n_users,) float64, in units of scores.
        spread: The standard deviation of a user's base scores over the catalogue, (n_users,) float64.
    """

    users: NDArray[np.int64]
    lists: NDArray[np.int64]
    exclude: SparseRows
    margin: NDArray[np.float64]
    spread: NDArray[np.float64]

    @classmethod
    def of(
        cls,
        base: Factors,
        lists: ArrayLike,
        *,
        users: ArrayLike | None,
        exclude: SparseRows | Any | None,
        margin: float,
    ) -> Wanted:
        """Check the arguments of ``lists_to_vectors``."""
        chosen = as_lists(lists, base.n_items)
        rows = np.arange(base.n_users) if users is None else _as_users(users, base.n_users)
        if len(rows) != len(chosen):
            raise InputError(
                f"{len(chosen)} lists for {len(rows)} users; give one list per user, or name the users with users="
            )
        shape = (len(chosen), base.n_items)
        out = SparseRows.empty(shape) if exclude is None else SparseRows.coerce(exclude)
        if out.shape != shape:
            raise InputError(f"exclude has shape {out.shape}; it needs one row per list and a column per item, {shape}")
        _require_on_offer(chosen, out)
        if not margin > 0 or not np.isfinite(margin):
            raise InputError(f"margin is {margin!r}; pass a share of the spread of scores, above 0")
        spread = score_spread(base)
        return cls(rows, chosen, out, margin * spread, spread)

    @property
    def k(self) -> int:
        return int(self.lists.shape[1])


def score_spread(base: Factors) -> NDArray[np.float64]:
    """Compute the standard deviation of each user's scores over the catalogue, (n_users,), never 0.

    A user whose scores are nearly equal gets a thousandth of the average user's value. If this holds for all users,
    the unit is the root mean square distance of the item vectors from their mean.
    """
    user, item = (vectors.astype(np.float64) for vectors in base.search_vectors)
    item -= item.mean(0)
    covariance = item.T @ item / len(item)
    own = np.sqrt(np.einsum("ui,ij,uj->u", user, covariance, user, optimize=True).clip(0))
    typical = float(own.mean()) or float(np.sqrt(np.trace(covariance))) or 1.0
    spread: NDArray[np.float64] = np.maximum(own, 1e-3 * typical)
    return spread


def as_lists(lists: ArrayLike, n_items: int) -> NDArray[np.int64]:
    array = np.asarray(lists)
    if array.ndim != 2 or array.shape[1] == 0:
        raise InputError(f"lists have shape {array.shape}; give one row per list and one column per place")
    if array.dtype.kind not in "iu":
        raise InputError(f"lists hold {array.dtype}; give item numbers, -1 in empty places")
    array = np.ascontiguousarray(array, np.int64)
    bad = np.flatnonzero(((array < -1) | (array >= n_items)).any(1))
    if len(bad):
        raise InputError(f"list {bad[0]} holds an item number outside 0 .. {n_items - 1} (-1 for an empty place)")
    ranked = np.sort(array, axis=1)
    twice = np.flatnonzero(((ranked[:, 1:] == ranked[:, :-1]) & (ranked[:, 1:] >= 0)).any(1))
    if len(twice):
        raise InputError(f"list {twice[0]} holds an item twice; a list must name each item once")
    return array


def _as_users(users: ArrayLike, n_users: int) -> NDArray[np.int64]:
    array = np.asarray(users)
    if array.ndim != 1 or (array.dtype.kind not in "iu" and len(array)):
        raise InputError(f"users have shape {array.shape} and type {array.dtype}; give one user number per list")
    array = array.astype(np.int64)
    if len(array) and (array.min() < 0 or array.max() >= n_users):
        raise InputError(f"users run from {array.min()} to {array.max()}, outside 0 .. {n_users - 1}")
    return array


def _require_on_offer(lists: NDArray[np.int64], exclude: SparseRows) -> None:
    row, place = np.nonzero(lists >= 0)
    keys = row * exclude.n_cols + lists[row, place]
    hit = np.flatnonzero(np.isin(keys, exclude.keys))
    if len(hit):
        first = hit[0]
        raise InputError(
            f"list {row[first]} wants item {lists[row[first], place[first]]}, which exclude forbids there; "
            "take it off the list, or out of exclude"
        )
