"""The compiled vectors, and the lists that ranking with them returns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from recprism.forms.dials.wanted import Wanted
from recprism.models import Factors
from recprism.models.perturbation import Perturbation
from recprism.ranking import topk


@dataclass(frozen=True, eq=False)
class ActivePairs:
    """Constraints with their weights: in one row of the lists, one item must score above another.

    Attributes:
        row: Row of the lists, (n,) int64.
        user: The user of that row, (n,) int64.
        above: The item that must score higher, (n,) int64.
        below: The item that must score lower, (n,) int64.
        weight: The multiplier of the constraint, (n,) float64, above 0.
    """

    row: NDArray[np.int64]
    user: NDArray[np.int64]
    above: NDArray[np.int64]
    below: NDArray[np.int64]
    weight: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.row)

    @property
    def items(self) -> NDArray[np.int64]:
        """The items that occur in a constraint, in ascending order."""
        return np.unique(np.concatenate([self.above, self.below]))

    def of_user(self, user: int) -> ActivePairs:
        """Return the constraints of one user."""
        own = self.user == user
        return ActivePairs(self.row[own], self.user[own], self.above[own], self.below[own], self.weight[own])


@dataclass(frozen=True, eq=False)
class CompiledVectors:
    """User vectors under which a plain dot product returns given lists.

    Attributes:
        perturbation: The change of the user vectors, in the units of the base model.
        given: What ranking with the changed vectors returns, (n_rows, k) int64; -1 in empty places.
        kept: The share of each list that is returned, (n_rows,); 1 for an empty list.
        in_order: The share of neighbours on each list that are returned in their order, (n_rows,); 1 if there are
            none.
        feasible: Whether all constraints of a user can be met, (n_users,) bool. A user without lists counts as
            feasible.
        support: The active constraints with their multipliers. The change of user u is the sum of
            weight * (item[above] - item[below]) over the user's pairs.
        proof: For each infeasible user, constraints that no vector meets together. The weighted sum of their
            item[above] - item[below] is 0, but the weighted sum of what they require is above 0.
        margin: How far list items had to score above other items, (n_users,), in units of scores.
        sizes: ``|change| / |vector|`` of each user vector, (n_users,). A zero vector counts as one of average length.
        size: The same over all vectors, as the root of the ratio of the sums of squares. A few users whose lists are
            barely feasible can dominate it.
        mean_change: Mean absolute entry of the change.

    Stability: stable.
    """

    perturbation: Perturbation
    given: NDArray[np.int64]
    kept: NDArray[np.float64]
    in_order: NDArray[np.float64]
    feasible: NDArray[np.bool_]
    support: ActivePairs
    proof: ActivePairs
    margin: NDArray[np.float64]
    sizes: NDArray[np.float64]
    size: float
    mean_change: float

    def applied_to(self, base: Factors) -> Factors:
        """Return the base model with the changed vectors."""
        return self.perturbation.applied_to(base)

    def sentence(self) -> str:
        """Describe the outcome in words."""
        whole = self.kept == 1
        how = "exactly" if bool((self.in_order[whole] == 1).all()) else "with the same items"
        counted = f"All {len(whole)}" if whole.all() else f"{int(whole.sum())} of {len(whole)}"
        share = "" if whole.all() else f" ({100 * float(self.kept.mean()):.2f} % of all wanted items)"
        text = f"{counted} lists come back {how} from the new vectors{share}."
        if self.feasible.all():
            return text
        return f"{text} For {int((~self.feasible).sum())} users no vector returns the wanted lists."


def compiled(
    base: Factors,
    wanted: Wanted,
    change: NDArray[np.float32],
    *,
    feasible: NDArray[np.bool_],
    support: ActivePairs,
    proof: ActivePairs,
) -> CompiledVectors:
    """Rank with the changed user vectors and measure the result; ``change`` is (n_users, d)."""
    perturbation = Perturbation(user=torch.from_numpy(change))
    given = ranked(perturbation.applied_to(base), wanted)
    kept, in_order = agreement(wanted.lists, given)
    moved = change.astype(np.float64)
    length = np.linalg.norm(base.user, axis=1).astype(np.float64)
    typical = float(np.sqrt(np.square(length).mean())) or 1.0
    return CompiledVectors(
        perturbation,
        given,
        kept,
        in_order,
        feasible,
        support,
        proof,
        wanted.margin,
        np.linalg.norm(moved, axis=1) / np.where(length > 0, length, typical),
        float(np.sqrt(np.square(moved).sum(1).mean()) / typical),
        float(np.abs(moved).mean()),
    )


def ranked(factors: Factors, wanted: Wanted) -> NDArray[np.int64]:
    """Rank the first k items of each row, (n_rows, k)."""
    user, item = factors.search_vectors
    return topk(user[wanted.users], item, wanted.k, exclude=wanted.exclude)[0]


def agreement(lists: NDArray[np.int64], given: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Compute the shares of items and of neighbours that are returned.

    A list of n items is compared with the first n items of ``given``.

    Args:
        lists: The wanted lists, (n_rows, k).
        given: The returned lists, (n_rows, k).

    Returns:
        Share of items and share of neighbours in order, each (n_rows,).
    """
    wanted = lists >= 0
    length = wanted.sum(1)
    allowed = np.arange(given.shape[1]) < length[:, None]
    same = (lists[:, :, None] == given[:, None, :]) & wanted[:, :, None] & allowed[:, None, :]
    found = same.any(2)
    kept = np.where(length > 0, found.sum(1) / np.maximum(length, 1), 1.0)
    # Neighbours skip empty places.
    by_place = np.argsort(~wanted, axis=1, kind="stable")
    place = np.take_along_axis(np.where(found, same.argmax(2), -1), by_place, 1)
    pairs = np.maximum(length - 1, 0)
    right = (place[:, :-1] >= 0) & (place[:, 1:] > place[:, :-1]) & (np.arange(lists.shape[1] - 1) < pairs[:, None])
    return kept, np.where(pairs > 0, right.sum(1) / np.maximum(pairs, 1), 1.0)
