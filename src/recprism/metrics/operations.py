"""Operations that metrics share, in plain torch for any device.

Row j of a result is for the first j + 1 places of the lists. So one pass serves every cut, and a metric at a cut uses
one row. ``_compiled`` has the same functions for processors, and ``_gpu`` some of them for GPUs;
``lists.kernels_for`` chooses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from recprism.metrics.tables import CategoryMatrix, Rows, Vectors

TIE = 1e-9  # relative: gains closer than this are equal, for any order of summation
MAX_CELLS = 1 << 26  # of a temporary users x places x categories array


class Hits(NamedTuple):
    """Held-out items in the list.

    Attributes:
        hits: Their number.
        dcg: Sum of 1 / log2(place + 1) over them.
        reciprocal: 1 / place of the first one, or 0.
    """

    hits: Tensor
    dcg: Tensor
    reciprocal: Tensor


class CoverageStats(NamedTuple):
    """Categories that the list covers.

    Attributes:
        covered: Number of categories.
        shared: Sum over categories of min(1, x), where x is the sum of the items' shares in the category.
        entropy: Entropy of the distribution given by x, in nats; 0 for a list without categories.
    """

    covered: Tensor
    shared: Tensor
    entropy: Tensor


def discounts(k: int, device: torch.device | None = None) -> Tensor:
    """``(k,)`` float64: 1 / log2(place + 1) for places 1, 2, ... k."""
    return 1 / torch.log2(torch.arange(2, k + 2, dtype=torch.float64, device=device))


def worth_of_repeats(alpha: float, k: int) -> Tensor:
    """``(k + 1,)`` float64: (1 - alpha) ** n, what a category adds to alpha-DCG after it came n times before."""
    return (1 - alpha) ** torch.arange(k + 1, dtype=torch.float64)


class Kernels:
    """The operations in torch, for any device; ``_compiled`` and ``_gpu`` have faster ones.

    ``items`` is ``(n_users, k)`` int64, -1 in empty places; results are ``(k, n_users)`` float64. Large temporary
    arrays are made for some users at a time.
    """

    def first_fault(self, items: Tensor, n_items: int) -> int | None:
        """Return the first user whose list has an item twice or outside the catalogue; None if there is none."""
        outside = (items < -1) | (items >= n_items)
        ordered = items.sort(1).values
        twice = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)
        faulty = (outside.any(1) | twice.any(1)).nonzero()
        return int(faulty[0]) if len(faulty) else None

    def totals(self, items: Tensor, of_item: Tensor) -> Tensor:
        """Sum ``of_item``, ``(n_items + 1,)`` float64 with 0 at the end, over the items."""
        return of_item[items].cumsum(1).T

    def exposure(self, items: Tensor, of_user: Tensor | None, n_items: int) -> Tensor:
        """Sum ``of_user``, ``(n_users,)`` float64, over the lists with each item, ``(n_items,)``; None counts them."""
        if of_user is None:  # sums of whole numbers do not depend on their order, and a GPU need not be waited for
            place = (items + 1).flatten()
            counts = torch.zeros(n_items + 1, dtype=torch.int64, device=items.device)
            return counts.scatter_add_(0, place, torch.ones_like(place))[1:].to(torch.float64)
        # Whole numbers are counted for each distinct value, so that the order of additions on a GPU does not matter.
        values, which = torch.unique(of_user, return_inverse=True)
        cells = (items + 1) * len(values) + which[:, None]
        counts = torch.bincount(cells.flatten(), minlength=(n_items + 1) * len(values))
        sums: Tensor = counts.view(n_items + 1, len(values))[1:].to(torch.float64) @ values
        return sums

    def found(self, items: Tensor, relevant: Rows) -> Hits:
        hit = are_entries(items, relevant)
        place = torch.arange(1, items.shape[1] + 1, dtype=torch.float64, device=items.device)
        hits = hit.cumsum(1, dtype=torch.float64)
        return Hits(hits.T, _discounted_sums(hit), (hit / place).cummax(1).values.T)

    def alpha_dcg(self, items: Tensor, categories: CategoryMatrix, alpha: float, open_to: Tensor | None) -> Tensor:
        """Sum (1 - alpha) ** (times the category came before) over the items' categories, over log2(place + 1).

        ``open_to`` ``(n_users, n_categories)`` bool are the categories that count for a user; None for all.
        """

        def of_some(users: slice) -> Tensor:
            member = _members(items[users], categories, open_to, users)
            before = member.cumsum(1) - member
            return (member * (1 - alpha) ** before).sum(2)

        return _discounted_sums(_for_some_users(of_some, items, categories.n_cols))

    def best_alpha_dcg(self, items: Tensor, categories: CategoryMatrix, alpha: float, open_to: Tensor | None) -> Tensor:
        """As ``alpha_dcg``, for the items in greedy order; of equal gains the earlier place comes first."""

        def of_some(users: slice) -> Tensor:
            return _greedy_gains(_members(items[users], categories, open_to, users), alpha)

        return _discounted_sums(_for_some_users(of_some, items, categories.n_cols))

    def growth(self, items: Tensor, categories: CategoryMatrix) -> CoverageStats:
        def of_some(users: slice) -> Tensor:
            amount = categories.share_matrix[items[users]].cumsum(1)
            share = amount / amount.sum(2, keepdim=True).clamp(min=torch.finfo(amount.dtype).tiny)
            entropy = torch.special.entr(share).sum(2).clamp(min=0)
            return torch.stack([(amount > 0).sum(2), amount.clamp(max=1).sum(2), entropy], dim=2)

        return CoverageStats(*(values.T for values in _for_some_users(of_some, items, categories.n_cols).unbind(2)))

    def divergence(self, items: Tensor, categories: CategoryMatrix, wanted: Tensor, alpha: float) -> Tensor:
        """Kullback-Leibler divergence of the list's distribution over categories from ``wanted``, in nats.

        The rows of ``wanted`` ``(n_users, n_categories)`` float64 sum to 1 or 0. A share ``alpha`` of it is mixed into
        the distribution of the list.
        """

        def of_some(users: slice) -> Tensor:
            amount = categories.share_matrix[items[users]].cumsum(1)
            share = amount / amount.sum(2, keepdim=True).clamp(min=torch.finfo(amount.dtype).tiny)
            p = wanted[users, None, :]
            mixed = (1 - alpha) * share + alpha * p
            return (torch.xlogy(p, p) - torch.xlogy(p, mixed)).sum(2).clamp(min=0)

        return _for_some_users(of_some, items, categories.n_cols).T

    def distance_sums(self, items: Tensor, vectors: Vectors) -> Tensor:
        """Sum the cosine distances between items, each pair once.

        A pair with a zero vector counts as distance 0: nothing is known, so it adds no diversity.

        The cosines of an item with all before it add up to one product with the sum of their vectors.
        """

        def of_some(users: slice) -> Tensor:
            unit, known = vectors.unit[items[users]], vectors.known[items[users]].to(torch.float64)
            cosines = (unit * (unit.cumsum(1) - unit)).sum(2)
            return (known * (known.cumsum(1) - known) - cosines).clamp(min=0).cumsum(1)

        return _for_some_users(of_some, items, vectors.unit.shape[1]).T

    def nearest(self, items: Tensor, vectors: Vectors) -> Tensor:
        """Return the smallest of these distances; 0 if there is no pair."""

        def of_some(users: slice) -> Tensor:
            unit, known, real = vectors.unit[items[users]], vectors.known[items[users]], items[users] >= 0
            both = (known[:, :, None] & known[:, None, :]).to(unit.dtype)
            distance = (both - torch.bmm(unit, unit.transpose(1, 2))).clamp(min=0)
            earlier = (real[:, :, None] & real[:, None, :]).tril(-1)
            nearest = torch.where(earlier, distance, torch.inf).amin(2).cummin(1).values
            return torch.where(nearest.isinf(), 0.0, nearest).to(torch.float64)

        return _for_some_users(of_some, items, max(items.shape[1], vectors.unit.shape[1])).T


PLAIN = Kernels()


def _discounted_sums(gains: Tensor) -> Tensor:
    """Turn gains ``(n_users, k)`` into discounted running sums ``(k, n_users)``."""
    return (gains * discounts(gains.shape[1], gains.device)).cumsum(1).T


def are_entries(items: Tensor, rows: Rows) -> Tensor:
    """``(n_users, k)`` bool: whether the item is an entry of the user's row, by one binary search for all."""
    if len(rows.keys) == 0:
        return torch.zeros_like(items, dtype=torch.bool)
    wanted = torch.arange(len(items), device=items.device)[:, None] * rows.n_cols + items
    place = torch.searchsorted(rows.keys, wanted).clamp(max=len(rows.keys) - 1)
    return (rows.keys[place] == wanted) & (items >= 0)


def _members(items: Tensor, categories: CategoryMatrix, open_to: Tensor | None, users: slice) -> Tensor:
    """``(n, k, n_categories)`` float64: 1 if the item has the category and it counts for the user."""
    member = categories.member[items]
    return (member if open_to is None else member & open_to[users, None, :]).to(torch.float64)


def _greedy_gains(member: Tensor, alpha: float) -> Tensor:
    """Return the ``(n, k)`` gains of the greedy order for ``member`` ``(n, k, n_categories)`` float64."""
    n, k, n_categories = member.shape
    seen = member.new_zeros(n, n_categories, 1)
    taken = torch.zeros(n, k, dtype=torch.bool, device=member.device)
    best_gains = member.new_zeros(n, k)
    for place in range(k):
        gains = torch.bmm(member, (1 - alpha) ** seen).squeeze(2).masked_fill(taken, -1.0)
        best_gains[:, place] = best = gains.amax(1)
        first = (gains >= best[:, None] * (1 - TIE)).to(torch.int8).argmax(1, keepdim=True)
        taken.scatter_(1, first, True)
        seen += member.gather(1, first[:, :, None].expand(-1, -1, n_categories)).transpose(1, 2)
    return best_gains


def _for_some_users(of_some: Callable[[slice], Tensor], items: Tensor, width: int) -> Tensor:
    parts = [of_some(users) for users in _slices(len(items), items.shape[1] * width)]
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def _slices(n_users: int, cells_per_user: int) -> Iterator[slice]:
    step = max(1, MAX_CELLS // max(1, cells_per_user))
    for start in range(0, max(n_users, 1), step):
        yield slice(start, min(start + step, n_users))
