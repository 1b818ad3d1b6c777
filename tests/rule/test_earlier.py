"""Lists that come after other pages, against all lists of a small world."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
import torch
from candidates import make_candidates
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from recprism.rule import ListSearch
from recprism.rule._batched import covers, search_batched
from recprism.rule.earlier import earlier_of, weights_of
from recprism.rule.list_search import search, terms_of
from recprism.rule.objective import Objective
from recprism.rule.pool import Pool


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    goals=st.sampled_from(
        [{"subtopic_coverage": 1.0}, {"ilad": 1.0}, {"subtopic_coverage": 0.6, "ilad_subtopics": 1.0}]
    ),
    trade_off=st.sampled_from([0.1, 0.5, 1.0]),
)
def test_no_list_after_pages_is_better(seed: int, goals: dict[str, float], trade_off: float) -> None:
    world, k = make_candidates(seed, n_users=3, n_candidates=9, n_items=24), 3
    pool = Pool.of(world.candidates, world.scores, torch.device("cpu"), 24)
    terms = terms_of(ListSearch(trade_off=trade_off, goals=goals), pool, k, world.features)
    generator = np.random.default_rng(seed)
    users, ages = np.repeat([0, 1, 2], 5), generator.integers(1, 4, 15)
    directions = None if "ilad" not in str(goals) else terms.directions
    shown = users, generator.integers(0, 24, 15), weights_of(ages, 1.0)
    terms = replace(terms, earlier=earlier_of(*shown, 3, terms.categories, directions))
    items, relevance = pool.items.numpy(), pool.relevance.numpy()
    every = np.array([*combinations(range(9), k)])

    def worth(user: int, lists: NDArray[np.int64]) -> NDArray[np.float64]:
        owner = np.full(len(lists), user)
        return Objective(terms).parts(items[user][lists], relevance[user][lists], users=owner).total

    found = search(pool, k, terms).numpy()
    for user in range(3):
        near = every[(every[:, :, None] == found[user]).any(2).sum(1) >= k - 1]  # the search makes exchanges
        others = every if goals.keys() == {"subtopic_coverage"} else near
        assert worth(user, found[user : user + 1])[0] == pytest.approx(worth(user, others).max(), abs=1e-10)
    if covers(terms):
        np.testing.assert_array_equal(search_batched(pool, k, terms).numpy(), found)


def test_what_was_shown_counts_by_its_age() -> None:
    """Two categories of three items, and vectors along the axes."""
    categories = np.array([0, 1, 2, 4]), np.array([0, 0, 0, 1], np.int32), 3
    unit, known = np.eye(3), np.array([True, True, False])
    shown = np.array([0, 0, 1]), np.array([0, 2, 2]), weights_of(np.array([1.0, 2.0, 0.0]), 1.0)
    left, past = earlier_of(*shown, 2, categories, (unit, known))
    np.testing.assert_array_equal(left, [[0.5, 0.75, 1], [0, 0, 1]])
    np.testing.assert_array_equal(past, [[0.5, 0, 0, 0.5], [0, 0, 0, 0]])  # a zero vector has no distance
