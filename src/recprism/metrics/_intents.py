"""Diversity of the relevant items of a list: only held-out items count, and each for its categories.

Both metrics are those of ndeval, with one judgement per held-out item and category. ``(n_users,)`` float64 each.
"""

from __future__ import annotations

import torch
from torch import Tensor

from recprism.metrics.context import Context
from recprism.metrics.ideal import relevant_alpha_dcg
from recprism.metrics.lists import Lists
from recprism.metrics.metric import Metric, MetricFunction, register
from recprism.metrics.operations import discounts

ALPHA = 0.5  # of both metrics; for ERR-IA it is the chance that one relevant item satisfies the user


def err_ia(gains: Tensor, n_intents: Tensor) -> Tensor:
    """ERR-IA (Chapelle et al., 2011) with equally likely intents, over that of a list that is relevant to all of them.

    Args:
        gains: ``(k, n_users)`` sum over the categories of the item, each 1/2 per earlier relevant item that has it.
        n_intents: ``(n_users,)`` number of categories among the user's held-out items; users with 0 get NaN.
    """
    places = torch.arange(1, len(gains) + 1, dtype=torch.float64, device=gains.device)
    best = (ALPHA ** (places - 1) / places).sum() * n_intents
    return torch.where(n_intents > 0, (gains / places[:, None]).sum(0) / best, torch.nan)


def _alpha_ndcg_relevant(lists: Lists, context: Context) -> Tensor:
    depth = lists.depth
    best = context.keep(
        ("relevant ideal", depth), lambda: relevant_alpha_dcg(context.categories, context.relevant, ALPHA, depth)
    )[lists.k - 1]
    return torch.where(best > 0, lists.relevant_alpha_dcg(ALPHA)[lists.k - 1] / best, torch.nan)


def _err_ia(lists: Lists, context: Context) -> Tensor:
    dcg = lists.relevant_alpha_dcg(ALPHA)[: lists.k]
    gains = torch.diff(dcg, dim=0, prepend=torch.zeros_like(dcg[:1])) / discounts(lists.k, dcg.device)[:, None]
    return err_ia(gains, context.keep("intents", lambda: _intents(context)))


def _intents(context: Context) -> Tensor:
    return (context.categories.spread_of(context.relevant) > 0).sum(1)


def _register(name: str, function: MetricFunction, summary: str, bounds: tuple[float, float]) -> None:
    empties = "Users none of whose held-out items has a category are left out of the mean; an empty list scores 0."
    needs = ("relevant", "categories")
    register(Metric(name, function, summary=summary, bounds=bounds, needs=needs, empties=empties))


_register(
    "alpha_ndcg_relevant",
    _alpha_ndcg_relevant,
    "Relevance-aware alpha-nDCG (Clarke et al., 2008): only held-out items gain, over the greedy order of all of them.",
    (0.0, float("inf")),  # a list can be better than the greedy ideal
)
_register(
    "err_ia",
    _err_ia,
    "ERR-IA (Chapelle et al., 2011): for each category of the held-out items, how early the list satisfies it.",
    (0.0, 1.0),
)
