"""The rule that makes lists diverse: goals, constraints, features of items, and the search for the best list.

Stability: provisional.
"""

from recprism.common.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
