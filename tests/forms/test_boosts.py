"""Exposure goals: boosts against linear programs, known answers, and properties that must always hold."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from recprism.errors import InputError
from recprism.metrics import Context, Lists
from recprism.metrics.registry import parse
from recprism.models import Factors
from recprism.rule import Features, ListSearch
from recprism.rule import boosts as module
from recprism.rule.boosts import BoostSearch, ranked_with_boosts


def world(seed: int, n_users: int = 12, n_items: int = 9, depth: int | None = None):
    """Candidates of all users, the best first; popular items have larger scores."""
    generator = np.random.default_rng(seed)
    scores = generator.standard_normal((n_users, n_items)) + np.linspace(2, 0, n_items)
    order = np.argsort(-scores, axis=1)[:, :depth]
    return order, np.take_along_axis(scores, order, 1)


def exposure_of(lists, n_items):
    return np.bincount(lists[lists >= 0], minlength=n_items)


def lowest_cost(items, scores, k, wanted, n_items):
    """Return the largest total score of lists that show item i at least wanted[i] times, by HiGHS."""
    n_users, depth = items.shape
    rows = np.repeat(np.arange(n_users), depth)
    users = np.zeros((n_users, items.size))
    users[rows, np.arange(items.size)] = 1
    shown = np.zeros((n_items, items.size))
    shown[items.ravel(), np.arange(items.size)] = -1
    solved = linprog(-scores.ravel(), A_ub=shown, b_ub=-wanted, A_eq=users, b_eq=np.full(n_users, k), bounds=(0, 1))
    assert solved.status == 0
    return -solved.fun


def best_sum(items, scores, k, worth, n_items):
    """Return the largest total of scores and the worth of showings, by HiGHS; worth falls with each showing."""
    n_users, depth = items.shape
    n = len(worth)
    value = np.concatenate([-scores.ravel(), -np.tile(worth, n_items)])
    users = np.zeros((n_users, len(value)))
    users[np.repeat(np.arange(n_users), depth), np.arange(items.size)] = 1
    shown = np.zeros((n_items, len(value)))
    shown[items.ravel(), np.arange(items.size)] = -1
    shown[np.repeat(np.arange(n_items), n), items.size + np.arange(n * n_items)] = 1
    solved = linprog(value, A_ub=shown, b_ub=np.zeros(n_items), A_eq=users, b_eq=np.full(n_users, k), bounds=(0, 1))
    assert solved.status == 0
    return -solved.fun


def test_known_answer():
    """Item 2 is in nobody's list. It misses them by 0.9, 0.3, 0.5 and 0.8: two showings need a boost of 0.5."""
    items = np.array([[0, 1, 2]] * 4)
    scores = np.array([[2.0, 1.0, 0.1], [2.0, 1.0, 0.7], [2.0, 1.0, 0.5], [2.0, 1.0, 0.2]])
    found = BoostSearch(items, scores, 2, goal="shown_2_times", n_items=3).at(0.4)
    assert found.boost[[0, 1]].tolist() == [0, 0]
    assert found.boost[2] == pytest.approx(0.5 + module.STEP * found.score_range)
    assert found.before.tolist() == [4, 4, 0]
    assert found.after.tolist() == [4, 2, 2]


def test_an_item_that_costs_too_much_is_not_boosted():
    items, scores = np.array([[0, 1]] * 4), np.array([[1.0, 0.1], [1.0, 0.0], [1.0, -0.1], [1.0, -0.2]])
    # Mean exposure 2, n = 2: the boost of item 1 may be t / (1 - t) times the mean range 1.05, and it needs 1.
    dear, cheap = (BoostSearch(items, scores, 1, goal="shown_2_times", n_items=2).at(t) for t in (0.4, 0.6))
    assert dear.boost.tolist() == [0, 0]
    assert cheap.boost[1] > 1
    assert BoostSearch(items, scores, 1, goal="shown_5_times", n_items=2).at(0.9).boost.tolist() == [0, 0]


@pytest.mark.parametrize("seed", range(12))
def test_lists_show_the_boosted_items_at_the_lowest_cost(seed, monkeypatch):
    monkeypatch.setattr(module, "STEP", 1e-4)
    monkeypatch.setattr(module, "ROUNDS", 100_000)
    items, scores = world(seed)
    found = BoostSearch(items, scores, 3, goal="shown_3_times", n_items=9).at(0.3)
    assert (found.boost > 0).any()
    lists = ranked_with_boosts(items, scores, found.boost)[0][:, :3]
    full = np.empty((12, 9))
    np.put_along_axis(full, items, scores, 1)
    got = np.take_along_axis(full, lists, 1).sum()
    wanted = np.where((found.boost > 0), 3, 0)
    best = lowest_cost(items, scores, 3, wanted, 9)
    assert best - 36 * 1e-4 * found.score_range <= got <= best + 1e-9
    assert (found.after[found.boost > 0] >= 3).all()


@pytest.mark.parametrize("goal", ["gini", "exposure_entropy"])
@pytest.mark.parametrize("seed", range(6))
def test_falling_worth_is_maximised(goal, seed, monkeypatch):
    monkeypatch.setattr(module, "STEP", 1e-4)
    monkeypatch.setattr(module, "ROUNDS", 100_000)
    items, scores = world(seed, n_users=16)
    market = module._Market(items, scores, 3, 9, 100)
    before = market.serve(np.zeros(9))
    worth = market.worth(goal, None, before, 1.0)
    assert worth[0] > 0
    assert (np.diff(worth) <= 0).all()
    boost, shown = market.settle(np.zeros(9), worth, whole=False)
    full = np.empty((16, 9))
    np.put_along_axis(full, items, scores, 1)
    got = np.take_along_axis(full, market.lists, 1).sum()
    got += sum(worth[: min(times, len(worth))].sum() for times in shown)
    best = best_sum(items, scores, 3, worth, 9)
    assert (boost > 0).any()
    assert best - 2 * 48 * 1e-4 * market.score_range <= got <= best + 1e-9


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(["shown_2_times", "shown_often", "gini", "exposure_entropy"]))
def test_properties(seed, goal):
    generator = np.random.default_rng(seed)
    n_users, n_items = int(generator.integers(3, 20)), int(generator.integers(6, 15))
    items, scores = world(seed, n_users, n_items, depth=int(generator.integers(5, n_items + 1)))
    value = None
    for trade_off in (0.0, 0.05, 0.2, 0.4, 0.7, 1.0):
        found = BoostSearch(items, scores, 4, goal=goal, n_items=n_items).at(trade_off)
        lists, boosted = (it[:, :4] for it in ranked_with_boosts(items, scores, found.boost))
        assert (found.boost >= 0).all()
        assert np.array_equal(found.before, exposure_of(items[:, :4], n_items))
        assert np.array_equal(found.after, exposure_of(lists, n_items))
        assert (np.diff(boosted) <= 0).all()
        if trade_off == 0:
            assert np.array_equal(lists, items[:, :4])
        if found.wanted is not None:
            assert (found.after[found.boost > 0] >= found.wanted).all(), "a boost that does not reach its aim is none"
        metric, _ = parse(goal)
        now = float(metric(Lists(lists, Context(relevant=np.ones((n_users, n_items))))))
        now = -now if goal == "gini" else now
        assert value is None or now >= value, "the goal never falls along the path"
        value = now


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6))
def test_no_item_is_boosted_that_reaches_its_aim_without_its_boost(seed):
    items, scores = world(seed, 15, 10)
    found = BoostSearch(items, scores, 3, goal="shown_3_times", n_items=10).at(0.3)
    for item in found.items:
        without = found.boost.copy()
        without[item] = 0
        lists = ranked_with_boosts(items, scores, without)[0][:, :3]
        assert exposure_of(lists, 10)[item] < 3


def test_an_inner_product_serves_the_boosted_lists():
    generator = np.random.default_rng(3)
    base = Factors.from_arrays(generator.standard_normal((80, 6)), generator.standard_normal((40, 6)))
    items, scores = base.rank(40)
    found = BoostSearch(items, scores, 5, goal="shown_often", n_items=40).at(0.1)
    assert (found.boost > 0).any()
    served, _ = found.applied_to(base).rank(5)
    assert np.array_equal(served, ranked_with_boosts(items, scores, found.boost)[0][:, :5])
    again = found.applied_to(found.applied_to(base))
    assert np.allclose(again.item_bias, 2 * found.boost)


def test_chosen_items_are_in_the_order_of_their_own_scores():
    items, raised = (
        np.array([[2, 0, 1, 3], [4, 2, -1, -1]]),
        np.array([[5.0, 4.0, 3.0, 2.0], [3.0, 1.0, -np.inf, -np.inf]]),
    )
    boost = np.array([0.0, 0.0, 4.0, 0.0, 2.5])
    found = module.first_in_own_order(items, raised, boost, 2)
    assert found.tolist() == [[0, 2, 1, 3], [4, 2, -1, -1]], "4 has 0.5 of its own, and 2 has -3"
    assert module.first_in_own_order(items, raised, boost, 3)[1].tolist() == [4, 2, -1, -1]


def test_a_rule_runs_on_boosted_scores():
    generator = np.random.default_rng(5)
    items, scores = world(5, 60, 40)
    features = Features(categories=(generator.random((40, 6)) < 0.3).astype(float))
    rule = ListSearch(trade_off=0.1)
    plain = rule(items, scores, 5, features=features)
    about = {"goal": "shown_often", "n_items": 40}
    found = BoostSearch(items, scores, 5, **about).at(0.15, rule, features)
    lists = rule(*ranked_with_boosts(items, scores, found.boost), 5, features=features)
    assert np.array_equal(found.before, exposure_of(plain, 40))
    assert np.array_equal(found.after, exposure_of(lists, 40))
    assert (found.after >= 5).sum() > (found.before >= 5).sum()
    alone = BoostSearch(items, scores, 5, **about).at(0.15)
    blind = rule(*ranked_with_boosts(items, scores, alone.boost), 5, features=features)
    assert (found.after >= 5).sum() >= (exposure_of(blind, 40) >= 5).sum(), "boosts that know the rule do better"


def test_margins_hold_the_list_of_the_rule():
    """The k largest margins are the list, and a boost a little above a margin changes it, a little below does not."""
    generator = np.random.default_rng(7)
    items, scores = world(7, 30, 25)
    features = Features(categories=(generator.random((25, 5)) < 0.3).astype(float))
    rule = ListSearch(trade_off=0.15)
    market = module._Market(items, scores, 5, 25, 100)
    shown, alike = module._run(market, np.zeros(25), rule, features)
    lists = rule(items, scores, 5, features=features)
    assert np.array_equal(shown, exposure_of(lists, 25))
    top = np.take_along_axis(items, np.argsort(-alike, axis=1)[:, :5], 1)
    assert np.array_equal(np.sort(top, 1), np.sort(lists, 1))
    user, item = 0, next(it for it in items[0] if it not in lists[0])
    need = -alike[0][items[0] == item][0]
    for share, inside in ((0.9, False), (1.1, True)):
        boosted = scores[:1] + np.where(items[:1] == item, share * need, 0)
        assert (item in rule(items[:1], boosted, 5, features=features)[user]) is inside


def test_empty_places_and_short_lists():
    items, scores = world(1)
    items[0, 2:], items[1] = -1, -1
    found = BoostSearch(items, scores, 3, goal="shown_2_times", n_items=9).at(0.3)
    lists = ranked_with_boosts(items, scores, found.boost)[0][:, :3]
    assert (lists[0, 2:] == -1).all()
    assert (lists[1] == -1).all()
    assert np.array_equal(found.after, exposure_of(lists, 9))


@pytest.mark.parametrize(
    ("goal", "asked", "words"),
    [
        ("ndcg", (0.2,), "there is no path towards"),
        ("shown_often", (1.5,), "trade_off"),
        ("shown_often", (0.2, ListSearch(goals={"alpha_ndcg": 1.0})), "does not combine with alpha_ndcg"),
    ],
)
def test_mistakes(goal, asked, words):
    items, scores = world(0)
    with pytest.raises(InputError, match=words):
        BoostSearch(items, scores, 3, goal=goal, n_items=9).at(*asked)
    with pytest.raises(InputError, match="boosts for 9 items"):
        found = BoostSearch(items, scores, 3, goal="gini", n_items=9).at(0.2)
        found.applied_to(Factors.from_arrays(np.ones((2, 2)), np.ones((3, 2))))


@pytest.mark.parametrize("goal", ["shown_2_times", "gini"])
def test_greedy_lists_are_those_of_a_naive_loop(goal):
    k, n_items = 3, 9
    for seed in range(5):
        items, scores = world(seed)
        for trade_off in (0.1, 0.4, 0.7):
            search = BoostSearch(items, scores, k, goal=goal, n_items=n_items)
            found = search.greedy_lists(trade_off)
            market = search._market
            before = exposure_of(items[:, :k], n_items)
            worth = market.worth(search._goal, search._wanted, before, trade_off / (1 - trade_off))
            shown = np.zeros(n_items, np.int64)
            padded = np.append(worth, np.zeros(len(items)))
            for user in range(len(items)):
                value = scores[user] + padded[np.minimum(shown[items[user]], len(worth))]
                own = items[user][np.argsort(-value, kind="stable")[:k]]
                np.testing.assert_array_equal(found[user], own)
                shown[own] += 1


def test_greedy_lists_never_beat_the_linear_program():
    k, n_items, trade_off = 3, 9, 0.4
    for seed in range(5):
        items, scores = world(seed)
        search = BoostSearch(items, scores, k, goal="gini", n_items=n_items)
        before = exposure_of(items[:, :k], n_items)
        worth = search._market.worth("gini", None, before, trade_off / (1 - trade_off))
        lists = search.greedy_lists(trade_off)
        total = np.take_along_axis(scores, (items[:, None, :] == lists[:, :, None]).argmax(2), 1).sum()
        earned = np.concatenate([[0.0], np.cumsum(worth)])
        total += earned[np.minimum(exposure_of(lists, n_items), len(worth))].sum()
        best = best_sum(items, scores, k, worth, n_items)
        assert 0.9 * best < total <= best + 1e-9
