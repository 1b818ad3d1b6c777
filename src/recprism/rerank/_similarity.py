"""Base classes of re-rankers that compare items by vectors or by subtopics."""

from __future__ import annotations

from dataclasses import dataclass

from recprism.rerank.base import Reranker, require_one_of, require_whole
from recprism.rerank.features import Directions, Features


@dataclass(frozen=True, kw_only=True)
class SimilarityReranker(Reranker):
    """A re-ranker that uses the cosine between items.

    Attributes:
        similarity: "vectors" or "subtopics", between which the cosine is computed.
    """

    similarity: str = "vectors"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_one_of("similarity", self.similarity, ("vectors", "subtopics"))

    def directions(self, features: Features) -> Directions:
        """Return the unit vectors of the items."""
        return features.vector_directions if self.similarity == "vectors" else features.subtopic_directions


@dataclass(frozen=True, kw_only=True)
class WindowedReranker(SimilarityReranker):
    """A re-ranker that compares an item with those just before it.

    Attributes:
        window: How many consecutive items are compared, including the new one; None for the whole list.
    """

    window: int | None = 5

    def __post_init__(self) -> None:
        super().__post_init__()
        require_whole("window", self.window, "for the whole list", least=1)

    def earlier(self, k: int) -> int:
        """Return how many of the latest items a candidate is compared with, in lists of length k."""
        return (k if self.window is None else min(k, self.window)) - 1
