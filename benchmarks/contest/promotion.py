"""The contest's promotion baseline: one learned bias per item."""

from __future__ import annotations

import numpy as np

from recprism.budget.problem import Lists, Problem
from recprism.cmb import CMB
from recprism.cmb.factors.change import with_bias_column
from recprism.contest.methods import Method

PROMOTION = "promotion"
MAX_STEP = 0.3
GOALS = ("subtopic_coverage", "alpha_ndcg", "ilad_subtopics", "catalogue_coverage")
RELEVANCE = (0.5, 0.7)
"""Weights of the base scores in the players' reward; the trade-off sets how much promotion is applied."""


def promoted() -> Method:
    """Return the method that promotes items: a bias per item, learned once per problem and scaled by the trade-off.

    It has eight choices, four goals of the learner with two weights of relevance, and no pool: it ranks all items.
    """
    return Method(PROMOTION, _promoted, tuple({"goal": it, "relevance": of} for it in GOALS for of in RELEVANCE))


def _promoted(problem: Problem, trade_off: float, *, goal: str, relevance: float) -> Lists:
    bias = problem.once(("promotion", goal, relevance), lambda: _learned_bias(problem, goal, relevance))
    start = with_bias_column(problem.factors)
    start.item[:, -1] = trade_off * bias
    return np.asarray(start.rank(problem.k, exclude=problem.seen)[0], np.int64)


def _learned_bias(problem: Problem, goal: str, relevance: float) -> np.ndarray:
    """(n_items,) bias that players learn by marginal credit with one number per item; no label is used."""
    start = with_bias_column(problem.factors)
    learner = CMB(
        diversity=goal,
        relevance=relevance,
        only=(start.dim - 1,),
        max_step=MAX_STEP,
        k=problem.k,
        reward_on=problem.part,
        device="cpu",
    )
    learner.fit(start, problem.split, problem.categories)
    assert learner.delta_.item is not None
    return learner.delta_.item[:, -1].numpy()
