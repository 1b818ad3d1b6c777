"""Paths kept in a run: the same answers as the search itself, made once, and never those of other vectors."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from recprism.budget.audit import BUDGETS, cost_of_diversity
from recprism.budget.problem import Problem
from recprism.budget.question import BudgetQuestion
from recprism.budget.within import within_budget
from recprism.models import BPRMF
from recprism.rule.goal import Goal
from recprism.runs.run import Run
from recprism.runs.stored_path import stored_path


@pytest.fixture(scope="module")
def run(trained_run: Callable[..., Run]) -> Run:
    return trained_run()


@pytest.mark.parametrize("budget", [0.01, *(pytest.param(it, marks=pytest.mark.slow) for it in (0.05, 0.2))])
def test_a_budget_reaches_as_far_as_the_search_within_it(run: Run, budget: float) -> None:
    path = stored_path(run, "subtopic_coverage")
    problem = Problem(run.factors(), run.split(), run.categories(), "test")
    kept = within_budget(problem, BudgetQuestion.of("sc", {"ndcg@10": budget}))
    at = path.reach(budget)
    assert path.trade_offs[at] == (0.0 if kept.rule is None else kept.rule.trade_off)
    made = problem.rank(problem.base if kept.rule is None else kept.rule)[0]
    np.testing.assert_array_equal(path.lists[at], made)


def test_a_larger_budget_never_reaches_less(run: Run) -> None:
    path = stored_path(run, "subtopic_coverage")
    for certified in (True, False):
        reached = [path.reach(budget, certified=certified) for budget in np.linspace(0, 0.5, 51)]
        assert reached == sorted(reached)
    assert path.reach(0.5) > 0


def not_again(*_: object) -> None:
    raise AssertionError("the path was walked again")


@pytest.mark.slow
def test_it_is_made_once_and_read_afterwards(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    first = stored_path(run, "catalogue_coverage")
    monkeypatch.setattr("recprism.budget.path.rule_at", not_again)
    again = stored_path(run, "catalogue_coverage")
    np.testing.assert_array_equal(first.lists, again.lists)
    assert {**vars(first), "lists": None} == {**vars(again), "lists": None}


@pytest.mark.parametrize("harm", ["other vectors", "cut short", "not tensors"])
def test_a_path_of_other_vectors_or_a_damaged_one_is_made_again(
    run: Run, tmp_path: Path, harm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored_path(run, "subtopic_coverage")
    shutil.copytree(run.path, tmp_path / "copy")
    other = Run.open(tmp_path / "copy")
    file = other.path / "path.subtopic_coverage.safetensors"
    if harm == "other vectors":
        split = other.split()
        other.save_factors(BPRMF(epochs=1, dim=4).fit(split, seed=1, device="cpu"))
    else:
        file.write_bytes(file.read_bytes()[:200] if harm == "cut short" else b"path")
    monkeypatch.setattr("recprism.budget.path.rule_at", not_again)
    with pytest.raises(AssertionError, match="walked again"):
        stored_path(other, "subtopic_coverage")


def test_audit_and_budget_use_the_path_of_the_run(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """One walk, kept in the run: what comes after it computes no list of the path again."""
    stored_path(run, "subtopic_coverage")
    monkeypatch.setattr("recprism.budget.path.rule_at", not_again)
    found = cost_of_diversity(run.problem(), BudgetQuestion.each(["sc"], BUDGETS))
    kept = within_budget(run.problem(), BudgetQuestion.of("sc", {"ndcg@10": 0.2}))
    assert len(found.paths[Goal.parse("subtopic_coverage")].points) >= len(Goal.parse("subtopic_coverage").steps) // 4
    assert kept.certificate.last is not None
