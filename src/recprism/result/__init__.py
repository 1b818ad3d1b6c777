"""The result: a rule and its certificate. Lists, reasons, figures and exports come from it.

Stability: provisional.
"""

from recprism.common.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
