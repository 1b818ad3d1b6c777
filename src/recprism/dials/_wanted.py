"""What is asked of the vectors: lists, each of one user in one scenario, and how clearly they must come out on top."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from recprism.data.incidence import Incidence
from recprism.errors import InputError
from recprism.models import Factors


@dataclass(frozen=True, eq=False)
class Wanted:
    """Rows of (user, list, items that are not on offer). A user may have several rows: several scenarios.

    users: (n_rows,) int64 numbers of users
    lists: (n_rows, k) int64 item numbers, -1 in places without one
    exclude: (n_rows, n_items) items that cannot be recommended in the row, none of them on its list
    margin: (n_users,) float64: by how much a list item has to score above an outsider, in units of scores
    spread: (n_users,) float64: the standard deviation of a user's base scores over the catalogue
    relative_margin: the margin as a share of the spread
    """

    users: NDArray[np.int64]
    lists: NDArray[np.int64]
    exclude: Incidence
    margin: NDArray[np.float64]
    spread: NDArray[np.float64]
    relative_margin: float

    @classmethod
    def of(
        cls,
        base: Factors,
        lists: ArrayLike,
        *,
        users: ArrayLike | None,
        exclude: Incidence | Any | None,
        margin: float,
    ) -> Wanted:
        """Check what the caller gave."""
        chosen = _as_lists(lists, base.n_items)
        rows = np.arange(base.n_users) if users is None else _as_users(users, base.n_users)
        if len(rows) != len(chosen):
            raise InputError(
                f"{len(chosen)} lists for {len(rows)} users; give one list per user, or say with users= whose they are"
            )
        shape = (len(chosen), base.n_items)
        out = Incidence.empty(shape) if exclude is None else Incidence.coerce(exclude)
        if out.shape != shape:
            raise InputError(f"exclude has shape {out.shape}; it needs one row per list and a column per item, {shape}")
        _require_on_offer(chosen, out)
        if not margin > 0 or not np.isfinite(margin):
            raise InputError(f"margin is {margin!r}; pass a share of the spread of scores, above 0")
        spread = score_spread(base)
        return cls(rows, chosen, out, margin * spread, spread, margin)

    @property
    def half_margin(self) -> float:
        """Half the margin in units of a user's own spread."""
        return self.relative_margin / 2

    @property
    def k(self) -> int:
        return int(self.lists.shape[1])

    @property
    def lengths(self) -> NDArray[np.int64]:
        """(n_rows,) items on each list."""
        lengths: NDArray[np.int64] = np.count_nonzero(self.lists >= 0, axis=1)
        return lengths


def score_spread(base: Factors) -> NDArray[np.float64]:
    """(n_users,) the standard deviation of each user's scores over the catalogue, never 0.

    A user whose scores are (nearly) all equal has no unit of their own and gets a thousandth of the average user's;
    where that holds for all, the unit is a score of the average item.
    """
    user, item = (vectors.astype(np.float64) for vectors in base.search_vectors)
    centred = item - item.mean(0)
    own = np.sqrt(np.einsum("ui,ij,uj->u", user, centred.T @ centred / len(item), user, optimize=True).clip(0))
    typical = float(own.mean()) or float(np.sqrt((centred**2).sum(1).mean())) or 1.0
    spread: NDArray[np.float64] = np.maximum(own, 1e-3 * typical)
    return spread


def _as_lists(lists: ArrayLike, n_items: int) -> NDArray[np.int64]:
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


def _require_on_offer(lists: NDArray[np.int64], exclude: Incidence) -> None:
    row, place = np.nonzero(lists >= 0)
    keys = row * exclude.n_cols + lists[row, place]
    hit = np.flatnonzero(np.isin(keys, exclude.keys))
    if len(hit):
        first = hit[0]
        raise InputError(
            f"list {row[first]} wants item {lists[row[first], place[first]]}, which exclude forbids there; "
            "take it off the list, or out of exclude"
        )
