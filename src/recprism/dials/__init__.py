"""Lists compiled into vectors, so that a plain dot product returns them."""

from recprism._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
