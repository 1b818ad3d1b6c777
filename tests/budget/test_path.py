"""The path towards diversity: label-free to make, certified on labels, and kept by the rule itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
import pytest
import torch

from recprism.budget.audit import BUDGETS, cost_of_diversity
from recprism.budget.certifying import certify_together
from recprism.budget.path import lists_at, rule_at, walk
from recprism.budget.problem import Problem
from recprism.budget.question import BudgetQuestion
from recprism.budget.within import CertifiedRule, within_budget
from recprism.data import Categories, Dataset, SparseRows
from recprism.errors import InputError
from recprism.models import BPRMF, Factors
from recprism.rule.boosts import boosted
from recprism.rule.goal import Goal


def costly(*values: object) -> object:
    return pytest.param(*values, marks=pytest.mark.slow)


@pytest.fixture(scope="module")
def factors(small: Dataset) -> Factors:
    return BPRMF().fit(small.split(seed=0), seed=0, device="cpu")


@pytest.fixture(scope="module")
def problem(small: Dataset, factors: Factors) -> Problem:
    assert small.categories is not None
    return Problem(factors, small.split(seed=0), small.categories, "test")


def test_the_path_climbs(problem: Problem) -> None:
    path = walk(problem, "subtopic_coverage", ("ndcg@10", "subtopic_coverage@10"), (0.1, 0.3))
    gains = [path.change(point, "subtopic_coverage@10") or 0.0 for point in path.points]
    assert 0 < gains[0] < gains[1]
    assert np.array_equal(path.base.lists, problem.base_lists)
    with pytest.raises(InputError, match="no path towards 'fun'"):
        Goal.parse("subtopic_coverage+fun")


@pytest.mark.parametrize("goal", ["shown_often", "gini", *map(costly, ("shown_2_times", "exposure_entropy"))])
def test_exposure_never_falls_along_its_path(problem: Problem, goal: str) -> None:
    metric = f"{goal}@10"
    path = walk(problem, goal, ("ndcg@10", metric), (0.0, 0.05, 0.2, 0.5))
    values = [point.mean(metric) * (-1 if goal == "gini" else 1) for point in path.points]
    assert np.array_equal(path.points[0].lists, problem.base_lists)
    assert values == sorted(values)
    assert values[-1] > values[0]


def test_boosts_of_a_path_serve_its_lists(problem: Problem) -> None:
    boost = rule_at(problem, "shown_often", 0.2).boosts
    assert boost is not None
    served, _ = boosted(problem.factors, boost).rank(10, exclude=problem.seen)
    lists = lists_at(problem, "shown_often", 0.2)
    assert (np.sort(served, 1) == np.sort(lists, 1)).all(1).mean() > 0.99
    assert not np.array_equal(served, lists), "the rule sorts by the scores without boosts"
    scores = problem.base.scores_of(lists)
    assert (np.diff(scores, axis=1) <= 0).all()
    assert rule_at(problem, "subtopic_coverage", 0.2).boosts is None


def test_boosts_are_those_of_the_part_that_certifies_in_every_context(problem: Problem) -> None:
    of_test, of_validation = (rule_at(it, "shown_often", 0.1).boosts for it in (problem, problem.on("validation")))
    assert of_test is not None
    np.testing.assert_array_equal(of_test, of_validation)
    nothing = SparseRows.empty(problem.split.train.shape)
    alone = Problem(
        problem.factors,
        replace(problem.split, train=problem.split.live().train, validation=nothing),
        problem.categories,
    )
    assert not np.array_equal(rule_at(alone, "shown_often", 0.1).boosts, of_test), "another context has other boosts"


def test_the_weight_of_an_exposure_goal_counts(problem: Problem) -> None:
    """Twice the weight is worth what a larger trade-off is worth: the price of a boost is weight * t / (1 - t)."""
    twice, further = rule_at(problem, "gini=2", 0.2).boosts, rule_at(problem, "gini", 0.4 / 1.2).boosts
    assert twice is not None
    assert further is not None
    np.testing.assert_allclose(twice, further, rtol=1e-9)
    assert not np.array_equal(twice, rule_at(problem, "gini", 0.2).boosts)


@pytest.mark.slow
def test_the_weight_of_an_exposure_goal_counts_beside_another_goal(problem: Problem) -> None:
    even, more = (rule_at(problem, goal, 0.2).boosts for goal in ("sc+gini", "sc=1,gini=5"))
    assert even is not None
    assert more is not None
    assert more.max() > even.max()


def test_an_exposure_goal_joins_a_rule(problem: Problem) -> None:
    alone, both = (lists_at(problem, goal, 0.1) for goal in ("subtopic_coverage", "subtopic_coverage+shown_often"))
    names = ("subtopic_coverage@10", "shown_often@10")
    before, without, after = (problem.judge(it, names) for it in (problem.base_lists, alone, both))
    assert after["subtopic_coverage@10"].mean() > before["subtopic_coverage@10"].mean()
    assert after["shown_often@10"][0] > without["shown_often@10"][0]


@pytest.mark.parametrize(
    ("goal", "words"), [("gini+shown_often", "choose one"), ("alpha_ndcg+gini", "does not combine with alpha_ndcg")]
)
def test_goals_that_do_not_combine(goal: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        Goal.parse(goal)


def test_the_path_does_not_look_at_labels(problem: Problem) -> None:
    nothing = SparseRows.empty(problem.split.train.shape)
    # The same users with other labels: validation stays known as seen, the test is gone.
    blind = Problem(problem.factors, replace(problem.split, test=nothing), problem.categories, "test")
    with_labels, without = (
        walk(it, "subtopic_coverage", ("subtopic_coverage@10",), (0.2,)).points[0].lists for it in (problem, blind)
    )
    assert np.array_equal(with_labels, without)


def trade_off_of(found: CertifiedRule) -> float:
    return 0.0 if found.rule is None else found.rule.trade_off


def test_a_budget_is_kept_by_the_rule(problem: Problem) -> None:
    kept = within_budget(
        problem, BudgetQuestion.of("subtopic_coverage", {"ndcg@10": 0.1}, trade_offs=(0.1, 0.2), part="test")
    )
    assert kept.rule is not None
    served = problem.rank(kept.rule)[0]
    after, before = (
        problem.judge(lists, ("ndcg@10", "subtopic_coverage@10")) for lists in (served, problem.base_lists)
    )
    last = kept.certificate.last
    assert last is not None
    check = kept.certificate.points[last].checks[0]
    assert check.new == pytest.approx(np.nanmean(after["ndcg@10"]))
    assert (check.passed, check.budget, check.upper) == (True, 0.1, None)
    assert np.nanmean(after["subtopic_coverage@10"]) > 1.05 * np.nanmean(before["subtopic_coverage@10"])
    assert trade_off_of(kept) == (0.1, 0.2)[last]


@pytest.mark.slow
def test_validation_decides_where_there_is_one(problem: Problem) -> None:
    """It judges the lists that were served before it; the same rule makes lists after it."""
    earlier, kept = (
        within_budget(it, BudgetQuestion.of("subtopic_coverage", {"ndcg@10": 0.1}, trade_offs=(0.1, 0.2)))
        for it in (problem.on("validation"), problem)
    )
    assert kept.rule is not None
    assert "of the validation part" in kept.certificate.sentence()
    assert earlier.certificate == kept.certificate
    assert earlier.rule == kept.rule
    assert not np.array_equal(problem.on("validation").rank(kept.rule)[0], problem.rank(kept.rule)[0])
    none = SparseRows.empty(problem.split.train.shape)
    held_out = Problem(problem.factors, replace(problem.split, validation=none), problem.categories, "test")
    assert (
        "of the test part"
        in within_budget(held_out, BudgetQuestion.of("subtopic_coverage", {"ndcg@10": 0.1})).certificate.sentence()
    )


def test_a_budget_too_small_to_certify_changes_nothing(problem: Problem) -> None:
    kept = within_budget(problem, BudgetQuestion.of("subtopic_coverage", {"ndcg@10": 0.0005}, trade_offs=(0.2,)))
    assert kept.rule is None
    assert kept.violations is None
    assert "No change of the lists is certified" in kept.certificate.sentence()


def test_a_guard_holds_back(problem: Problem) -> None:
    """The first point keeps the budget of NDCG and not that of the guard."""
    free, guarded = (
        within_budget(problem, BudgetQuestion.of("subtopic_coverage", budgets, trade_offs=(0.1, 0.3)))
        for budgets in ({"ndcg@10": 0.1}, {"ndcg@10": 0.1, "recall@20": 1e-4})
    )
    assert guarded.certificate is not None
    assert trade_off_of(guarded) < trade_off_of(free)
    passed = {check.metric: check.passed for check in guarded.certificate.points[-1].checks}
    assert passed == {"ndcg@10": True, "recall@20": False}


def test_the_cost_of_diversity(problem: Problem) -> None:
    found = cost_of_diversity(problem, BudgetQuestion.each(["sc"], (0.05, 0.2)), show=0.2)
    assert found.certified
    assert found.payers is not None
    assert {"light", "heavy", "niche", "mainstream"} <= {row.segment for row in found.payers.rows}
    assert found.exposure is not None
    reach = found.stops[Goal.parse("sc")][1]
    assert reach.certified is not None
    assert reach.measured is not None
    assert reach.certified.trade_off <= reach.measured.trade_off
    assert any("certified" in words for words in found.sentences())


@pytest.mark.parametrize("budget", [0.05, *map(costly, (0.02, 0.2))])
def test_an_audit_and_what_it_leads_to_agree(problem: Problem, budget: float) -> None:
    asked = BudgetQuestion.of("subtopic_coverage", {"ndcg@10": budget})
    reach = cost_of_diversity(problem, [asked]).stops[asked.goal][0]
    kept = within_budget(problem, asked)
    assert (0.0 if reach.certified is None else reach.certified.trade_off) == trade_off_of(kept)
    assert reach.certificate.part == "validation"


@pytest.mark.slow
def test_without_labels_nothing_is_certified(small: Dataset, problem: Problem) -> None:
    none = SparseRows.empty(problem.split.train.shape)
    split = replace(problem.split, validation=none, test=none)
    blind = Problem(problem.factors, split, problem.categories, "test")
    found = cost_of_diversity(blind, BudgetQuestion.each(["sc"], BUDGETS))
    assert not found.certified
    assert found.payers is None
    assert "not known here" in found.sentences()[-1]
    with pytest.raises(InputError, match="a certified budget needs held-out interactions and the test part has none"):
        within_budget(blind, BudgetQuestion.of("subtopic_coverage", {"ndcg@10": 0.01}))


def test_lists_are_filled_up_for_deeper_guards(problem: Problem) -> None:
    chosen = problem.base_lists[:, ::-1].copy()
    longer = problem.filled_up(chosen, ("recall@20",))
    assert longer.shape == (len(chosen), 20)
    assert np.array_equal(longer[:, 10:], problem.candidates[0][:, 10:20])


@pytest.mark.parametrize("goal", ["subtopic_coverage", costly("catalogue_coverage")])
def test_an_audit_reports_every_point(problem: Problem, goal: str) -> None:
    steps: list[tuple[str, int, int]] = []
    of = Goal.parse(goal)
    found = cost_of_diversity(problem, BudgetQuestion.each([of], BUDGETS), on_step=lambda *step: steps.append(step))
    tested = max(len(it.certificate.points) for it in found.stops[of])
    shown, most = len(found.paths[of].points), len(of.steps)
    certifying = sorted(it for it in steps if it[0] == "certifying, at most")
    assert certifying == [("certifying, at most", done, most) for done in range(len(certifying))]
    assert tested < len(certifying) <= tested + 1 + torch.get_num_threads(), "threads may be a few points ahead"
    assert sorted(set(steps) - set(certifying)) == [("measuring the paths", done, shown) for done in range(shown + 1)]


@pytest.mark.parametrize(
    ("goals", "budgets", "guards", "method"),
    [
        (("subtopic_coverage",), {0.05: 1.0}, {}, "betting"),
        costly(("subtopic_coverage",), {0.05: 1.0}, {"recall@20": 0.05}, "t"),
        costly(("subtopic_coverage", "ilad_subtopics"), {0.02: 1.0, 0.2: 3.0}, {}, "betting"),
        costly(("subtopic_coverage", "catalogue_coverage"), {0.0001: 1.0, 0.5: 1.0}, {}, "betting"),
        (("subtopic_coverage",), {0.0001: 1.0}, {}, "betting"),
    ],
)
def test_an_audit_answers_as_whole_paths_do(
    problem: Problem,
    goals: tuple[str, ...],
    budgets: dict[float | str, float],
    guards: dict[str, float],
    method: Literal["betting", "t"],
) -> None:
    """It ends each path where every budget refuses; the answers are those of paths that were walked to their end."""
    found = cost_of_diversity(problem, BudgetQuestion.each(goals, budgets, guards, method=method))
    wanted_goals = list(map(Goal.parse, goals))
    asked = [(goal, budget) for goal in wanted_goals for budget in budgets]
    judge, names = problem.on("validation"), ("ndcg@10", *guards)
    whole = {goal: walk(judge, goal, names, ends=lambda _: False) for goal in wanted_goals}
    questions = [whole[goal].question({"ndcg@10": it, **guards}, budgets[it]) for goal, it in asked]
    answers = certify_together(questions, method=method, part="validation")
    for goal in wanted_goals:
        stops, steps = found.stops[goal], len(goal.steps)
        asked_of = [it.certificate for it in stops]
        refused = [next((at for at, it in enumerate(of.points) if not it.certified), steps) for of in asked_of]
        assert len(asked_of[0].points) <= max(refused) + 8, "the path ends soon after its last refusal"
        if all(it.certified is not None for it in stops):
            assert len(found.paths[goal].points) <= 8 + len(budgets)
    for (goal, budget), wanted in zip(asked, answers, strict=True):
        stop = next(it for it in found.stops[goal] if it.budget == budget)
        tested = len(stop.certificate.points)
        assert stop.certificate.last == wanted.last
        assert [it.checks for it in stop.certificate.points] == [it.checks for it in wanted.points[:tested]]
        if wanted.last is None:
            assert stop.certified is None
            assert len(found.paths[goal].points) == len(goal.steps), "all points, to show what is measured"
        else:
            assert stop.certified is not None
            assert stop.certified.trade_off == goal.steps[wanted.last]
            np.testing.assert_array_equal(stop.certified.lists, lists_at(problem, goal, stop.certified.trade_off))


def test_a_search_within_a_budget_reports_every_point(problem: Problem) -> None:
    steps: list[tuple[str, int, int]] = []
    asked = BudgetQuestion.of("subtopic_coverage", {"ndcg@10": 0.1}, trade_offs=(0.1,))
    within_budget(problem, asked, on_step=lambda *step: steps.append(step))
    assert steps == [("walking the path", 0, 2), ("walking the path", 1, 2), ("walking the path", 2, 2)]


@pytest.mark.parametrize("goal", ["shown_often", "ilad"])
def test_a_history_window_without_effect_is_refused(problem: Problem, goal: str) -> None:
    without = Categories((), SparseRows.empty((problem.base.n_items, 0)))
    case = Problem(problem.factors, problem.split, problem.categories if goal == "shown_often" else without)
    with pytest.raises(InputError, match="do not look at the user's history here, so a history window has no effect"):
        within_budget(case.with_window(5), BudgetQuestion.of(goal, {"ndcg@10": 0.1}))
    assert rule_at(case.with_window(5), "ilad", 0.1).history_window == (5 if goal == "shown_often" else None)
