"""The ideal list of alpha-nDCG: the greedy list over the whole catalogue (Clarke et al., 2008).

The best list is NP-hard to find; the definition and the reference tool (ndeval) use the greedy one. A list can be
better than the greedy one, so alpha-nDCG can exceed 1 and is not clipped.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from recprism.metrics._operations import MAX_CELLS, TIE, discounts
from recprism.metrics._tables import Topics


class Patterns(NamedTuple):
    """Distinct sets of subtopics: items with the same set are worth the same, so the search runs over sets.

    Attributes:
        member: ``(n_patterns, n_subtopics)`` float64.
        items: ``(n_patterns, depth + 1)`` int64, the items of each set in rising order, then n_items.
    """

    member: Tensor
    items: Tensor


def catalogue_alpha_dcg(topics: Topics, alpha: float, depth: int, gates: Tensor | None = None) -> Tensor:
    """Return the alpha-DCG of the greedy list; of equal gains the lowest item number comes first.

    Args:
        topics: Subtopics of the catalogue.
        alpha: The loss of worth of a repeated subtopic.
        depth: Length of the list.
        gates: ``(n_gates, n_subtopics)`` bool, the subtopics that count; None for one gate with all subtopics.

    Returns:
        ``(n_gates, depth)`` float64.
    """
    if gates is None:
        gates = torch.ones(1, topics.n_cols, dtype=torch.bool, device=topics.weights.device)
    patterns = _patterns(topics, depth)
    step = max(1, MAX_CELLS // max(1, len(patterns.member)))
    some = (gates[start : start + step].to(torch.float64) for start in range(0, max(len(gates), 1), step))
    parts = [_greedy(patterns, alpha, block, topics.n_items) for block in some]
    return (torch.cat(parts) * discounts(depth, gates.device)).cumsum(1)


def _patterns(topics: Topics, depth: int) -> Patterns:
    member, pattern_of_item, sizes = torch.unique(topics.member[:-1], dim=0, return_inverse=True, return_counts=True)
    by_pattern = torch.argsort(pattern_of_item, stable=True)
    pattern = pattern_of_item[by_pattern]
    position = torch.arange(len(by_pattern), device=by_pattern.device) - (sizes.cumsum(0) - sizes)[pattern]
    wanted = position < depth
    items = torch.full((len(member), depth + 1), topics.n_items, device=by_pattern.device)
    items[pattern[wanted], position[wanted]] = by_pattern[wanted]
    return Patterns(member.to(torch.float64), items)


def _greedy(patterns: Patterns, alpha: float, gates: Tensor, n_items: int) -> Tensor:
    """Return the ``(n, depth)`` gains for gates ``(n, n_subtopics)`` float64."""
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
