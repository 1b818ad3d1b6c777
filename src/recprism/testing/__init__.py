"""Synthetic worlds whose answers are known, for tests and benchmarks."""

from recprism._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
