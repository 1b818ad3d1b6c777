"""Exact ranking: the best unseen items of every user, from vectors (``topk``), from more of them than memory holds
(``topk_blocks``), or from any scores (``rank_scores``)."""

from recprism.ranking.blocks import topk_blocks
from recprism.ranking.scores import rank_scores
from recprism.ranking.topk import topk

__all__ = ["rank_scores", "topk", "topk_blocks"]
