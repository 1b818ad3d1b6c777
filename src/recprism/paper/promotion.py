"""The contest's promotion baseline: one learned bias per item."""

from __future__ import annotations

import numpy as np

from recprism.budget.scenario import Lists, Scenario
from recprism.explain.factors._promotion import RELEVANCE, learned_bias, with_bias_column
from recprism.paper.tuning import Method


def promoted(goal: str) -> Method:
    """Return the method that promotes items: a bias per item, learned once per scenario and scaled by the trade-off.

    Args:
        goal: The goal of the learner.

    Stability: experimental.
    """
    return Method("promotion", _promoted, tuple({"goal": goal, "relevance": it} for it in RELEVANCE))


def _promoted(scenario: Scenario, trade_off: float, *, goal: str, relevance: float) -> Lists:
    bias = scenario.once(("promotion", goal, relevance), lambda: learned_bias(scenario, goal, relevance))
    start = with_bias_column(scenario.factors)
    start.item[:, -1] = trade_off * bias
    return np.asarray(start.rank(scenario.k, exclude=scenario.seen)[0], np.int64)
