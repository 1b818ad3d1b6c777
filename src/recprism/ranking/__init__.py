"""Exact ranking: the best unseen items of every user, from vectors (``topk``) or from any scores (``rank_scores``)."""

from recprism.ranking.scores import rank_scores
from recprism.ranking.topk import topk

__all__ = ["rank_scores", "topk"]
