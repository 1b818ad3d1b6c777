"""Metrics of the catalogue: how much of it the lists show, how evenly, and how popular their items are.

In this module, exposure is the ``(n_items,)`` number of lists with each item.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from recprism.errors import InputError
from recprism.metrics.context import Context
from recprism.metrics.lists import Lists
from recprism.metrics.metric import Metric, MetricFunction, register, register_family

OFTEN = 5  # lists, for ``shown_often``; ``shown_N_times`` names another number


def prediction_coverage(exposure: Tensor) -> Tensor:
    """Share of the catalogue that is in at least one list.

    >>> prediction_coverage(torch.tensor([3, 0, 1, 0])).item()
    0.5
    """
    return (exposure > 0).to(torch.float64).mean()


def shown_often(exposure: Tensor, times: int = OFTEN) -> Tensor:
    """Share of the catalogue that is in at least ``times`` lists.

    >>> shown_often(torch.tensor([7, 5, 4, 0])).item(), shown_often(torch.tensor([7, 5, 4, 0]), 1).item()
    (0.5, 0.75)
    """
    return (exposure >= times).to(torch.float64).mean()


def gini(exposure: Tensor) -> Tensor:
    """Gini index: 0 if all items are shown equally often, near 1 if one takes all places; NaN if none is shown.

    >>> gini(torch.tensor([2, 2, 2])).item(), gini(torch.tensor([0, 0, 0, 8])).item()
    (0.0, 0.75)
    """
    rising = exposure.to(torch.float64).sort().values
    n = len(rising)
    rank = torch.arange(1, n + 1, dtype=torch.float64, device=rising.device)
    return ((2 * rank - n - 1) * rising).sum() / (n * rising.sum())


def exposure_entropy(exposure: Tensor) -> Tensor:
    """Entropy of the items' shares of places, divided by that of equal shares; NaN if nothing is shown."""
    share = exposure.to(torch.float64) / exposure.sum()
    nats: Tensor = torch.special.entr(share).sum()
    return nats / math.log(max(len(exposure), 2))


def personalisation(weights: Tensor, n_lists: Tensor | int) -> Tensor:
    """1 - mean over pairs of lists of (items in both) / sqrt(product of their lengths).

    The squared weights add up to the overlaps of all ordered pairs, including each list with itself, which is 1. So no
    pair has to be visited.

    Args:
        weights: ``(n_items,)`` sum of 1 / sqrt(length) over the lists with the item.
        n_lists: Number of lists.

    Returns:
        One number; NaN with fewer than two lists.

    >>> weights = torch.tensor([1.0, 2.0, 1.0, 1.0, 1.0]) / 2**0.5  # the lists {0, 1}, {1, 2} and {3, 4}
    >>> round(personalisation(weights, 3).item(), 4)
    0.8333
    >>> personalisation(torch.full((10,), 0.1) ** 0.5, 1).item()  # one list of ten items
    nan
    """
    overlap = (weights.to(torch.float64) ** 2).sum() - n_lists
    pairs = torch.as_tensor(n_lists * (n_lists - 1), dtype=torch.float64, device=weights.device)
    return 1 - overlap / torch.where(pairs > 0, pairs, torch.nan)  # rounding would make one list infinite, not NaN


def tail_items(popularity: Tensor, head_share: float = 0.8) -> Tensor:
    """``(n_items,)`` bool: not among the most popular items, which have ``head_share`` of all interactions.

    >>> tail_items(torch.tensor([7.0, 1.0, 2.0, 0.0])).tolist()
    [False, True, False, True]
    """
    if not 0 < head_share < 1:
        raise InputError(
            f"head_share is the share of interactions that makes an item popular, above 0 and below 1; got {head_share}"
        )
    order = torch.argsort(popularity, descending=True, stable=True)
    falling = popularity[order]
    tail = torch.empty_like(popularity, dtype=torch.bool)
    tail[order] = falling.cumsum(0) - falling >= head_share * falling.sum()
    return tail


def self_information(popularity: Tensor) -> Tensor:
    """``(n_items,)`` -log2 of the item's share of training interactions; an item without any counts as having one."""
    return torch.log2(popularity.sum().clamp(min=1)) - torch.log2(popularity.clamp(min=1))


def _personalisation(lists: Lists, context: Context) -> Tensor:  # noqa: ARG001
    weights = lists.weighted_exposure("by length", lists.lengths.clamp(min=1).rsqrt())
    return personalisation(weights, (lists.lengths > 0).sum())


def _tail_share(lists: Lists, context: Context, *, head_share: float = 0.8) -> Tensor:
    key = ("tail", head_share)
    tail = context.keep(key, lambda: tail_items(context.popularity, head_share))
    return lists.totals(key, tail) / lists.lengths


def _novelty(lists: Lists, context: Context) -> Tensor:
    key = "self_information"
    return lists.totals(key, context.keep(key, lambda: self_information(context.popularity))) / lists.lengths


_LEFT_OUT = "Users with an empty list are left out."


def _of_all_lists(name: str, function: MetricFunction, summary: str, **facts: Any) -> Metric:
    """Return a metric with one value for all lists together."""
    about = {"empties": "Empty places are not counted.", **facts}
    return Metric(name, function, summary=summary, per_user=False, **about)


def _shown_often(name: str, times: int) -> Metric:
    summary = f"Share of the catalogue that is in at least {times} lists."
    return _of_all_lists(name, lambda lists, _: shown_often(lists.exposure, times), summary)


for _metric in (
    _of_all_lists(
        "catalogue_coverage",
        lambda lists, _: prediction_coverage(lists.exposure),
        "Prediction coverage: share of the catalogue that is in at least one list.",
    ),
    _shown_often("shown_often", OFTEN),
    _of_all_lists(
        "gini",
        lambda lists, _: gini(lists.exposure),
        "How unequally the places are given to items.",
        higher_is_better=False,
    ),
    _of_all_lists(
        "exposure_entropy",
        lambda lists, _: exposure_entropy(lists.exposure),
        "How evenly the places are given to items; 1 if evenly to all.",
    ),
    _of_all_lists(
        "personalisation",
        _personalisation,
        "How little the lists of two users have in common, on average.",
        empties=_LEFT_OUT,
    ),
    Metric(
        "tail_share",
        _tail_share,
        summary="Share of the places given to items outside the most popular (80 % of training interactions).",
        needs=("popularity",),
        empties=_LEFT_OUT,
        options={"head_share": 0.8},
    ),
    Metric(
        "novelty",
        _novelty,
        summary="Mean self-information of the items: -log2 of their share of training interactions.",
        bounds=(0.0, math.inf),
        needs=("popularity",),
        empties=_LEFT_OUT,
    ),
):
    register(_metric)
register_family("shown_N_times", _shown_often)
