"""The base models of the contest, with their tuned settings.

Stability: experimental.
"""

from recprism.common.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
