"""Random candidates to re-rank, with everything a re-ranker can ask for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from recprism.common.checks import random_generator
from recprism.rule import Features


@dataclass
class CandidateWorld:
    """Candidates ranked by score, and the arrays that features are made of.

    Attributes:
        candidates: ``(n_users, n_candidates)`` item numbers, best first; -1 in empty places.
        scores: ``(n_users, n_candidates)`` float32; -inf in empty places.
        vectors: ``(n_items, dim)``.
        categories: ``(n_items, n_categories)`` of 0 and 1.
        user_categories: ``(n_users, n_categories)`` weights.
        shown: ``(n_items,)`` how often each item was shown before.
    """

    candidates: Any
    scores: Any
    vectors: Any
    categories: Any
    user_categories: Any
    shown: Any

    @property
    def features(self) -> Features:
        return self.features_on("cpu")

    def features_on(self, device: str) -> Features:
        return Features(
            vectors=self.vectors,
            categories=self.categories,
            user_categories=self.user_categories,
            shown=self.shown,
            device=device,
        )

    @property
    def relevance(self) -> Any:
        """Scores scaled to 0 .. 1 per user; for worlds without empty places and without constant rows."""
        low, high = self.scores.min(1, keepdims=True), self.scores.max(1, keepdims=True)
        return (self.scores - low) / (high - low)


def make_candidates(
    seed: int,
    *,
    n_users: int = 12,
    n_candidates: int = 15,
    n_items: int = 40,
    dim: int = 20,
    n_categories: int = 6,
    coarse: bool = False,
    padded: bool = False,
) -> CandidateWorld:
    """Make a random world.

    Args:
        seed: Seed of the world.
        n_users: Number of users.
        n_candidates: Candidates of each user.
        n_items: Size of the catalogue.
        dim: Length of the item vectors.
        n_categories: Number of categories.
        coarse: Draw from few values, so that there are ties, equal vectors and zero vectors.
        padded: Give users different numbers of candidates, some of them none.
    """
    generator = random_generator(seed)
    candidates = np.argsort(generator.random((n_users, n_items)), 1)[:, :n_candidates]
    scores: Any = generator.normal(size=candidates.shape)
    vectors = generator.normal(size=(n_items, dim))
    user_categories = generator.random((n_users, n_categories))
    if coarse:
        scores, vectors = np.round(scores), np.round(vectors * 0.6)
        vectors[generator.random(n_items) < 0.1] = 0.0
        user_categories = np.round(user_categories * 2)
    scores = -np.sort(-scores, axis=1).astype(np.float32)
    if padded:
        lengths = generator.integers(0, n_candidates + 1, n_users)
        empty = np.arange(n_candidates) >= lengths[:, None]
        candidates = np.where(empty, -1, candidates)
        scores = np.where(empty, -np.inf, scores).astype(np.float32)
    categories = (generator.random((n_items, n_categories)) < 0.3).astype(np.float32)
    shown = generator.integers(0, 4, n_items)
    return CandidateWorld(candidates, scores, vectors, categories, user_categories, shown)
