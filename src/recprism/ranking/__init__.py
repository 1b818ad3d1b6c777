"""Exact ranking: the best unseen items of every user.

``topk`` ranks vectors, ``topk_blocks`` ranks more vectors than memory holds, and ``rank_scores`` ranks any scores.

Stability: stable.
"""

from recprism.common.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
