"""The report of a run: collect its results, draw them, and write one HTML file that loads nothing.

Stability: provisional.
"""

from recprism.common.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
