"""Interactions and item categories, from raw files to splits.

Stability: stable.
"""

from recprism.common.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
