"""Deployment: refit after retraining, checks, batches, monitoring and experiments.

Stability: provisional.
"""

from recprism.common.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
