"""User vectors: for each user the nearest vector that returns the lists, or a proof that there is none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recprism.common.threads import share_work
from recprism.forms.dials.kernels import user_vectors as loops
from recprism.forms.dials.kernels.user_state import MarginPrograms
from recprism.forms.dials.result import ActivePairs
from recprism.forms.dials.wanted import Wanted
from recprism.models import Factors

USERS_AT_ONCE = 32


@dataclass(frozen=True, eq=False)
class UserAnswer:
    """The changed vectors; ``support`` and ``proof`` are described in ``CompiledVectors``.

    Attributes:
        change: (n_users, d) float32.
        feasible: (n_users,) bool.
        support: The active constraints of feasible users.
        proof: The constraints that show infeasibility.
    """

    change: NDArray[np.float32]
    feasible: NDArray[np.bool_]
    support: ActivePairs
    proof: ActivePairs


def solve(base: Factors, wanted: Wanted, order: bool) -> UserAnswer:
    """Solve the problems of all users, shared among threads; the result does not depend on the number of threads."""
    by_user = np.argsort(wanted.users, kind="stable")
    problem = MarginPrograms(*_problem(base, wanted, by_user, order))
    x = np.empty(base.user.shape)
    status = np.empty(base.n_users, np.int8)

    def some(first: int, last: int) -> tuple[Any, Any]:
        supports, proofs = (_room(last - first, base.dim) for _ in range(2))
        loops.solve_users(first, last, problem, x, status, supports, proofs)
        return _packed(supports), _packed(proofs)

    parts = share_work(some, base.n_users, USERS_AT_ONCE)
    support, proof = (_pairs([part[which] for part in parts], wanted, by_user) for which in range(2))
    return UserAnswer((x - base.user).astype(np.float32), status == loops.SOLVED, support, proof)


def _problem(base: Factors, wanted: Wanted, by_user: NDArray[np.int64], order: bool) -> tuple[Any, ...]:
    """Build the fields of ``MarginPrograms``."""
    counts = np.bincount(wanted.users, minlength=base.n_users)
    out = wanted.exclude.take_rows(by_user)
    bias = np.zeros(base.n_items) if base.item_bias is None else base.item_bias.astype(np.float64)
    return (
        base.user.astype(np.float64),
        base.item.astype(np.float64),
        bias,
        np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        wanted.lists[by_user],
        out.indptr,
        out.indices,
        wanted.margin,
        1e-9 * wanted.spread,
        order,
    )


def _room(n: int, dim: int) -> tuple[Any, ...]:
    places = (n, dim + 1)
    return np.zeros(n, np.int64), *(np.zeros(places, np.int64) for _ in range(3)), np.zeros(places)


def _packed(room: tuple[Any, ...]) -> tuple[Any, ...]:
    """Keep the filled places of row, above, below and weight."""
    filled = np.arange(room[1].shape[1]) < room[0][:, None]
    return tuple(array[filled] for array in room[1:])


def _pairs(parts: list[Any], wanted: Wanted, by_user: NDArray[np.int64]) -> ActivePairs:
    columns = [np.concatenate([part[i] for part in parts]) for i in range(4)]
    row = by_user[columns[0]]  # the kernels number rows in the order of users
    return ActivePairs(row, wanted.users[row], columns[1], columns[2], columns[3])
