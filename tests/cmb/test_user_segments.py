"""Players that the users of a segment share."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from recprism.cmb import CMB
from recprism.cmb.history import Progress
from recprism.cmb.space import FactorSpace
from recprism.data import SparseRows, Split, Subtopics
from recprism.errors import InputError
from recprism.models import Factors

CREDITS = [{"credit": "marginal"}, {"credit": "shared", "policy": "epsilon-greedy"}]


def world(seed: int, n_users: int = 30, n_items: int = 25, d: int = 4) -> tuple[Factors, Split, Subtopics]:
    """Random factors, with six concept columns that no user has a weight for; interactions and subtopics."""
    generator = np.random.default_rng(seed)
    topics = generator.random((n_items, 6)) < 0.3
    user, item = generator.normal(size=(n_users, d)), generator.normal(size=(n_items, d))
    factors = Factors.from_arrays(np.hstack([user, np.zeros((n_users, 6))]), np.hstack([item, topics]))
    parts = generator.choice(4, size=(n_users, n_items), p=[0.7, 0.1, 0.1, 0.1])
    train, validation, test = (SparseRows.coerce(parts == part) for part in (1, 2, 3))
    split = Split(train, validation, test, factors.user_ids, factors.item_ids)
    return factors, split, Subtopics(tuple("abcdef"), SparseRows.coerce(topics))


def concept_players(**settings: object) -> CMB:
    return CMB(side="user", only=tuple(range(4, 10)), k=5, **{"iterations": 8, "max_step": 0.5, **settings})  # type: ignore[arg-type]


@given(st.integers(0, 10_000))
def test_the_weights_of_a_segment_are_added_to_each_of_its_users(seed: int) -> None:
    factors, split, _ = world(seed)
    generator = np.random.default_rng(seed)
    segment_of = generator.integers(0, 3, factors.n_users)
    only = range(4, 10)
    space = FactorSpace(factors, split.train, side="user", only=only, user_segments=segment_of)
    weights = generator.uniform(-1, 1, (segment_of.max() + 1, 6)).astype(np.float32)
    assert space.n_players == weights.size
    user = factors.user.copy()
    user[:, 4:] = weights[segment_of] * np.abs(factors.user).max()
    expected, scores = factors.with_vectors(user=user).rank(10, exclude=split.train)
    lists = space.lists(torch.from_numpy(weights).flatten(), 10).numpy()
    for row in np.flatnonzero((lists != expected).any(1)):  # sums in another order may swap equal scores, no more
        assert np.ptp(scores[row, lists[row] != expected[row]]) < 1e-4


@given(st.integers(0, 10_000))
def test_players_of_a_segment_get_the_sum_of_the_rewards_of_its_users(seed: int) -> None:
    factors, split, _ = world(seed)
    generator = np.random.default_rng(seed)
    segment_of, rewards = generator.integers(0, 4, factors.n_users), generator.normal(size=factors.user.shape)
    space = FactorSpace(factors, split.train, side="both", only=(1, 7), user_segments=segment_of)
    expected = [rewards[segment_of == segment][:, [1, 7]].sum(0) for segment in range(segment_of.max() + 1)]
    assert np.allclose(space.of_user_players(torch.from_numpy(rewards)), np.concatenate(expected))


@pytest.mark.parametrize("settings", CREDITS)
@pytest.mark.parametrize("side", ["user", "both"])
def test_segments_of_one_user_each_are_players_of_their_own(settings: dict[str, str], side: str) -> None:
    factors, split, subtopics = world(3)
    asked = CMB(side=side, iterations=8, k=5, **settings)  # type: ignore[arg-type]
    alone = replace(asked).fit(factors, split, subtopics)
    segments = replace(asked).fit(factors, split, subtopics, user_segments=np.arange(factors.n_users))
    assert alone.delta_.user is not None and segments.delta_.user is not None
    assert alone.delta_.user.any()
    assert torch.equal(alone.delta_.user, segments.delta_.user)
    assert alone.history_ == segments.history_


@pytest.mark.parametrize("settings", CREDITS)
def test_users_of_a_segment_get_the_same_weights_and_other_factors_stay(settings: dict[str, str]) -> None:
    factors, split, subtopics = world(4)
    segment_of = np.arange(factors.n_users) % 3
    found = concept_players(**settings).fit(factors, split, subtopics, user_segments=segment_of).delta_.user
    assert found is not None and found.any()
    assert not found[:, :4].any()
    for segment in range(3):
        assert (found[segment_of == segment] == found[segment]).all()


def planted() -> tuple[Factors, Split, Subtopics, NDArray[np.int64]]:
    """Two segments whose lists lack one category each: "b" for the first, "a" for the second."""
    n = 40
    segment_of = np.arange(n) % 2
    in_b = np.repeat([0, 1], 10)
    topics = np.stack([in_b == 0, in_b == 1], 1)
    taste = np.where(segment_of[:, None] == in_b, 1.0, 0.0)  # (n_users, n_items) scores, but for small differences
    item = np.hstack([np.eye(20), topics])
    user = np.hstack([taste + np.random.default_rng(0).uniform(0, 0.5, taste.shape), np.zeros((n, 2))])
    factors = Factors.from_arrays(user, item)
    nothing = SparseRows.empty((n, 20))
    some = SparseRows.coerce(np.eye(n, 20) + np.eye(n, 20, -20))
    split = Split(nothing, some, some, factors.user_ids, factors.item_ids)
    return factors, split, Subtopics(("a", "b"), SparseRows.coerce(topics)), segment_of


def test_each_segment_learns_the_category_that_its_lists_lack() -> None:
    factors, split, subtopics, segment_of = planted()
    players = CMB(side="user", only=(20, 21), k=5, relevance=0.3, max_step=1.0, rate=1.0)
    model = players.fit(factors, split, subtopics, user_segments=segment_of)
    assert model.delta_.user is not None
    weights = model.delta_.user[:2, 20:].numpy()
    assert weights[0, 1] > weights[0, 0] and weights[1, 0] > weights[1, 1]
    before, after = model.evaluate(split, subtopics, ["subtopic_coverage@5"], part="validation", bootstrap=0)
    assert before["subtopic_coverage@5"].mean == 0.5
    assert after["subtopic_coverage@5"].mean > 0.9


@pytest.mark.parametrize("settings", CREDITS)
def test_a_resumed_search_has_the_same_bits_and_needs_the_same_segments(settings: dict[str, str]) -> None:
    factors, split, subtopics = world(5)
    segment_of = np.arange(factors.n_users) % 3
    steps: list[Progress] = []
    whole = concept_players(**settings).fit(factors, split, subtopics, user_segments=segment_of, follow=steps.append)
    resumed = concept_players(**settings).fit(factors, split, subtopics, user_segments=segment_of, resume=steps[3])
    assert whole.delta_.user is not None and resumed.delta_.user is not None
    assert torch.equal(whole.delta_.user, resumed.delta_.user)
    with pytest.raises(InputError, match="the search was begun with vectors"):
        concept_players(**settings).fit(factors, split, subtopics, user_segments=segment_of[::-1], resume=steps[3])


@pytest.mark.parametrize(
    ("segments", "settings", "message"),
    [
        (np.zeros(30, int), {"side": "item", "only": None}, "pass side='user' or 'both'"),
        (np.zeros(29, int), {}, "for each of 30 users"),
        (np.zeros(30), {}, "float64 of shape"),
        (np.full(30, -1), {}, "from 0 up"),
    ],
)
def test_segments_that_do_not_fit_are_refused(
    segments: NDArray[np.int64], settings: dict[str, object], message: str
) -> None:
    factors, split, subtopics = world(6)
    players = replace(concept_players(), **settings)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=message):
        players.fit(factors, split, subtopics, user_segments=segments)
