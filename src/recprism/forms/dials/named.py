"""Compile lists into a few named weights per user: score = user . item + weights . properties."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from recprism.common.display import Displayed
from recprism.data.categories import Categories
from recprism.data.sparse_rows import SparseRows
from recprism.errors import InputError
from recprism.forms.dials.result import agreement, ranked
from recprism.forms.dials.wanted import Wanted, as_lists
from recprism.forms.dials.weights import rows_of, solve, solve_with_demotion
from recprism.models import Factors
from recprism.models.factors import COSINE

if TYPE_CHECKING:
    import polars as pl

NEW, OLD = 1.0, 2.0  # cost of a weight on a property that the list newly covers, and on others
MARGIN, ROUNDING, SCALES = 1e-5, 0.005, (0.9, 1.1)  # defaults of ``lists_to_dials``


@dataclass(frozen=True, eq=False, repr=False)
class Dials(Displayed):
    """Named weights of users, and what ranking with them returns.

    Attributes:
        categories: The m categories of the items.
        weights: (n_users, m) float64, in units of scores; below 0 for users of ``demote`` only.
        score_range: Largest minus smallest base score over the catalogue, (n_users,); 0 for users without weights.
        user_ids: (n_users,).
        users: The user of each list, (n_rows,) int64.
        lists: The wanted lists, (n_rows, k) int64.
        base_lists: The lists of the base model, (n_rows, k) int64.
        given: What ranking with the weights over the whole catalogue returns, in float32, (n_rows, k) int64.
        feasible: Whether weights meet all constraints of the user, (n_users,) bool. The constraints ask for more than
            the list, so that it tolerates rounding; the list may come back even where they cannot be met.
        same_property_pairs: Number of wanted items whose base score is too low against an item with equal properties.
        ordered: Whether the order of the lists had to be kept.
        scales: Smallest and largest factor of the weights at which the lists had to hold.
        margin: How far a wanted item must score above other items, as a share of the spread of the user's scores.
        rounding: The same for each unit of L1 distance between the properties of two items.
    """

    categories: Categories
    weights: NDArray[np.float64]
    score_range: NDArray[np.float64]
    user_ids: NDArray[Any]
    users: NDArray[np.int64]
    lists: NDArray[np.int64]
    base_lists: NDArray[np.int64]
    given: NDArray[np.int64]
    feasible: NDArray[np.bool_]
    same_property_pairs: int
    ordered: bool
    scales: tuple[float, float]
    margin: float
    rounding: float

    @property
    def names(self) -> tuple[str, ...]:
        return self.categories.names

    @property
    def changed(self) -> NDArray[np.bool_]:
        """Whether the wanted list differs from the base list, (n_rows,)."""
        return ~self._same_as(self.base_lists)

    @property
    def held(self) -> NDArray[np.bool_]:
        """Whether the weights alone return the list, as a set or, if ``ordered``, in its order, (n_rows,)."""
        return self._same_as(self.given)

    def _same_as(self, other: NDArray[np.int64]) -> NDArray[np.bool_]:
        kept, in_order = agreement(self.lists, other)
        same: NDArray[np.bool_] = (kept == 1) & (in_order == 1) if self.ordered else kept == 1
        return same

    @property
    def changed_users(self) -> int:
        return int(self.changed.sum())

    @property
    def lists_held(self) -> float:
        """The share of changed lists that the weights alone return; 1 if no list changed."""
        return float(self.held[self.changed].mean()) if self.changed_users else 1.0

    @property
    def explained_swaps(self) -> float:
        """The share of wanted items outside the base lists that the weights bring in; 1 if there are none."""
        wanted = (self.lists >= 0) & ~_among(self.lists, self.base_lists)
        return float(_among(self.lists, self.given)[wanted].mean()) if wanted.any() else 1.0

    @property
    def dials_per_changed_user(self) -> float:
        """The mean number of weights of users whose list changed."""
        changed = self.users[self.changed]
        return float((self.weights[changed] != 0).sum(1).mean()) if len(changed) else 0.0

    def explained_gain(self, goal: Callable[[NDArray[np.int64]], ArrayLike]) -> float:
        """Compute which share of the gain of the wanted lists the weights reach; NaN if there is no gain.

        Args:
            goal: (n_rows, k) lists to the value of each, or to one value; NaN for users who cannot be judged.
        """
        lists = (self.base_lists, self.lists, self.given)
        base, wanted, given = (float(np.nanmean(np.asarray(goal(it), np.float64))) for it in lists)
        return (given - base) / (wanted - base) if wanted != base else float("nan")

    def applied_to(self, base: Factors) -> Factors:
        """Return a recommender of d + m numbers per vector: user and weights, item and categories."""
        _require_inner_product(base)
        n_items = self.categories.items.n_rows
        if (base.n_users, base.n_items) != (len(self.weights), n_items):
            raise InputError(
                f"weights for {len(self.weights)} users and {n_items} items; the recommender has {base.n_users} and "
                f"{base.n_items}"
            )
        return replace(
            base,
            user=np.hstack([base.user, self.weights.astype(np.float32)]),
            item=np.hstack([base.item, self.categories.dense()]),
        )

    def sentence(self) -> str:
        """Describe the outcome in words."""
        changed = self.changed_users
        if not changed:
            return "No list differs from the base list, so all weights are 0."
        held = int(self.held[self.changed].sum())
        counted = f"All {changed}" if held == changed else f"{held} of {changed}"
        order = " in order" if self.ordered else ""
        text = (
            f"{counted} changed lists come back{order} from {self.dials_per_changed_user:.1f} named weights per user."
        )
        refused = int((~self.feasible).sum())
        if refused:
            text = f"{text} For {_counted(refused)} no weights meet all constraints."
        return text

    def to_dict(self) -> dict[str, Any]:
        """Return the figures in plain values."""
        return {
            "users": len(self.users),
            "changed_users": self.changed_users,
            "lists_held": self.lists_held,
            "explained_swaps": self.explained_swaps,
            "dials_per_changed_user": self.dials_per_changed_user,
            "same_property_pairs": self.same_property_pairs,
            "infeasible_users": int((~self.feasible).sum()),
        }

    def shares_of(self, row: int) -> dict[str, float]:
        """Return property -> weight of a user, given by row number, as a share of the user's score range."""
        reach = self.score_range[row] or 1.0  # 0 for a user without weights
        return dict(zip(self.names, (self.weights[row] / reach).tolist(), strict=True))

    def of_user(self, row: int) -> dict[str, float]:
        """Return :meth:`shares_of` a user without zeros, the largest first."""
        shares = self.shares_of(row)
        return {name: shares[name] for name in sorted(shares, key=lambda it: -abs(shares[it])) if shares[name]}

    def to_frame(self) -> pl.DataFrame:
        """Return one row per weight that is not 0: user, property, weight, and its share of the user's score range."""
        import polars as pl

        from recprism.common.ids import id_series

        user, property = np.nonzero(self.weights)
        weight, reach = self.weights[user, property], self.score_range[user]
        return pl.DataFrame(
            {
                "user": id_series(self.user_ids[user]),
                "property": np.array(self.names, dtype=object)[property].astype(str),
                "weight": weight,
                "share": weight / np.where(reach > 0, reach, 1.0),
            }
        )


def lists_to_dials(
    base: Factors,
    lists: ArrayLike,
    categories: Categories,
    *,
    base_lists: ArrayLike | None = None,
    exclude: SparseRows | Any | None = None,
    users: ArrayLike | None = None,
    ordered: bool = False,
    demote: bool = False,
    margin: float = MARGIN,
    rounding: float = ROUNDING,
    scales: tuple[float, float] = SCALES,
) -> Dials:
    """Find the cheapest named weights per user under which ranking returns ``lists``.

    The score becomes user . item + weights . properties, with weights of at least 0. A weight costs 1 on a property
    that the list newly covers, and 2 elsewhere. Of the cheapest weights, the solver takes those with the least sum of
    squares, so the answer is unique. Users whose list is the base list get no weights.

    Where no weights meet all constraints, the solver returns those with the smallest sum of violations.

    Args:
        base: The recommender.
        lists: Item numbers, (n_rows, k); -1 in empty places.
        categories: The categories of the items.
        base_lists: What the recommender shows without weights, (n_rows, k); ranked here by default.
        exclude: Items that cannot be recommended, such as seen items, (n_rows, n_items).
        users: The user of each list, (n_rows,), all distinct; by default row u belongs to user u.
        ordered: Also keep the order of each list.
        demote: Allow weights below 0, at a cost of 2, for users whose list no weights of at least 0 hold.
        margin: How far a wanted item must score above other items. The unit is the standard deviation of the user's
            base scores over the catalogue.
        rounding: The same, for each unit of L1 distance between the properties of two items, so that rounded vectors
            return the lists, too.
        scales: Smallest and largest factor of the weights at which the lists must hold.

    Returns:
        The weights, and what ranking with them returns.

    Raises:
        InputError: The arguments do not fit together, or the recommender ranks by cosine.
    """
    _require_inner_product(base)
    _check(base, categories, rounding, scales)
    values = categories.dense()
    wanted = Wanted.of(base, lists, users=users, exclude=exclude, margin=margin)
    if len(np.unique(wanted.users)) < len(wanted.users):
        raise InputError("a user has two lists; weights are for one list per user")
    before = ranked(base, wanted) if base_lists is None else as_lists(base_lists, base.n_items)
    if before.shape != wanted.lists.shape:
        raise InputError(f"base_lists have shape {before.shape} and lists {wanted.lists.shape}; they must agree")
    kept, in_order = agreement(wanted.lists, before)
    changed = np.flatnonzero((kept < 1) | (in_order < 1) if ordered else kept < 1)
    rows = rows_of(values.astype(np.float64), margin=margin, rounding=rounding, scales=scales, ordered=ordered)
    cost = np.where(covered(values, wanted.lists) & ~covered(values, before), NEW, OLD)
    if demote:
        answer = solve_with_demotion(base, wanted, rows, cost, changed, OLD)
    else:
        answer = solve(base, wanted, rows, cost, changed)
    found = Dials(
        categories,
        _per_user(answer.weights, wanted.users, base.n_users),
        _per_user(answer.score_range, wanted.users, base.n_users),
        base.user_ids,
        wanted.users,
        wanted.lists,
        before,
        before,
        ~_per_user(~answer.feasible, wanted.users, base.n_users),
        int(answer.same.sum()),
        ordered,
        scales,
        margin,
        rounding,
    )
    return replace(found, given=ranked(found.applied_to(base), wanted))


def covered(values: NDArray[np.float32], lists: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Tell which categories each list covers, (n, m).

    Args:
        values: Items x categories, 0 where the item does not have the category.
        lists: ``(n, k)`` item numbers; -1 in empty places.
    """
    has = np.vstack([values > 0, np.zeros((1, values.shape[1]), np.bool_)])  # -1 is the last row
    found = np.zeros((len(lists), values.shape[1]), np.bool_)
    for place in lists.T:
        found |= has[place]
    return found


def _check(base: Factors, categories: Categories, rounding: float, scales: tuple[float, float]) -> None:
    n_items = categories.items.n_rows
    if n_items != base.n_items:
        raise InputError(f"categories of {n_items} items for a recommender with {base.n_items}; pass the same items")
    if not len(categories):
        raise InputError("dials need categories of the items and there are none; use lists_to_vectors")
    if not 0 <= rounding < np.inf:
        raise InputError(f"rounding is {rounding!r}; pass a number of at least 0")
    if not 0 < scales[0] <= 1 <= scales[1] < np.inf:
        raise InputError(f"scales are {scales!r}; pass a factor of at most 1 and one of at least 1")


def _require_inner_product(base: Factors) -> None:
    if base.metric == COSINE:
        raise InputError(
            "named weights change inner products and this recommender ranks by cosine; use lists_to_vectors"
        )


def _per_user(values: NDArray[Any], users: NDArray[np.int64], n_users: int) -> NDArray[Any]:
    spread = np.zeros((n_users, *values.shape[1:]), values.dtype)
    spread[users] = values
    return spread


def _among(lists: NDArray[np.int64], others: NDArray[np.int64]) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = (lists[:, :, None] == others[:, None, :]).any(2)
    return found


def _counted(users: int) -> str:
    return f"{users} {'user' if users == 1 else 'users'}"
