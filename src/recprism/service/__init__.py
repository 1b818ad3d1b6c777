"""The rule over HTTP: a service around ``recprism.serving`` (extra ``serve``), and its client.

Stability: provisional.
"""

from recprism.common.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
