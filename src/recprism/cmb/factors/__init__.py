"""Explanations of the difference between two sets of factors: what changed, its effect, and the controls.

Stability: provisional.
"""

from recprism.common.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
