"""The worth of an item for a list: the loss if it is dropped, or the gain if it enters.

A worth is computed for candidates, (n_users, k + m) item numbers: the k of the list, then m outside of it. It can be
computed for any metric, by judging the lists with one item changed. Common metrics have a faster formula.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from recprism.cmb._metric_values import require_no_infinity
from recprism.cmb.objective import MetricLike, resolve
from recprism.errors import InputError
from recprism.metrics import Context, Lists, Metric
from recprism.metrics.catalogue import OFTEN, exposure_entropy, gini, personalisation
from recprism.metrics.operations import discounts
from recprism.metrics.registry import parse
from recprism.metrics.tables import Vectors

Worth = Callable[[Tensor, int, Context], Tensor]  # (candidates, k, context) -> (n_users, k + m) float32


def marginal_gain_of(metric: MetricLike) -> Worth:
    """The fastest way to compute the worth of candidates under a metric.

    Args:
        metric: A name, a Metric or a function of your own.

    Returns:
        A function (candidates, k, context) -> (n_users, k + m) float32. A larger worth is better, also for a metric
        whose smaller values are better.
    """
    known = parse(metric)[0] if isinstance(metric, str) else metric
    if isinstance(known, Metric):
        if known.name in MARGINAL_GAINS:
            return MARGINAL_GAINS[known.name]
        if not known.per_user:
            raise InputError(f"{known.name} is one number for all lists; marginal credit needs one per user")
    sign = -1.0 if isinstance(known, Metric) and known.higher_is_better is False else 1.0
    return by_exchange(resolve(metric), sign)


def by_exchange(metric: Callable[[Lists, Context], Tensor], sign: float = 1.0) -> Worth:
    """Judge the lists without each of their items, and with each candidate in the last place: k + m + 2 evaluations."""

    def worth(candidates: Tensor, k: int, context: Context) -> Tensor:
        def judged(items: Tensor) -> Tensor:
            values = torch.as_tensor(metric(Lists(items, context, check=False), context), device=items.device)
            if values.ndim == 0:
                raise InputError("the metric gives one number for all lists; marginal credit needs one per user")
            return values.to(torch.float32)

        lists, nothing = candidates[:, :k], torch.full_like(candidates[:, :1], -1)
        dropped = [torch.cat([lists[:, :j], lists[:, j + 1 :], nothing], 1) for j in range(k)]
        open_ended = torch.cat([lists[:, :-1], nothing], 1)
        entered = [torch.cat([lists[:, :-1], candidates[:, j : j + 1]], 1) for j in range(k, candidates.shape[1])]
        values = torch.stack([judged(items) for items in (lists, *dropped, open_ended, *entered)], 1)
        require_no_infinity(metric, values)
        values = values.nan_to_num(0.0)
        lost, gained = values[:, :1] - values[:, 1 : k + 1], values[:, k + 2 :] - values[:, k + 1 : k + 2]
        return sign * torch.cat([lost, gained], 1)

    return worth


def _coverage(candidates: Tensor, k: int, context: Context) -> Tensor:
    """Categories that only this item covers, or that it would be the first to cover in the last place."""
    member = _membership(candidates, context)
    covered, before_last = (member[:, :last].sum(1, keepdim=True) for last in (k, k - 1))
    inside, outside = member[:, :k] * (covered == 1), member[:, k:] * (before_last == 0)
    return torch.cat([inside, outside], 1).sum(2) / max(context.categories.n_present, 1)


def _alpha_dcg(candidates: Tensor, k: int, context: Context, alpha: float = 0.5) -> Tensor:
    """Inside: the discounted gain at the item's own place; outside: at the last place, after all but the last item."""
    member = _membership(candidates, context)
    before = member[:, :k].cumsum(1) - member[:, :k]
    inside = (member[:, :k] * (1 - alpha) ** before).sum(2)
    outside = (member[:, k:] * (1 - alpha) ** before[:, k - 1 : k]).sum(2)
    discount = discounts(k, candidates.device).to(torch.float32)
    return torch.cat([inside * discount, outside * discount[-1]], 1)


def _membership(candidates: Tensor, context: Context) -> Tensor:
    """(n_users, k + m, n_categories) float32; an empty place has none."""
    matrix = context.keep("membership", lambda: (context.categories.weight_matrix != 0).to(torch.float32))
    return matrix[candidates.clamp(min=0)] * (candidates >= 0).unsqueeze(2)


def _distance(vectors: Callable[[Context], Vectors]) -> Worth:
    def worth(candidates: Tensor, k: int, context: Context) -> Tensor:
        """Mean distance to the other items of the list; from outside, to all but the last."""
        table = vectors(context)
        at = candidates.clamp(min=0)
        # One more column makes the dot product a distance: 0 to an item without a direction.
        unit = torch.cat([-table.unit[at].to(torch.float32), table.known[at].unsqueeze(2).to(torch.float32)], 2)
        mirrored = torch.cat([-unit[:, :k, :-1], unit[:, :k, -1:]], 2)
        whole, without_last = (mirrored[:, :last].sum(1) for last in (k, k - 1))
        inside = torch.einsum("ucd,ud->uc", unit[:, :k], whole)
        outside = torch.einsum("ucd,ud->uc", unit[:, k:], without_last)
        return torch.cat([inside, outside], 1) / max(k - 1, 1)

    return worth


def _slope(value: Callable[[Tensor], Tensor], sign: float = 1.0) -> Worth:
    """For metrics of the exposure: the slope at the present exposure, the same for every user."""

    def worth(candidates: Tensor, k: int, context: Context) -> Tensor:
        with torch.enable_grad():
            # Half a list more for every item: then an item in no list has a slope, too.
            present = (_exposure(candidates[:, :k], context.n_items) + 0.5).to(torch.float64).requires_grad_()
            (slope,) = torch.autograd.grad(value(present), present)
        return sign * slope.to(torch.float32)[candidates.clamp(min=0)]

    return worth


def _shown(times: int) -> Worth:
    """Inside: each list's share in showing the item often enough; outside: that share after one more list.

    Strictly, only the list that completes the number counts, and no list would be paid for an item in more lists.
    """

    def worth(candidates: Tensor, k: int, context: Context) -> Tensor:
        lists = _exposure(candidates[:, :k], context.n_items).to(torch.float32)[candidates.clamp(min=0)]
        lists[:, k:] += 1
        return 1 / lists.clamp(min=times)

    return worth


def _exposure(lists: Tensor, n_items: int) -> Tensor:
    """(n_items,) int64: how many of the lists contain each item."""
    # Empty places have a counter of their own: filtering them out would wait for a GPU.
    place = torch.where(lists >= 0, lists, n_items).flatten()
    counts = torch.zeros(n_items + 1, dtype=torch.int64, device=lists.device)
    return counts.scatter_add_(0, place, torch.ones_like(place))[:-1]


MARGINAL_GAINS: dict[str, Worth] = {
    "subtopic_coverage": _coverage,
    "alpha_ndcg": _alpha_dcg,
    "ilad": _distance(lambda context: context.vectors),
    "ilad_subtopics": _distance(lambda context: context.category_vectors),
    "ilad_attributes": _distance(lambda context: context.attributes),
    "catalogue_coverage": _shown(1),
    "shown_often": _shown(OFTEN),
    "gini": _slope(gini, -1.0),
    "exposure_entropy": _slope(exposure_entropy),
    "personalisation": _slope(lambda exposure: personalisation(exposure, 2)),
}
"""The faster formulas, by metric. For personalisation only the direction of the slope counts, so any number of lists
gives the same result."""
