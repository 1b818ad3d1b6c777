"""The parts of the objective: they add up to what the kernels of the search maximise, for any list."""

from __future__ import annotations

from itertools import combinations, permutations
from typing import Any

import numba
import numpy as np
import pytest
from candidates import CandidateWorld, make_candidates
from hypothesis import given, settings
from hypothesis import strategies as st

from recprism.metrics import Context, evaluate
from recprism.rule import Features, ListSearch
from recprism.rule.kernels.optimal import _stand
from recprism.rule.kernels.parts import PARTS
from recprism.rule.kernels.prices import looks_at_order
from recprism.rule.kernels.worth import DISTANCE, ordered_worth, set_worth
from recprism.rule.list_search import goal_units
from recprism.rule.objective import Objective
from recprism.rule.pool import Pool

STAND, ORDERED_WORTH, SET_WORTH = (numba.njit(it.py_func) for it in (_stand, ordered_worth, set_worth))
GOALS: tuple[dict[str, float], ...] = (
    {"subtopic_coverage": 1.0},
    {"alpha_ndcg": 1.0},
    {"alpha_ndcg_relevant": 1.0},
    {"err_ia": 1.0},
    {"ilad_subtopics": 1.0},
    {"ilad": 1.0},
    {"catalogue_coverage": 1.0},
    {"subtopic_coverage": 0.7, "alpha_ndcg": 0.3, "ilad_subtopics": 0.5, "catalogue_coverage": 0.2},
)


def worth_by_kernels(objective: Objective, items: Any, relevance: Any, chosen: Any, user: int) -> float:
    """``ordered_worth + set_worth``, with the state that the search keeps."""
    terms, n = objective.terms, len(items)
    indptr, indices, n_categories = terms.categories
    shown, counts = np.zeros(len(indptr), np.int64), tuple(np.zeros((2, n_categories), np.int64))
    intents = terms.intents[user]
    goals = (indptr, indices, *terms.directions, shown, terms.prices, terms.discount, terms.fading, intents)
    goals = (*goals, terms.filling, np.ones(n_categories), np.zeros(0))
    depth, unit = n if terms.prices[DISTANCE] > 0 else 0, terms.directions[0]
    columns = np.ascontiguousarray(unit[items[:depth]].T)
    state = (
        np.empty(n, np.bool_),
        np.empty(n),
        np.empty((depth, depth)),
        (np.zeros(depth, np.bool_), columns, np.zeros(depth)),
        counts,
        np.empty(n, np.bool_),
        tuple(np.zeros((2, n_categories))),
        (np.ones((1, n_categories)), np.zeros(1), np.zeros(1), np.ones(n_categories)),
    )
    STAND(items, chosen, goals, state)
    in_order = ORDERED_WORTH(chosen, items, relevance, goals, np.ones(n_categories))
    return float(in_order + SET_WORTH(items, chosen, goals, state))


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10_000),
    goals=st.sampled_from(GOALS),
    trade_off=st.sampled_from([0.0, 0.1, 0.5, 1.0]),
    history_weight=st.sampled_from([0.0, 0.2, 1.5]),
    k=st.integers(1, 8),
    ties=st.booleans(),
)
def test_parts_add_up_to_the_worth_of_the_kernels(
    seed: int, goals: dict[str, float], trade_off: float, history_weight: float, k: int, ties: bool
) -> None:
    world = make_candidates(seed, n_users=3, n_candidates=12, n_items=24, coarse=ties, padded=ties)
    features = world.features
    method = ListSearch(trade_off=trade_off, goals=goals, history_weight=history_weight)
    pool = Pool.of(world.candidates, world.scores, features.device, features.n_items).at_least(k)
    objective = Objective.of(method, pool, k, features)
    generator = np.random.default_rng(seed)
    for user in range(pool.n_users):
        n = int(pool.lengths[user])
        chosen = generator.permutation(n)[: min(k, n)]
        items, relevance = pool.items[user].numpy(), pool.relevance[user].numpy()
        parts = objective.parts(items[chosen][None], relevance[chosen][None], users=np.array([user]))
        expected = worth_by_kernels(objective, items[:n], relevance, chosen, user)
        exposure = parts.of("exposure")[0]
        assert parts.total[0] - exposure == pytest.approx(expected, rel=1e-12, abs=1e-14)
        assert exposure == pytest.approx(objective.terms.prices[4] * len(chosen))


def test_a_list_with_a_known_answer() -> None:
    """Two items of one category and one of another, by hand."""
    features = Features(categories=[[1, 0], [1, 0], [0, 1]], user_categories=[[3, 1]])
    method = ListSearch(trade_off=0.5, goals={"subtopic_coverage": 1.0, "alpha_ndcg": 1.0}, history_weight=0.4)
    pool = Pool.of([[0, 1, 2]], [[3.0, 2.0, 1.0]], features.device, features.n_items)
    objective = Objective.of(method, pool, 3, features)
    parts = objective.parts(np.array([[0, 1, 2]]), np.array([[1.0, 0.5, 0.0]]))
    discount = 1 / np.log2([2, 3, 4])
    assert parts.of("relevance")[0] == pytest.approx(0.5 * (discount[0] + 0.5 * discount[1]) / discount.sum())
    np.testing.assert_allclose(parts.by_category["coverage"], [0.25, 0.25])
    ideal = discount[0] + discount[1] + 0.5 * discount[2]
    of_category = 0.5 * np.array([discount[0] + 0.5 * discount[1], discount[2]]) / ideal
    np.testing.assert_allclose(parts.by_category["alpha_dcg"], of_category)
    assert parts.of("history")[0] == pytest.approx(0.2 * (0.75 * np.log(3) + 0.25 * np.log(2)) / np.log(4))
    assert parts.total[0] == pytest.approx(sum(parts.of(name)[0] for name in PARTS))
    empty = objective.parts(np.array([[0, -1, 2]]), np.array([[1.0, 9.9, 0.0]]))
    assert empty.of("alpha_dcg")[0] == pytest.approx(0.5 * (discount[0] + discount[2]) / ideal)
    assert empty.of("relevance")[0] == pytest.approx(0.5 * discount[0] / discount.sum())


@pytest.mark.parametrize("goal", ["subtopic_coverage", "alpha_ndcg", "ilad_subtopics", "ilad"])
def test_goals_alone_are_the_metrics(goal: str) -> None:
    """At trade-off 1, the objective of a list is its metric."""
    world, k = make_candidates(5, n_users=20, n_candidates=12, n_items=24), 5
    objective = objective_of(world, ListSearch(trade_off=1.0, goals={goal: 1.0}), k)
    lists = world.candidates[:, :k]
    context = Context(vectors=world.vectors, categories=world.categories)
    values = evaluate(lists, context, [f"{goal}@{k}"], bootstrap=0).values[f"{goal}@{k}"]
    np.testing.assert_allclose(objective.parts(lists, np.zeros(lists.shape)).total, values, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("goal", ["alpha_ndcg_relevant", "err_ia"])
def test_goals_by_relevance_are_the_metrics_if_scores_are_labels(goal: str) -> None:
    """Scores of 1 for held-out items and 0 for others: the objective is the metric, up to what it is divided by."""
    generator, k = np.random.default_rng(3), 6
    labels = generator.random((30, 20)) < 0.4
    labels[:, 0], labels[:, 1] = True, False  # scores of both kinds, so that they are scaled to 0 and 1
    categories = (generator.random((20, 5)) < 0.4).astype(np.float32)
    lists = np.array([generator.permutation(20)[:k] for _ in labels])
    features = Features(categories=categories)
    pool = Pool.of(np.tile(np.arange(20), (30, 1)), labels.astype(float), features.device, features.n_items)
    objective = Objective.of(ListSearch(trade_off=1.0, goals={goal: 1.0}), pool, k, features)
    totals = objective.parts(lists, np.take_along_axis(labels, lists, 1).astype(float)).total
    context = Context(relevant=labels.astype(int), categories=categories)
    values = evaluate(lists, context, [f"{goal}@{k}"], bootstrap=0).values[f"{goal}@{k}"]
    if goal == "err_ia":
        of_user = np.array([(categories[own] > 0).any(0).sum() for own in labels])
        divisor = of_user / (categories > 0).any(0).sum()
    else:
        divisor = ideals(labels, categories > 0, k) * goal_units({goal: 1.0}, features, k, 30, 20)[goal]
    np.testing.assert_allclose(totals, values * divisor, rtol=1e-6, atol=1e-9)


def ideals(labels: Any, member: Any, k: int) -> Any:
    """Return the alpha-DCG of each user's held-out items in greedy order, (n_users,)."""
    found = np.zeros(len(labels))
    for user, own in enumerate(labels):
        left, worth = np.flatnonzero(own).tolist(), np.ones(member.shape[1])
        for place in range(min(k, len(left))):
            best = max(left, key=lambda item: worth[member[item]].sum())
            found[user] += worth[member[best]].sum() / np.log2(place + 2)
            worth[member[best]] /= 2
            left.remove(best)
    return found


def test_distances_split_by_category() -> None:
    world, k = make_candidates(6, n_users=20, n_candidates=12, n_items=24), 6
    objective = objective_of(world, ListSearch(trade_off=0.7, goals={"ilad_subtopics": 1.0}), k)
    lists = world.candidates[:, :k].copy()
    lists[3, 2:] = -1
    split = objective.distance_by_category(lists)
    assert (split >= -1e-15).all()
    np.testing.assert_allclose(split.sum(1), objective.parts(lists, np.zeros(lists.shape)).of("distance"), atol=1e-14)


@pytest.mark.parametrize("goals", GOALS[:6], ids="+".join)
def test_the_search_finds_the_largest_total_nearly_always(goals: dict[str, float]) -> None:
    """The objective over all lists, by brute force, has its largest value where the search ends."""
    world, k = make_candidates(9, n_users=12, n_candidates=7, n_items=24), 3
    method = ListSearch(trade_off=0.3, goals=goals, history_weight=0.2)
    objective, features = objective_of(world, method, k), world.features
    pool = Pool.of(world.candidates, world.scores, features.device, features.n_items)
    found = method.choose(pool, k, features).numpy()
    ways = permutations(range(7), k) if looks_at_order(goals) else combinations(range(7), k)
    all_lists, hits = np.array(list(ways)), 0
    for user in range(pool.n_users):
        items, relevance = pool.items[user].numpy(), pool.relevance[user].numpy()
        of_user = np.full(len(all_lists), user)
        values = objective.parts(items[all_lists], relevance[all_lists], users=of_user).total
        own = objective.parts(items[found[user]][None], relevance[found[user]][None], users=np.array([user])).total[0]
        assert own <= values.max() + 1e-12
        hits += own >= values.max() - 1e-9
    assert hits >= 11


def objective_of(world: CandidateWorld, method: ListSearch, k: int) -> Objective:
    features = world.features
    pool = Pool.of(world.candidates, world.scores, features.device, features.n_items)
    return Objective.of(method, pool, k, features)
