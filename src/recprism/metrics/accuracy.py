"""Accuracy: how many of a user's held-out items the list has, and in which places.

The functions take ``(n_users,)`` arrays and return ``(n_users,)`` float64. A user without held-out items gets NaN.
"""

from __future__ import annotations

import torch
from torch import Tensor

from recprism.metrics.metric import Metric, MetricFunction, register
from recprism.metrics.operations import discounts


def recall(found: Tensor, n_relevant: Tensor) -> Tensor:
    """Share of all held-out items that the list has, even if there are more of them than places.

    >>> recall(torch.tensor([1.0]), torch.tensor([4.0])).tolist()
    [0.25]
    """
    return found / n_relevant


def precision(found: Tensor, n_relevant: Tensor, k: int) -> Tensor:
    """Share of the k places with a held-out item; empty places count as misses."""
    return _where_judged(found / k, n_relevant)


def hit_rate(found: Tensor, n_relevant: Tensor) -> Tensor:
    """1 if the list has any held-out item, else 0."""
    return _where_judged((found > 0).to(torch.float64), n_relevant)


def mrr(reciprocal: Tensor, n_relevant: Tensor) -> Tensor:
    """One over the place of the first held-out item, or 0 if there is none."""
    return _where_judged(reciprocal, n_relevant)


def ndcg(dcg: Tensor, n_relevant: Tensor, k: int) -> Tensor:
    """Sum of 1 / log2(place + 1) over hits, divided by that of a list that begins with min(k, held-out) hits.

    >>> second_place = 1 / torch.log2(torch.tensor([3.0]))
    >>> ndcg(second_place, torch.tensor([1.0]), k=10).round(decimals=4).tolist()
    [0.6309]
    """
    ideal = discounts(k, dcg.device).cumsum(0)
    return _where_judged(dcg / ideal.index_select(0, n_relevant.clamp(1, k).long() - 1), n_relevant)


def _where_judged(values: Tensor, n_relevant: Tensor) -> Tensor:
    return torch.where(n_relevant > 0, values, torch.nan)


def _register(name: str, function: MetricFunction, summary: str) -> None:
    empties = "Users without held-out items are left out of the mean; an empty list scores 0."
    register(Metric(name, function, summary=summary, needs=("relevant",), empties=empties))


_register(
    "recall",
    lambda lists, context: recall(lists.found.hits, context.relevant.counts),
    "Share of the user's held-out items that the list holds.",
)
_register(
    "ndcg",
    lambda lists, context: ndcg(lists.found.dcg, context.relevant.counts, lists.k),
    "Discounted hits over those of the best possible list of that length.",
)
_register(
    "precision",
    lambda lists, context: precision(lists.found.hits, context.relevant.counts, lists.k),
    "Share of the places that hold a held-out item.",
)
_register(
    "hit_rate",
    lambda lists, context: hit_rate(lists.found.hits, context.relevant.counts),
    "Share of users whose list holds at least one held-out item.",
)
_register(
    "mrr",
    lambda lists, context: mrr(lists.found.reciprocal, context.relevant.counts),
    "One over the place of the first held-out item.",
)
