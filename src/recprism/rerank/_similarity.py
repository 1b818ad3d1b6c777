"""Re-rankers that compare items: by their vectors, or by their subtopics."""

from __future__ import annotations

from dataclasses import dataclass

from recprism.rerank.base import Reranker, require_one_of, require_whole
from recprism.rerank.features import Directions, Features


@dataclass(frozen=True, kw_only=True)
class SimilarityReranker(Reranker):
    """similarity: "vectors" or "subtopics", what the cosine between two items is taken of."""

    similarity: str = "vectors"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_one_of("similarity", self.similarity, ("vectors", "subtopics"))

    def directions(self, features: Features) -> Directions:
        return features.vector_directions if self.similarity == "vectors" else features.subtopic_directions


@dataclass(frozen=True, kw_only=True)
class WindowedReranker(SimilarityReranker):
    """window: how many items in a row are compared, the newest included; None for all of the list."""

    window: int | None = 5

    def __post_init__(self) -> None:
        super().__post_init__()
        require_whole("window", self.window, "for the whole list", least=1)

    def earlier(self, k: int) -> int:
        """How many of the items chosen last a candidate is compared with, in lists of length k."""
        return (k if self.window is None else min(k, self.window)) - 1
