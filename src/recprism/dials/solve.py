"""Baking: lists chosen by any method, put into the vectors, so that a plain dot product gives them back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from recprism.data.incidence import Incidence
from recprism.dials import _item_side as item
from recprism.dials import _user_side as user
from recprism.dials._item_side import Pulls
from recprism.dials._user_side import Pairs
from recprism.dials._wanted import Wanted
from recprism.dials.result import CompiledVectors, baked, ranked
from recprism.errors import InputError
from recprism.models import COSINE, Factors
from recprism.models.perturbation import Perturbation, back_on_sphere

__all__ = ["CompiledVectors", "Pairs", "Pulls", "bake", "hold"]

DEFAULT_MARGIN = {"user": 1e-3, "item": 0.02}
ROUNDS_ON_SPHERE = 4


def bake(
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
    """The smallest change of one side's vectors under which ranking gives ``lists`` back.

    lists: (n_rows, k) item numbers in the order wanted, -1 in empty places
    side: whose vectors may change
        "user": for every user a convex problem of their own, solved exactly. Where no vector gives a list back there is
        a proof, and one list item after the other is given up until the rest is possible
        "item": all users share one change. A list need not come back whole; the change found gives most of them back
    exclude: (n_rows, n_items) what cannot be recommended, such as seen items; one row per list
    users: (n_rows,) the user of each list, in any order; a user may have several lists (pages, filters, what is in
        stock, each with its own row of ``exclude``), and others none. Without it row u is user u
    margin: how far a list item must score above an outsider, as a share of the standard deviation of the user's base
        scores over the catalogue; by default 0.001 (user side) and 0.02 (item side, where sweeps end before the last
        digit). Either is far above what float32 loses, so that ranking sees it
    order: neighbours on a list must keep their order by the same margin (user side only). Where that is impossible,
        neighbours are let go before list items are
    price: item side: what size costs. The wish of one user for one item can move that item's score for that user by at
        most 1 / price spreads (for a user of average length); more gives less change, fewer lists, and a change that
        carries over better to users who had no say
    seed: item side: the order in which users are served
    """
    if side not in ("user", "item"):
        raise InputError(f"side is user or item, not {side!r}")
    if margin is None:
        margin = DEFAULT_MARGIN[side]
    wanted = Wanted.of(base, lists, users=users, exclude=exclude, margin=margin)
    if side == "item":
        return _bake_items(base, wanted, order, price, seed)
    answer = user.solve(base, wanted, order)
    return baked(
        "user",
        base,
        wanted,
        Perturbation(user=torch.from_numpy(answer.change)),
        feasible=answer.feasible,
        support=answer.support,
        proof=answer.proof,
    )


def hold(
    factors: Factors,
    k: int,
    *,
    exclude: Incidence | Any | None = None,
    margin: float | None = None,
    decoded: ArrayLike | None = None,
) -> tuple[Factors, CompiledVectors]:
    """The same first k items in the same order, from user vectors that bear rounding: the recommender, and how.

    The vectors of ``bake`` stand at the edge of what gives a list, and an index that rounds its vectors pushes them
    over it.

    margin: keep further away from the edge, as for ``bake``
    decoded: (n_items, d) what an index decodes its codes to (a bias being one more column, as in ``search_vectors``);
        the lists are then those of an exhaustive search of the codes. Item vectors of the answer are these
    """
    lists, _ = factors.rank(k, exclude=exclude)
    searched = factors if decoded is None else _as_decoded(factors, np.asarray(decoded, np.float32))
    found = bake(searched, lists, exclude=exclude, margin=margin, order=True)
    return found.applied_to(searched), found


def _as_decoded(factors: Factors, decoded: NDArray[np.float32]) -> Factors:
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


def _bake_items(base: Factors, wanted: Wanted, order: bool, price: float, seed: int) -> CompiledVectors:
    if order:
        raise InputError("order=True is for the user side; item vectors that all users share cannot hold an order")
    if not 0 < price < np.inf:
        raise InputError(f"price is {price!r}; pass a number above 0")
    answer = (_on_sphere if base.metric == COSINE else item.solve)(base, wanted, price=price, seed=seed)
    return baked("item", base, wanted, Perturbation(item=torch.from_numpy(answer.change)), support=answer.support)


def _on_sphere(base: Factors, wanted: Wanted, *, price: float, seed: int) -> item.ItemAnswer:
    """Bake, put the vectors back to length 1, and bake from there; what gave most of the lists back is kept.

    The pulls are those of the last step of it alone.
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
