"""Refit after a retraining: the old budget, and limited churn."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recprism.budget.problem import Problem
from recprism.budget.question import BudgetQuestion
from recprism.budget.sticky import StickyProblem
from recprism.budget.within import CertifiedRule, within_budget
from recprism.cli import main
from recprism.data import Dataset, SparseRows, Split
from recprism.errors import InputError
from recprism.models import BPRMF, Factors
from recprism.operate.refit import GONE, PreviousDeployment, churn, refit
from recprism.operate.refitted_run import refit_run
from recprism.rule import Rule
from recprism.rule.goal import Goal
from recprism.runs.card import card
from recprism.runs.config import BudgetConfig, RunConfig
from recprism.runs.jobs.diversify import diversify_within
from recprism.runs.parts.questions import asked_of_labels
from recprism.runs.run import Run

pytestmark = pytest.mark.slow

BUDGET = {"ndcg@10": 0.1}


@pytest.fixture(scope="module")
def split(small: Dataset) -> Split:
    return small.split(seed=0)


@pytest.fixture(scope="module")
def models(split: Split) -> tuple[Factors, Factors]:
    """Two models of the same data with different seeds and random starts."""
    first, second = (BPRMF(epochs=15, dim=16, start="normal").fit(split, seed=seed, device="cpu") for seed in (0, 1))
    return first, second


@pytest.fixture(scope="module")
def first_fit(
    small: Dataset, split: Split, models: tuple[Factors, Factors]
) -> tuple[Problem, CertifiedRule, PreviousDeployment]:
    problem = Problem(models[0], split, small.categories, "test")
    kept = within_budget(problem, BudgetQuestion.of("sc", BUDGET, trade_offs=(0.12, 0.16)))
    assert kept.rule is not None
    return problem, kept, deployed(problem, kept.rule)


def deployed(problem: Problem, rule: Rule) -> PreviousDeployment:
    """Lists of a rule, as they were served in a problem."""
    return PreviousDeployment(
        problem.factors, rule, problem.seen, lambda it, k, users: problem.rank(it, k, users=users)[0]
    )


def test_a_rotated_and_shuffled_copy_is_refitted_to_the_same_lists(small: Dataset, first_fit: Any) -> None:
    problem, kept, before = first_fit
    generator = np.random.default_rng(3)
    turn, _ = np.linalg.qr(generator.normal(size=(16, 16)))
    users = generator.permutation(problem.factors.n_users)
    old = problem.factors
    copy = old.with_vectors(user=(old.user @ turn).astype(np.float32), item=(old.item @ turn).astype(np.float32))
    again = Problem(copy.of_users(users), problem.split.of_users(users), small.categories, "test")
    found = refit(again, before, BudgetQuestion.of("sc", BUDGET), trade_off=kept.rule.trade_off)
    assert found.churn.retraining < 1e-3, "float32 may turn a tie"
    assert found.churn.served < 1e-2
    assert found.churn.unavoidable == 0
    assert found.kept.rule == kept.rule


def test_old_lists_are_translated_to_new_numbers(first_fit: Any, split: Split) -> None:
    problem, kept, before = first_fit
    old = before.lists(problem)
    assert (old == problem.rank(kept.rule)[0]).all()
    # User 0 has seen the first item since; the item that user 1 had first has left; user 2 is new.
    gone = old[1, 0]
    assert old[0, 0] != gone
    seen = SparseRows.from_pairs(np.array([0]), old[:1, 0], split.train.shape)
    kept_items = np.delete(np.arange(split.n_items), gone)
    later = replace(split, train=split.train.union(seen)).of_items(kept_items)
    now = Problem(problem.factors.of_items(kept_items), later, problem.categories.take_items(kept_items), "test")
    others = np.delete(np.arange(split.n_users), 2)
    known = Problem(problem.factors.of_users(others), split.of_users(others), problem.categories, "test")
    told = deployed(known, kept.rule).lists(now)
    assert told[0, 0] == GONE
    assert told[1, 0] == GONE
    assert (told[2] == -1).all()
    assert (kept_items[told[1, 1:]] == old[1, 1:]).all()
    assert churn(told[:3], told[:3].clip(-1)) == pytest.approx(2 / 20), "what is gone has changed, who is new has not"


def test_old_lists_may_be_those_of_vectors_and_a_rule_needs_its_problem(first_fit: Any) -> None:
    problem, kept, _ = first_fit
    moved = problem.factors.with_vectors(user=-problem.factors.user)
    of_vectors = PreviousDeployment(problem.factors, moved, problem.seen)
    assert (of_vectors.lists(problem) == moved.rank(10, exclude=problem.seen)[0]).all()
    with pytest.raises(InputError, match="made by a rule, which ranks in its problem: pass rank"):
        PreviousDeployment(problem.factors, kept.rule, problem.seen).lists(problem)


def test_churn_is_bounded_and_costs_something(small: Dataset, models: Any, first_fit: Any, split: Split) -> None:
    _, kept, before = first_fit
    now = Problem(models[1], split, small.categories, "test")
    free = refit(now, before, BudgetQuestion.of("sc", {"ndcg@10": 0.2}), trade_off=kept.rule.trade_off)
    bound = free.churn.served / 2
    held = refit(now, before, BudgetQuestion.of("sc", {"ndcg@10": 0.2}), trade_off=kept.rule.trade_off, max_churn=bound)
    assert held.churn.served <= bound < free.churn.retraining
    assert held.churn.free == pytest.approx(free.churn.served, abs=0.02)
    assert held.stickiness > 0
    assert free.kept.certificate.part == "validation"
    assert held.kept.certificate.part == "test", "the old model had seen all of validation"
    assert "without a bound" in held.churn.sentence()
    # The report matches the lists of the rule in the context of the result.
    assert isinstance(held.problem, StickyProblem)
    assert held.kept.rule is not None
    assert churn(before.lists(now), held.problem.rank(held.kept.rule)[0]) == held.churn.served
    loose = refit(now, before, BudgetQuestion.of("sc", {"ndcg@10": 0.2}), trade_off=kept.rule.trade_off, max_churn=1.0)
    assert loose.stickiness == 0


def test_a_bound_that_cannot_be_kept_is_refused(small: Dataset, models: Any, first_fit: Any, split: Split) -> None:
    _, kept, before = first_fit
    now = Problem(models[1], split, small.categories, "test")
    left = np.setdiff1d(np.arange(split.n_items), before.lists(now)[:, 0])
    fewer = Problem(models[1].of_items(left), split.of_items(left), small.categories.take_items(left), "test")
    with pytest.raises(InputError, match=r"at least .* of the places change, and 5.0% are allowed"):
        refit(fewer, before, BudgetQuestion.of("sc", BUDGET), trade_off=kept.rule.trade_off, max_churn=0.05)
    with pytest.raises(InputError, match="had seen every validation interaction"):
        refit(
            now,
            before,
            BudgetQuestion.of("sc", BUDGET, part="validation"),
            trade_off=kept.rule.trade_off,
            max_churn=0.4,
        )
    with pytest.raises(InputError, match=r"max_churn: 1\.5 is not a share from 0 to 1"):
        refit(now, before, BudgetQuestion.of("sc", BUDGET), trade_off=kept.rule.trade_off, max_churn=1.5)


def test_a_few_new_labels_of_validation_do_not_decide(
    small: Dataset, models: Any, first_fit: Any, split: Split
) -> None:
    _, kept, before = first_fit
    known = split.validation.take_rows(np.arange(split.n_users))
    few = np.flatnonzero(known.row_of_entry >= 3)  # all but those of three users
    seen = SparseRows.from_pairs(known.row_of_entry[few], known.indices[few], known.shape)
    before = replace(before, seen=split.train.union(seen))
    now = Problem(models[1], split, small.categories, "test")
    found = refit(now, before, BudgetQuestion.of("sc", {"ndcg@10": 0.4}), trade_off=kept.rule.trade_off, max_churn=0.4)
    assert found.stickiness > 0
    assert found.kept.certificate.part == "test"


@pytest.mark.parametrize("tight", [False, True])
def test_the_test_part_is_not_read(tight: bool, small: Dataset, models: Any, first_fit: Any, split: Split) -> None:
    problem, kept, _ = first_fit
    # A model that had seen the validation part could not be evaluated on it.
    before = deployed(problem.on("validation"), kept.rule)
    swapped = replace(split, test=split.test.take_rows(np.arange(split.n_users)[::-1]))
    found = []
    for it in (split, swapped):
        now = Problem(models[1], it, small.categories, "test")
        settings = {"trade_off": kept.rule.trade_off, "max_churn": 0.4 if tight else None}
        found.append(refit(now, before, BudgetQuestion.of("sc", {"ndcg@10": 0.4}), **settings))
    assert found[0].kept.rule is not None
    assert found[0].kept.rule == found[1].kept.rule
    assert (found[0].stickiness > 0) == tight
    assert found[0].to_dict() == found[1].to_dict()
    served = found[0].problem.rank(found[0].kept.rule)[0]
    assert churn(before.lists(now), served) == found[0].churn.served


def test_the_request_of_the_old_run_is_repeated(small: Dataset, models: Any, split: Split, tmp_path: Path) -> None:
    runs = []
    for name, factors in zip(("old", "new"), models, strict=True):
        run = Run.create(tmp_path / name, RunConfig())
        run.save_data(small, split)
        run.save_factors(factors)
        runs.append(run)
    diversify_within(runs[0], BudgetConfig(goal="subtopic_coverage", budgets={"ndcg@10": 0.4}, certify_on="test"))
    found = refit_run(runs[1], runs[0])
    assert runs[1].is_diversified()
    assert found.asked_before == (
        f"Some of these labels also chose the trade-off of {runs[0].argument}, so every step up to it was tested. The "
        "labels of the test part answered another question before; all answers together hold with at least 90 % "
        "confidence."
    )
    reached = runs[0].load_result().trade_off
    most = sum(step <= reached for step in Goal.parse("subtopic_coverage").steps)
    assert found.kept.certificate.last is not None
    assert found.kept.certificate.last + 1 == sum(
        step <= runs[1].load_result().trade_off for step in Goal.parse("subtopic_coverage").steps
    ), "the first step is the first of the path"
    assert len(found.kept.certificate.points) <= most
    assert asked_of_labels(runs[1], "test") == asked_of_labels(runs[0], "test")
    assert "% confidence for 2 questions together" in card(runs[1])
    assert "| certified on | the test part |" in card(runs[1])
    refit_run(runs[1], runs[0], certify_on="validation", overwrite=True)
    assert "| certified on | the validation part |" in card(runs[1])


def test_labels_that_the_old_model_had_seen_do_not_count(first_fit: Any, split: Split) -> None:
    problem, _, before = first_fit
    labels = split.test
    assert (before.new_labels(problem).keys == labels.keys).all(), "the same split: all are new"
    first = SparseRows.from_pairs(labels.row_of_entry[:1], labels.indices[:1], labels.shape)
    order = np.arange(split.n_users)[::-1]
    known = replace(before, base=before.base.of_users(order), seen=before.seen.union(first).take_rows(order))
    assert (known.new_labels(problem).keys == labels.keys[1:]).all()


def test_stickiness_raises_only_old_items(first_fit: Any) -> None:
    problem, _, before = first_fit
    held = before.lists(problem)
    items, scores = StickyProblem(problem, held, 0.0).candidates
    assert (items == problem.candidates[0][:, : items.shape[1]]).mean() > 0.999
    assert scores == pytest.approx(problem.candidates[1][:, : items.shape[1]], abs=1e-4)
    top = StickyProblem(problem, held, 4.0).candidates[0][:, :10]
    assert (np.sort(top, 1) == np.sort(held, 1)).all(), "whatever was on a list comes first"
    assert all(len(set(row)) == len(row) for row in StickyProblem(problem, held, 0.1).candidates[0].tolist())


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def recprism(*words: object) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["recprism", *map(str, words)])
        with pytest.raises(SystemExit) as stopped:
            main()
        code, captured = int(stopped.value.code or 0), capsys.readouterr()
        return code, captured.err if code else captured.out

    old, new = tmp_path / "old", tmp_path / "new"
    for path, seed in ((old, 0), (new, 1)):
        assert recprism("train", "-o", path, "--seed", seed, "--set", "epochs=12", "--set", "dim=16")[0] == 0
    code, said = recprism("refit", new, "--like", old)
    assert (code, "holds no vectors within a budget to follow" in said) == (2, True)
    assert recprism("diversify", old, "--budget", 0.4, "--history-window", 30)[0] == 0
    for words, message in (
        (("refit", new, "--like", old, "--budget", 0.1), "there is no option --budget"),
        (("refit", new, "--max-churn", 0.1), "--like is missing"),
        (("refit", new, "--like", old, "--like-name", "bold"), "bold"),
        (("diversify", new, "--max-churn", 0.1), "there is no option --max-churn"),
    ):
        code, said = recprism(*words)
        assert (code, message in said) == (2, True), said
    run = Run.open(new)
    before = run.factors()
    assert not run.is_diversified()
    code, said = recprism("refit", new, "--like", old, "--max-churn", 0.3)
    assert code == 0, said
    assert "users' lists" in said
    assert "retraining alone changes" in said
    facts = run.certificate()
    assert facts is not None
    assert facts["like"] == str(old)
    assert facts["retrained"]["churn"]["served"] <= 0.3
    assert 0 < facts["retrained"]["judged"] < 0.5, "the two splits are different draws"
    seen = run.split().seen_before("test")
    assert (run.factors().rank(10, exclude=seen)[0] == before.rank(10, exclude=seen)[0]).mean() > 0.999
    assert run.is_diversified()
    assert run.config.diversify == Run.open(old).config.diversify
    kept = run.load_result()
    assert isinstance(kept.problem, StickyProblem)
    assert (kept.own_rule().history_window, kept.problem.history_window) == (30, 30)
    judged, old_lists = kept.ranked(live=False)[0], kept.problem.held
    assert churn(old_lists, judged) <= facts["retrained"]["churn"]["served"], "items that are gone are not among them"
    free = run.problem().rank(kept.own_rule())[0]
    assert churn(old_lists, judged) < churn(old_lists, free), "the old items belong to the stored result"
    code, said = recprism("export", new, "-o", tmp_path / "rule")
    assert (code, "keeps items of older lists, which a rule at request time does not know" in said) == (2, True)
    assert recprism("export", new, "--form", "user-vectors", "-o", tmp_path / "vectors")[0] == 0
