"""The summary of a rule over all users: by hand, against the metrics, and against plain loops."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recprism.budget.path import rule_at
from recprism.budget.problem import Problem
from recprism.data import SparseRows
from recprism.data.categories import Categories
from recprism.data.split import Split
from recprism.errors import InputError
from recprism.explain.accounting import NO_CATEGORY, RuleSummary, summarise_rule
from recprism.models import Factors
from recprism.rule import Rule

USERS, ITEMS = 20, 40
GOALS = ("sc", "alpha_ndcg", "ilad_subtopics", "ilad", "catalogue_coverage", "sc+ilad", "alpha_ndcg+catalogue_coverage")


def world(seed: int, **constraints: Any) -> Problem:
    """Some items have no category."""
    generator = np.random.default_rng(seed)
    user, item = (generator.standard_normal((n, 4)).astype(np.float32) for n in (USERS, ITEMS))
    factors = Factors.from_arrays(user, item, user_ids=np.arange(USERS), item_ids=np.arange(ITEMS))
    parts = [
        SparseRows.from_pairs(*np.nonzero(generator.random((USERS, ITEMS)) < share), (USERS, ITEMS))
        for share in (0.2, 0.0, 0.1)
    ]
    split = Split(*parts, factors.user_ids, factors.item_ids)
    of_item, of_category = np.nonzero(generator.random((ITEMS, 5)) < 0.3)
    categories = Categories.from_pairs(of_item, np.array(list("abcde"))[of_category], ITEMS)
    return Problem(factors, split, categories, "test", 5, constraints=constraints)


@settings(max_examples=30)
@given(seed=st.integers(0, 10_000), goal=st.sampled_from(GOALS), limits=st.sampled_from(["", "pinned", "banned"]))
def test_the_parts_of_categories_are_the_gain_of_the_metrics(seed: int, goal: str, limits: str) -> None:
    constraints: dict[str, Any] = {"pinned": {2: 7}, "banned": [3, 4]}
    problem = world(seed, **({limits: constraints[limits]} if limits else {}))
    rule = rule_at(problem, goal, 0.25)
    found = summarise_rule(problem, rule)
    assert found.prices[-1].trade_off == 0.25
    assert len(found.prices) == 3
    metrics = tuple(f"{name}@5" for name in rule.goals)
    before = problem.judge(problem.base_lists, metrics)
    for at, price in enumerate(found.prices):
        lists = problem.rank(rule.at(price.trade_off))[0]
        after = problem.judge(lists, metrics)
        for name in rule.goals:
            parts = sum(row.gain[name][at] for row in found.categories)
            assert parts == pytest.approx(price.gains[name], abs=1e-13)
            change = float(np.mean(after[f"{name}@5"]) - np.mean(before[f"{name}@5"]))
            assert price.gains[name] == pytest.approx(change, abs=2e-6)
            assert found.base_goals[name] + price.gains[name] == pytest.approx(price.goals[name])


@pytest.mark.parametrize("goal", ["alpha_ndcg_relevant", "err_ia"])
def test_gains_by_scores_add_up_and_rise_without_labels(goal: str) -> None:
    """The goal is counted by scores, so that its gain is known where no user has held-out items."""
    problem = world(2)
    rule = rule_at(problem, goal, 0.6)
    found = summarise_rule(problem, rule)
    for at, price in enumerate(found.prices):
        assert sum(row.gain[goal][at] for row in found.categories) == pytest.approx(price.gains[goal], abs=1e-13)
    gains = [price.gains[goal] for price in found.prices]
    assert gains == sorted(gains) and gains[-1] > 0


@pytest.mark.parametrize("seed", range(3))
def test_the_figures_of_categories_by_plain_loops(seed: int) -> None:
    problem = world(seed)
    rule = rule_at(problem, "sc", 0.25)
    found = summarise_rule(problem, rule, trade_offs=(0.1,))
    assert [row.trade_off for row in found.prices] == [0.1, 0.25]
    lists, base, has = problem.rank(rule)[0], problem.base_lists, problem.categories.dense() > 0
    rows = {row.category: row for row in found.categories}
    assert rows.keys() == {*problem.categories.names, NO_CATEGORY}
    has = np.column_stack([has, ~has.any(1)])
    candidates = [item for row in problem.candidates[0].tolist() for item in row if item >= 0]
    for at, name in enumerate((*problem.categories.names, NO_CATEGORY)):
        row = rows[name]
        assert row.candidates == pytest.approx(np.mean([has[item, at] for item in candidates]))
        assert row.base_lists == pytest.approx(np.mean([has[own, at].any() for own in base]))
        assert row.lists[-1] == pytest.approx(np.mean([has[own, at].any() for own in lists]))
        assert row.base_items == pytest.approx(np.mean([has[own, at].sum() for own in base]))
        assert row.items[-1] == pytest.approx(np.mean([has[own, at].sum() for own in lists]))
        if name != NO_CATEGORY:
            expected = (row.lists[-1] - row.base_lists) / len(problem.categories)
            assert row.gain["subtopic_coverage"][-1] == pytest.approx(expected)
    swaps = np.array([len(set(new) - set(old)) for new, old in zip(lists.tolist(), base.tolist(), strict=True)])
    last = found.prices[-1]
    assert (last.swaps, last.users_changed) == (pytest.approx(swaps.mean()), pytest.approx((swaps > 0).mean()))
    assert last.items_shown == len(np.unique(lists))
    heavy = problem.split.train.row_counts >= np.quantile(problem.split.train.row_counts, 2 / 3)
    by_name = {row.segment: row for row in found.swaps}
    assert by_name["heavy"].swaps == pytest.approx(swaps[heavy].mean())
    assert by_name["everyone"].users == USERS
    table = found.segments["subtopic_coverage"]
    assert table["everyone"].after - table["everyone"].before == pytest.approx(last.gains["subtopic_coverage"])


def test_relevance_falls_as_the_price_rises() -> None:
    """Accuracy and the goal move against each other along the path: the objective is a weighted sum of both."""
    problem = world(1)
    rule = Rule(goals={"sc": 1.0}, trade_off=0.6, units={"subtopic_coverage": 0.2}, k=5)
    found = summarise_rule(problem, rule, trade_offs=(0.05, 0.2, 0.4))
    changes = [row.relevance_change for row in found.prices]
    gains = [row.gains["subtopic_coverage"] for row in found.prices]
    assert changes == sorted(changes, reverse=True) and gains == sorted(gains)
    assert changes[-1] < 0 < gains[-1]


def test_the_account_shows_itself() -> None:
    problem = world(0)
    found = summarise_rule(problem, rule_at(problem, "sc", 0.25))
    assert isinstance(found, RuleSummary)
    json.dumps(found.to_dict())
    assert found.to_dict()["schema"] == 3
    rows = found.table()
    gains = [row["gain of subtopic_coverage"] for row in rows]
    assert gains == sorted(gains, reverse=True)
    text = found.sentence()
    assert text.startswith(
        f"subtopic_coverage changes by {sum(gains):+.4f}, the largest parts by {rows[0]['category']} "
    )
    assert f"{found.prices[-1].swaps:.2f} per list on average" in text


def test_another_length_is_refused() -> None:
    with pytest.raises(InputError, match="lists of 3 items and the problem serves 5"):
        summarise_rule(world(0), Rule(goals={"sc": 1.0}, trade_off=0.4, k=3))
