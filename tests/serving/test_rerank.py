"""The rule at request time: the lists and the reasons are those of the rule offline."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recprism.budget.path import rule_at
from recprism.budget.problem import Problem
from recprism.common.compile import cache_folder
from recprism.data import SparseRows
from recprism.data.categories import Categories
from recprism.data.interactions import HistoryOrder
from recprism.data.split import Split
from recprism.errors import InputError
from recprism.explain.reasons.questions import what_if, why_list, why_not
from recprism.forms import RuleFile, collect_rule
from recprism.models import Factors
from recprism.rule import Rule
from recprism.rule.constraints import Constraints
from recprism.serving import ServedRule, load_rule
from recprism.serving.__main__ import main as command_line
from recprism.serving._request import search_all

USERS, ITEMS = 6, 40
NAMES = ("art", "bread", "cats", "dogs", "earth")
GOALS = st.sampled_from(
    [
        ("subtopic_coverage",),
        ("alpha_ndcg",),
        ("ilad",),
        ("ilad_subtopics",),
        ("err_ia",),
        ("subtopic_coverage", "ilad"),
    ]
)
AUTHORS = ("ann", "bob", "ann", None, ("bob", "cid"), "ann", "dan")
CONSTRAINTS: list[dict[str, Any]] = [
    {},
    {"banned": ["i3", "i5"]},
    {"pinned": {2: "i7"}},
    {"max_share": {"art": 0.34}},
    {"min_share": {"bread": 0.5}, "pinned": {1: "i4"}},
    {"min_items": {"bread": 2}, "max_share": {"art": 0.5}},
    {"max_items": {"author": 1}},
    {"spacing": {"author": 3, "category": 2}, "pinned": {2: "i7"}},
    {"max_items": {"author": 2, "category": 3}, "spacing": {"author": 2}, "max_share": {"art": 0.34}},
]


def world(seed: int, k: int = 6, **constraints: Any) -> Problem:
    """Six users, forty items with up to five categories and two authors, random vectors and histories."""
    generator = np.random.default_rng(seed)
    user, item = (generator.standard_normal((n, 4)).astype(np.float32) for n in (USERS, ITEMS))
    ids = np.array([f"i{n}" for n in range(ITEMS)], dtype=object)
    factors = Factors.from_arrays(user, item, user_ids=np.arange(USERS), item_ids=ids)
    train, held_out = (
        SparseRows.from_pairs(*np.nonzero(generator.random((USERS, ITEMS)) < share), (USERS, ITEMS))
        for share in (0.2, 0.1)
    )
    split = Split(train, SparseRows.empty((USERS, ITEMS)), held_out, factors.user_ids, factors.item_ids)
    of_item, of_category = np.nonzero(generator.random((ITEMS, len(NAMES))) < 0.3)
    categories = Categories.from_pairs(of_item, np.array(NAMES)[of_category], ITEMS)
    fields = {"author": [AUTHORS[at % len(AUTHORS)] for at in range(ITEMS)]}
    return Problem(factors, split, categories, "test", k, constraints=constraints, fields=fields)


def request_of(problem: Problem, user: int) -> dict[str, Any]:
    """The request of a user with everything that the offline rule knows; candidates in another order."""
    ids, seen = problem.split.item_ids, problem.seen.row(user)
    items, scores = (array[user][problem.candidates[0][user] >= 0] for array in problem.candidates)
    order = np.random.default_rng(user).permutation(len(items))
    return {
        "candidates": ids[items[order]].tolist(),
        "scores": scores[order],
        "history": ids[seen].tolist(),
        "exclude": ids[seen].tolist(),
        "user": user,
    }


def rule_of(problem: Problem, goals: tuple[str, ...], trade_off: float, history_weight: float) -> Rule:
    found = rule_at(problem, "+".join(goals), trade_off)
    return Rule(**{**found.to_dict(), "history_weight": history_weight, "candidates": 25})


def served(problem: Problem, rule: Rule, **options: Any) -> ServedRule:
    return ServedRule(collect_rule(problem, rule, vectors=True), **options)


def same(a: Any, b: Any) -> bool:
    """Equal up to rounding of floating-point numbers."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[name], b[name]) for name in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float) and isinstance(b, float):
        return a == pytest.approx(b, abs=1e-9)
    return bool(a == b)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), GOALS, st.sampled_from([0.0, 0.1, 0.3, 0.8]), st.sampled_from([0.0, 0.2]), st.data())
def test_lists_are_those_of_the_rule_offline(
    seed: int, goals: tuple[str, ...], trade_off: float, weight: float, data: st.DataObject
) -> None:
    problem = world(seed, **data.draw(st.sampled_from(CONSTRAINTS)))
    rule = rule_of(problem, goals, trade_off, weight)
    wanted, _ = problem.rank(rule)
    online = served(problem, rule)
    for user in range(USERS):
        found = online.rerank(**request_of(problem, user))
        assert list(found.ids) == problem.split.item_ids[wanted[user]].tolist()
        assert found.fallback is None


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000), GOALS, st.sampled_from([0.1, 0.5]), st.data())
def test_reasons_are_those_of_the_rule_offline(
    seed: int, goals: tuple[str, ...], trade_off: float, data: st.DataObject
) -> None:
    problem = world(seed, **data.draw(st.sampled_from([*CONSTRAINTS[:4], *CONSTRAINTS[6:]])))
    rule = rule_of(problem, goals, trade_off, 0.1)
    online = served(problem, rule)
    user = seed % USERS
    found = online.rerank(**request_of(problem, user), entry_prices=True)
    for ours, theirs in zip(found.reasons, why_list(problem, rule, user), strict=True):
        a, b = ours.to_dict(), theirs.to_dict()
        assert {name for name in a if not same(a[name], b[name])} == set(), (a, b)


@pytest.fixture(scope="module")
def online() -> ServedRule:
    problem = world(1)
    return served(problem, rule_of(problem, ("subtopic_coverage",), 0.4, 0.1), prices={"careful": 0.05})


@pytest.fixture(scope="module")
def request_1() -> dict[str, Any]:
    return request_of(world(1), 0)


def test_a_file_comes_back(tmp_path: Path, online: ServedRule, request_1: dict[str, Any]) -> None:
    online.file.write(tmp_path / "rule")
    again = load_rule(tmp_path / "rule")
    assert again.rerank(**request_1).to_dict() == online.rerank(**request_1).to_dict()
    with pytest.raises(InputError, match="not empty"):
        online.file.write(tmp_path / "rule")
    with pytest.raises(InputError, match="no export of a rule"):
        load_rule(tmp_path)
    (tmp_path / "rule" / "rule.npz").write_bytes(b"PK")
    with pytest.raises(InputError, match="damaged"):
        RuleFile.read(tmp_path / "rule")


def test_a_user_vector_is_ranked_like_its_scores(online: ServedRule, request_1: dict[str, Any]) -> None:
    problem = world(1)
    about = {name: request_1[name] for name in ("history", "exclude", "user")}
    wanted = online.rerank(**request_1)
    assert online.rank(problem.factors.user[0], **about).ids == wanted.ids

    def index(vector: Any, n: int) -> tuple[list[str], Any]:
        scores = problem.factors.item @ vector
        best = np.argsort(-scores)[:n]
        return problem.split.item_ids[best].tolist(), scores[best]

    assert online.rank(problem.factors.user[0], index=index, **about).ids == wanted.ids

    def slow(vector: Any, n: int) -> tuple[list[str], Any]:
        time.sleep(0.05)
        return index(vector, n)

    assert online.rank(problem.factors.user[0], index=slow, time_limit=0.02, **about).fallback == "time limit"


def test_in_a_batch_a_request_does_not_pay_for_the_time_of_others(
    online: ServedRule, request_1: dict[str, Any]
) -> None:
    begun = {"time_limit": 30.0, "started": time.perf_counter() - 60}
    assert search_all([online._read(**request_1, **begun)]) == [None]
    waited = [online._read(**request_1, **begun) for _ in range(3)]  # as behind many others
    assert None not in search_all(waited)


def test_the_kill_switch_and_the_time_limit_return_the_base_order_under_constraints(
    online: ServedRule, request_1: dict[str, Any]
) -> None:
    request_1 = {**request_1, "k": 3, "price": 0.9}
    plain = online.rerank(**request_1)
    assert plain.swaps > 0
    kept = {"banned": [plain.base[0]], "pinned": {3: "i99"}}
    late = online.rerank(**request_1, constraints=kept, time_limit=0.0)
    assert (late.fallback, late.ids, late.reasons) == ("time limit", late.base, ())
    assert late.ids[2] == "i99"
    assert plain.base[0] not in late.ids
    online.enabled = False
    try:
        off = online.rerank(**request_1)
    finally:
        online.enabled = True
    assert (off.fallback, off.ids) == ("disabled", plain.base)


def test_constraints_hold_and_what_is_impossible_is_reported(online: ServedRule, request_1: dict[str, Any]) -> None:
    has_art = {f"i{n}" for n in np.flatnonzero(online._rule.has(0)[:ITEMS])}
    found = online.rerank(**request_1, constraints={"min_items": {"art": 4}})
    assert (len(has_art & set(found.ids)), found.unmet) == (4, ())
    assert online.rerank(**request_1, constraints={"min_items": {"art": 4}, "min_share": {"art": "10%"}}).unmet == ()
    few = [item for item in request_1["candidates"] if item not in has_art][:10] + sorted(has_art)[:1]
    scores = np.linspace(1, 0, len(few))
    short = online.rerank(few, scores, history=[], constraints=Constraints(min_share={"art": "50%"}))
    assert [(it.constraint, it.places) for it in short.unmet] == [("at least 50% art", 2)]
    counted = online.rerank(few, scores, history=[], constraints={"min_items": {"art": 9, "bread": 9}})
    assert ("at least 9 art", 8) in [(it.constraint, it.places) for it in counted.unmet]


def test_pins_that_cannot_be_at_their_place_are_reported(online: ServedRule) -> None:
    short = online.rerank(["i1", "i2"], [1.0, 0.5], 6, history=[], constraints={"pinned": {6: "i9"}})
    assert short.ids == ("i1", "i2", "i9")
    assert [it.constraint for it in short.unmet] == ["item i9 at place 6"]
    assert [it.codes == ("pinned",) for it in short.reasons] == [False, False, True]
    gone = online.rerank(
        ["i1", "i2", "i9"], [1.0, 0.5, 0.1], 2, history=[], constraints={"pinned": {1: "i9"}}, exclude=["i9"]
    )
    assert gone.ids == ("i1", "i2")
    assert [it.constraint for it in gone.unmet] == ["item i9 at place 1"]


def test_a_pin_of_the_request_comes_before_that_of_the_export_at_the_same_place() -> None:
    problem = world(2, pinned={1: "i4", 2: "i5"})
    rule = served(problem, rule_of(problem, ("subtopic_coverage",), 0.2, 0.0))
    found = rule.rank(problem.factors.user[0], history=[], constraints={"pinned": {1: "i9"}})
    assert found.ids[:2] == ("i9", "i5")


def test_arrays_and_lists_are_the_same(online: ServedRule, request_1: dict[str, Any]) -> None:
    some = request_1["candidates"][:2]
    wanted = online.rerank(**{**request_1, "exclude": some, "history": some}).to_dict()
    arrays = {**request_1, "exclude": np.array(some), "history": np.array(some)}
    assert online.rerank(**arrays).to_dict() == wanted
    first = online.rerank(np.arange(3), [3.0, 2.0, 1.0], 1, history=[], exclude=np.array([0]))
    assert first.ids == (1,)


def test_a_longer_list_than_the_rule_looks_at_is_filled() -> None:
    problem = world(5)
    rule = served(problem, rule_of(problem, ("subtopic_coverage",), 0.2, 0.0), candidates=5)
    assert len(rule.rank(problem.factors.user[0], 12).ids) == 12


def test_a_price_changes_the_list_and_names_have_prices(online: ServedRule, request_1: dict[str, Any]) -> None:
    assert online.rerank(**request_1, price=0).trade_off == 0
    careful = online.rerank(**request_1, price="careful")
    assert careful.trade_off == 0.05
    assert careful.ids == online.rerank(**request_1, price="5%").ids
    assert online.rerank(**request_1, price=0.9).swaps >= careful.swaps


def test_a_dial_raises_its_category(online: ServedRule, request_1: dict[str, Any]) -> None:
    has_cats = {f"i{n}" for n in np.flatnonzero(online._rule.has(2)[:ITEMS])}
    more = online.rerank(**request_1, dials={"cats": 1.0}).ids
    fewer = online.rerank(**request_1, dials={"cats": -1.0}).ids
    assert len(has_cats & set(more)) > len(has_cats & set(fewer))


@given(share=st.floats(-1, 1), scale=st.sampled_from([0.01, 1.0, 250.0]))
def test_a_dial_adds_a_share_of_the_range_of_the_scores(share: float, scale: float) -> None:
    problem = world(2)
    rule = served(problem, rule_of(problem, ("subtopic_coverage",), 0.2, 0.0))
    ids, scores = [f"i{n}" for n in range(ITEMS)], scale * np.random.default_rng(0).normal(size=ITEMS)
    raised = scores + share * np.ptp(scores) * rule._rule.has(2)[:ITEMS]
    assert rule.rerank(ids, scores, history=[], dials={"cats": share}).ids == rule.rerank(ids, raised, history=[]).ids


def test_items_that_the_export_does_not_know_compete_by_score(online: ServedRule) -> None:
    found = online.rerank(["new", "i1", "i2", "newer"], [9.0, 1.0, 0.5, 0.1], 2, history=[], price=0.0)
    assert found.ids[0] == "new"
    assert found.unknown == ("new", "newer")
    assert found.reasons[0].new_categories == ()


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 6))
def test_a_history_window_counts_the_last_items_only(seed: int, window: int) -> None:
    whole = world(seed)
    known = whole.split.live().train
    place = np.random.default_rng(seed).permutation(len(known)).astype(np.int32)
    split = replace(whole.split, order=HistoryOrder(known, place))
    problem = Problem(whole.factors, split, whole.categories, "test", whole.k, history_window=window)
    rule = rule_of(problem, ("subtopic_coverage",), 0.2, 0.5)
    online = ServedRule(collect_rule(problem, rule, vectors=True, histories=True))
    assert online.file.history_window == window
    for user in range(USERS):
        in_time = problem.split.item_ids[problem.seen_in_time(user)].tolist()
        asked = {**request_of(problem, user), "history": in_time}
        offline = problem.split.item_ids[problem.rank(rule)[0][user]].tolist()
        assert list(online.rerank(**asked).ids) == offline
        assert list(online.rerank(**{**asked, "history": in_time[-window:]}).ids) == offline
        assert list(online.rerank(**{**asked, "history": None}).ids) == offline, "the stored history"


def test_a_history_window_counts_an_item_once_and_needs_an_order() -> None:
    problem = world(0)
    file = collect_rule(problem, rule_of(problem, ("subtopic_coverage",), 0.2, 0.5))
    online = ServedRule(replace(file, history_window=2))
    given = request_of(problem, 1)
    repeated = online.rerank(**{**given, "history": ["i1", "i2", "i1", "i1"]})
    assert repeated.to_dict()["reasons"] == online.rerank(**{**given, "history": ["i2", "i1"]}).to_dict()["reasons"]
    with pytest.raises(InputError, match="history is a set, which has no order"):
        online.rerank(**{**given, "history": {"i1", "i2"}})


def test_a_problem_and_its_rule_have_one_history_window() -> None:
    problem = world(0)
    rule = rule_of(problem, ("subtopic_coverage",), 0.2, 0.5)
    with pytest.raises(InputError, match="the rule has history_window=3, and the problem None"):
        problem.rank(replace(rule, history_window=3))


def test_items_of_a_history_that_the_export_does_not_know_are_named() -> None:
    problem = world(2)
    for history_weight, unknown in ((0.5, ("gone", "lost")), (0.0, ())):
        rule = collect_rule(problem, rule_of(problem, ("subtopic_coverage",), 0.2, history_weight))
        found = ServedRule(rule).rerank(["i1", "i2"], [2.0, 1.0], 1, history=["i3", "gone", "lost"])
        assert (found.unknown, found.unknown_history) == ((), unknown)
        assert found.to_dict()["unknown_history"] == list(unknown)


def test_ids_are_found_however_they_are_written() -> None:
    file = world(2)
    rule = collect_rule(file, rule_of(file, ("subtopic_coverage",), 0.2, 0.0))
    whole = RuleFile(**{**vars(rule), "item_ids": np.arange(ITEMS)})
    online = ServedRule(whole)
    assert online.rerank([1, "2", 3.0], [3, 2, 1], 2).unknown == ()
    assert online.rerank(["007"], [1.0], 1).unknown == ("007",)
    assert online.rerank(["--7", "²", "9" * 5000], [3, 2, 1], 1).ids == ("--7",)
    assert online.rerank([0, "-0"], [2, 1], 1).unknown == ("-0",)
    for twice in ([7, "7"], [100, 3, "100"], [1, True]):
        with pytest.raises(InputError, match="more than once"):
            online.rerank(twice, list(range(len(twice))))


@pytest.mark.parametrize(
    ("changed", "wrong"),
    [
        ({"scores": [1.0]}, "one score each"),
        ({"candidates": ["i1", "i1"], "scores": [1, 2]}, "more than once"),
        ({"candidates": ["i1", "i2"], "scores": [1, float("nan")]}, "must be numbers"),
        ({"candidates": ["i1", "i2"], "scores": [1e308, -1e308]}, "scale them"),
        ({"candidates": ["i1", "x7", "x7.0", "x7"], "scores": [1, 2, 3, 4]}, "candidate 'x7' occurs more than once"),
        ({"k": -1}, "whole number"),
        ({"price": 3}, "price"),
        ({"price": "nobody"}, "price 'nobody' is neither a share nor the name"),
        ({"dials": {"nothing": 0.1}}, "no dial 'nothing'"),
        ({"dials": {"art": 3}}, "from -1 to 1"),
        ({"constraints": {"bans": []}}, "no constraint 'bans'"),
        ({"constraints": {"min_share": {"nothing": 0.1}}}, "no category 'nothing'"),
        ({"constraints": {"pinned": {0: "i1"}}}, "places from 1"),
        ({"constraints": {"pinned": {1: "i1", 2: "i1"}}}, "two places"),
        ({"constraints": {"pinned": {"1": "i1", "01": "i2"}}}, "a place twice"),
        ({"constraints": {"pinned": {1: "i1"}, "banned": ["i1"]}}, "pinned and banned"),
        ({"constraints": {"min_items": {"art": 0.5}}}, "whole number"),
        ({"constraints": {"min_share": {"art": 0.5}, "max_share": {"art": 0.1}}}, "more than the most"),
        ({"constraints": {"pinned": {1: "i1", 2: "i1.0"}, "banned": "i1"}}, "list of ids"),
        ({"dials": {"art": "0.2"}}, "from -1 to 1"),
        ({"dials": {"art": None}}, "from -1 to 1"),
        ({"exclude": "i1"}, "list of ids"),
        ({"history": "i1"}, "list of ids"),
        ({"entry_prices": True, "reasons": False}, "ask for both"),
        ({"constraints": {"banned": ["art"]}}, "is a category"),
        ({"constraints": {"pinned": ["i1"]}}, "place: id"),
        ({"constraints": {"max_share": ["art"]}}, "category: number"),
        ({"constraints": ["art"]}, "name: value"),
        ({"constraints": {"tail_floor": 0.1}}, "depend on each other under tail_floor"),
        ({"constraints": {"per_user_diversity": "history"}}, "not part of a rule at request time; give a price"),
        ({"constraints": {"pinned": [["i1"]]}}, "pins of single users are not part of a rule at request time"),
        ({"dials": ["art"]}, "category: share"),
        ({"time_limit": "1"}, "number of seconds"),
    ],
)
def test_bad_requests_are_refused_in_a_sentence(
    online: ServedRule, request_1: dict[str, Any], changed: dict[str, Any], wrong: str
) -> None:
    with pytest.raises(InputError, match=wrong):
        online.rerank(**{**request_1, **changed})


def test_a_rule_that_weighs_histories_needs_one(online: ServedRule, request_1: dict[str, Any]) -> None:
    without = {name: it for name, it in request_1.items() if name != "history"}
    sentence = r"weighs the user's history, and the request has none; give history=\[...\], \[\] for a user without one"
    with pytest.raises(InputError, match=sentence):
        online.rerank(**without)
    with pytest.raises(InputError, match=f"request 0: .*{sentence}"):
        online.rerank_many([without], threads=1)
    with pytest.raises(InputError, match=sentence):
        online.rank(np.ones(4, np.float32))


def test_a_stored_history_stands_for_the_user(tmp_path: Path) -> None:
    problem = world(3)
    rule = rule_of(problem, ("subtopic_coverage",), 0.2, 0.5)
    collect_rule(problem, rule, vectors=True, histories=True).write(tmp_path / "rule")
    online, wanted = load_rule(tmp_path / "rule"), problem.rank(rule)[0]
    for user in range(USERS):
        who = problem.split.user_ids[user].item()
        found = online.rank(problem.factors.user[user], user=who)
        assert list(found.ids) == problem.split.item_ids[wanted[user]].tolist()
        assert found.history_age is not None
        assert 0 <= found.history_age < 600
        given = online.rerank(**request_of(problem, user))
        assert (given.ids, given.history_age) == (found.ids, None)
    with pytest.raises(InputError, match="user 'nobody' has no stored history; give history="):
        online.rank(problem.factors.user[0], user="nobody")
    with pytest.raises(InputError, match="weighs the user's history"):
        online.rank(problem.factors.user[0])


def test_an_export_of_version_0_2_is_refused(tmp_path: Path) -> None:
    problem = world(3)
    collect_rule(problem, rule_of(problem, ("subtopic_coverage",), 0.2, 0.5)).write(tmp_path / "rule")
    facts = json.loads((tmp_path / "rule" / "rule.json").read_text(encoding="utf-8"))
    (tmp_path / "rule" / "rule.json").write_text(json.dumps({**facts, "version": 1}), encoding="utf-8")
    with pytest.raises(InputError, match=r"format 1 of an exported rule.* export the rule again with `recprism export"):
        load_rule(tmp_path / "rule")


def test_a_batch_refuses_what_a_request_does_not_have(online: ServedRule, request_1: dict[str, Any]) -> None:
    for wrong, sentence in (
        ({**request_1, "pric": 0.1}, "no option 'pric'"),
        ({"candidates": ["i1"]}, "has no scores"),
    ):
        for threads in (1, 2):
            with pytest.raises(InputError, match=f"^request 1: .*{sentence}"):
                online.rerank_many([request_1, wrong], threads=threads)


def test_reasons_name_no_history_that_was_not_given() -> None:
    problem = world(3)
    online = served(problem, rule_of(problem, ("subtopic_coverage",), 0.1, 0.5))
    with_history = without = 0
    for user in range(USERS):
        request = request_of(problem, user)
        with_history += sum("history" in it.codes for it in online.rerank(**request).reasons)
        for reason in online.rerank(**{**request, "history": []}).reasons:
            assert "history" not in reason.codes
            assert reason.for_history == ()
            without += "less_repetition" in reason.codes or "new_category" in reason.codes
    assert with_history > 0
    assert without > 0


def test_a_pinned_item_that_the_export_does_not_know_is_named(online: ServedRule, request_1: dict[str, Any]) -> None:
    assert online.rerank(**request_1, constraints={"pinned": {1: "typo"}}).unknown == ("typo",)


def test_empty_requests_have_empty_lists(online: ServedRule) -> None:
    assert online.rerank([], [], history=[]).ids == ()
    assert online.rerank(["i1", "i2"], [1.0, -np.inf], history=[]).ids == ("i1",)
    assert online.rerank(["i1"], [1.0], 0, history=[]).ids == ()


def test_many_threads_get_the_lists_of_one(online: ServedRule) -> None:
    problem = world(1)
    requests = [request_of(problem, user) for user in range(USERS)] * 20
    wanted = [online.rerank(**request).to_dict() for request in requests]
    assert [it.to_dict() for it in online.rerank_many(requests, threads=4)] == wanted
    found: list[Any] = [None] * 4

    def work(number: int) -> None:
        found[number] = [online.rerank(**request).to_dict() for request in requests]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [wanted] * 4


COLD = """
import json, sys
from recprism.explain._kernels.comparisons import compare_list
from recprism.rule.kernels.optimal import optimal, optimal_in_order
from recprism.serving import load_rule
from recprism.serving._kernels.history import add_shares
import numpy as np

rule, request = load_rule(sys.argv[1]), json.loads(sys.argv[2])
kernels = (optimal, optimal_in_order, compare_list, add_shares)
before = [len(it.signatures) for it in kernels]
rule.rerank(np.array(request["candidates"]), np.array(request["scores"], np.float32), 3, history=[])
rule.rerank(["i1", "i2"], [2, 1], history=[], dials={"art": 0.1}, price=0)
rule.rerank(**request, constraints={"max_share": {"art": 0.3}, "pinned": {1: "i9"}}, price=0.5)
rule.rank(np.ones(4, np.float32), index=None, history=[])
print(before, [len(it.signatures) for it in kernels])
"""


@pytest.mark.parametrize(
    ("goal", "trade_off", "compiled"),
    [("subtopic_coverage", 0.0, "[1, 0, 1, 1]"), ("alpha_ndcg", 0.4, "[1, 1, 1, 1]")],
)
def test_no_request_compiles_anything(
    tmp_path: Path, request_1: dict[str, Any], goal: str, trade_off: float, compiled: str
) -> None:
    """A rule compiles only the search that its goals need, and at price 0 the one of sets."""
    problem = world(1)
    served(problem, rule_of(problem, (goal,), trade_off, 0.1)).file.write(tmp_path / "rule")
    plain = {**request_1, "scores": request_1["scores"].tolist()}
    words = [sys.executable, "-c", COLD, str(tmp_path / "rule"), json.dumps(plain)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"{compiled} {compiled}"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["warm", "rule"], 0, "rule: ready after"),
        (["warm", "nothing"], 2, "error: "),
        ([], 2, "the following arguments are required: warm"),
    ],
)
def test_rules_are_compiled_ahead(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    code: int,
    said: str,
) -> None:
    problem = world(1)
    served(problem, rule_of(problem, ("subtopic_coverage",), 0.4, 0.1)).file.write(tmp_path / "rule")
    monkeypatch.chdir(tmp_path)
    try:
        command_line(words)
        found = 0
    except SystemExit as stopped:
        found = int(str(stopped.code))
    printed = capsys.readouterr()
    assert found == code
    assert said in (printed.err if code else printed.out)
    assert code or str(cache_folder()) in printed.out


def test_rules_that_need_all_users_are_refused() -> None:
    problem = world(3)
    with pytest.raises(InputError, match="one list at a time"):
        collect_rule(problem, rule_of(problem, ("catalogue_coverage",), 0.2, 0.0))


def test_boosts_choose_the_items_and_own_scores_put_them_in_order() -> None:
    problem = world(4)
    rule = replace(rule_at(problem, "gini", 0.5), boosts=np.random.default_rng(0).standard_normal(ITEMS))
    wanted, _ = problem.rank(rule)
    online = served(problem, rule)
    for user in range(USERS):
        found = online.rerank(**request_of(problem, user))
        assert list(found.ids) == problem.split.item_ids[wanted[user]].tolist()
        assert list(found.base) == problem.split.item_ids[problem.base_lists[user]].tolist()
        late = online.rerank(**request_of(problem, user), time_limit=0.0)
        assert (late.ids, late.fallback) == (found.base, "time limit")
    assert any(online.rerank(**request_of(problem, user)).swaps for user in range(USERS))
    with pytest.raises(InputError, match="at one price"):
        online.rerank(**request_of(problem, 0), price=0.1)


@pytest.mark.parametrize("goal", ["gini", "sc+gini"])
def test_reasons_under_boosts(goal: str) -> None:
    """The same online and offline; every cause by running the rule again without it."""
    problem, said = world(4), set()
    boosts = np.maximum(np.random.default_rng(0).standard_normal(ITEMS), 0.0)
    rule = replace(rule_at(problem, goal, 0.05), boosts=boosts)
    online, lists, ids = served(problem, rule), problem.rank(rule)[0], problem.split.item_ids.tolist()
    discount = 1 / np.log2(np.arange(2.0, problem.k + 2))
    for user, row in enumerate(problem.split.user_ids.tolist()):
        found, raised = online.rerank(**request_of(problem, user)).reasons, raised_of(problem, user, boosts)
        span = max(raised.values()) - min(raised.values())
        for place, (ours, theirs) in enumerate(zip(found, why_list(problem, rule, row), strict=True)):
            a, b = ours.to_dict(), theirs.to_dict()
            assert {name for name in a if not same(a[name], b[name])} == set(), (a, b)
            if not ours.newcomer or ours.replaced is None:
                continue
            item, other = int(lists[user, place]), ids.index(ours.replaced.item)
            ways = {"price": rule.at(0.0), "history": replace(rule, history_weight=0.0)}
            ways["boost"] = replace(rule, boosts=np.where(np.arange(ITEMS) == item, 0.0, boosts))
            gone = {it for it, way in ways.items() if item not in problem.rank(way, users=np.array([user]))[0][0]}
            assert {*ours.goes_without} == gone
            margin, parts = ours.replaced.margin, ours.replaced.parts
            assert sum(parts.values()) == pytest.approx(margin)
            if goal == "gini":
                worth = discount[place] / discount.sum() / span
                assert margin == pytest.approx(worth * (raised[item] - raised[other]), abs=1e-6)
                assert parts["boost"] == pytest.approx(worth * (boosts[item] - boosts[other]), abs=1e-6)
                assert ours.for_users() == "Added because it is boosted for all users."
            said.add(ours.for_users())
        outside = next(it for it in raised if it not in lists[user])
        assert why_not(problem, rule, row, ids[outside]).sentence()
        assert "points less" in what_if(problem, rule, row, without=ids[lists[user, 0]]).sentence()
    assert goal == "gini" or any("boosted" in it for it in said) < len(said), said
    with pytest.raises(InputError, match="at one price"):
        online.rerank(**request_of(problem, 0), entry_prices=True)
    with pytest.raises(InputError, match="at one price"):
        what_if(problem, rule, row, price=0.1)


def raised_of(problem: Problem, user: int, boosts: Any) -> dict[int, float]:
    """Item number -> score with its boost."""
    items, scores = (array[user].tolist() for array in problem.candidates)
    return {item: score + boosts[item] for item, score in zip(items, scores, strict=True) if item >= 0}


def test_a_pin_leaves_the_other_places_to_boosted_items() -> None:
    problem = world(4)
    rule = replace(rule_at(problem, "gini", 0.5), boosts=np.random.default_rng(0).standard_normal(ITEMS))
    online = served(problem, rule)
    for user in range(USERS):
        request = request_of(problem, user)
        shorter = online.rerank(**{**request, "k": 3}).ids
        pinned = online.rerank(**{**request, "k": 4}, constraints={"pinned": {1: "elsewhere"}}).ids
        assert pinned == ("elsewhere", *shorter)
