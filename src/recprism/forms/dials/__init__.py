"""Lists compiled into vectors, or into named weights per user, so that a dot product returns them.

Stability: provisional.
"""

from recprism.common.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
