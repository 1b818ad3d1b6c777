"""A conformance suite for metrics, and synthetic data whose answers are known.

The suite raises an ``AssertionError``; call it from a test of any framework.

Stability: provisional.
"""

from recprism.common.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
