"""Explanations: reasons of the rule, and a choice model for lists of any method.

Stability: provisional.
"""

from recprism.common.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
