"""Re-rankers that compare items: by their vectors, or by their subtopics."""

from __future__ import annotations

from dataclasses import dataclass

from recprism.rerank.features import Directions, Features
from recprism.rerank.reranker import Reranker, require_one_of


@dataclass(frozen=True, kw_only=True)
class SimilarityReranker(Reranker):
    """similarity: "vectors" or "subtopics", what the cosine between two items is taken of."""

    similarity: str = "vectors"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_one_of("similarity", self.similarity, ("vectors", "subtopics"))

    def directions(self, features: Features) -> Directions:
        return features.vector_directions if self.similarity == "vectors" else features.subtopic_directions
