"""Base recommenders: trained here (BPRMF, LightGCN), by another library, or imported as vectors.

Each of them produces a :class:`Factors`.

Stability: stable.
"""

from recprism.common.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
