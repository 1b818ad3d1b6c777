"""What baking leaves behind, measured by really ranking with the changed vectors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recprism.dials._item_side import Pulls
from recprism.dials._user_side import Pairs
from recprism.dials._wanted import Wanted
from recprism.models import Factors
from recprism.models.perturbation import Perturbation
from recprism.ranking import topk


@dataclass(frozen=True, eq=False)
class CompiledVectors:
    """Vectors that hold lists.

    side: "user" or "item"
    perturbation: the change, in the base model's own units
    given: (n_rows, k) int64: what ranking with the changed vectors gives, -1 where nothing is left
    kept: (n_rows,) share of each list that is in the list given back; 1 for an empty list
    in_order: (n_rows,) share of the neighbours on each list that come back one before the other; 1 where there are none
    feasible: (n_users,) bool, user side only: every constraint can be met, and is; without rows nothing is asked
    support: the constraints that hold the answer, with their multipliers. User side: change of user u = sum over u's
        pairs of weight * (item[above] - item[below]). Item side: change of item i = sum over its pulls of weight * user
    proof: for each user who cannot be satisfied: constraints whose weighted sum of item[above] - item[below] is 0 while
        the weighted sum of what they ask for is above 0. No vector meets them all
    margin: (n_users,) by how much list items were asked to score above outsiders, in units of scores
    sizes: (n_users,) or (n_items,) |change| / |vector| of every vector; a vector of no length counts as an average one
    size: the same over all vectors together (root of the ratio of the sums of squares); a few users whose lists can
        only just be had may make most of it
    mean_change: mean absolute entry of the change
    """

    side: str
    perturbation: Perturbation
    given: NDArray[np.int64]
    kept: NDArray[np.float64]
    in_order: NDArray[np.float64]
    feasible: NDArray[np.bool_] | None
    support: Pairs | Pulls
    proof: Pairs | None
    margin: NDArray[np.float64]
    sizes: NDArray[np.float64]
    size: float
    mean_change: float

    @property
    def support_items(self) -> NDArray[np.int64]:
        """The items that hold the answer: those in an active constraint, rising."""
        return self.support.items

    def applied_to(self, base: Factors) -> Factors:
        """The base model with the changed vectors."""
        return self.perturbation.applied_to(base)

    def sentence(self) -> str:
        """The outcome in words."""
        whole = int((self.kept == 1).sum())
        start = (
            f"A change of {100 * self.size:.1f} % of the {self.side} vectors gives back "
            f"{100 * float(self.kept.mean()) if len(self.kept) else 100:.2f} % of the wanted items, "
            f"{whole} of {len(self.kept)} lists whole"
        )
        if self.feasible is None or self.feasible.all():
            return start + "."
        return start + f"; for {int((~self.feasible).sum())} users no vector can, and a best effort stands in."


def baked(
    side: str,
    base: Factors,
    wanted: Wanted,
    perturbation: Perturbation,
    *,
    feasible: NDArray[np.bool_] | None = None,
    support: Pairs | Pulls,
    proof: Pairs | None = None,
) -> CompiledVectors:
    """Rank and measure."""
    given = ranked(perturbation.applied_to(base), wanted)
    kept, in_order = agreement(wanted.lists, given)
    change = perturbation.user if side == "user" else perturbation.item
    assert change is not None
    moved = change.double().numpy()
    length = np.linalg.norm(base.user if side == "user" else base.item, axis=1).astype(np.float64)
    typical = float(np.sqrt(np.square(length).mean())) or 1.0
    return CompiledVectors(
        side,
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
    """(n_rows, k) what each row's user is given in its scenario."""
    user, item = factors.search_vectors
    return topk(user[wanted.users], item, wanted.k, exclude=wanted.exclude)[0]


def agreement(lists: NDArray[np.int64], given: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Shares of items and of neighbours given back, each (n_rows,); both arrays (n_rows, k).

    A list of n items is compared with the first n given.
    """
    wanted = lists >= 0
    length = wanted.sum(1)
    allowed = np.arange(given.shape[1]) < length[:, None]
    same = (lists[:, :, None] == given[:, None, :]) & wanted[:, :, None] & allowed[:, None, :]
    found = same.any(2)
    kept = np.where(length > 0, found.sum(1) / np.maximum(length, 1), 1.0)
    # Places without an item are stepped over: neighbours are taken among the items alone.
    by_place = np.argsort(~wanted, axis=1, kind="stable")
    place = np.take_along_axis(np.where(found, same.argmax(2), -1), by_place, 1)
    pairs = np.maximum(length - 1, 0)
    right = (place[:, :-1] >= 0) & (place[:, 1:] > place[:, :-1]) & (np.arange(lists.shape[1] - 1) < pairs[:, None])
    return kept, np.where(pairs > 0, right.sum(1) / np.maximum(pairs, 1), 1.0)
