"""Exports of a rule: its own file, and the vectors that it is compiled into, each with its measured difference.

Stability: provisional.
"""

from recprism.common.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
