"""Constraints on lists: bans, pins, shares of categories, a floor for the tail.

Stability: provisional.
"""

from recprism.common.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
