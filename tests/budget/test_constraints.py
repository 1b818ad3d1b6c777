"""Any vectors, any history, any constraints: the lists of a problem keep what can be kept."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recprism.budget.path import lists_at, rule_at
from recprism.budget.problem import Problem
from recprism.budget.question import BudgetQuestion
from recprism.data import SparseRows
from recprism.data.categories import Categories
from recprism.data.split import Split
from recprism.errors import InputError
from recprism.forms import Export
from recprism.models import Factors
from recprism.result.result import Result
from recprism.rule import Constraints
from recprism.rule.goal import Goal
from recprism.runs.parts.questions import question_of

ITEMS, USERS = 30, 8


def world(seed: int) -> tuple[Factors, Split, Categories]:
    generator = np.random.default_rng(seed)
    user, item = (generator.standard_normal((n, 4)).astype(np.float32) for n in (USERS, ITEMS))
    factors = Factors.from_arrays(user, item, user_ids=np.arange(100, 100 + USERS), item_ids=np.arange(ITEMS) * 10)
    parts = [
        SparseRows.from_pairs(*np.nonzero(generator.random((USERS, ITEMS)) < share), (USERS, ITEMS))
        for share in (0.2, 0.0, 0.1)
    ]
    split = Split(*parts, factors.user_ids, factors.item_ids)
    names = np.array(["a", "b", "c"], dtype=object)
    of_item, of_category = np.nonzero(generator.random((ITEMS, 3)) < 0.5)
    return factors, split, Categories.from_pairs(of_item, names[of_category], ITEMS)


@given(
    seed=st.integers(0, 1000),
    banned=st.sets(st.integers(0, 14), max_size=5),
    pinned=st.dictionaries(st.integers(1, 6), st.integers(15, ITEMS - 1), max_size=3),
    most=st.sampled_from([None, 0.3, 0.6]),
    k=st.integers(1, 12),
)
def test_lists_keep_constraints_at_every_length(
    seed: int, banned: set[int], pinned: dict[int, int], most: float | None, k: int
) -> None:
    factors, split, categories = world(seed)
    pinned = dict(zip(pinned, dict.fromkeys(pinned.values()), strict=False))  # an item has one place
    shares = {} if most is None or "a" not in categories.names else {"a": most}
    ids = factors.item_ids
    constraints = {
        "banned": ids[sorted(banned)],
        "pinned": {place: ids[item] for place, item in pinned.items()},
        "max_share": shares,
    }
    problem = Problem(factors, split, categories, "test", 6, constraints=constraints)
    items, scores = problem.rank(factors, k)
    assert items.shape == scores.shape == (USERS, k)
    assert not np.isin(items, sorted(banned)).any()
    assert all(len(set(row[row >= 0])) == (row >= 0).sum() for row in items)
    seen = problem.seen.dense()
    shown, who = items[items >= 0], np.nonzero(items >= 0)[0]
    assert not seen[who, shown].any()
    for place, item in pinned.items():
        if place <= k:
            assert (items[~seen[:, item], place - 1] == item).all()
    found = problem.violations(items)
    assert (found is None) == (not banned and not shares and not any(place <= k for place in pinned))
    some = np.array([5, 2])
    np.testing.assert_array_equal(problem.rank(factors, k, users=some)[0], items[some])


@given(seed=st.integers(0, 1000), banned=st.sets(st.integers(0, ITEMS - 1), max_size=5))
def test_without_constraints_and_with_bans_alone_lists_are_exact(seed: int, banned: set[int]) -> None:
    factors, split, categories = world(seed)
    problem = Problem(factors, split, categories, "test", 6, constraints={"banned": factors.item_ids[sorted(banned)]})
    scores = (factors.user @ factors.item.T).astype(np.float64)
    scores[problem.seen.dense()] = -np.inf
    scores[:, sorted(banned)] = -np.inf
    order = np.argsort(-scores, axis=1, kind="stable")[:, :6]
    wanted = np.where(np.take_along_axis(scores, order, 1) > -np.inf, order, -1)
    np.testing.assert_array_equal(problem.base_lists, wanted)
    free = problem.under(None)
    assert not free.constraints
    assert not np.isin(lists_at(problem, "ilad", 0.3), sorted(banned)).any()


def test_lists_of_other_constraints_are_stored_apart() -> None:
    kept: dict[tuple[str, str], dict[float, np.ndarray]] = {}

    class Store:
        def read(self, goal: str, kind: str) -> dict[float, np.ndarray]:
            return kept.get((goal, kind), {})

        def write(self, goal: str, lists: dict[str, dict[float, np.ndarray]]) -> None:
            kept.update({(goal, kind): dict(of_kind) for kind, of_kind in lists.items()})

    factors, split, categories = world(0)
    for banned in ([], [30], [40]):
        problem = Problem(factors, split, categories, "test", 6, store=Store(), constraints={"banned": banned})
        lists_at(problem, "ilad", 0.3)
        problem.keep_path(Goal.parse("ilad"))
    assert len(kept) == 3


def test_stored_lists_and_questions_keep_their_names() -> None:
    """Runs of earlier versions have these names on disk; an id may be written as text, and a ban twice."""
    factors, split, categories = world(0)
    shares = {"max_share": {"a": "40%"}, "min_share": {"b": 0.2}}
    about = (factors, split, categories, "test", 6)
    first = Problem(*about, constraints={"banned": ["40", 30, "30"], "pinned": {"2": "70"}, **shares})
    numbers = {"banned": [3, 4], "pinned": {"2": 7}, "max_share": {"a": 0.4}, "min_share": {"b": 0.2}}
    assert first._kind() == "test-b8d78eddcfe3"
    assert question_of(first, BudgetQuestion.of("ilad", {"ndcg@6": 0.1}))["constraints"] == numbers
    assert first.constraints.to_dict()["banned"] == [30, 40]
    second = Problem(*about, constraints={"tail_floor": 0.2, "per_user_diversity": "history"})
    assert second._kind() == "test-6f3eeca22aee"


def test_diversity_of_each_user_is_in_exported_vectors(tmp_path: Path) -> None:
    """The lists have it already; a file of constraints could not hold it."""
    problem = Problem(
        *world(0), "test", 6, constraints={"per_user_diversity": np.linspace(0, 1, USERS), "banned": [40]}
    )
    made = Result(problem, Goal.parse("sc"), rule_at(problem, "sc", 0.2)).export(tmp_path / "out", "user-vectors")
    assert isinstance(made, Export)
    assert made.constraints == {"banned": [40]}


def test_constraints_of_a_request_join_those_of_a_rule_or_are_refused() -> None:
    own, table = Constraints(banned=[1]), Constraints(pinned=np.array([[10], [20]]))
    assert own.with_those_of(Constraints(banned=[2])).banned == (1, 2)
    for mine, other in ((own, Constraints(tail_floor=0.2)), (own, table), (table, Constraints(pinned={1: 30}))):
        with pytest.raises(InputError, match=r"depend on each other|single users"):
            mine.with_those_of(other)


def test_pins_of_each_user_are_ids_and_come_back_as_ids() -> None:
    factors, split, categories = world(0)
    pins = np.full((USERS, 3), None)
    pins[1, 0], pins[2, 2] = 50, "70"
    problem = Problem(factors, split, categories, "test", 6, constraints={"pinned": pins})
    assert problem.resolved.pinned[1, 0] == 5 and problem.resolved.pinned[2, 2] == 7
    assert (problem.resolved.pinned >= 0).sum() == 2
    with pytest.raises(ValueError, match="pins of single users cannot be kept in files"):
        problem.constraints.to_dict()
    freed = problem.constraints.with_those_of(Constraints(banned=[50])).resolve(factors.item_ids)
    assert freed.pinned[1, 0] == -1 and freed.pinned[2, 2] == 7


def test_empty_constraints_are_none() -> None:
    factors, split, categories = world(0)
    nothing = {"banned": [], "pinned": {}, "min_share": {}, "tail_floor": 0.0, "per_user_diversity": None}
    assert not Problem(factors, split, categories, "test", 6, constraints=nothing).constraints
    with pytest.raises(ValueError, match="item 70 is pinned and banned"):
        Problem(factors, split, categories, "test", 6, constraints={"banned": [70], "pinned": {1: 70}})


@pytest.mark.parametrize("goal", ["subtopic_coverage", "alpha_ndcg"])
def test_one_user_alone_gets_the_same_list(goal: str) -> None:
    """Users who have seen a pinned item have more free places than others; diversity differs by user."""
    factors, split, categories = world(3)
    seen = split.seen_before("test").dense()
    pinned = {2: int(seen.any(0).argmax()), 4: int((~seen).all(0).argmax())}
    diversity = np.linspace(0, 1, USERS)
    by_id = {place: factors.item_ids[item] for place, item in pinned.items()}
    constraints = {"pinned": by_id, "per_user_diversity": diversity}
    problem = Problem(factors, split, categories, "test", 6, constraints=constraints)
    rule = rule_at(problem, goal, 0.4)
    lists = problem.rank(rule)[0]
    assert len({int((row == pinned[2]).sum()) for row in lists}) == 2, "some users have seen the pinned item"
    for user in range(USERS):
        np.testing.assert_array_equal(problem.rank(rule, users=np.array([user]))[0][0], lists[user])
