"""Re-rankers choose k of each user's candidates for relevance and diversity.

``MMR(trade_off=0.3)(candidates, scores, 10, features=Features(vectors=factors.item))`` returns lists for
``recprism.metrics``. All re-rankers share this signature and the setting ``trade_off``, from 0 (relevance) to 1
(diversity). ``RERANKERS`` lists them by name.

Stability: provisional.
"""

from recprism._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
