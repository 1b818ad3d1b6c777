"""Ranked lists to evaluate; results that several metrics need are computed once for all cuts."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from functools import lru_cache
from typing import Any, TypeVar, cast

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from recprism.errors import InputError
from recprism.metrics.context import Context
from recprism.metrics.operations import PLAIN, CoverageStats, Hits, Kernels, are_entries
from recprism.metrics.tables import Rows, Vectors, as_tensor

T = TypeVar("T")


class Lists:
    """One ranked list per user.

    What is computed for one cut is kept for the others: ``lists.at(10)`` and ``lists.at(20)`` share it.

    Args:
        items: ``(n_users, k)`` item numbers, best first; -1 is an empty place.
        context: What the lists are evaluated against.
        check: Whether to check for items outside the catalogue and repeated items.

    Raises:
        InputError: The shape does not fit, or the check fails.

    >>> lists = Lists([[2, 0, 1], [1, -1, -1]], Context(relevant=[[1, 0, 0], [0, 0, 1]]))
    >>> lists.hits.tolist()
    [[False, True, False], [False, False, False]]
    >>> lists.at(1).items.tolist()
    [[2], [1]]
    """

    def __init__(self, items: ArrayLike | Tensor, context: Context, *, check: bool = True) -> None:
        full = as_tensor(items, context.device, "the numbers of the lists")
        _require_list_shape(full, context)
        self.context = context
        self.k = full.shape[1]
        self._full = full.to(torch.int64).contiguous()
        self._kept: dict[Any, Any] = {}
        self._kernels = kernels_for(context.device)
        if check:
            user = self._kernels.first_fault(self._full, context.n_items)
            if user is not None:
                raise _fault(self._full[user].tolist(), user, context.n_items)

    def at(self, k: int) -> Lists:
        """Return the first k places; both objects share what is computed."""
        if not 1 <= k <= self.depth:
            raise InputError(f"a cut at {k} is not possible: the lists have {self.depth} places")
        cut = copy(self)
        cut.k = k
        return cut

    @property
    def depth(self) -> int:
        """Number of places of the uncut lists."""
        return self._full.shape[1]

    @property
    def n_users(self) -> int:
        return len(self._full)

    @property
    def items(self) -> Tensor:
        """``(n_users, k)`` int64."""
        return self._full[:, : self.k]

    @property
    def real(self) -> Tensor:
        """``(n_users, k)`` bool: whether the place has an item."""
        return self.items >= 0

    @property
    def hits(self) -> Tensor:
        """``(n_users, k)`` bool: whether the item is held out for the user."""
        return self._keep("hits", lambda: are_entries(self._full, self.context.relevant))[:, : self.k]

    @property
    def found(self) -> Hits:
        """Hits of held-out items; ``(n_users,)`` each."""
        return self.found_of("all", self.context.relevant)

    def found_of(self, key: Any, relevant: Rows) -> Hits:
        """Return hits of other items, ``(n_users,)`` each; kept under ``key``."""
        found = self._keep(("found", key), lambda: self._kernels.found(self._full, relevant))
        return Hits(*(self._at_cut(running) for running in found))

    @property
    def lengths(self) -> Tensor:
        """``(n_users,)`` float64 number of items in each list."""
        return self.totals("lengths", torch.ones(self.context.n_items, device=self.context.device))

    def totals(self, key: Any, of_item: Tensor) -> Tensor:
        """``(n_users,)`` float64: sum over each list of a property of items, ``(n_items,)``; kept under ``key``."""

        def compute() -> Tensor:
            values = of_item.to(torch.float64)
            return self._kernels.totals(self._full, torch.cat([values, values.new_zeros(1)]))

        return self._at_cut(self._keep(("totals", key), compute))

    @property
    def exposure(self) -> Tensor:
        """``(n_items,)`` float64: number of lists with each item."""
        return self._keep(("exposure", self.k), lambda: self._kernels.exposure(self.items, None, self.context.n_items))

    def weighted_exposure(self, key: Any, of_user: Tensor) -> Tensor:
        """``(n_items,)`` float64: sum of a property of users, ``(n_users,)``, over the lists with the item.

        The result is kept under ``key``.
        """

        def compute() -> Tensor:
            return self._kernels.exposure(self.items, of_user.to(torch.float64), self.context.n_items)

        return self._keep((key, self.k), compute)

    @property
    def growth(self) -> CoverageStats:
        """Coverage of categories; ``(n_users,)`` each."""
        growth = self._keep("growth", lambda: self._kernels.growth(self._full, self.context.categories))
        return CoverageStats(*(self._at_cut(running) for running in growth))

    def divergence(self, alpha: float) -> Tensor:
        """``(n_users,)`` float64: Kullback-Leibler divergence of each list's categories from those of training."""

        def compute() -> Tensor:
            return self._kernels.divergence(self._full, self.context.categories, self.context.history, alpha)

        return self._at_cut(self._keep(("divergence", alpha), compute))

    def distance_sums(self, vectors: Vectors) -> Tensor:
        """``(n_users,)`` float64: sum of the cosine distances between the items of each list, each pair once."""
        return self._at_cut(self._keep(("sums", vectors), lambda: self._kernels.distance_sums(self._full, vectors)))

    def nearest(self, vectors: Vectors) -> Tensor:
        """``(n_users,)`` float64: the smallest of these distances, 0 if there is none."""
        return self._at_cut(self._keep(("nearest", vectors), lambda: self._kernels.nearest(self._full, vectors)))

    def alpha_dcg(self, alpha: float, *, gated: bool) -> Tensor:
        """``(n_users,)`` float64: alpha-DCG, where a category is worth less each time it is repeated."""
        return self._at_cut(self._alpha_dcg(alpha, gated))

    def relevant_alpha_dcg(self, alpha: float) -> Tensor:
        """``(depth, n_users)`` float64: alpha-DCG up to each place, where only held-out items gain and repeat."""

        def compute() -> Tensor:
            relevant = torch.where(are_entries(self._full, self.context.relevant), self._full, -1)
            return self._kernels.alpha_dcg(relevant, self.context.categories, alpha, None)

        return self._keep(("relevant_alpha_dcg", alpha), compute)

    def best_alpha_dcg(self, alpha: float, *, gated: bool, depth: int) -> Tensor:
        """``(n_users,)`` float64: alpha-DCG of the first ``depth`` places of the uncut lists in greedy order."""
        if depth > self.depth:
            raise InputError(f"an ideal over {depth} places needs lists that long; these have {self.depth}")
        items, categories = self._full[:, :depth], self.context.categories
        best = self._at_cut(
            self._keep(
                ("best_alpha_dcg", alpha, depth), lambda: self._kernels.best_alpha_dcg(items, categories, alpha, None)
            )
        )
        if not gated:
            return best
        users, best_behind_gate = self._keep(("gated", alpha, depth), lambda: self._behind_gate(alpha, depth))
        return best.index_copy(0, users, self._at_cut(best_behind_gate))

    def _behind_gate(self, alpha: float, depth: int) -> tuple[Tensor, Tensor]:
        """Return the users whose gate excludes a category of their list, and the alpha-DCG of their greedy order.

        For all other users, usually most of them, the gate changes nothing.
        """
        open_to_all, behind_gate = (self._alpha_dcg(alpha, gated)[depth - 1] for gated in (False, True))
        users = (behind_gate < open_to_all).nonzero().squeeze(1)
        items = self._full[:, :depth].index_select(0, users)
        gates = self.context.user_categories.index_select(0, users)
        return users, self._kernels.best_alpha_dcg(items, self.context.categories, alpha, gates)

    def _alpha_dcg(self, alpha: float, gated: bool) -> Tensor:
        def compute() -> Tensor:
            gate = self.context.user_categories if gated else None
            return self._kernels.alpha_dcg(self._full, self.context.categories, alpha, gate)

        return self._keep(("alpha_dcg", alpha, gated), compute)

    def _at_cut(self, running: Tensor) -> Tensor:
        return running[self.k - 1]

    def _keep(self, key: Any, compute: Callable[[], T]) -> T:
        if key not in self._kept:
            self._kept[key] = compute()
        return cast(T, self._kept[key])


def _require_list_shape(items: Tensor, context: Context) -> None:
    if items.ndim != 2 or items.shape[1] == 0:
        raise InputError(f"lists must have shape (n_users, k) with k at least 1, got {tuple(items.shape)}")
    if items.is_floating_point() or items.is_complex() or items.dtype == torch.bool:
        raise InputError(
            f"lists must hold item numbers (integers), got {items.dtype}; pass the ids' positions, not scores"
        )
    if context.n_users is not None and len(items) != context.n_users:
        raise InputError(
            f"there are {len(items)} lists and the context has {context.n_users} users; "
            "give one list per user, in the same order"
        )


def _fault(items: list[int], user: int, n_items: int) -> InputError:
    """Return an error that says what is wrong with the list of one user."""
    outside = [item for item in items if not -1 <= item < n_items]
    if outside:
        return InputError(
            f"the list of user {user} holds item {outside[0]} at place {items.index(outside[0]) + 1}; "
            f"items go from 0 to {n_items - 1}, and -1 is an empty place"
        )
    twice = next(item for item in items if item >= 0 and items.count(item) > 1)
    return InputError(f"the list of user {user} holds item {twice} more than once; an item has one place in a list")


def kernels_for(device: torch.device) -> Kernels:
    """Return the fastest operations for a device."""
    if device.type == "cpu":
        from recprism.metrics.compiled import COMPILED

        return COMPILED
    return _fused_or_plain() if device.type == "cuda" else PLAIN


@lru_cache(maxsize=1)
def _fused_or_plain() -> Kernels:
    try:
        from recprism.metrics._gpu import FUSED
    except ImportError:  # triton is not installed
        return PLAIN
    return FUSED
