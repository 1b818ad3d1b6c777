"""Counterfactual multi-player bandits: the paper's search for a small change of the factors.

Stability: provisional.
"""

from recprism.common.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
