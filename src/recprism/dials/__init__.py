"""Lists compiled into vectors, named weights per user, or a lift per item, so that a dot product returns them.

Stability: provisional.
"""

from recprism._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
