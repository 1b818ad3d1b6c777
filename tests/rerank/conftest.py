"""Worlds to re-rank in: candidates with scores, and everything a re-ranker can ask for."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from recprism.testing._candidates import CandidateWorld, make_candidates


@pytest.fixture(scope="session")
def make_world() -> Callable[..., CandidateWorld]:
    return make_candidates
