"""Executors to pass to audits, comparisons and batches: this process, or the workers of a Ray cluster.

The other rooms take an executor as an argument and never import this one. Only this room imports ray.

Stability: provisional.
"""

from recprism.common.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
