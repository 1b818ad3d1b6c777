"""Exact ranking: the best unseen items of every user.

``topk`` ranks vectors, ``topk_blocks`` more of them than memory holds, and ``rank_scores`` any scores.
"""

from recprism._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
