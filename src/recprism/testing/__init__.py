"""Conformance suites for metrics and re-rankers, and synthetic data whose answers are known.

The suites raise an ``AssertionError``; call them from a test of any framework.

Stability: provisional.
"""

from recprism.common.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
