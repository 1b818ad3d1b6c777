"""Item-to-item neighbours: what a change of item vectors does to them, compared with a naive search."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recprism.cmb.jobs.search import begin_search, search
from recprism.errors import InputError
from recprism.report.collect import gather
from recprism.runs import neighbours
from recprism.runs.config import BudgetConfig, DiversifyConfig
from recprism.runs.jobs.diversify import diversify_within
from recprism.runs.neighbours import neighbour_overlap, neighbours_of, noted, overlap_of
from recprism.runs.run import Run

pytestmark = pytest.mark.slow


def naive(before: np.ndarray, after: np.ndarray, k: int, *, cosine: bool) -> float:
    """Every pair, one list after the other; the lower number first where scores are equal."""

    def nearest(vectors: np.ndarray, at: int) -> set[int]:
        if cosine:
            vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        scores = vectors @ vectors[at]
        others = [item for item in range(len(vectors)) if item != at]
        return set(sorted(others, key=lambda item: (-scores[item], item))[:k])

    kept = [len(nearest(before, at) & nearest(after, at)) / k for at in range(len(before))]
    return float(np.mean(kept))


@given(seed=st.integers(0, 10_000), size=st.floats(0.01, 3.0), n=st.integers(3, 40), k=st.integers(1, 12))
def test_it_is_what_a_naive_search_finds(seed: int, size: float, n: int, k: int) -> None:
    generator = np.random.default_rng(seed)
    before = generator.normal(size=(n, 5)).astype(np.float32)
    after = (before + size * generator.normal(size=(n, 5))).astype(np.float32)
    found = neighbour_overlap(before, after, k)
    assert found.moved and found.k == min(k, n - 1) and found.asked == n
    assert found.inner_product == pytest.approx(naive(before, after, found.k, cosine=False))
    assert found.cosine == pytest.approx(naive(before, after, found.k, cosine=True))


def test_longer_vectors_change_one_and_not_the_other() -> None:
    before = np.random.default_rng(0).normal(size=(200, 8)).astype(np.float32)
    lengths = np.random.default_rng(1).choice([0.25, 0.5, 1.0, 2.0, 4.0], (200, 1)).astype(np.float32)
    found = neighbour_overlap(before, before * lengths)  # powers of two: no direction is rounded
    assert found.cosine == 1.0 and found.whole_by_cosine == 1.0
    assert found.inner_product < 0.9


def test_vectors_of_length_zero_and_a_catalogue_of_one() -> None:
    before = np.zeros((12, 3), np.float32)
    after = before.copy()
    after[0] = 1.0
    assert 0 <= neighbour_overlap(before, after).cosine <= 1
    assert neighbour_overlap(before[:1], after[:1]).cosine == 1.0
    with pytest.raises(InputError, match="must agree"):
        neighbour_overlap(before, after[:, :2])


def test_a_large_catalogue_is_sampled_and_blocked(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(2)
    before = generator.normal(size=(1000, 6)).astype(np.float32)
    after = before + 0.3 * generator.normal(size=before.shape).astype(np.float32)
    everything = neighbour_overlap(before, after)
    monkeypatch.setattr(neighbours, "ITEMS_AT_ONCE", 64)
    assert neighbour_overlap(before, after) == everything, "blocks change nothing"
    monkeypatch.setattr(neighbours, "MOST_SCORES", 400 * 1000)
    sample = neighbour_overlap(before, after)
    assert sample.asked == 400 and "400 items drawn from 1,000" in sample.sentence()
    assert sample.cosine == pytest.approx(everything.cosine, abs=0.03)


# -- in a run ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def run(trained_run: Callable[..., Run]) -> Run:
    return trained_run()


def card(run: Run) -> str:
    return (run.path / "CARD.md").read_text(encoding="utf-8")


def test_a_rule_leaves_the_neighbours_alone(run: Run) -> None:
    diversify_within(run, BudgetConfig(goal="subtopic_coverage", budgets={"ndcg@10": 0.5}))
    assert noted(run) is None, "there is nothing to look up: a rule changes no vector"
    found = neighbours_of(run)
    assert not found.moved and found.cosine == found.inner_product == 1.0
    assert "overlap exactly 1" in found.sentence()
    assert "neighbours" not in card(run)
    facts = dict(gather(run, draws=0).facts["Item-to-item neighbours"])
    assert facts["overlap of the nearest 10, by cosine"] == "exactly 1"


def test_vectors_of_players_move_them_and_every_place_says_so(run: Run) -> None:
    assert noted(run) is None
    search(begin_search(run, DiversifyConfig(settings={"iterations": 3})))
    found = neighbours_of(run)
    assert found.moved and 0 < found.cosine < 1
    searched = run.load_result().vectors
    assert searched is not None
    assert found == overlap_of(run.factors(), searched.change) == noted(run)
    assert found.sentence() in card(run)
    facts = dict(gather(run, draws=0).facts["Item-to-item neighbours"])
    assert facts["overlap of the nearest 10, by cosine"] == f"{found.cosine:.4f}"
    diversify_within(run, BudgetConfig(goal="subtopic_coverage", budgets={"ndcg@10": 0.5}), overwrite=True)
    assert noted(run) is None, "these were the neighbours of another result"
    assert "neighbours" not in card(run)
