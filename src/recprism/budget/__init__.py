"""What diversity costs, and how much of it a certified budget buys.

Stability: provisional.
"""

from recprism.common.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
