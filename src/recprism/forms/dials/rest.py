"""The rest that named weights do not reach: the smallest change of a user's own vector."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from recprism.forms.dials.result import agreement
from recprism.forms.dials.solve import lists_to_vectors
from recprism.forms.dials.wanted import Wanted
from recprism.models import Factors

SHRUNK = np.float32(2.0**-20)  # properties so small that the solver changes the weights by nothing; exact in binary


@dataclass(frozen=True, eq=False)
class Rest:
    """What is added to the vectors of users whose list no named weights return.

    Attributes:
        users: Numbers of these users, (n,) int64.
        change: Added to the user's vector, (n, d) float32.
        served: What ranking with weights and change returns, for all lists, (n_rows, k) int64.
    """

    users: NDArray[np.int64]
    change: NDArray[np.float32]
    served: NDArray[np.int64]

    def applied_to(self, base: Factors) -> Factors:
        """Return the base model with the changed user vectors."""
        user = base.user.copy()
        user[self.users] += self.change
        return replace(base, user=user)


def find_rest(base: Factors, with_weights: Factors, wanted: Wanted, given: NDArray[np.int64], ordered: bool) -> Rest:
    """Find the smallest change of user vectors that returns the lists which weights do not; the weights stay.

    Args:
        base: The recommender of d numbers per vector.
        with_weights: The same with weights and properties, of d + m numbers.
        wanted: The lists.
        given: What ranking with the weights returns, (n_rows, k).
        ordered: Whether the order of the lists counts, too.
    """
    before = agreement(wanted.lists, given)
    rows = np.flatnonzero((before[0] < 1) | (before[1] < 1) if ordered else before[0] < 1)
    users, d, out = wanted.users[rows], base.dim, wanted.exclude.take_rows(rows)
    if not len(rows):
        return Rest(users, np.zeros((0, d), np.float32), given)
    weighted = with_weights.of_users(users)
    scale = np.concatenate([np.ones(d, np.float32), np.full(weighted.dim - d, SHRUNK)])
    found = lists_to_vectors(
        replace(weighted, user=weighted.user / scale, item=weighted.item * scale),
        wanted.lists[rows],
        exclude=out,
        order=ordered,
    ).perturbation.user
    assert found is not None
    change = found.numpy()[:, :d]
    served = given.copy()
    tried = replace(weighted, user=weighted.user + np.pad(change, ((0, 0), (0, weighted.dim - d))))
    served[rows] = tried.rank(wanted.k, exclude=out)[0]
    after = agreement(wanted.lists, served)
    better = ((after[0] > before[0]) | ((after[0] == before[0]) & (after[1] > before[1])))[rows]
    served[rows[~better]] = given[rows[~better]]
    return Rest(users[better], change[better], served)
