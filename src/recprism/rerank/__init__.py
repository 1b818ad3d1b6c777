"""Re-rankers: candidates and their scores in, k of them chosen for relevance and diversity out.

``MMR(trade_off=0.3)(candidates, scores, 10, features=Features(vectors=factors.item))`` returns lists for
``recprism.metrics``. All share one signature and one knob from 0 (relevance) to 1 (diversity). ``RERANKERS`` lists them
by name.
"""

from recprism._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
