"""Re-rankers from the literature, rivals and baselines, one a file. ``RERANKERS`` lists them by name.

``MMR(trade_off=0.3)(candidates, scores, 10, features=Features(vectors=factors.item))`` returns lists for
``recprism.metrics``. All re-rankers share this signature and the setting ``trade_off``, from 0 (relevance) to 1
(diversity).

Stability: provisional.
"""

from recprism.common.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
