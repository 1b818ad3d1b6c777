"""Worlds to re-rank in: candidates with scores, and everything a re-ranker can ask for."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from candidates import CandidateWorld, make_candidates

from recprism.rule import pool as _pool


@pytest.fixture(scope="session")
def make_world() -> Callable[..., CandidateWorld]:
    return make_candidates


@pytest.fixture(params=["compiled", "plain"])
def implementation(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a test with pools of the compiled kernels and of torch."""
    if request.param == "plain":
        monkeypatch.setattr(_pool, "COMPILED_FOR", ())
