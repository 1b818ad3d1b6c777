"""Random candidates with scores, and all features that a re-ranker can use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from recprism.rerank import Features, _choices


@dataclass
class World:
    """Candidates ranked by score, and the raw material of features."""

    candidates: Any
    scores: Any
    vectors: Any
    subtopics: Any
    user_subtopics: Any
    shown: Any

    @property
    def features(self) -> Features:
        return self.features_on("cpu")

    def features_on(self, device: str) -> Features:
        return Features(
            vectors=self.vectors,
            subtopics=self.subtopics,
            user_subtopics=self.user_subtopics,
            shown=self.shown,
            device=device,
        )

    @property
    def relevance(self) -> Any:
        """Scores scaled per user, as documented; for worlds without padding and without constant rows."""
        low, high = self.scores.min(1, keepdims=True), self.scores.max(1, keepdims=True)
        return (self.scores - low) / (high - low)


def build_world(
    seed: int,
    *,
    n_users: int = 12,
    n_candidates: int = 15,
    n_items: int = 40,
    dim: int = 20,
    n_subtopics: int = 6,
    coarse: bool = False,
    padded: bool = False,
) -> World:
    """Build a random world; ``coarse`` uses few values (ties, duplicates, zero vectors), ``padded`` empties places."""
    generator = np.random.default_rng(seed)
    candidates = np.argsort(generator.random((n_users, n_items)), 1)[:, :n_candidates]
    scores = generator.normal(size=candidates.shape)
    vectors = generator.normal(size=(n_items, dim))
    user_subtopics = generator.random((n_users, n_subtopics))
    if coarse:
        scores, vectors = np.round(scores), np.round(vectors * 0.6)
        vectors[generator.random(n_items) < 0.1] = 0.0
        user_subtopics = np.round(user_subtopics * 2)
    scores = -np.sort(-scores, axis=1).astype(np.float32)
    if padded:
        lengths = generator.integers(0, n_candidates + 1, n_users)
        empty = np.arange(n_candidates) >= lengths[:, None]
        candidates = np.where(empty, -1, candidates)
        scores = np.where(empty, -np.inf, scores).astype(np.float32)
    subtopics = (generator.random((n_items, n_subtopics)) < 0.3).astype(np.float32)
    shown = generator.integers(0, 4, n_items)
    return World(candidates, scores, vectors, subtopics, user_subtopics, shown)


@pytest.fixture(scope="session")
def make_world() -> Callable[..., World]:
    return build_world


@pytest.fixture(params=["compiled", "plain"])
def implementation(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a test with the compiled kernels and with torch."""
    if request.param == "plain":
        monkeypatch.setattr(_choices, "COMPILED_FOR", ())
