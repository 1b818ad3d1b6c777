"""Compile lists of any method into user vectors, so that ranking by dot product returns the lists."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from recprism.data.sparse_rows import SparseRows
from recprism.errors import InputError
from recprism.forms.dials._user_vectors import solve
from recprism.forms.dials.result import CompiledVectors, compiled
from recprism.forms.dials.wanted import Wanted
from recprism.models import Factors

DEFAULT_MARGIN = 1e-3


def lists_to_vectors(
    base: Factors,
    lists: ArrayLike,
    *,
    exclude: SparseRows | Any | None = None,
    users: ArrayLike | None = None,
    margin: float | None = None,
    order: bool = False,
) -> CompiledVectors:
    """Find the smallest change of the user vectors under which ranking returns ``lists``.

    Each user has a convex problem of their own, which is solved exactly. If no vector returns a user's list, the solver
    proves it. It then drops list items one by one until the rest is possible. Item vectors stay as they are.

    Args:
        base: The recommender whose vectors change.
        lists: Item numbers, (n_rows, k), in the wanted order; -1 in empty places.
        exclude: Items that cannot be recommended, such as seen items, (n_rows, n_items); one row per list.
        users: The user of each list, (n_rows,), in any order. A user may have several lists or none: pages, filters
            or stock levels, each with its own row of ``exclude``. By default row u belongs to user u.
        margin: How far a list item must score above all items outside the list. The unit is the standard deviation
            of the user's base scores over the catalogue. The default is 0.001, far above the rounding error of
            float32.
        order: Also keep the order of each list, by the same margin. Where that is impossible, the solver gives up the
            order of neighbours before it drops items.

    Returns:
        The changed vectors, what ranking with them returns, and the constraints that determine the change.

    Raises:
        InputError: The lists, ``exclude`` and ``users`` do not fit together, or the margin is out of range.

    Stability: stable.
    """
    margin = DEFAULT_MARGIN if margin is None else margin
    wanted = Wanted.of(base, lists, users=users, exclude=exclude, margin=margin)
    answer = solve(base, wanted, order)
    return compiled(base, wanted, answer.change, feasible=answer.feasible, support=answer.support, proof=answer.proof)


def widen_margins(
    factors: Factors,
    k: int,
    *,
    exclude: SparseRows | Any | None = None,
    margin: float | None = None,
    decoded: ArrayLike | None = None,
) -> tuple[Factors, CompiledVectors]:
    """Find user vectors with the same first k items in the same order that tolerate rounding.

    The vectors of :func:`lists_to_vectors` are the nearest ones that return a list. An index that rounds its vectors
    can therefore change the list.

    Args:
        factors: The recommender whose lists stay the same.
        k: Length of the lists.
        exclude: Items that cannot be recommended, (n_users, n_items).
        margin: As in :func:`lists_to_vectors`; a larger margin tolerates more rounding.
        decoded: The vectors that an index decodes its codes to, (n_items, d). An item bias is one more column, as in
            ``Factors.search_vectors``. The lists are then those of an exhaustive search of the codes, and the
            returned recommender has these item vectors.

    Returns:
        The recommender with new user vectors, and the details of the change.

    Raises:
        InputError: ``decoded`` does not belong to the item vectors.
    """
    lists, _ = factors.rank(k, exclude=exclude)
    searched = factors if decoded is None else as_decoded(factors, np.asarray(decoded, np.float32))
    found = lists_to_vectors(searched, lists, exclude=exclude, margin=margin, order=True)
    return found.applied_to(searched), found


def as_decoded(factors: Factors, decoded: NDArray[np.float32]) -> Factors:
    wanted = factors.search_vectors[1]
    if decoded.shape != wanted.shape:
        raise InputError(f"decoded vectors have shape {decoded.shape}; the item vectors have {wanted.shape}")
    error, spread = np.square(decoded - wanted).sum(), np.square(wanted - wanted.mean(0)).sum()
    if not error < spread:
        raise InputError(
            "decoded vectors have less to do with the item vectors than their mean has; "
            "check that both are of one model, in one order"
        )
    bias = None if factors.item_bias is None else decoded[:, -1]
    return replace(factors, item=np.ascontiguousarray(decoded[:, : factors.dim]), item_bias=bias)
