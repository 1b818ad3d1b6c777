"""The ideal list of alpha-nDCG: the greedy list over the whole catalogue (Clarke et al., 2008).

The best list is NP-hard to find; the definition and the reference tool (ndeval) use the greedy one. A list can be
better than the greedy one, so alpha-nDCG can exceed 1 and is not clipped.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from recprism.metrics.operations import MAX_CELLS, TIE, discounts
from recprism.metrics.tables import CategoryMatrix, Rows


class Patterns(NamedTuple):
    """Distinct sets of categories: items with the same set are worth the same, so the search runs over sets.

    Attributes:
        member: ``(n_patterns, n_categories)`` float64.
        items: ``(n_patterns, depth + 1)`` int64, the items of each set in rising order, then n_items.
    """

    member: Tensor
    items: Tensor


def catalogue_alpha_dcg(categories: CategoryMatrix, alpha: float, depth: int, gates: Tensor | None = None) -> Tensor:
    """Return the alpha-DCG of the greedy list; of equal gains the lowest item number comes first.

    Args:
        categories: Categories of the catalogue.
        alpha: The loss of worth of a repeated category.
        depth: Length of the list.
        gates: ``(n_gates, n_categories)`` bool, the categories that count; None for one gate with all categories.

    Returns:
        ``(n_gates, depth)`` float64.
    """
    if gates is None:
        gates = torch.ones(1, categories.n_cols, dtype=torch.bool, device=categories.weights.device)
    patterns = _patterns(categories, depth)
    step = max(1, MAX_CELLS // max(1, len(patterns.member)))
    some = (gates[start : start + step].to(torch.float64) for start in range(0, max(len(gates), 1), step))
    parts = [_greedy(patterns, alpha, block, categories.n_items) for block in some]
    return (torch.cat(parts) * discounts(depth, gates.device)).cumsum(1)


def relevant_alpha_dcg(categories: CategoryMatrix, relevant: Rows, alpha: float, depth: int) -> Tensor:
    """Return the alpha-DCG of each user's held-out items in greedy order; of equal gains the lowest item comes first.

    Args:
        categories: Categories of the catalogue.
        relevant: Users x items.
        alpha: The loss of worth of a repeated category.
        depth: Length of the list.

    Returns:
        ``(depth, n_users)`` float64.
    """
    gains = torch.zeros((relevant.n_rows, depth), dtype=torch.float64, device=categories.weights.device)
    order = torch.argsort(relevant.counts)  # users with about as many items share a block, so that little is padded
    start = 0
    while start < len(order):
        largest = int(relevant.counts[order[start : start + 1024]].max())
        users = order[start : start + max(1, min(1024, MAX_CELLS // max(1, largest * categories.n_cols)))]
        gains[users] = _greedy_of_items(categories, relevant.take(users), alpha, depth)
        start += len(users)
    return (gains * discounts(depth, gains.device)).cumsum(1).T


def _greedy_of_items(categories: CategoryMatrix, rows: Rows, alpha: float, depth: int) -> Tensor:
    """Return the ``(n_rows, depth)`` gains."""
    width = max(1, int(rows.counts.max()))
    place = torch.arange(len(rows.indices), device=rows.indices.device) - rows.indptr[rows.row_of_entry]
    items = torch.full((rows.n_rows, width), -1, device=rows.indices.device)
    items[rows.row_of_entry, place] = rows.indices.long()
    member = categories.member[items].to(torch.float64)  # the blank row for places without an item
    worth = torch.ones((rows.n_rows, categories.n_cols), dtype=torch.float64, device=member.device)
    gains = worth.new_zeros(rows.n_rows, depth)
    for step in range(min(depth, width)):
        offers = torch.bmm(member, worth[:, :, None]).squeeze(2)
        best = offers.amax(1)
        gains[:, step] = best
        chosen = (offers >= best[:, None] * (1 - TIE)).to(torch.int8).argmax(1)[:, None, None]
        picked = chosen.expand(-1, 1, member.shape[2])
        worth *= torch.where(member.gather(1, picked).squeeze(1) > 0, 1 - alpha, 1.0)
        member.scatter_(1, picked, 0.0)  # an item has one place
    return gains


def _patterns(categories: CategoryMatrix, depth: int) -> Patterns:
    member, pattern_of_item, sizes = torch.unique(
        categories.member[:-1], dim=0, return_inverse=True, return_counts=True
    )
    by_pattern = torch.argsort(pattern_of_item, stable=True)
    pattern = pattern_of_item[by_pattern]
    position = torch.arange(len(by_pattern), device=by_pattern.device) - (sizes.cumsum(0) - sizes)[pattern]
    wanted = position < depth
    items = torch.full((len(member), depth + 1), categories.n_items, device=by_pattern.device)
    items[pattern[wanted], position[wanted]] = by_pattern[wanted]
    return Patterns(member.to(torch.float64), items)


def _greedy(patterns: Patterns, alpha: float, gates: Tensor, n_items: int) -> Tensor:
    """Return the ``(n, depth)`` gains for gates ``(n, n_categories)`` float64."""
    rows = torch.arange(len(gates), device=gates.device)
    depth = patterns.items.shape[1] - 1
    used = torch.zeros(len(gates), len(patterns.member), dtype=torch.int64, device=gates.device)
    next_item = patterns.items[:, 0].repeat(len(gates), 1)
    seen = torch.zeros_like(gates)
    gains = gates.new_zeros(len(gates), depth)
    for place in range(depth):
        offers = (gates * (1 - alpha) ** seen) @ patterns.member.T
        offers.masked_fill_(next_item == n_items, -1.0)  # no item of the set is left
        best = offers.amax(1).clamp(min=0)
        gains[:, place] = best
        candidates = torch.where(offers >= best[:, None] * (1 - TIE), next_item, n_items)
        chosen = candidates.argmin(1)
        used[rows, chosen] += 1
        next_item[rows, chosen] = patterns.items[chosen, used[rows, chosen].clamp(max=depth)]
        seen += patterns.member[chosen]
    return gains
