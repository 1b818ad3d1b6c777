"""Greedy lists for the rule's objective, and calibration as a flow, against brute force on small worlds."""

from __future__ import annotations

from itertools import combinations, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recprism.rivals import CalibratedFlow, Greedy
from recprism.rule import Features, ListSearch
from recprism.rule.objective import Objective
from recprism.rule.pool import Pool

GOALS = ("subtopic_coverage", "alpha_ndcg", "ilad_subtopics", "catalogue_coverage")
some_examples = settings(max_examples=40, deadline=None, derandomize=True)


def value(method: ListSearch, world: Any, picks: Any) -> Any:
    """The objective of each list, (n_users,), by ``Objective``; for goals without ties between users."""
    k, features = picks.shape[1], world.features
    pool = Pool.of(world.candidates, world.scores, features.device, features.n_items)
    ranks = (pool.items.numpy()[:, None, :] == picks[:, :, None]).argmax(2)
    relevance = np.take_along_axis(pool.relevance.numpy(), ranks, 1)
    return Objective.of(method, pool, k, features).parts(picks, relevance).total


def naive(method: Greedy, world: Any, k: int) -> Any:
    """Try every candidate in every place, and keep the one with the largest objective of the list so far."""
    rows = []
    for user in range(len(world.candidates)):
        order = np.argsort(-world.scores[user], kind="stable")
        candidates = world.candidates[user][order]
        pool = Pool.of(world.candidates, world.scores, world.features.device, world.features.n_items)
        objective, relevance = Objective.of(method, pool, k, world.features), pool.relevance.numpy()[user]
        chosen: list[int] = []
        for _ in range(k):
            left = [at for at in range(len(candidates)) if at not in chosen]
            tried = [
                objective.parts(
                    candidates[[*chosen, at]][None], relevance[[*chosen, at]][None], users=np.array([user])
                ).total[0]
                for at in left
            ]
            chosen.append(left[int(np.flatnonzero(np.array(tried) >= max(tried) - 1e-11)[0])])
        rows.append(candidates[chosen if "alpha_ndcg" in method.goals else sorted(chosen)])
    return np.array(rows)


@pytest.mark.parametrize("goal", GOALS[:3])
@pytest.mark.parametrize("history_weight", [0.0, 0.3])
def test_greedy_lists_are_those_of_a_naive_loop(make_world: Any, goal: str, history_weight: float) -> None:
    for seed in range(4):
        world = make_world(seed, n_users=5, n_candidates=9, n_items=20)
        for trade_off in (0.1, 0.4, 0.8):
            method = Greedy(trade_off=trade_off, goals={goal: 1.0}, history_weight=history_weight)
            found = method(world.candidates, world.scores, 4, features=world.features)
            np.testing.assert_array_equal(found, naive(method, world, 4))


@given(st.integers(0, 10_000), st.sampled_from(GOALS[:3]), st.sampled_from([0.05, 0.3, 0.7]), st.sampled_from([0, 0.2]))
@some_examples
def test_the_search_is_never_below_greedy(
    make_world: Any, seed: int, goal: str, trade_off: float, history_weight: float
) -> None:
    world = make_world(seed, n_users=6, n_candidates=12, n_items=25)
    knobs: dict[str, Any] = {"trade_off": trade_off, "goals": {goal: 1.0}, "history_weight": history_weight}
    one, two = (
        it(world.candidates, world.scores, 5, features=world.features) for it in (ListSearch(**knobs), Greedy(**knobs))
    )
    assert (value(ListSearch(**knobs), world, one) >= value(ListSearch(**knobs), world, two) - 1e-9).all()


def test_greedy_shows_an_item_once_for_the_catalogue() -> None:
    """Two users with the same candidates: at a high price the second gets the items that the first left."""
    found = Greedy(trade_off=0.9, goals={"catalogue_coverage": 1.0})(
        [[0, 1, 2, 3]] * 2, [[4.0, 3.0, 2.0, 1.0]] * 2, 2, features=Features(vectors=np.eye(4))
    )
    assert found.tolist() == [[0, 1], [2, 3]]


def filled(items: Any, categories: Any, quota: Any) -> float:
    """The largest number of filled quotas over all ways to assign items to their categories."""
    ways = [[*np.flatnonzero(categories[item]), -1] for item in items]
    counts = (np.bincount([c for c in way if c >= 0], minlength=len(quota)) for way in product(*ways))
    return max(float(np.minimum(count, quota).sum()) for count in counts)


@pytest.mark.parametrize("trade_off", [0.0, 0.3, 0.6, 1.0])
def test_the_flow_is_the_best_list(make_world: Any, trade_off: float) -> None:
    k = 3
    for seed in range(12):
        world = make_world(seed, n_users=3, n_candidates=7, n_items=12, n_categories=4)
        found = CalibratedFlow(trade_off=trade_off)(world.candidates, world.scores, k, features=world.features)
        quotas = k * world.features.intents(3).numpy()
        for user in range(3):
            relevance = dict(zip(world.candidates[user], world.relevance[user], strict=True))

            def total(items: Any, relevance: Any = relevance, quota: Any = quotas[user], world: Any = world) -> float:
                calibrated = filled(items, world.categories, quota)
                return (1 - trade_off) * sum(relevance[i] for i in items) + trade_off * calibrated

            best = max(total(items) for items in combinations(world.candidates[user], k))
            assert total(found[user]) == pytest.approx(best, abs=1e-9)


def test_an_item_moves_on_to_another_category() -> None:
    """Item 0 has both categories, item 1 only the first: both quotas fill only if item 0 serves the second."""
    features = Features(categories=[[1, 1], [1, 0], [0, 0]], user_categories=[[1, 1]])
    found = CalibratedFlow(trade_off=0.6)([[0, 2, 1]], [[3.0, 2.5, 2.0]], 2, features=features)
    assert found.tolist() == [[0, 1]]
