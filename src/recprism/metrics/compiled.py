"""Kernels for processors: compiled loops over users, shared among threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from recprism.common.threads import share_work
from recprism.metrics._kernels import loops
from recprism.metrics.operations import CoverageStats, Hits, Kernels, discounts, worth_of_repeats
from recprism.metrics.tables import CategoryMatrix, Rows, Vectors

MIN_USERS = 256  # in one part of a thread: fewer do not pay
WORTH_UNIT = 1 << 40  # the worth of a category is compared as a whole number of parts of 1 / this


class CompiledKernels(Kernels):
    """Kernels compiled by numba; see :class:`Kernels`."""

    def first_fault(self, items: Tensor, n_items: int) -> int | None:
        user = int(loops.first_fault(items.numpy(), n_items))
        return user if user >= 0 else None

    def totals(self, items: Tensor, of_item: Tensor) -> Tensor:
        return _filled(loops.totals, items, of_item)

    def exposure(self, items: Tensor, of_user: Tensor | None, n_items: int) -> Tensor:
        out = torch.zeros(n_items + 1, dtype=torch.float64)
        of_user = torch.ones(len(items), dtype=torch.float64) if of_user is None else of_user
        loops.exposure(_array(items), of_user.numpy(), out.numpy())
        return out[:-1]

    def found(self, items: Tensor, relevant: Rows) -> Hits:
        out = torch.empty((3, *items.T.shape), dtype=torch.float64)
        _run(loops.found, items, relevant.indptr, relevant.indices, relevant.n_cols, discounts(items.shape[1]), out)
        return Hits(*out.unbind(0))

    def alpha_dcg(self, items: Tensor, categories: CategoryMatrix, alpha: float, open_to: Tensor | None) -> Tensor:
        return _filled(loops.alpha_dcg, items, *_gain_terms(items, categories, alpha, open_to))

    def best_alpha_dcg(self, items: Tensor, categories: CategoryMatrix, alpha: float, open_to: Tensor | None) -> Tensor:
        terms = _gain_terms(items, categories, alpha, open_to)
        return _filled(loops.best_alpha_dcg, items, *terms, (WORTH_UNIT * terms[3]).long())

    def growth(self, items: Tensor, categories: CategoryMatrix) -> CoverageStats:
        out = torch.empty((3, *items.T.shape), dtype=torch.float64)
        _run(
            loops.growth,
            items,
            categories.rows.indptr,
            categories.rows.indices,
            categories.shares,
            categories.n_cols,
            out,
        )
        return CoverageStats(*out.unbind(0))

    def divergence(self, items: Tensor, categories: CategoryMatrix, wanted: Tensor, alpha: float) -> Tensor:
        terms = (categories.rows.indptr, categories.rows.indices, categories.shares, wanted, alpha)
        return _filled(loops.divergence, items, *terms)

    def distance_sums(self, items: Tensor, vectors: Vectors) -> Tensor:
        return _filled(loops.distance_sums, items, vectors.unit, vectors.known)

    def nearest(self, items: Tensor, vectors: Vectors) -> Tensor:
        return _filled(loops.nearest, items, vectors.unit, vectors.known)


COMPILED = CompiledKernels()


def _gain_terms(items: Tensor, categories: CategoryMatrix, alpha: float, open_to: Tensor | None) -> tuple[Tensor, ...]:
    """Return categories of items, open categories (one row for all users if None), worth and discounts for the loops.

    The worth of a category is indexed by how often it came before. A category that does not count for the user starts
    at k + 1, where the worth is 0.
    """
    k = items.shape[1]
    worth = torch.zeros(2 * k + 2, dtype=torch.float64)
    worth[: k + 1] = worth_of_repeats(alpha, k)
    if open_to is None:
        open_to = torch.ones(1, categories.n_cols, dtype=torch.bool)
    return categories.rows.indptr, categories.rows.indices, open_to, worth, discounts(k)


def _filled(loop: Callable[..., None], items: Tensor, *others: Tensor | float) -> Tensor:
    out = torch.empty(items.T.shape, dtype=torch.float64)
    _run(loop, items, *others, out)
    return out


def _run(loop: Callable[..., None], items: Tensor, *others: Tensor | float) -> None:
    """Run ``loop(first, last, ...)`` over parts of the users, on as many threads as torch uses."""
    arrays = [_array(x) if isinstance(x, Tensor) else x for x in (items, *others)]
    # Four parts per thread balance the load if one thread is slow.
    step = max(MIN_USERS, -(-len(items) // (4 * torch.get_num_threads())))
    share_work(lambda first, last: loop(first, last, *arrays), len(items), step)


def _array(tensor: Tensor) -> Any:
    return np.ascontiguousarray(tensor.numpy())
