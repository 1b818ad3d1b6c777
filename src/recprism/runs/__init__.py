"""The run directory: what a run was asked, did and found, in open file formats.

Stability: provisional.
"""

from recprism.common.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
