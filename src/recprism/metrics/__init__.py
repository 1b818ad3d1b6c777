"""Metrics: lists in, a value per user (or one for all lists) out, with means, intervals and paired comparisons.

``evaluate(lists, context, ["ndcg@10", "alpha_ndcg@10"])`` is the way in. A metric is a pure function of arrays
(accuracy, diversity, catalogue, ...) and a line that registers it; ``METRICS`` lists them all.
"""

from recprism.metrics import accuracy, calibration, catalogue, diversity, strata
from recprism.metrics.comparison import Comparison, Difference, compare
from recprism.metrics.context import Context, subtopics_of_users
from recprism.metrics.evaluation import Evaluation, Score
from recprism.metrics.lists import Lists
from recprism.metrics.registry import ALIASES, METRICS, Metric, parse, register
from recprism.metrics.suite import DEFAULT_METRICS, PAPER_METRICS, deepest_cut, evaluate

__all__ = [
    "ALIASES",
    "DEFAULT_METRICS",
    "METRICS",
    "PAPER_METRICS",
    "Comparison",
    "Context",
    "Difference",
    "Evaluation",
    "Lists",
    "Metric",
    "Score",
    "accuracy",
    "calibration",
    "catalogue",
    "compare",
    "deepest_cut",
    "diversity",
    "evaluate",
    "parse",
    "register",
    "strata",
    "subtopics_of_users",
]
