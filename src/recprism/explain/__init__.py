"""What changed, what it did, and how we know: explanations of the difference between two sets of factors."""

from recprism._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
