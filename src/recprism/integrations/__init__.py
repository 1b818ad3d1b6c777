"""Components for other frameworks, around :mod:`recprism.serving`.

Each needs its framework, which is imported on first use.

Stability: provisional.
"""

from recprism.common.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
