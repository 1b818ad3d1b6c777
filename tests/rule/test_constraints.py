"""Constraints: known answers, and properties that hold for any input."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from recprism.errors import ConstraintError, InputError
from recprism.metrics.catalogue import tail_items
from recprism.rivals import MMR, RERANKERS, ExposureAware, XQuAD, reranker
from recprism.rule import Constrained, Constraints, Features

PLAIN = ExposureAware(trade_off=0)  # the most relevant first
# Six items, best first: 0 and 3 are about category 0, 1 and 4 about 1, 2 about nothing, 5 about both.
CATEGORIES = [[1, 0], [0, 1], [0, 0], [1, 0], [0, 1], [1, 1]]
FEATURES = Features(categories=CATEGORIES)
CANDIDATES, SCORES = [[0, 1, 2, 3, 4, 5]], [[6.0, 5.0, 4.0, 3.0, 2.0, 1.0]]

some_examples = settings(max_examples=60, deadline=None, derandomize=True)
worlds = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 10_000),
        "n_users": st.integers(1, 4),
        "n_candidates": st.integers(1, 9),
        "n_items": st.integers(12, 20),
        "n_categories": st.just(3),
        "padded": st.booleans(),
    }
)
shares = st.dictionaries(st.integers(0, 2), st.sampled_from([0.2, 0.25, 0.5, 0.6, 1.0]), max_size=3)


def constrained(inner: Any, *, names: Any = None, popularity: Any = None, **asked: Any) -> Constrained:
    return Constrained(inner, Constraints(**asked).resolve(names=names), popularity)


def chosen(k: int = 3, inner: Any = PLAIN, candidates: Any = CANDIDATES, scores: Any = SCORES, **limits: Any) -> Any:
    return constrained(inner, **limits)(candidates, scores, k, features=FEATURES).tolist()


class TestKnownAnswers:
    def test_banned_items_are_replaced(self) -> None:
        assert chosen(banned=[0, 2]) == [[1, 3, 4]]

    def test_pinned_items_appear_at_their_place_and_nowhere_else(self) -> None:
        assert chosen(pinned={1: 5, 3: 0}) == [[5, 1, 0]]
        assert chosen(k=2, pinned={1: 4, 2: 3}) == [[4, 3]]

    def test_a_pinned_item_need_not_be_a_candidate(self) -> None:
        assert chosen(pinned={2: 5}, candidates=[[0, 1, -1]], scores=[[2.0, 1.0, -np.inf]]) == [[0, 5, 1]]

    def test_pins_beyond_the_end_of_a_short_list_leave_places_empty(self) -> None:
        assert chosen(k=4, pinned={4: 5}, candidates=[[0, -1]], scores=[[2.0, -np.inf]]) == [[0, -1, -1, 5]]

    def test_pins_of_each_user(self) -> None:
        twice = {"candidates": CANDIDATES * 2, "scores": SCORES * 2}
        assert chosen(pinned=[[4, -1, -1], [-1, -1, -1]], **twice) == [[4, 0, 1], [0, 1, 2]]

    def test_a_minimum_share_replaces_the_least_relevant_item(self) -> None:
        assert chosen(min_share={0: 0.6}) == [[0, 1, 3]]
        assert chosen(min_share={1: 0.6}) == [[0, 1, 4]]
        assert chosen(min_share={0: 1 / 3, 1: 2 / 3}) == [[0, 1, 4]]

    def test_a_maximum_share(self) -> None:
        assert chosen(inner=reranker("exposure", trade_off=0, sort_back=True), max_share={0: 0.0}) == [[1, 2, 4]]

    @pytest.mark.parametrize(
        ("categories", "low", "high", "answer"),
        [
            ("010 010 100 100 101 111 000", {2: 2}, {0: 2, 1: 1}, {4, 5, 6}),
            ("110 101 011 011 000 111 101", {0: 2, 1: 2, 2: 1}, {0: 2, 1: 2, 2: 1}, {0, 4, 5}),
            ("000 011 001 110 010 001 110", {0: 1, 1: 1, 2: 2}, {0: 1, 1: 1, 2: 2}, {2, 3, 5}),
        ],
    )
    def test_exact_search_where_single_exchanges_get_stuck(
        self, categories: str, low: dict[int, int], high: dict[int, int], answer: set[int]
    ) -> None:
        features = Features(categories=[[int(has) for has in row] for row in categories.split()])
        limits = {"min_share": {s: n / 3 for s, n in low.items()}, "max_share": {s: n / 3 for s, n in high.items()}}
        method = constrained(PLAIN, **limits)
        picks = method([np.arange(7)], [np.linspace(1, 0, 7)], 3, features=features)
        assert set(picks[0].tolist()) == answer
        assert method.report(picks, features=features).none

    def test_a_new_item_takes_the_place_of_the_one_that_it_replaces(self) -> None:
        assert chosen(max_share={0: 0.0}) == [[4, 1, 2]]

    def test_pinned_items_count(self) -> None:
        assert chosen(min_share={1: 0.3}, pinned={1: 4}, banned=[1]) == [[4, 0, 2]]

    def test_the_tail_floor_uses_the_cheapest_exchanges(self) -> None:
        """Item 2 is the tail; for the second user it costs little relevance."""
        limits = {"tail_floor": 0.5, "popularity": [50, 50, 1]}
        candidates, scores = [[0, 1, 2]] * 2, [[1.0, 0.9, 0.0], [1.0, 0.5, 0.49]]
        assert constrained(PLAIN, **{**limits, "tail_floor": 0.25})(candidates, scores, 2).tolist() == [[0, 1], [0, 2]]
        assert constrained(PLAIN, **limits)(candidates, scores, 2).tolist() == [[0, 2], [0, 2]]

    def test_per_user_diversity_scales_trade_off(self) -> None:
        features = Features(vectors=[[1, 0], [1, 0], [0, 1]])
        method = constrained(MMR(trade_off=0.8), per_user_diversity=[0.0, 1.0])
        picks = method([[0, 1, 2]] * 2, [[3.0, 2.0, 1.0]] * 2, 2, features=features)
        assert picks.tolist() == [[0, 1], [0, 2]]

    def test_per_user_diversity_from_history(self) -> None:
        """A user with one category gets the most relevant list, and a user with both the re-ranker's list."""
        features = Features(categories=[[1, 0], [1, 0], [0, 1]], user_categories=[[1, 0], [1, 1]])
        method = constrained(XQuAD(trade_off=0.9, intents="uniform"), per_user_diversity="history")
        picks = method([[0, 1, 2]] * 2, [[3.0, 2.0, 1.0]] * 2, 2, features=features)
        assert picks.tolist() == [[0, 1], [0, 2]]

    def test_categories_by_name(self) -> None:
        assert chosen(min_share={"war": 0.6}, names=("love", "war")) == [[0, 1, 4]]

    def test_no_users_and_no_candidates(self) -> None:
        method = constrained(PLAIN, pinned={2: 1}, min_share={0: 0.5}, tail_floor=0.5, popularity=np.ones(6))
        assert method(np.empty((0, 4), np.int64), np.empty((0, 4)), 3, features=FEATURES).shape == (0, 3)
        assert method(np.empty((1, 0), np.int64), np.empty((1, 0)), 3, features=FEATURES).tolist() == [[-1, 1, -1]]

    def test_tensors_in_tensors_out(self) -> None:
        picks = constrained(PLAIN, banned=[0])(torch.tensor(CANDIDATES), SCORES, 2, features=FEATURES)
        assert isinstance(picks, torch.Tensor)
        assert picks.tolist() == [[1, 2]]


class TestReport:
    def test_violations_are_reported(self) -> None:
        method = constrained(PLAIN, min_share={"war": 1.0}, banned=[4], pinned={1: 0}, names=("love", "war"))
        picks = method(CANDIDATES, SCORES, 4, features=FEATURES)
        assert picks[0, 0] == 0
        assert set(picks[0]) >= {1, 5}, "as near as possible"
        found = method.report(picks, features=FEATURES)
        assert not found.none
        assert found.sentence() == "at least 100% war: broken in 1 lists, by 2 places, 2 at most."
        held = {"constraint": "banned items", "lists": 0, "places": 0, "worst": 0, "example": None}
        assert found.to_dict()["constraints"][0] == held
        with pytest.raises(
            ConstraintError, match="at least 100% war cannot be kept in 1 of 1 lists, such as that of user 0"
        ):
            found.require_none()

    def test_report_accepts_lists_of_any_source(self) -> None:
        limits = {"max_share": {0: 0.5}, "tail_floor": 0.5, "popularity": [9, 9, 9, 9, 9, 0]}
        found = constrained(PLAIN, banned=[3], pinned={2: 1}, **limits).report([[0, 3, -1, -1]], features=FEATURES)
        assert [row.places for row in found.rows] == [1, 1, 1, 1]

    def test_all_constraints_hold(self) -> None:
        method = constrained(PLAIN, min_share={0: 0.3}, banned=[2])
        found = method.report(method(CANDIDATES, SCORES, 3, features=FEATURES), features=FEATURES)
        assert found.sentence() == "All 2 constraints hold in all 1 lists."
        assert Constrained(PLAIN).report([[0]]).sentence() == "There are no constraints."


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"min_share": {0: 0.5}, "max_share": {0: 0.4}}, "min_share of 0 is 0.5 and its max_share 0.4"),
        ({"min_share": {0: 1.5}}, "min_share of 0: 1.5 is not a share from 0 to 1"),
        ({"banned": [3], "pinned": {1: 3}}, "item 3 is pinned and banned; choose one of the two"),
        ({"pinned": {0: 3}}, "pinned is {place: id} with places from 1"),
        ({"pinned": {1: 3, 2: 3}}, "an item is pinned to two places"),
        ({"pinned": [[3, 3]]}, "an item is pinned twice in the list of user 0"),
        ({"pinned": {9: 3}}, "pinned beyond place 3, where the lists end"),
        ({"pinned": [[3], [4]]}, "pinned has 2 rows and there are 1 users"),
        ({"pinned": {1: 77}}, "banned or pinned is item 77; items go from 0 to 5"),
        ({"tail_floor": 0.5}, "tail_floor needs to know the tail: give popularity"),
        ({"tail_floor": 2}, "tail_floor: 2 is not a share from 0 to 1"),
        ({"min_share": {"war": 0.5}}, "category 'war' is given by name: give names"),
        ({"min_share": {"war": 0.5}, "names": ("love",)}, "there is no category 'war'; there are love"),
        ({"min_share": {7: 0.5}}, "there is no category 7; the features have columns 0 to 1"),
        ({"banned": [-1]}, "banned or pinned is item -1; items go from 0 to 5"),
        ({"k": 0}, "k is .+; pass a whole number of at least 1"),
        ({"tail_floor": 0.5, "popularity": [1, 2]}, "popularity has 2 items and there is an item 5"),
        ({"per_user_diversity": "much"}, "per_user_diversity must be"),
        ({"per_user_diversity": [2.0]}, "per_user_diversity must be one number from 0 to 1 for each of 1 users"),
    ],
)
def test_contradictions_raise_an_error(limits: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        chosen(**limits)


def test_shares_that_no_items_can_fill_are_a_contradiction() -> None:
    apart = Features(categories=[[1, 0], [0, 1], [1, 0]])
    with pytest.raises(InputError, match=r"add up to 1.2 and no item has more than 1 of their categories"):
        constrained(PLAIN, min_share={0: 0.6, 1: 0.6})([[0, 1, 2]], [[3.0, 2.0, 1.0]], 2, features=apart)


@pytest.mark.parametrize("name", sorted(RERANKERS))
@pytest.mark.parametrize("sort_back", [False, True])
def test_without_constraints_the_lists_are_those_of_the_re_ranker(make_world: Any, name: str, sort_back: bool) -> None:
    for padded in (False, True):
        world = make_world(3, n_users=20, padded=padded)
        inner = reranker(name, sort_back=sort_back)
        expected = inner(world.candidates, world.scores, 6, features=world.features)
        for limits in ({}, {"per_user_diversity": np.ones(20)}, {"min_share": {0: 0.0}, "max_share": {1: 1.0}}):
            picks = constrained(inner, **limits)(world.candidates, world.scores, 6, features=world.features)
            np.testing.assert_array_equal(picks, expected)


def is_feasible(has: Any, k: int, low: dict[int, float], high: dict[int, float]) -> bool:
    """Return whether some k rows of ``has``, (n, n_categories), meet all shares."""
    size = min(k, len(has))
    return any(
        all(has[list(some), s].sum() >= share * size - 1e-9 for s, share in low.items())
        and all(has[list(some), s].sum() <= share * size + 1e-9 for s, share in high.items())
        for some in combinations(range(len(has)), size)
    )


@given(worlds, st.integers(1, 5), shares, shares, st.booleans())
@some_examples
def test_shares_hold_wherever_the_candidates_allow_it(
    make_world: Any, world: dict[str, Any], k: int, low: dict[int, float], high: dict[int, float], sort_back: bool
) -> None:
    built = make_world(**world)
    low = {s: share for s, share in low.items() if share <= high.get(s, 1.0)}
    inner = MMR(trade_off=0.4, sort_back=sort_back)
    method = constrained(inner, min_share=low, max_share=high)
    before = inner(built.candidates, built.scores, k, features=built.features)
    try:
        picks = method(built.candidates, built.scores, k, features=built.features)
    except InputError as problem:
        assert "add up to" in str(problem)
        return
    for user, items in enumerate(built.candidates):
        own, old = picks[user][picks[user] >= 0], before[user][before[user] >= 0]
        assert len(set(own)) == len(own) == len(old)
        assert set(own) <= set(items[items >= 0])
        has = built.categories > 0
        if is_feasible(has[items[items >= 0]], k, low, high):
            assert method.report(own[None], features=built.features).none
        if is_feasible(has[old], k, low, high):
            assert own.tolist() == old.tolist(), "a list within its limits does not change"
        stayed = [item for item in own if item in set(old)]
        assert stayed == [item for item in old if item in set(own)], "remaining items keep their order"


@given(worlds, st.integers(1, 4), st.sampled_from([0.1, 0.3, 0.6, 1.0]))
@some_examples
def test_the_tail_floor_is_met_if_it_can_be_and_at_the_least_loss(
    make_world: Any, world: dict[str, Any], k: int, floor: float
) -> None:
    built = make_world(**world)
    popularity = np.random.default_rng(world["seed"]).integers(0, 9, world["n_items"])
    tail = np.append(tail_items(torch.from_numpy(popularity).double()).numpy(), False)
    method = constrained(PLAIN, tail_floor=floor, popularity=popularity)
    picks = method(built.candidates, built.scores, k, features=built.features)
    real = built.candidates >= 0
    within = np.minimum(k, (tail[built.candidates] & real).sum(1)).sum()
    needed = int(np.ceil(floor * (picks >= 0).sum() - 1e-9))
    base = np.pad(built.candidates, ((0, 0), (0, k)), constant_values=-1)[:, :k]
    assert tail[picks].sum() == max(tail[base].sum(), min(needed, within))
    assert method.report(picks).none == (within >= needed)
    expected = cheapest(built, k, tail, int(tail[picks].sum()))
    assert total_relevance(built, picks) == pytest.approx(expected)


def total_relevance(world: Any, picks: Any) -> float:
    return float(sum(scaled(world, user)[item] for user, row in enumerate(picks) for item in row if item >= 0))


def scaled(world: Any, user: int) -> dict[int, float]:
    items = world.candidates[user]
    score = world.scores[user][items >= 0].astype(float)
    span = np.ptp(score) if len(score) else 0.0
    values = (score - score.min()) / (span if span > 0 else 1.0) if len(score) else score
    return dict(zip(items[items >= 0].tolist(), values.tolist(), strict=True))


def cheapest(world: Any, k: int, tail: Any, at_least: int) -> float:
    """Return the largest relevance of lists with so many items of the tail, over all ways to distribute them."""
    totals = {0: 0.0}
    for user in range(len(world.candidates)):
        value = scaled(world, user)
        best: dict[int, float] = {}
        for some in combinations(value, min(k, len(value))):
            count = int(sum(tail[item] for item in some))
            best[count] = max(best.get(count, -1.0), sum(value[item] for item in some))
        following: dict[int, float] = {}
        for a, x in totals.items():
            for b, y in best.items():
                following[a + b] = max(following.get(a + b, -1.0), x + y)
        totals = following
    return max(value for count, value in totals.items() if count >= at_least)


def test_everything_together(make_world: Any) -> None:
    world = make_world(5, n_users=200, n_candidates=40, n_items=80)
    popularity = np.random.default_rng(0).pareto(1.0, 80)
    method = constrained(
        MMR(trade_off=0.5),
        banned=[0, 1, 2],
        pinned={2: 7},
        min_share={0: 0.3},
        max_share={1: 0.4},
        tail_floor=0.5,
        popularity=popularity,
        per_user_diversity=np.linspace(0, 1, 200),
    )
    picks = method(world.candidates, world.scores, 10, features=world.features)
    found = method.report(picks, features=world.features)
    assert found.none, found.sentence()
    assert not np.isin(picks, [0, 1, 2]).any()
    assert (picks[:, 1] == 7).all()
    assert all(len(set(row)) == 10 for row in picks.tolist())
