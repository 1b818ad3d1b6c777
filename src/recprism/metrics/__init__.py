"""Metrics of lists: a value per user, or one for all lists, with means, intervals and paired comparisons.

Start with ``evaluate(lists, context, ["ndcg@10", "alpha_ndcg@10"])``. A metric is a pure function of arrays and one
line that registers it. ``METRICS`` has all registered metrics.

Stability: stable.
"""

from recprism.common.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
