"""The rule of a result: stored, read, run again, paged, compiled, and under constraints."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from recprism.budget.path import lists_at, rule_at
from recprism.budget.problem import Problem
from recprism.errors import InputError
from recprism.forms.rule_file import RuleFile
from recprism.forms.vectors import Export, load_export
from recprism.result.effect import effect, shuffled_categories
from recprism.rule import ListSearch, Rule
from recprism.runs.config import BudgetConfig, ConstraintsConfig
from recprism.runs.jobs.diversify import diversify_within
from recprism.runs.jobs.export import export_run
from recprism.runs.jobs.train import recommend
from recprism.runs.run import Run

ASKED = BudgetConfig(budgets={"ndcg@10": 0.2})


@pytest.fixture(scope="module")
def run(trained_run: Callable[..., Run]) -> Run:
    run = trained_run(3, 16)
    diversify_within(run, ASKED)
    return run


@pytest.fixture(scope="module")
def problem(run: Run) -> Problem:
    return run.problem()


def test_the_stored_rule_gives_the_same_lists_bit_for_bit(run: Run) -> None:
    again = Run.open(run.path).load_result()
    assert isinstance(again.model, Rule)
    fresh = run.problem()
    items, scores = fresh.rank(again.model)
    path = lists_at(run.problem(), again.goal, again.trade_off)
    np.testing.assert_array_equal(items, fresh.within_limits(again.model.limits, path))
    np.testing.assert_allclose(scores[0], fresh.factors.user[0] @ fresh.factors.item[items[0]].T, rtol=1e-6)
    assert again.rule == replace(rule_at(fresh, again.goal, again.trade_off), limits=again.model.limits)


def test_the_rule_is_stored_in_plain_values(run: Run) -> None:
    stored = json.loads((run.path / "result.json").read_text(encoding="utf-8"))
    assert stored["goal"] == "subtopic_coverage"
    assert set(stored["rule"]) == {
        *("goals", "trade_off", "history_weight", "history_window", "units", "k", "candidates", "limits")
    }
    assert stored["rule"]["units"]["subtopic_coverage"] == pytest.approx(1 / len(run.categories()))


def test_one_user_gets_the_list_that_all_users_together_get(run: Run, problem: Problem) -> None:
    rule = run.load_result().rule
    assert rule is not None
    whole = problem.rank(rule)[0]
    for rows in ([0], [5, 2, 17]):
        np.testing.assert_array_equal(problem.rank(rule, users=np.array(rows))[0], whole[rows])


def test_a_longer_list_is_the_next_page_of_the_rule(run: Run, problem: Problem) -> None:
    rule = run.load_result().rule
    assert rule is not None
    one, two = problem.rank(rule, 10)[0], problem.rank(rule, 20)[0]
    np.testing.assert_array_equal(two[:, :10], one)
    np.testing.assert_array_equal(problem.rank(rule, 4)[0], one[:, :4])
    # The second page is the rule on the candidates that the first page left.
    items, scores = problem.candidates
    for user in range(20):
        left = ~np.isin(items[user], one[user])
        pool, own = items[user][left][:100][None], scores[user][left][:100][None]
        features = problem.features.of_users(np.array([user]))
        page = rule.reranker()(pool, own, 10, features=features)[0]
        np.testing.assert_array_equal(two[user, 10:], page)
    covered = problem.judge(two[:, 10:], ("subtopic_coverage@10",))["subtopic_coverage@10"].mean()
    base = problem.judge(problem.rank(problem.factors, 20)[0][:, 10:], ("subtopic_coverage@10",))
    assert covered > 1.05 * base["subtopic_coverage@10"].mean()


def test_commands_use_the_rule(run: Run, problem: Problem) -> None:
    rule = run.load_result().rule
    assert rule is not None
    judged, none = recommend(run, 10, live=False)
    found = judged["item_id"].to_numpy().reshape(-1, 10)
    np.testing.assert_array_equal(found, problem.factors.item_ids[problem.rank(rule)[0]])
    assert none is None, "figures of live lists belong to live lists"
    lists, figures = recommend(run, 10)
    live = lists["item_id"].to_numpy().reshape(-1, 10)
    np.testing.assert_array_equal(live, problem.factors.item_ids[problem.live().rank(rule)[0]])
    assert (live != found).any()
    assert figures is not None
    assert figures.consumed == 0
    assert figures.gain is not None
    assert figures.gain > 0.05


@pytest.mark.parametrize("alpha", [1.0, 0.5])
def test_dials_are_compiled_for_live_lists_and_half_of_alpha_is_half_the_trade_off(
    run: Run, tmp_path: Path, alpha: float
) -> None:
    found = run.load_result()
    rule, case = found.own_rule(), found.context()
    form, folder, made = export_run(run, tmp_path / "dials", "dials", alpha=alpha)
    assert (form.name, folder) == ("dials", tmp_path / "dials")
    assert isinstance(made, Export)
    assert (made.form, made.alpha) == ("dials", alpha)
    assert made.dim == case.factors.dim + len(case.categories)
    given, wanted = case.rank(load_export(folder))[0], case.rank(rule.at(alpha * rule.trade_off))[0]
    equal = (np.sort(given, 1) == np.sort(wanted, 1)).all(1)
    assert equal.mean() > 0.9
    assert made.agreement is not None
    assert (made.agreement.users, made.agreement.same_items) == (len(equal), equal.sum())
    assert made.agreement.same_order == (given == wanted).all(1).sum()


def test_an_exported_rule_with_other_arrays_is_refused(run: Run, tmp_path: Path) -> None:
    form, folder, made = export_run(run, tmp_path / "rule")
    assert (form.name, folder) == ("rule", tmp_path / "rule")
    assert isinstance(made, RuleFile)
    rule = run.load_result().own_rule()
    again = RuleFile.read(folder)
    assert (again.goals, again.trade_off, again.k) == (dict(rule.goals), rule.trade_off, rule.k)
    with np.load(folder / "rule.npz", allow_pickle=False) as stored:
        arrays = {name: stored[name] for name in stored.files}
    np.savez(folder / "rule.npz", **{**arrays, "shares": arrays["shares"] / 2})  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"rule\.npz is damaged, or of another export"):
        RuleFile.read(folder)


def test_the_rule_on_shuffled_categories_gains_little(run: Run) -> None:
    result = run.load_result()
    found = effect(result, ("subtopic_coverage@10", "ndcg@10"), controls=shuffled_categories(result, 0))
    gain = found.change["subtopic_coverage@10"].relative
    control = found.controls["shuffled categories"]["subtopic_coverage@10"].relative
    assert gain is not None
    assert control is not None
    assert gain > 0.05
    assert control < gain / 3


@pytest.mark.slow
def test_a_ban_holds_under_a_rule_on_every_page(trained_run: Callable[..., Run]) -> None:
    run = trained_run(3, 16)
    often = recommend(run, 10)[0]["item_id"].value_counts(sort=True)["item_id"].to_list()[:3]
    asked = ASKED.model_copy(update={"constraints": ConstraintsConfig(banned=often)})
    diversify_within(run, asked)
    for live in (True, False):
        assert not np.isin(recommend(run, 30, live=live)[0]["item_id"].to_numpy(), often).any()


def test_stored_units_are_prices_that_a_new_catalogue_does_not_change(problem: Problem) -> None:
    rule = rule_at(problem, "subtopic_coverage", 0.2)
    assert rule.prices["subtopic_coverage"] == pytest.approx(
        0.2 / 0.8 * rule.units["subtopic_coverage"] * sum(1 / np.log2(np.arange(2, 12)))
    )
    items, scores = (array[:, :100] for array in problem.candidates)
    asked = {"trade_off": 0.2, "goals": rule.goals, "history_weight": rule.history_weight}
    own = ListSearch(**asked)(items, scores, 10, features=problem.features)  # type: ignore[arg-type]
    np.testing.assert_array_equal(own, problem.rank(rule)[0])
    doubled = {name: 2 * it for name, it in rule.units.items()}
    other = ListSearch(**asked, units=doubled)(items, scores, 10, features=problem.features)  # type: ignore[arg-type]
    assert (own != other).any()


@pytest.mark.parametrize(
    "wrong", [{"trade_off": 2.0}, {"k": 0}, {"history_window": 0}, {"goals": {"novelty": 1.0}}, {"colour": 1}]
)
def test_wrong_settings_of_a_rule_are_refused(problem: Problem, wrong: dict[str, object]) -> None:
    facts = rule_at(problem, "subtopic_coverage", 0.2).to_dict()
    assert Rule.from_dict(facts).to_dict() == facts
    with pytest.raises(InputError):
        Rule.from_dict({**facts, **wrong})
