"""The prices of a rule, as the kernels take them, in plain numpy: the same at training time and at request time."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

TIE = 1e-11  # values closer than this count as equal, because the order of a sum affects them; the better rank wins
TIED_TOGETHER = "catalogue_coverage"  # the goal under which one user's list depends on the lists of others
ALPHA = 0.5
BY_RELEVANCE = ("alpha_ndcg_relevant", "err_ia")
"""Goals for which an item gains as much as its relevance: its score, scaled to 0 .. 1 among the user's candidates."""
IN_ORDER = ("alpha_ndcg", *BY_RELEVANCE)
"""Goals that look at the order inside a list: three ways to count one thing."""
KINDS = (("subtopic_coverage",), IN_ORDER, ("ilad", "ilad_subtopics"), (TIED_TOGETHER,))
"""Goals that share a price."""


def prices_of(
    goals: Mapping[str, float],
    units: Mapping[str, float],
    trade_off: float,
    history_weight: float,
    discount: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return the prices of a rule, (8,); :func:`recprism.rerank._kernels.optimal.optimal` says what they are.

    Args:
        goals: Weights by name.
        units: Value of one unit of each goal in terms of its metric.
        trade_off: From 0, relevance alone, to 1, diversity alone.
        history_weight: Weight of the subtopics of the user's history.
        discount: Discount of each place for accuracy, (k,).
    """
    of_goals = [trade_off * sum(goals.get(name, 0.0) * units.get(name, 0.0) for name in names) for names in KINDS]
    by_relevance = float(not set(BY_RELEVANCE).isdisjoint(goals))
    accuracy = (1 - trade_off) / float(discount.sum())
    return np.array([accuracy, *of_goals, (1 - trade_off) * history_weight, ALPHA, by_relevance])


def fading_of(goals: Mapping[str, float], discount: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the discount of each place for goals that look at the order, (k,)."""
    return 1 / np.arange(1.0, len(discount) + 1) if "err_ia" in goals else discount


def filling_of(k: int) -> NDArray[np.float64]:
    """Return how far 0, 1, ... items fill a subtopic, (k + 2,)."""
    return np.asarray(np.log1p(np.arange(k + 2.0)) / math.log1p(k))
