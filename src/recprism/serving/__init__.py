"""Diverse lists with reasons at request time; needs numpy and numba only.

Stability: provisional.
"""

from recprism.common.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
