"""Recommenders of other libraries and files as ``Factors``."""

from recprism._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
