"""Lists at request time: those of the full installation, and what every list keeps."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import recprism
from recprism import serving
from recprism.errors import InputError

BANNED, MOST_DRAMAS = 318, 4
"""The constraints of the export: an item, and how many of ten items may be dramas."""


def asked(request: dict[str, Any]) -> dict[str, Any]:
    known = {"history": request["history"], "exclude": request["history"]}
    return {"candidates": request["candidates"], "scores": request["scores"], **known}


def dramas(rule: serving.ServedRule, ids: Any) -> int:
    drama, numbers = rule.names.index("Drama"), {item: at for at, item in enumerate(rule.file.item_ids.tolist())}
    start = rule.file.indptr
    return sum(drama in rule.file.indices[start[at] : start[at + 1]] for at in map(numbers.__getitem__, ids))


class TestRecordedLists:
    def test_are_made_again_with_their_reasons(self, rule: serving.ServedRule, requests: list[dict[str, Any]]) -> None:
        for request in requests:
            found = rule.rerank(**asked(request))
            assert list(found.ids) == request["list"]
            assert [list(it.codes) for it in found.reasons] == request["codes"]
            assert [it.for_users() for it in found.reasons] == request["sentences"]
            assert found.fallback is None

    def test_come_from_user_vectors(self, rule: serving.ServedRule, requests: list[dict[str, Any]]) -> None:
        for request in requests:
            found = rule.rank(request["vector"], history=request["history"], exclude=request["history"])
            assert list(found.ids) == request["list"]

    def test_come_in_batches(self, rule: serving.ServedRule, requests: list[dict[str, Any]]) -> None:
        found = rule.rerank_many([asked(request) for request in requests], threads=2)
        assert [list(it.ids) for it in found] == [request["list"] for request in requests]

    def test_differ_from_the_lists_by_relevance(self, rule: serving.ServedRule, requests: list[dict[str, Any]]) -> None:
        found = [rule.rerank(**asked(request)) for request in requests]
        assert sum(it.swaps for it in found) > len(requests)
        assert np.mean([rule.coverage(it.ids) - rule.coverage(it.base) for it in found]) > 0.05


class TestConstraints:
    def test_of_the_export_hold(self, rule: serving.ServedRule, requests: list[dict[str, Any]]) -> None:
        ids = rule.file.item_ids[:200].tolist()
        ids = [BANNED, *(item for item in ids if item != BANNED)]
        scores = np.linspace(1.0, 0.0, len(ids))
        for found in (rule.rerank(ids, scores, history=[]), *(rule.rerank(**asked(request)) for request in requests)):
            for shown in (found.ids, found.base):
                assert BANNED not in shown
                assert dramas(rule, shown) <= MOST_DRAMAS

    def test_of_a_request_hold(self, rule: serving.ServedRule, requests: list[dict[str, Any]]) -> None:
        best, *others = requests[0]["list"]
        last = [item for item in others if not dramas(rule, [item])][-1]
        wanted = {"banned": [best], "pinned": {2: last}, "max_share": {"Drama": 0}, "min_items": {"Comedy": 5}}
        found = rule.rerank(**asked(requests[0]), constraints=wanted)
        assert best not in found.ids
        assert found.ids[1] == last
        assert dramas(rule, found.ids) == 0
        assert found.unmet == ()
        assert found.reasons[1].codes == ("pinned",)

    def test_that_cannot_hold_are_reported(self, rule: serving.ServedRule, requests: list[dict[str, Any]]) -> None:
        found = rule.rerank(**asked(requests[0]), constraints={"min_items": {"Film-Noir": 10}})
        assert [it.constraint for it in found.unmet] == ["at least 10 Film-Noir"]
        with pytest.raises(InputError, match="there is no constraint 'most'"):
            rule.rerank(**asked(requests[0]), constraints={"most": {"Drama": 1}})


@settings(max_examples=60)
@given(st.data())
def test_any_list_is_part_of_its_candidates(rule: serving.ServedRule, data: st.DataObject) -> None:
    """Ids that the export does not know compete by their scores."""
    known = rule.file.item_ids.tolist()
    candidates = data.draw(st.lists(st.sampled_from([*known, "new", "newer"]), min_size=1, max_size=60, unique=True))
    n = len(candidates)
    scores = data.draw(st.lists(st.floats(-1e6, 1e6), min_size=n, max_size=n))
    exclude = set(data.draw(st.lists(st.sampled_from([*candidates, *known[:3]]), max_size=8)))
    k = data.draw(st.integers(1, 15))
    price = data.draw(st.sampled_from([None, 0.0, 0.3, 1.0]))
    history = data.draw(st.lists(st.sampled_from(known), max_size=5))
    share = {"max_share": {"Drama": 1.0}}  # takes the place of that of the export
    found = rule.rerank(candidates, scores, k, exclude=exclude, price=price, history=history, constraints=share)
    left = set(candidates) - exclude - {BANNED}
    assert set(found.ids) <= left
    assert len(found.ids) == len(set(found.ids)) == min(k, len(left))
    assert set(found.unknown) == {"new", "newer"} & set(candidates)
    assert [it.item for it in found.reasons] == list(found.ids if found.fallback is None else ())


@settings(max_examples=40)
@given(st.lists(st.integers(-1000, 1000), min_size=1, max_size=60, unique=True), st.integers(1, 15))
def test_price_0_is_the_order_of_scores(rule: serving.ServedRule, scores: list[int], k: int) -> None:
    """A rule that looks at the history does so at any price; its list by relevance alone does not."""
    ids = [it for it in rule.file.item_ids.tolist() if it != BANNED][: len(scores)]
    best = tuple(item for _, item in sorted(zip(scores, ids, strict=True), reverse=True)[:k])
    share = {"max_share": {"Drama": 1.0}}
    plain = serving.ServedRule(replace(rule.file, history_weight=0.0))
    found = plain.rerank(ids, scores, k, price=0.0, constraints=share)
    assert found.ids == found.base == rule.rerank(ids, scores, k, history=[], constraints=share).base == best
    assert found.scores.tolist() == sorted(scores, reverse=True)[:k]


def test_one_list_needs_no_export() -> None:
    vectors = np.array([[1.0, 0.0], [1.0, 0.05], [0.0, 1.0], [-1.0, 0.2]])
    found = recprism.diversify_list(["a", "b", "c", "d"], [4, 3.9, 3, 2], embeddings=vectors, k=2, trade_off=0.5)
    assert (found.ids, found.base) == (("a", "d"), ("a", "b"))
    assert found.reasons[1].sentence().startswith("Item d is at place 2")
    assert "It replaced item b, which is 1.00 alike to place 1: " in found.reasons[1].sentence()


def test_the_kill_switch_gives_lists_by_relevance(requests: list[dict[str, Any]], rule: serving.ServedRule) -> None:
    own = serving.ServedRule(rule.file, prices={"new": 0.5})
    assert own.rerank(**asked(requests[0]), price="new").trade_off == 0.5
    own.enabled = False
    found = own.rerank(**asked(requests[0]))
    assert (found.fallback, found.ids) == ("disabled", found.base)
