"""Review text to named features: parts of speech, aspects, and the sentiment of each mention.

Needs textblob and vaderSentiment (``pip install 'recprism[text]'``). Both are imported on first use.

Stability: provisional.
"""

from recprism.common.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
