"""Reasons of the rule: by hand, by brute force, and by running the rule again."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from itertools import combinations, permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recprism.budget.path import rule_at
from recprism.budget.problem import Problem
from recprism.data import SparseRows
from recprism.data.categories import Categories
from recprism.data.interactions import HistoryOrder
from recprism.data.split import Split
from recprism.errors import InputError
from recprism.explain import Reason
from recprism.explain.reasons._page import Page
from recprism.explain.reasons.questions import reason_codes, what_if, why, why_list, why_not
from recprism.explain.reasons.reason import CODES
from recprism.metrics import Context, evaluate
from recprism.models import Factors
from recprism.rule import Rule
from recprism.runs.run import Run

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from exchanges import Claims, Exchanges, FullReruns

USERS, ITEMS = 8, 30
NAMES = ("art", "bread", "cats", "dogs", "earth")


def by_hand(**constraints: Any) -> Problem:
    """One user, five items with scores 1, 0.9, 0.8, 0.5 and 0; the last two are comedies, the others dramas."""
    item = np.array([[1.0], [0.9], [0.8], [0.5], [0.0]], np.float32)
    factors = Factors.from_arrays([[1.0]], item, user_ids=np.array(["u"]), item_ids=np.array(list("abcde")))
    nothing = SparseRows.empty((1, 5))
    split = Split(nothing, nothing, nothing, factors.user_ids, factors.item_ids)
    genres = np.array(["drama"] * 3 + ["comedy"] * 2)
    return Problem(factors, split, Categories.from_pairs(np.arange(5), genres, 5), "test", 2, constraints=constraints)


def by_hand_with_two_newcomers(noise: float) -> Problem:
    """One user, lists of three: dramas a, b and c are the best; d is a comedy, e a war film, f a bad drama."""
    item = np.array([[1.0], [0.9 + noise], [0.8 - noise], [0.5], [0.4 + noise], [0.0]], np.float32)
    factors = Factors.from_arrays([[1.0]], item, user_ids=np.array(["u"]), item_ids=np.array(list("abcdef")))
    nothing = SparseRows.empty((1, 6))
    split = Split(nothing, nothing, nothing, factors.user_ids, factors.item_ids)
    genres = np.array(["drama", "drama", "drama", "comedy", "war", "drama"])
    return Problem(factors, split, Categories.from_pairs(np.arange(6), genres, 6), "test", 3)


def world(seed: int, k: int = 5, **constraints: Any) -> Problem:
    generator = np.random.default_rng(seed)
    user, item = (generator.standard_normal((n, 4)).astype(np.float32) for n in (USERS, ITEMS))
    factors = Factors.from_arrays(user, item, user_ids=np.arange(100, 100 + USERS), item_ids=np.arange(ITEMS) * 10)
    parts = [
        SparseRows.from_pairs(*np.nonzero(generator.random((USERS, ITEMS)) < share), (USERS, ITEMS))
        for share in (0.2, 0.0, 0.1)
    ]
    split = Split(*parts, factors.user_ids, factors.item_ids)
    of_item, of_category = np.nonzero(generator.random((ITEMS, len(NAMES))) < 0.3)
    categories = Categories.from_pairs(of_item, np.array(NAMES)[of_category], ITEMS)
    return Problem(factors, split, categories, "test", k, constraints=constraints)


def naive_value(problem: Problem, rule: Rule, user: int, lists: Any) -> Any:
    """The objective of lists of one user, (n,), from the metrics and the formula of the history."""
    ranked, scores = (array[user, : rule.candidates] for array in problem.candidates)
    real = ranked >= 0
    scaled = dict(
        zip(
            ranked[real].tolist(),
            ((scores[real] - scores[real].min()) / (scores[real].max() - scores[real].min())).tolist(),
            strict=True,
        )
    )
    k, t = lists.shape[1], rule.trade_off
    discount = 1 / np.log2(np.arange(2, k + 2))
    relevance = np.array([[scaled[item] for item in row] for row in lists.tolist()])
    value = (1 - t) * (relevance * discount).sum(1) / discount.sum()
    context = Context(vectors=problem.factors.item, categories=problem.categories)
    for goal, weight in rule.goals.items():
        value = value + t * weight * evaluate(lists, context, [f"{goal}@{k}"], bootstrap=0).values[f"{goal}@{k}"]
    wanted = problem.features.intents(problem.seen.n_rows)[user].numpy()
    counts = (problem.categories.dense() > 0)[lists].sum(1)
    return value + (1 - t) * rule.history_weight * (wanted * np.log1p(counts)).sum(1) / np.log1p(k)


# -- by hand ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", np.linspace(-1e-3, 1e-3, 9))
def test_equal_matches_of_newcomers_and_items_that_left_do_not_depend_on_rounding(noise: float) -> None:
    """Whichever of d and e gives its place back, b and c are worth the same: the first newcomer replaced the best."""
    problem = by_hand_with_two_newcomers(noise)
    reasons = {it.item: it.replaced for it in why_list(problem, rule_at(problem, "sc", 0.5), "u")}
    assert set(reasons) == {"a", "d", "e"}
    assert {item: it.item for item, it in reasons.items() if it is not None} == {"d": "b", "e": "c"}


def test_an_item_that_comes_for_its_category() -> None:
    """Comedy is worth 0.5 of coverage; (1 - t) * 0.4 * 0.6309 / 1.6309 = t * 0.5 at t = 0.2363."""
    problem = by_hand()
    rule = rule_at(problem, "sc", 0.4)
    found = why(problem, rule, "u", "d")
    assert (found.place, found.rank, found.newcomer, found.codes) == (2, 4, True, ("new_category",))
    assert found.new_categories == ("comedy",)
    assert found.relevance == pytest.approx(0.5)
    assert found.replaced is not None and found.runner_up is not None and found.enters is not None
    assert found.replaced.item == found.runner_up.item == "b"
    second = 1 / np.log2(3) / (1 + 1 / np.log2(3))
    assert found.runner_up.parts["relevance"] == pytest.approx(0.6 * -0.4 * second)
    assert found.runner_up.parts["coverage"] == pytest.approx(0.4 * 0.5)
    assert found.runner_up.margin == pytest.approx(0.2 - 0.24 * second)
    assert found.adds is not None
    assert found.adds["relevance"] == pytest.approx(0.6 * 0.5 * second)
    exact = 0.4 * second / (0.4 * second + 0.5)
    assert found.enters.absent is not None
    assert found.enters.absent < exact <= found.enters.present < exact + 1e-3
    assert (found.needs, found.for_variety, found.base_lacks) == (("price",), ("comedy",), ("comedy",))
    assert found.replaced.without_categories == pytest.approx({"comedy": -0.24 * second})
    assert found.replaced.without == pytest.approx({"price": -0.24 * second})
    assert found.for_users() == "Added for variety: comedy, which the base list lacked."
    stayed = why(problem, rule, "u", "a")
    assert (stayed.newcomer, stayed.replaced, stayed.codes) == (False, None, ("relevance",))
    assert stayed.runner_up is not None and stayed.runner_up.item == "b"
    assert stayed.for_users() == "Number 1 of the best matches for you. No other item here has drama."


def by_hand_with_history(categories: dict[str, str], history: str) -> Problem:
    """One user who has consumed ``h``, and lists of two of a, b, c and d with scores 1, 0.9, 0.8 and 0."""
    item = np.array([[1.0], [0.9], [0.8], [0.0], [0.5]], np.float32)
    factors = Factors.from_arrays([[1.0]], item, user_ids=np.array(["u"]), item_ids=np.array(list("abcdh")))
    nothing = SparseRows.empty((1, 5))
    seen = SparseRows.from_pairs(np.array([0]), np.array([4]), (1, 5))
    split = Split(seen, nothing, nothing, factors.user_ids, factors.item_ids)
    pairs = [(at, name) for at, one in enumerate("abcdh") for name in {**categories, "h": history}[one].split()]
    of_item, names = zip(*pairs, strict=True)
    return Problem(factors, split, Categories.from_pairs(np.array(of_item), np.array(names), 5), "test", 2)


# The exchange of c for b costs 0.95 * 0.1 * 0.387 = 0.0368 of relevance. Each new category adds 0.025, and the history,
# all of it of one category, 0.6 of its weight.
@pytest.mark.parametrize(
    ("categories", "history", "weight", "codes", "words"),
    [
        ("x y", "z", 0.0, ["new_category"], "Added for variety: x and y, which the base list lacked."),
        ("x y z", "z", 0.0, ["new_category"], "Added for variety: x, y and z together, which the base list lacked."),
        ("x", "x", 0.07, ["history"], "Added to match your history: x."),
        (
            "x",
            "x",
            0.03,
            ["new_category", "history"],
            "Added for variety (x, which the base list lacked) and to match your history (x); it needs both.",
        ),
        (
            "x y z",
            "x",
            0.07,
            ["no_single_cause"],
            "Added for variety and to match your history; either alone is enough.",
        ),
    ],
)
def test_causes_by_hand(categories: str, history: str, weight: float, codes: list[str], words: str) -> None:
    problem = by_hand_with_history({"a": "drama", "b": "drama", "c": categories, "d": "drama"}, history)
    units = {"subtopic_coverage": 0.025 / 0.05}
    rule = Rule(goals={"sc": 1.0}, trade_off=0.05, history_weight=weight, units=units, k=2)
    found = why(problem, rule, "u", "c")
    assert [*found.codes] == codes
    assert found.for_users() == words
    assert found.replaced is not None and found.replaced.item == "b" and found.replaced.without is not None
    assert found.needs == tuple(what for what, margin in found.replaced.without.items() if margin < 0)
    exchanges = Exchanges(problem, rule, 0, [0, 2])
    assert exchanges.wrong(words, 1, 1) == []
    for claim, cause in (("to match your history", "history"), ("for variety", "price")):  # a wrong cause is noticed
        assert bool(exchanges.wrong(f"Added {claim}.", 1, 1)) == (cause not in found.needs)
        wrong = FullReruns(problem, rule, 0, personal=weight > 0).wrong(Claims(f"Added {claim}.", exchanges.names), 2)
        assert bool(wrong) == (found.goes_without != (cause,))
    assert exchanges.wrong("Added for variety: drama, which the base list lacked.", 1, 1)


def test_an_item_that_left() -> None:
    problem = by_hand()
    found = why_not(problem, rule_at(problem, "sc", 0.4), "u", "b")
    assert (found.codes, found.in_base_list, found.rank) == (("relevance",), True, 2)
    assert found.replaces is not None and found.leaves is not None and found.leaves.absent is not None
    first = 1 / (1 + 1 / np.log2(3))
    assert found.replaces.item == "a"
    assert found.replaces.margin == pytest.approx(0.6 * 0.1 * first)
    assert found.leaves.present < 0.23634 < found.leaves.absent < found.leaves.present + 1e-3
    assert found.enters is None
    assert found.for_users() == "Item a matches you better."
    never = why_not(problem, rule_at(problem, "sc", 0.1), "u", "d")
    assert never.enters is not None and never.enters.present == pytest.approx(0.2363, abs=2e-3)
    assert never.new_categories == ("comedy",)
    assert never.codes == ("relevance",)


def test_what_would_change_the_list() -> None:
    problem = by_hand()
    rule = rule_at(problem, "sc", 0.4)
    gone = what_if(problem, rule, "u", without="d")
    assert (gone.before, gone.after, gone.came, gone.left) == (("a", "d"), ("a", "b"), ("b",), ("d",))
    assert what_if(problem, rule, "u", ban="drama").after == ("d", "e")
    cheap = what_if(problem, rule, "u", price=0.1)
    assert cheap.after == ("a", "b")
    assert (cheap.goals_before, cheap.goals_after) == ({"subtopic_coverage": 1.0}, {"subtopic_coverage": 0.5})
    assert cheap.sentence() == (
        "At a trade-off of 0.1: item b comes in, item d leaves; subtopic_coverage goes from 1.0000 to 0.5000; by the "
        "rule as it is, the new list is worth 10.72 points less (coverage -20.00, relevance +9.28)."
    )
    assert what_if(problem, rule, "u", without=["a", "b"], price=0.1).after == ("c", "d")
    assert what_if(problem, rule, "u", seen="a").after == ("b", "d")


def test_constraints_are_the_reason_where_they_are() -> None:
    pinned = by_hand(pinned={1: "e"})
    rule = rule_at(pinned, "sc", 0.4)
    at_top = why(pinned, rule, "u", "e")
    assert (at_top.place, at_top.codes, at_top.runner_up, at_top.enters) == (1, ("pinned",), None, None)
    assert at_top.for_users() == "Placed here for everyone."
    assert what_if(pinned, rule, "u", without="e").after == ("a", "d"), "the pin is released"
    banned = by_hand(banned=["d"])
    assert why_not(banned, rule_at(banned, "sc", 0.4), "u", "d").codes == ("banned",)
    shares = by_hand(min_share={"comedy": 1.0})
    rule = rule_at(shares, "sc", 0.4)
    reasons = why_list(shares, rule, "u")
    assert [(reason.item, reason.codes) for reason in reasons] == [("e", ("share",)), ("d", ("share",))]
    assert why_not(shares, rule, "u", "a").codes == ("share",)


def test_few_candidates_and_seen_items() -> None:
    problem = world(2)
    rule = Rule(goals={"sc": 1.0}, trade_off=0.3, units={"subtopic_coverage": 0.2}, k=5, candidates=6)
    user = int(problem.seen.row_counts.argmax())
    seen = int(problem.seen.row(user)[0]) * 10
    assert why_not(problem, rule, 100 + user, seen).codes == ("seen",)
    beyond = int(problem.candidates[0][user, 10]) * 10
    found = why_not(problem, rule, 100 + user, beyond)
    assert (found.codes, found.rank, found.relevance) == (("not_candidate",), 11, None)


def test_no_other_candidate() -> None:
    problem = by_hand(banned=["b", "c", "e"])
    assert why(problem, rule_at(problem, "sc", 0.4), "u", "a").codes == ("only_candidate",)


def test_mistakes_get_a_sentence() -> None:
    problem = by_hand()
    rule = rule_at(problem, "sc", 0.4)
    with pytest.raises(InputError, match="item 'b' is not in the list of user 'u'; ask why_not"):
        why(problem, rule, "u", "b")
    with pytest.raises(InputError, match="item 'a' is in the list of user 'u'; ask why"):
        why_not(problem, rule, "u", "a")
    with pytest.raises(InputError, match="user id 'x' is unknown"):
        why(problem, rule, "x", "a")
    with pytest.raises(InputError, match="nothing is changed"):
        what_if(problem, rule, "u")
    with pytest.raises(InputError, match="there is no category 'war'"):
        what_if(problem, rule, "u", ban="war")
    with pytest.raises(InputError, match="trade_off is 2"):
        what_if(problem, rule, "u", price=2)
    with pytest.raises(InputError, match="lists of 3 items and the problem serves 2"):
        why(problem, Rule(goals={"sc": 1.0}, trade_off=0.4, k=3), "u", "a")


# -- by brute force ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("goal", ["sc", "alpha_ndcg", "ilad_subtopics", "ilad", "sc+ilad"])
@pytest.mark.parametrize("seed", range(3))
def test_the_runner_up_is_the_best_of_all_other_items(goal: str, seed: int) -> None:
    """The objective of the metrics, over every candidate that could fill the place."""
    problem = world(seed)
    rule = rule_at(problem, goal, 0.3)
    lists = problem.rank(rule)[0]
    for user in range(USERS):
        own, candidates = lists[user], problem.candidates[0][user]
        outside = [item for item in candidates[candidates >= 0].tolist() if item not in own]
        ranks = {item: rank for rank, item in enumerate(candidates.tolist())}
        for place, reason in enumerate(why_list(problem, rule, 100 + user)):
            others = np.repeat(own[None], len(outside), 0)
            others[:, place] = outside
            if goal != "alpha_ndcg":
                others = np.array([sorted(row, key=ranks.__getitem__) for row in others.tolist()])
            values = naive_value(problem, rule, user, np.vstack([own[None], others]))
            assert reason.runner_up is not None
            assert reason.runner_up.margin == pytest.approx(values[0] - values[1:].max(), abs=1e-6)
            named = outside.index(reason.runner_up.item // 10)
            assert values[1 + named] == pytest.approx(values[1:].max(), abs=1e-6)


@pytest.mark.parametrize("goal", ["sc", "ilad_subtopics", "alpha_ndcg"])
def test_no_list_of_all_is_worth_more_in_small_worlds(goal: str) -> None:
    """Among all lists with another item in the place, none beats the list, and the runner-up is no better than any."""
    problem = world(4, k=3)
    rule = Rule(**{**rule_at(problem, goal, 0.25).to_dict(), "candidates": 7})
    hits = 0
    for user in range(USERS):
        candidates = problem.candidates[0][user, :7]
        ways = permutations(range(7), 3) if goal == "alpha_ndcg" else combinations(range(7), 3)
        everything = candidates[np.array(list(ways))]
        values = naive_value(problem, rule, user, everything)
        for reason in why_list(problem, rule, 100 + user):
            without = ~(everything == int(reason.item) // 10).any(1)
            own = naive_value(problem, rule, user, problem.rank(rule)[0][user][None])[0]
            assert reason.runner_up is not None
            hits += own >= values.max() - 1e-6
            assert own - reason.runner_up.margin <= values[without].max() + 1e-6, "a real list without the item"
    assert hits >= 0.9 * 3 * USERS


@settings(max_examples=15)
@given(st.integers(0, 10_000))
def test_an_exchange_is_allowed_where_no_share_is_missed_by_more(seed: int) -> None:
    problem = world(seed, max_share={"art": 0.2}, min_share={"bread": 0.6, "cats": 0.4}, pinned={2: 70})
    page = Page.of(problem, rule_at(problem, "sc", 0.4), 3)
    assert page.groups is not None
    group, allowed = page.groups

    def missed(items: Any) -> float:
        return sum(it.places for it in page.method.report(items[None], features=page.features).rows)

    for gone in page.chosen.tolist():
        for c in set(range(len(page.candidates))) - set(page.chosen.tolist()):
            other = np.where(page.items == page.candidates[gone], page.candidates[c], page.items)
            assert allowed[group[gone], group[c]] == (missed(other) <= missed(page.items))


# -- for any world ----------------------------------------------------------------------------------------------------


@settings(max_examples=25)
@given(
    seed=st.integers(0, 10_000),
    goal=st.sampled_from(
        [
            *("sc", "alpha_ndcg", "alpha_ndcg_relevant", "err_ia", "sc+err_ia", "ilad_subtopics", "ilad"),
            *("catalogue_coverage", "sc+catalogue_coverage"),
        ]
    ),
    trade_off=st.sampled_from([0.0, 0.05, 0.2, 0.6, 1.0]),
    limits=st.sampled_from(["", "banned", "pinned", "max_share", "tail_floor", "per_user_diversity"]),
)
def test_reasons_add_up_and_hold_when_the_rule_runs_again(seed: int, goal: str, trade_off: float, limits: str) -> None:
    constraints: dict[str, Any] = {
        "banned": [10, 20],
        "pinned": {2: 70},
        "max_share": {"art": 0.2},
        "tail_floor": 0.4,
        "per_user_diversity": "history",
    }
    problem = world(seed, **({limits: constraints[limits]} if limits else {}))
    rule = rule_at(problem, goal, trade_off)
    lists = problem.rank(rule)[0]
    for user in (0, USERS - 1):
        page = Page.of(problem, rule, user)
        np.testing.assert_array_equal(page.items, lists[user], "the same list, bit for bit")
        for reason in why_list(problem, rule, 100 + user):
            check_reason(problem, rule, user, reason, exact=limits not in ("max_share", "tail_floor"))
        outside = next(item for item in problem.candidates[0][user].tolist() if item >= 0 and item not in lists[user])
        out = why_not(problem, rule, 100 + user, outside * 10)
        assert set(out.codes) <= CODES.keys() and out.codes
        json.dumps(out.to_dict())
        assert out.sentence() and out.for_users()
        for crossing in (out.leaves, out.enters):
            if crossing is not None:
                assert shown_at(problem, rule, crossing.present, user, outside)
                assert crossing.absent is not None and not shown_at(problem, rule, crossing.absent, user, outside)


@settings(max_examples=16, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    goal=st.sampled_from(
        ["sc", "alpha_ndcg", "alpha_ndcg_relevant", "err_ia", "ilad_subtopics", "ilad", "sc+ilad_subtopics"]
    ),
    trade_off=st.sampled_from([0.05, 0.2, 0.6, 1.0]),
    history_weight=st.sampled_from([0.0, 0.2, 1.0]),
)
def test_every_cause_is_one_by_a_slow_reading_of_the_exchange(
    seed: int, goal: str, trade_off: float, history_weight: float
) -> None:
    check_causes(world(seed), goal, trade_off, history_weight, range(USERS))


def check_causes(problem: Problem, goal: str, trade_off: float, history_weight: float, users: Iterable[int]) -> int:
    """Compare words, codes and numbers with plain loops; return how many newcomers there were."""
    rule = replace(rule_at(problem, goal, trade_off), history_weight=history_weight)
    number_of = {item: at for at, item in enumerate(problem.split.item_ids.tolist())}
    checked = 0
    for user in users:
        reasons = why_list(problem, rule, problem.split.user_ids[user])
        exchanges = Exchanges(problem, rule, user, [number_of[it.item] for it in reasons])
        reruns = FullReruns(problem, rule, user, personal=exchanges.personal)
        for place, reason in enumerate(reasons):
            against = reason.replaced or reason.runner_up
            if against is None:
                continue
            other, lost = number_of[against.item], partial(exchanges.is_lost, place)
            assert against.margin == pytest.approx(exchanges.margin(place, other), abs=1e-7)
            assert against.without is not None and (against.without_categories is not None) == reason.newcomer
            assert ("history" in against.without) == exchanges.personal
            for what, margin in against.without.items():
                history = what != "history" and (what != "price" or exchanges.personal)  # an even one is variety
                plain = exchanges.margin(place, other, price=what != "price", history=history)
                assert margin == pytest.approx(plain, abs=1e-7)
            for name, margin in (against.without_categories or {}).items():
                plain = exchanges.margin(place, other, hidden=[exchanges.names.index(name)])
                assert margin == pytest.approx(plain, abs=1e-7)
            if abs(against.margin) > 1e-6:  # a tie is decided by rounding
                assert ("price" in reason.needs) == (against.margin > 0 and lost(other, without="price"))
            if reason.replaced is not None:
                checked += 1
                words = reason.for_users()
                assert exchanges.wrong(words, place, other) == [], reason
                assert reruns.wrong(Claims(words, exchanges.names), exchanges.items[place]) == [], reason
    return checked


def shown_at(problem: Problem, rule: Rule, trade_off: float, user: int, item: int) -> bool:
    return item in problem.rank(rule.at(trade_off), users=np.array([user]))[0][0]


def check_reason(problem: Problem, rule: Rule, user: int, reason: Reason, *, exact: bool) -> None:
    item = int(reason.item) // 10
    assert reason.codes and set(reason.codes) <= CODES.keys()
    json.dumps(reason.to_dict())
    assert reason.to_dict()["schema"] == 3
    assert reason.sentence() and reason.for_users()
    for against in (reason.runner_up, reason.replaced):
        if against is not None:
            assert sum(against.parts.values()) == pytest.approx(against.margin, abs=1e-15)
            if exact and "catalogue_coverage" not in rule.goals:
                assert against.margin >= -1e-9, "no single exchange is worth more"
    if reason.enters is not None:
        assert shown_at(problem, rule, reason.enters.present, user, item)
        assert reason.enters.absent is None or not shown_at(problem, rule, reason.enters.absent, user, item)


@settings(max_examples=20)
@given(seed=st.integers(0, 10_000), goal=st.sampled_from(["sc", "ilad_subtopics", "catalogue_coverage"]))
def test_what_if_is_the_same_as_another_problem(seed: int, goal: str) -> None:
    """Against a problem with the ban, and against one whose history holds the item."""
    problem = world(seed)
    rule, user = rule_at(problem, goal, 0.3), 3
    ids = problem.split.item_ids
    shown = problem.rank(rule)[0][user]
    without = what_if(problem, rule, 103, without=ids[shown[0]])
    if goal != "catalogue_coverage":
        worth = naive_value(problem, rule, user, np.array([np.searchsorted(ids, without.after), shown]))
        assert without.change is not None
        assert sum(without.change.values()) == pytest.approx(worth[0] - worth[1], abs=1e-6)
    banned = problem.under({"banned": [ids[shown[0]]]}).rank(rule, users=np.array([user]))[0][0]
    assert list(without.after) == ids[banned].tolist()
    assert list(without.before) == ids[shown].tolist()
    name = problem.categories.names[0]
    of_category = np.flatnonzero(problem.categories.dense()[:, 0]).tolist()
    without_category = problem.under({"banned": ids[of_category]}).rank(rule, users=np.array([user]))[0][0]
    assert list(what_if(problem, rule, 103, ban=name).after) == ids[without_category[without_category >= 0]].tolist()
    cheaper = problem.rank(rule.at(0.1), users=np.array([user]))[0][0]
    assert list(what_if(problem, rule, 103, price=0.1).after) == ids[cheaper].tolist()
    more = SparseRows.from_pairs(np.array([user]), shown[1:2], (USERS, ITEMS))
    split = problem.split
    later = Split(split.train.union(more), split.validation, split.test, split.user_ids, split.item_ids)
    consumed = Problem(problem.factors, later, problem.categories, "test", 5).rank(rule, users=np.array([user]))[0][0]
    found = what_if(problem, rule, 103, seen=ids[shown[1]])
    assert list(found.after) == ids[consumed].tolist()
    assert set(found.came) == set(found.after) - set(found.before)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 4))
def test_what_if_moves_the_history_window(seed: int, window: int) -> None:
    """What is consumed now is the latest, and where an item is forgotten, an older one counts again."""
    whole, user = world(seed), 3
    every = SparseRows.from_pairs(*np.nonzero(np.ones((USERS, ITEMS))), (USERS, ITEMS))
    place = np.random.default_rng(seed).permutation(len(every)).astype(np.int32)

    def case(train: SparseRows, place: Any, **constraints: Any) -> Problem:
        split = replace(whole.split, train=train, order=HistoryOrder(every, place))
        about = (whole.factors, split, whole.categories, "test", whole.k)
        return Problem(*about, constraints=constraints, history_window=window)

    problem = case(whole.split.train, place)
    rule, ids = rule_at(problem, "subtopic_coverage", 0.3), problem.split.item_ids
    row, train = np.array([user]), whole.split.train
    consumed = int(problem.rank(rule, users=row)[0][0, 1])
    later = place.copy()
    later[user * ITEMS + consumed] = len(every)
    with_it = case(train.union(SparseRows.from_pairs(row, np.array([consumed]), train.shape)), later)
    found = what_if(problem, rule, 100 + user, seen=ids[consumed])
    assert list(found.after) == ids[with_it.rank(rule, users=row)[0][0]].tolist()
    forgotten = int(problem.seen_in_time(user)[-1])
    kept = train.keys != user * ITEMS + forgotten
    left = SparseRows.from_pairs(train.row_of_entry[kept], train.indices[kept], train.shape)
    without_it = case(left, place, banned=[ids[forgotten]])
    found = what_if(problem, rule, 100 + user, forget=ids[forgotten])
    assert list(found.after) == ids[without_it.rank(rule, users=row)[0][0]].tolist()


# -- sentences on real data -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trained(trained_run: Callable[..., Run]) -> Problem:
    return trained_run(epochs=10, dim=16).problem("validation")


def test_causes_of_some_users(trained: Problem) -> None:
    assert check_causes(trained, "sc", 0.1375, 0.2, range(0, trained.seen.n_rows, 40)) > 5


@pytest.mark.slow
@pytest.mark.parametrize("goal", ["sc", "alpha_ndcg", "sc+ilad_subtopics"])
def test_causes_of_all_users(trained: Problem, goal: str) -> None:
    assert check_causes(trained, goal, 0.1375, 0.2, range(trained.seen.n_rows)) > 300


def test_sentences_of_some_users_hold(trained: Problem) -> None:
    check_sentences(trained, range(0, trained.seen.n_rows, 40))


@pytest.mark.slow
def test_sentences_of_all_users_hold(trained: Problem) -> None:
    check_sentences(trained, range(trained.seen.n_rows))


def check_sentences(problem: Problem, users: range) -> None:
    """Every clause against the vectors, the categories and the rule, without the code of the reasons."""
    rule = rule_at(problem, "sc", 0.2)
    user_ids, ids = problem.split.user_ids, problem.split.item_ids.tolist()
    lists, base = problem.rank(rule)[0], problem.base_lists
    has = problem.categories.dense() > 0
    names = problem.categories.names
    scores = problem.factors.user @ problem.factors.item.T
    seen, kinds = problem.seen.dense(), set()
    unit = 0.2 * rule.units["subtopic_coverage"]
    for user in users:
        order = np.argsort(np.where(seen[user], np.inf, -scores[user]), kind="stable")
        for reason in why_list(problem, rule, user_ids[user]):
            text, own = reason.sentence(), ids.index(reason.item)
            others = np.setdiff1d(lists[user], own)
            told = re.match(r"Item (\S+) is at place (\d+) and has rank (\d+) by relevance alone\.", text)
            assert told is not None
            assert (str(reason.item), own) == (told[1], lists[user, int(told[2]) - 1])
            assert abs(scores[user, order[int(told[3]) - 1]] - scores[user, own]) < 1e-5
            assert ("The base list lacks it." in text) == (own not in base[user])
            new = [name for at, name in enumerate(names) if has[own, at] and not has[others, at].any()]
            claim = re.search(r"No other item of the list has (.*?)\. The base", text)
            assert (re.split(", | or ", claim[1]) if claim else []) == new
            compared = re.findall(
                r"(replaced|place is) item (\S+): it is worth (\S+) points more to the list \((.*?)\)", text
            )
            for kind, other, margin, parts in compared:
                instead = ids.index(int(other))
                assert instead not in lists[user]
                assert kind != "replaced" or instead in base[user]
                numbers = dict(part.rsplit(" ", 1) for part in parts.split(", "))
                assert sum(map(float, numbers.values())) == pytest.approx(float(margin), abs=0.04)
                gained = int(has[lists[user]].any(0).sum()) - int(has[[*others, instead]].any(0).sum())
                assert float(numbers.get("coverage", 0)) == pytest.approx(100 * gained * unit, abs=0.006)
            entry = re.search(r"enters at a trade-off of (\S+) and is out at (\S+)\.$", text)
            if entry:
                assert 0 < float(entry[1]) - float(entry[2]) <= 1.1e-3
                assert reason.enters is not None
                assert shown_at(problem, rule, reason.enters.present, user, own)
            kinds.add(check_for_users(reason, own in base[user], order, scores[user], own))
        check_why_not(problem, rule, user, lists[user], base[user], scores[user])
    assert {"Added for variety", "Number"} <= kinds


def check_why_not(problem: Problem, rule: Rule, user: int, own: Any, base: Any, scores: Any) -> None:
    """Items that left the base list, and one far below: the best exchange, its cost, and the words for the user."""
    ids, user_id = problem.split.item_ids.tolist(), problem.split.user_ids[user]
    ranked = problem.candidates[0][user]
    ranks = {item: rank for rank, item in enumerate(ranked.tolist())}
    for item in [*np.setdiff1d(base, own)[:1].tolist(), int(np.setdiff1d(ranked[50:60], own)[0])]:
        reason = why_not(problem, rule, user_id, ids[item])
        text = reason.sentence()
        told = re.match(
            r"Item (\S+) is not in the list and has rank (\d+) by relevance alone\. Its best exchange is against item "
            r"(\S+), which stays: it is worth (\S+) points more to the list",
            text,
        )
        assert told is not None and told[1] == str(ids[item]) and ranks[item] == int(told[2]) - 1
        others = np.array([sorted([item, *np.delete(own, at)], key=ranks.__getitem__) for at in range(len(own))])
        values = naive_value(problem, rule, user, np.vstack([own[None], others]))
        assert values[0] - values[1:].max() == pytest.approx(float(told[4]) / 100, abs=6e-5)
        against = ids.index(int(told[3]))
        assert values[1 + own.tolist().index(against)] == pytest.approx(values[1:].max(), abs=1e-6)
        if reason.for_users().endswith("matches you better."):
            assert scores[against] >= scores[item]
        claim = re.search(r"It would bring (.*?)\.", text)
        has = problem.categories.dense() > 0
        new = has[item] & ~has[np.setdiff1d(own, against)].any(0)
        expected = [name for name, is_new in zip(problem.categories.names, new, strict=True) if is_new]
        assert (re.split(", | and ", claim[1]) if claim else []) == expected


def test_distances_in_words(trained: Problem) -> None:
    """A newcomer that is said to differ more than the item it replaced does, by cosines of genres."""
    rule, ids = rule_at(trained, "ilad_subtopics", 0.3), trained.split.item_ids.tolist()
    unit = trained.categories.dense().astype(float)
    unit /= np.maximum(np.linalg.norm(unit, axis=1, keepdims=True), 1e-12)
    checked = 0
    for user in range(0, trained.seen.n_rows, 60):
        reasons = why_list(trained, rule, trained.split.user_ids[user])
        for reason in reasons:
            told = re.search(r"differs more from the rest of your list than item (\S+)\.", reason.for_users())
            if told:
                others = [ids.index(other.item) for other in reasons if other is not reason]
                own, replaced = (unit[at] @ unit[others].T for at in (ids.index(reason.item), ids.index(int(told[1]))))
                assert own.sum() < replaced.sum()
                checked += 1
    assert checked > 3


def test_what_if_in_words(trained: Problem) -> None:
    rule, ids = rule_at(trained, "sc", 0.2), trained.split.item_ids
    context = Context(categories=trained.categories)
    for user in range(0, trained.seen.n_rows, 100):
        before = trained.rank(rule, users=np.array([user]))[0]
        gone = before[0, -1]
        after = trained.under({"banned": [ids[gone]]}).rank(rule, users=np.array([user]))[0]
        sc = [evaluate(lists, context, ["sc@10"], bootstrap=0).scores[0].mean for lists in (before, after)]
        came = [f"item {it}" for it in ids[after[0][~np.isin(after[0], before[0])]].tolist()]
        text = what_if(trained, rule, trained.split.user_ids[user], without=ids[gone]).sentence()
        assert f"subtopic_coverage goes from {sc[0]:.4f} to {sc[1]:.4f}; by the rule" in text
        assert text.startswith(f"Without item {ids[gone]}: ")
        assert all(name in text for name in came)


def check_for_users(reason: Reason, stayed: bool, order: Any, scores: Any, own: int) -> str:
    """Check the words for an item that stayed; those of newcomers are checked by ``check_causes``."""
    text = reason.for_users()
    if text.startswith("Added "):
        assert not stayed
        return "Added for variety" if "for variety" in text else "history"
    told = re.match(r"Number (\d+) of the best matches for you\.", text)
    assert told is not None
    assert abs(scores[order[int(told[1]) - 1]] - scores[own]) < 1e-5
    return "Number"


def test_the_codes_of_a_user_are_those_of_the_reasons(trained: Problem) -> None:
    rule, user = rule_at(trained, "sc", 0.1), trained.split.user_ids[3].item()
    assert reason_codes(trained, rule, user) == {it.item: it.codes for it in why_list(trained, rule, user)}
