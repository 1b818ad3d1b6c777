"""Diversity of a list: by the categories of its items, or by the distances between their vectors.

``alpha_ndcg`` takes every item as relevant, so it is rank-discounted coverage. The version in which only relevant items
gain is ``alpha_ndcg_relevant``, in ``_intents.py``. alpha-nDCG and coverage ignore weights of categories. In
``subtopic_coverage_shared`` and ``subtopic_entropy``, each item counts 1, and weights divide it among its categories.
Weights also give the direction of category vectors. The functions take and return ``(n_users,)`` arrays.
"""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor

from recprism.errors import InputError
from recprism.metrics.context import Context
from recprism.metrics.ideal import catalogue_alpha_dcg
from recprism.metrics.lists import Lists
from recprism.metrics.metric import Metric, register
from recprism.metrics.tables import Vectors

PAPER_DEPTH = 20


def alpha_ndcg(dcg: Tensor, best: Tensor) -> Tensor:
    """alpha-DCG over that of an ideal list, or 0 if that is 0; above 1 if the list is better than a greedy ideal."""
    return torch.where(best > 0, dcg / best, 0.0)


def subtopic_coverage(covered: Tensor, n_categories: int) -> Tensor:
    """Share of all categories, from the ``(n_users,)`` number that the list covers, whole or in parts."""
    return covered / max(n_categories, 1)


def subtopic_entropy(nats: Tensor, n_categories: int) -> Tensor:
    """Entropy of the list's distribution over categories, ``(n_users,)`` nats, over that of equal shares."""
    return nats / math.log(max(n_categories, 2))


def mean_distance(distance_sums: Tensor, lengths: Tensor, *, halved: bool = False) -> Tensor:
    """Mean distance over pairs of items; 0 for lists of fewer than two.

    Args:
        distance_sums: ``(n_users,)`` sum of distances, each pair once.
        lengths: ``(n_users,)`` number of items in the list.
        halved: Divide by n (n - 1) instead of n (n - 1) / 2, as the paper's tables do.
    """
    pairs = lengths * (lengths - 1) / (1 if halved else 2)
    return distance_sums / pairs.clamp(min=1)


def _alpha_ndcg(
    lists: Lists,
    context: Context,
    *,
    alpha: float = 0.5,
    ideal: Literal["catalogue", "list"] = "catalogue",
    gated: bool = False,
    ideal_depth: int | None = None,
) -> Tensor:
    """Return alpha-nDCG.

    Args:
        lists: The lists.
        context: What the lists are evaluated against.
        alpha: The share of a category's worth that is lost each time it is repeated.
        ideal: "catalogue" is the greedy list over the whole catalogue, "list" the greedy order of the list itself.
        gated: Whether only the user's own categories count, in the list and in the ideal.
        ideal_depth: Number of places that the "list" ideal re-orders; by default the cut k.
    """
    if not 0 <= alpha <= 1:
        raise InputError(f"alpha must lie between 0 (repetition is free) and 1 (worth nothing), got {alpha}")
    if ideal not in IDEALS:
        raise InputError(f"unknown ideal {ideal!r}; choose one of {', '.join(IDEALS)}")
    depth = lists.k if ideal_depth is None else ideal_depth
    if depth < lists.k:
        raise InputError(
            f"ideal_depth={depth} is less than the cut at {lists.k}; it must reach as deep as the list is judged"
        )
    values = alpha_ndcg(lists.alpha_dcg(alpha, gated=gated), IDEALS[ideal](lists, context, alpha, gated, depth))
    if not gated:
        return values
    return torch.where(context.keep("has categories", lambda: context.user_categories.any(1)), values, torch.nan)


def _list_ideal(lists: Lists, context: Context, alpha: float, gated: bool, depth: int) -> Tensor:  # noqa: ARG001
    return lists.best_alpha_dcg(alpha, gated=gated, depth=depth)


def _catalogue_ideal(lists: Lists, context: Context, alpha: float, gated: bool, depth: int) -> Tensor:
    """The beginning of a greedy list does not depend on its depth, so one search serves every cut."""
    depth = max(depth, lists.depth)

    def compute() -> Tensor:
        if not gated:
            return catalogue_alpha_dcg(context.categories, alpha, depth)
        gates, gate_of_user = torch.unique(context.user_categories, dim=0, return_inverse=True)
        return catalogue_alpha_dcg(context.categories, alpha, depth, gates)[gate_of_user]

    return context.keep(("ideal", alpha, gated, depth), compute)[:, lists.k - 1]


IDEALS = {"catalogue": _catalogue_ideal, "list": _list_ideal}

_BY_CATEGORY = "An empty list scores 0, and items without categories add nothing."
_GATED = " Users none of whose interactions has a category are left out of the mean."
_BY_DISTANCE = "Lists of fewer than two items score 0; a pair with an all-zero vector counts as distance 0."

ALPHA_NDCG = register(
    Metric(
        "alpha_ndcg",
        _alpha_ndcg,
        summary="Rank-discounted coverage: new categories early, over a greedy ideal list; relevance does not count.",
        bounds=(0.0, math.inf),  # a list can be better than the greedy ideal
        needs=("categories",),
        empties=_BY_CATEGORY,
        options={"alpha": 0.5, "ideal": "catalogue", "gated": False, "ideal_depth": None},
    )
)
ALPHA_NDCG_GATED = register(
    ALPHA_NDCG.variant(
        "alpha_ndcg_gated",
        {"gated": True},
        needs=("categories", "user_categories"),
        empties=_BY_CATEGORY + _GATED,
        summary="Rank-discounted coverage of the categories of the user's own interactions; any item counts.",
    )
)
register(
    ALPHA_NDCG.variant(
        "alpha_ndcg_list",
        {"ideal": "list"},
        summary="Order alone: alpha-nDCG against the same items re-ordered; a list of one category scores 1.",
    )
)
register(
    ALPHA_NDCG_GATED.variant(
        "alpha_ndcg_paper",
        {"ideal": "list", "ideal_depth": PAPER_DEPTH},
        min_places=PAPER_DEPTH,
        summary="As in the paper's tables: the user's own categories, against the same top 20 re-ordered.",
    )
)

for _name, _function, _summary in (
    (
        "subtopic_coverage",
        lambda lists, context: subtopic_coverage(lists.growth.covered, context.categories.n_present),
        "Share of the catalogue's categories that the list covers.",
    ),
    (
        "subtopic_coverage_shared",
        lambda lists, context: subtopic_coverage(lists.growth.shared, context.categories.n_present),
        "Subtopic coverage where an item shares one unit among its categories, and a category is full at one.",
    ),
    (
        "subtopic_entropy",
        lambda lists, context: subtopic_entropy(lists.growth.entropy, context.categories.n_present),
        "How evenly the list is spread over categories; 1 if evenly over all of the catalogue's.",
    ),
):
    register(Metric(_name, _function, summary=_summary, needs=("categories",), empties=_BY_CATEGORY))


def _vectors(context: Context, of: str) -> Vectors:
    return context.category_vectors if of == "categories" else getattr(context, of)


def _ilad(lists: Lists, context: Context, *, of: str = "vectors", halved: bool = False) -> Tensor:
    return mean_distance(lists.distance_sums(_vectors(context, of)), lists.lengths, halved=halved)


def _mild(lists: Lists, context: Context, *, of: str = "vectors") -> Tensor:
    return lists.nearest(_vectors(context, of))


ILAD = Metric(
    "ilad",
    _ilad,
    summary="Mean cosine distance between the items of the list.",
    bounds=(0.0, 2.0),
    needs=("vectors",),
    empties=_BY_DISTANCE,
)
MILD = Metric(
    "min_ild",
    _mild,
    summary="Smallest cosine distance between two items of the list.",
    bounds=(0.0, 2.0),
    needs=("vectors",),
    empties=_BY_DISTANCE,
)
for _metric in (ILAD, MILD):
    register(_metric)
    register(_metric.variant(f"{_metric.name}_subtopics", {"of": "categories"}, needs=("categories",)))
    register(_metric.variant(f"{_metric.name}_attributes", {"of": "attributes"}, needs=("attributes",)))
register(ILAD.variant("ilad_paper", {"halved": True}, summary="Half of ilad, as in the paper's tables."))
