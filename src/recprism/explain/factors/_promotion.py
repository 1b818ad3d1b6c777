"""Learned plain promotion: our own learner restricted to one number per item, as a control without factors."""

from __future__ import annotations

import numpy as np

from recprism.budget.scenario import Scenario
from recprism.cmb import CMB
from recprism.models import Factors

MAX_STEP = 0.3
RELEVANCE = (0.5, 0.7)
"""Weights of the base scores in the players' reward; the trade-off sets how much promotion is applied."""


def learned_bias(scenario: Scenario, goal: str, relevance: float = RELEVANCE[0]) -> np.ndarray:
    """(n_items,) bias that players learn by marginal credit with one number per item; no label is used."""
    start = with_bias_column(scenario.factors)
    learner = CMB(
        diversity=goal,
        relevance=relevance,
        only=(start.dim - 1,),
        max_step=MAX_STEP,
        k=scenario.k,
        reward_on=scenario.part,
        device="cpu",
    )
    learner.fit(start, scenario.split, scenario.subtopics)
    assert learner.delta_.item is not None
    return learner.delta_.item[:, -1].numpy()


def with_bias_column(factors: Factors) -> Factors:
    """Add a factor that is 1 for every user: moving it alone gives a bias per item."""
    ones, zeros = (np.full((n, 1), value, np.float32) for n, value in ((factors.n_users, 1.0), (factors.n_items, 0.0)))
    return factors.with_vectors(user=np.hstack([factors.user, ones]), item=np.hstack([factors.item, zeros]))
