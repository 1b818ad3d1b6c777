"""Compile lists of any method into user or item vectors, so that ranking by dot product returns the lists."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from recprism.data.incidence import Incidence
from recprism.dials import _item_side as item
from recprism.dials import _user_side as user
from recprism.dials._wanted import Wanted
from recprism.dials.result import CompiledVectors, compiled, ranked
from recprism.errors import InputError
from recprism.models import COSINE, Factors
from recprism.models.perturbation import Perturbation, back_on_sphere

DEFAULT_MARGIN = {"user": 1e-3, "item": 0.02}
ROUNDS_ON_SPHERE = 4


def lists_to_vectors(
    base: Factors,
    lists: ArrayLike,
    side: Literal["user", "item"] = "user",
    *,
    exclude: Incidence | Any | None = None,
    users: ArrayLike | None = None,
    margin: float | None = None,
    order: bool = False,
    price: float = 1e-3,
    seed: int = 0,
) -> CompiledVectors:
    """Find the smallest change of the user or item vectors under which ranking returns ``lists``.

    On the user side, each user has a convex problem of their own, which is solved exactly. If no vector returns a
    user's list, the solver proves it. It then drops list items one by one until the rest is possible.

    On the item side, all users share one change, and not every list can be returned in full. The solver keeps the
    change that returns the most list items.

    Args:
        base: The recommender whose vectors change.
        lists: Item numbers, (n_rows, k), in the wanted order; -1 in empty places.
        side: Whose vectors may change, "user" or "item".
        exclude: Items that cannot be recommended, such as seen items, (n_rows, n_items); one row per list.
        users: The user of each list, (n_rows,), in any order. A user may have several lists or none: pages, filters
            or stock levels, each with its own row of ``exclude``. By default row u belongs to user u.
        margin: How far a list item must score above all items outside the list. The unit is the standard deviation
            of the user's base scores over the catalogue. The default is 0.001 on the user side and 0.02 on the item
            side, whose sweeps stop earlier. Both are far above the rounding error of float32.
        order: Also keep the order of each list, by the same margin; user side only. Where that is impossible, the
            solver gives up the order of neighbours before it drops items.
        price: The cost of large changes; item side only. One user's list can move the score of an item for that user
            by at most 1 / price standard deviations (for a user vector of average length). A higher price gives a
            smaller change and fewer complete lists, and the change transfers better to other users.
        seed: The order in which the item side visits users.

    Returns:
        The changed vectors, what ranking with them returns, and the constraints that determine the change.

    Raises:
        InputError: The lists, ``exclude`` and ``users`` do not fit together, or a setting is out of range.

    Stability: stable.
    """
    if side not in ("user", "item"):
        raise InputError(f"side is user or item, not {side!r}")
    if margin is None:
        margin = DEFAULT_MARGIN[side]
    wanted = Wanted.of(base, lists, users=users, exclude=exclude, margin=margin)
    if side == "item":
        return _item_vectors(base, wanted, order, price, seed)
    answer = user.solve(base, wanted, order)
    return compiled(
        "user",
        base,
        wanted,
        Perturbation(user=torch.from_numpy(answer.change)),
        feasible=answer.feasible,
        support=answer.support,
        proof=answer.proof,
    )


def widen_margins(
    factors: Factors,
    k: int,
    *,
    exclude: Incidence | Any | None = None,
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

    Stability: provisional.
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


def _item_vectors(base: Factors, wanted: Wanted, order: bool, price: float, seed: int) -> CompiledVectors:
    if order:
        raise InputError("order=True is for the user side; item vectors that all users share cannot hold an order")
    if not 0 < price < np.inf:
        raise InputError(f"price is {price!r}; pass a number above 0")
    answer = (_on_sphere if base.metric == COSINE else item.solve)(base, wanted, price=price, seed=seed)
    return compiled("item", base, wanted, Perturbation(item=torch.from_numpy(answer.change)), support=answer.support)


def _on_sphere(base: Factors, wanted: Wanted, *, price: float, seed: int) -> item.ItemAnswer:
    """Alternate between solving and normalising the item vectors; keep the round that returns the most list items.

    The pulls are those of the kept round only.
    """
    best, most, current = None, -1, base
    for _ in range(ROUNDS_ON_SPHERE):
        answer = item.solve(current, wanted, price=price, seed=seed)
        change = back_on_sphere(torch.from_numpy(current.item), torch.from_numpy(answer.change)).numpy()
        current = current.with_vectors(item=current.item + change)
        kept = item.hits(wanted, ranked(current, wanted))
        if kept <= most:
            break
        best, most = item.ItemAnswer(current.item - base.item, answer.support), kept
    assert best is not None
    return best
