"""A base model that already knows the user's history and popularity: a second stage over another model's candidates."""

from __future__ import annotations

from itertools import product

import numpy as np

from recprism.budget.problem import Problem
from recprism.contest.methods import history_fit, scaled
from recprism.data.categories import Categories
from recprism.data.split import Split
from recprism.models.adapters.scores import ScoredCandidates
from recprism.models.factors import Factors

HISTORY = (0.0, 0.1, 0.2, 0.4, 0.8)
POPULARITY = (0.0, 0.05, 0.1, 0.2, 0.4)
"""Weights that are tried, in units of the scaled scores."""


def second_stage(model: Factors, split: Split, categories: Categories) -> ScoredCandidates:
    """Score the 500 best candidates of each user again: scaled score + history + popularity.

    The history is the share of the user's categories that the item has. Popularity is the logarithm of the number of
    training interactions, as a share of the largest. Their weights have the largest NDCG@10 on validation.

    Args:
        model: The first stage.
        split: Training interactions; validation chooses the weights.
        categories: The categories of the items.
    """
    problem = Problem(model, split, categories, "validation")
    items, scores = problem.candidates
    relevance, fit = scaled(items, scores), history_fit(problem)
    counts = np.log1p(split.train.col_counts)
    popular = (counts / counts.max())[items]
    best, found = -np.inf, ScoredCandidates(items, scores.astype(np.float32), model.user_ids, model.item_ids)
    for by_history, by_popularity in product(HISTORY, POPULARITY):
        mixed = np.where(items >= 0, relevance + by_history * fit + by_popularity * popular, -np.inf)
        order = np.argsort(-mixed, axis=1, kind="stable")
        lists = np.take_along_axis(items, order, 1)
        value = float(np.nanmean(problem.judge(lists[:, : problem.k], ("ndcg@10",))["ndcg@10"]))
        if value > best:
            best = value
            ordered = np.take_along_axis(mixed, order, 1).astype(np.float32)
            found = ScoredCandidates(lists, ordered, model.user_ids, model.item_ids)
    return found
