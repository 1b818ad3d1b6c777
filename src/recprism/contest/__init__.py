"""The contest of all methods. Only the command line imports this package.

Stability: experimental.
"""

from recprism.common.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
