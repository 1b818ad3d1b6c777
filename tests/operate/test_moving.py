"""The examples with changing data: sessions are split by time, and a second stage gets the documented input."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from recprism.budget.path import lists_at
from recprism.budget.problem import Problem
from recprism.data import Dataset, SparseRows, Split
from recprism.models import Factors

pytestmark = pytest.mark.slow
EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def sessions() -> dict[str, Any]:
    return runpy.run_path(str(EXAMPLES / "sessions.py"))


@pytest.fixture(scope="module")
def stages() -> dict[str, Any]:
    return runpy.run_path(str(EXAMPLES / "two_stages.py"))


def random_factors(split: Split, generator: np.random.Generator) -> Factors:
    user, item = (generator.normal(size=(size, 8)) for size in (split.n_users, split.n_items))
    return Factors.from_arrays(user, item, user_ids=split.user_ids, item_ids=split.item_ids)


def test_later_sessions_belong_to_new_users(small: Dataset, sessions: dict[str, Any]) -> None:
    early, late, catalogue = sessions["sessions_by_time"](small)
    found = small.interactions
    assert found.timestamp is not None
    cut = np.quantile(found.timestamp, sessions["EARLY"])
    there = np.unique(found.user[found.timestamp < cut])
    newcomers = np.setdiff1d(found.user, there)
    assert 0 < len(late.so_far) <= len(newcomers)
    assert len(early.so_far) <= len(there)
    assert sum(map(len, early.so_far)) + sum(map(len, early.then)) <= (found.timestamp < cut).sum()
    assert np.isin(catalogue, found.item[found.timestamp < cut]).all()
    for part in (early, late):
        for so_far, then in zip(part.so_far, part.then, strict=True):
            assert len(then) >= 1
            assert not set(so_far.tolist()) & set(then.tolist())
    # The first session is the first early user's, in order of time.
    own = (found.user == there[0]) & (found.timestamp < cut)
    order = np.lexsort((found.item[own], found.timestamp[own]))
    first = np.concatenate([early.so_far[0], early.then[0]])
    assert (catalogue[first] == found.item[own][order]).all()


def test_a_session_vector_depends_only_on_earlier_items(sessions: dict[str, Any]) -> None:
    torch.manual_seed(0)
    model = sessions["SessionModel"](20).eval()
    short, long = np.array([3, 5, 7]), np.array([3, 5, 7, 11])
    rows, _ = model.padded([short, long])
    with torch.no_grad():
        hidden = model(rows)
    assert torch.allclose(hidden[0, 2], hidden[1, 2], atol=1e-5), "what follows does not count"
    vectors = model.vectors([short, long])
    assert vectors[0] == pytest.approx(hidden[0, 2].numpy(), abs=1e-5)
    assert vectors[1] == pytest.approx(hidden[1, 3].numpy(), abs=1e-5)
    assert not np.allclose(vectors[0], vectors[1])


def test_the_session_model_learns_a_fixed_order(sessions: dict[str, Any]) -> None:
    torch.manual_seed(0)
    walks = [(np.arange(8) + start) % 20 for start in range(20)] * 3
    model = sessions["SessionModel"](20).learn(walks, epochs=40)
    scores = model.vectors([walk[:5] for walk in walks[:20]]) @ model.items.weight[:-1].detach().numpy().T
    assert (scores.argmax(1) == [walk[5] for walk in walks[:20]]).mean() > 0.9


def test_the_rule_answers_unknown_sessions_as_it_does_offline(small: Dataset, sessions: dict[str, Any]) -> None:
    torch.manual_seed(0)
    early, late, catalogue = sessions["sessions_by_time"](small)
    model, categories = sessions["SessionModel"](len(catalogue)).eval(), small.categories.take_items(catalogue)
    before, now = (sessions["serving"](model, some, categories) for some in (early, late))
    rule = sessions["exported"](before)
    found = [sessions["answer"](rule, model, session) for session in late.so_far]
    assert np.array_equal([it.ids for it in found], lists_at(now, "subtopic_coverage", sessions["TRADE_OFF"]))
    assert all(len(it.reasons) == 10 for it in found)
    assert sum(it.swaps for it in found) > len(found), "the rule changes lists"
    assert not any(np.isin(it.ids, session).any() for it, session in zip(found, late.so_far, strict=True))


def test_the_second_stage_gets_the_documented_input(small: Dataset, stages: dict[str, Any]) -> None:
    split = small.split(seed=0)
    generator = np.random.default_rng(0)
    one, other = (random_factors(split, generator) for _ in range(2))
    problem = Problem(one, split, small.categories, "validation")
    stage = stages["fetch"](one, other, problem, 50)
    assert (stage.items == one.rank(50, exclude=split.train)[0]).all()
    assert stage.columns[3, 7, 0] == pytest.approx(other.user[3] @ other.item[stage.items[3, 7]], abs=1e-4)
    assert stage.columns[3, 7, 2] == pytest.approx(np.log1p(split.train.col_counts[stage.items[3, 7]]), abs=1e-4)


def test_the_ranker_follows_its_labels(small: Dataset, stages: dict[str, Any]) -> None:
    """Labels are the items with the best scores: a ranker that learns anything orders by score."""
    split = small.split(seed=0)
    generator = np.random.default_rng(0)
    factors = random_factors(split, generator)
    best, _ = factors.rank(10, exclude=split.train)
    users = np.repeat(np.arange(split.n_users), 10)
    liked = SparseRows.from_pairs(users, best.ravel(), split.train.shape)
    problem = Problem(
        factors,
        type(split)(split.train, liked, split.test, split.user_ids, split.item_ids),
        small.categories,
        "validation",
    )
    stage = stages["fetch"](factors, factors, problem, 60)
    items, scores = stages["Ranker"](stage, problem).order(stage)
    assert (np.diff(scores, axis=1) <= 0).all()
    assert (items[:, :10, None] == best[:, None, :]).any(2).mean() > 0.8
    assert (np.sort(items, 1) == np.sort(stage.items, 1)).all()
