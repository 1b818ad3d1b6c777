"""The lists of the service are those of the library; wrong requests get one clear sentence."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from serving_world import K, Served, Start, file_of, request_of

from recprism.errors import InputError
from recprism.service import SteeredAnswer
from recprism.service.answers import answer_of
from recprism.serving import ServedRule, load_rule

OPTIONS: list[dict[str, Any]] = [
    {},
    {"k": 3},
    {"price": 0.9},
    {"reasons": False},
    {"dials": {"art": 0.5}},
    {"entry_prices": True},
    {"exclude": ["i1", "i2", "i3"]},
    {"shown": [["i1", 1], ["i2", 2], ["i3", 2.5]], "no_repeat": 1, "half_life": 2.0},
    {"constraints": {"banned": ["i4"], "pinned": {"2": "i7"}, "max_share": {"art": "40%"}, "min_items": {"cats": 2}}},
    {"time_limit": 0.0},
    {"user": "someone", "segment": "new"},
]


@pytest.fixture(scope="module")
def rule(shared_export: Path) -> ServedRule:
    return load_rule(shared_export)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_rerank_is_that_of_the_library(served: Served, rule: ServedRule, options: dict[str, Any]) -> None:
    for seed in range(5):
        request = {**request_of(seed), **options}
        status, found, headers = served.ask("/rerank", request)
        of_library = {name: value for name, value in request.items() if name != "segment"}
        expected = rule.rerank(**of_library).to_dict(reasons=request.get("reasons", True))
        assert status == 200
        assert {name: found[name] for name in expected} == expected
        assert found["shown"] == ("base" if "time_limit" in options else "rule")
        assert (found["holdout"], found["request"]) == (False, headers["x-request-id"])


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_the_client_returns_the_same(served: Served, rule: ServedRule, options: dict[str, Any]) -> None:
    request = {**request_of(7), **options}
    with served.client() as client:
        found = client.rerank(**request)
    expected = rule.rerank(**{name: value for name, value in request.items() if name != "segment"})
    assert (found.ids, found.base, found.unmet) == (expected.ids, expected.base, expected.unmet)
    assert list(found.scores) == [None if math.isnan(it) else it for it in expected.scores]
    assert found.reasons == (expected.reasons if request.get("reasons", True) else ())


def test_rank_is_that_of_the_library(served: Served, rule: ServedRule) -> None:
    vector = [0.3, -1.0, 0.5, 2.0]
    expected = rule.rank(vector, 4, exclude=["i5"], history=["i1"])
    with served.client() as client:
        found = client.rank(vector, 4, exclude=["i5"], history=["i1"])
        assert (found.ids, found.base, found.reasons) == (expected.ids, expected.base, expected.reasons)
        with pytest.raises(InputError, match=r"the user vector has shape \(1,\)"):
            client.rank([1.0], history=[])


def test_explain_has_the_words_of_the_library(served: Served, rule: ServedRule) -> None:
    expected = rule.rerank(**request_of(1), entry_prices=True)
    with served.client() as client:
        found = client.explain(**request_of(1))
    assert found.reasons == expected.reasons
    assert list(found.sentences) == [it.sentence() for it in expected.reasons]
    assert list(found.for_users) == [it.for_users() for it in expected.reasons]
    assert any("trade-off" in it for it in found.sentences)


def test_steer_says_what_dials_change(served: Served, rule: ServedRule) -> None:
    request = request_of(2)
    plain, steered = rule.rerank(**request), rule.rerank(**request, dials={"fire": 1.0})
    with served.client() as client:
        found = client.steer(**request, dials={"fire": 1.0})
    assert (found.ids, found.without) == (steered.ids, plain.ids)
    assert set(found.came) == set(steered.ids) - set(plain.ids) != set()
    assert set(found.left) == set(plain.ids) - set(steered.ids)
    for item in found.moved:
        assert (plain.ids[item.before - 1], steered.ids[item.after - 1]) == (item.item, item.item)
        assert item.before != item.after


def test_the_client_leaves_out_fields_of_later_versions(served: Served) -> None:
    limits = {"min_items": {"art": 5, "bread": 5}}
    request = {**request_of(2), "dials": {"fire": 1.0}, "constraints": limits}
    sent = served.ask("/steer", request)[1]
    assert sent["unmet"]
    assert sent["moved"]
    later = {**sent, "later": 1} | {
        name: [{**it, "later": 1} for it in sent[name]] for name in ("unmet", "moved", "reasons")
    }
    assert answer_of(SteeredAnswer, later) == answer_of(SteeredAnswer, sent)


def test_ids_may_be_numbers(start: Start, tmp_path: Path) -> None:
    import numpy as np

    file_of(item_ids=np.arange(60)).write(tmp_path / "numbers")
    served, rule = start(tmp_path / "numbers"), load_rule(tmp_path / "numbers")
    request = {"candidates": list(range(30)), "scores": [30.0 - n for n in range(30)], "history": []}
    with served.client() as client:
        assert client.rerank(**request).ids == rule.rerank(**request).ids
        before = client.metrics()['recprism_coverage_sum{list="rule"}']
        as_text = {"candidates": [str(it) for it in range(30)], "scores": request["scores"], "history": []}
        assert client.rerank(**as_text).ids == tuple(map(str, rule.rerank(**request).ids))
        assert client.metrics()['recprism_coverage_sum{list="rule"}'] == pytest.approx(2 * before)


WRONG: list[tuple[Any, str]] = [
    (b"{", "the body is no JSON (EOF while parsing an object at line 1 column 1)"),
    (b"", "the body is no JSON (EOF while parsing a value at line 1 column 0)"),
    ([], "the body must be a JSON object"),
    ({"candidates": ["a"]}, "the field 'scores' is missing"),
    ({"candidates": ["a"], "scores": [1], "limit": 3}, "there is no field 'limit'; there are k, history"),
    (
        {"candidates": ["a"], "scores": [1], "constraints": {"ban": []}},
        "there is no field 'constraints.ban'; there are",
    ),
    ({"candidates": [1.5], "scores": [1]}, "the field 'candidates.0' must be a valid integer or a valid string"),
    ({"candidates": [2**63], "scores": [1]}, "the field 'candidates.0' must be less than 9223372036854775808"),
    ({"candidates": ["a"], "scores": ["1"]}, "the field 'scores.0' must be a valid number"),
    ({"candidates": ["a"], "scores": [1], "k": -1}, "the field 'k' must be greater than or equal to 0"),
    ({"candidates": ["a"], "scores": [1], "k": 1001}, "k is 1001; this service makes lists of at most 1000"),
    ({"candidates": ["a"], "scores": [1, 2]}, "there are 1 candidates and scores of shape (2,)"),
    ({"candidates": ["a", "a"], "scores": [1, 2]}, "candidate 'a' occurs more than once"),
    ({"candidates": ["a"], "scores": [1], "price": 2}, "price: 2"),
    ({"candidates": ["a"], "scores": [1], "dials": {"x": 1}}, "there is no dial 'x'"),
    ({"candidates": ["a"], "scores": [1], "constraints": {"pinned": {"0": "a"}}}, "pinned is {place: id}"),
    ({"candidates": ["a"] * 10_001, "scores": [1]}, "candidates has 10,001 ids; this service takes at most 10,000"),
    (
        {"candidates": ["a"], "scores": [1], "constraints": {"banned": ["b"] * 10_001}},
        "banned has 10,001 ids; this service takes at most 10,000",
    ),
    (
        {"candidates": ["a"], "scores": [1], "constraints": {"pinned": {str(1 + at): f"i{at}" for at in range(1001)}}},
        "pinned has 1,001 places; this service makes lists of at most 1,000",
    ),
    (b'{"candidates": ["a"], "scores": [NaN], "history": []}', "scores must be numbers"),
]


@pytest.mark.parametrize(("body", "sentence"), WRONG, ids=[it[1][:40] for it in WRONG])
def test_a_wrong_request_gets_one_sentence(served: Served, body: Any, sentence: str) -> None:
    complete = {"history": [], **body} if isinstance(body, dict) and "scores" in body else body
    status, found, _ = served.ask("/rerank", complete)
    assert (status, list(found)) == (422, ["detail"])
    assert found["detail"].startswith(sentence), found["detail"]


def test_a_rule_that_weighs_histories_needs_one(served: Served) -> None:
    body = {name: it for name, it in request_of().items() if name != "history"}
    status, found, _ = served.ask("/rerank", body)
    assert status == 422
    assert found["detail"].startswith("this rule weighs the user's history, and the request has none; give history=")


def test_options_without_effect_are_refused(served: Served) -> None:
    unused = {"/explain": {"reasons": True, "segment": "new"}, "/steer": {"entry_prices": True, "segment": "new"}}
    for path, field, value in [(path, *it) for path, options in unused.items() for it in options.items()]:
        status, found, _ = served.ask(path, {**request_of(), "dials": {"art": 0.1}, field: value})
        assert (status, found["detail"].partition(";")[0]) == (422, f"there is no field '{field}'")


def test_a_request_id_is_returned_and_must_be_plain(served: Served) -> None:
    status, found, headers = served.ask("/rerank", request_of(), X_Request_Id="a-1")
    assert (status, found["request"], headers["x-request-id"]) == (200, "a-1", "a-1")
    assert served.ask("/rerank", request_of(), X_Request_Id="a b")[0] == 422


def test_state_routes(served: Served, rule: ServedRule) -> None:
    assert served.ask("/health")[:2] == (200, {"status": "ok"})
    assert served.ask("/ready")[:2] == (200, {"ready": True})
    about = served.ask("/rule")[1]
    assert (about["k"], tuple(about["names"]), about["goals"]) == (K, rule.names, dict(rule.file.goals))
    assert about["problem"] == ""
    assert served.ask("/nowhere")[0] == 404
    assert served.ask("/rerank")[0] == 405
