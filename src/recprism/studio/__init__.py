"""The studio: a page and a JSON interface to runs, for one person on one machine."""

from recprism._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
