"""The questions that held-out labels have answered."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

import recprism as rp
from recprism.budget.question import BudgetQuestion
from recprism.data.split import Part
from recprism.errors import ConstraintError
from recprism.forms import DialsForm
from recprism.rule.goal import Goal
from recprism.runs.card import card
from recprism.runs.config import BudgetConfig, ConstraintsConfig
from recprism.runs.jobs.diversify import diversify_within
from recprism.runs.listing import list_runs
from recprism.runs.parts.questions import (
    LEDGER,
    Asked,
    RunStore,
    asked_of_labels,
    note_question,
    question_of,
)
from recprism.runs.run import Run

Trained = Callable[..., Run]
ONE, TWO, THREE = "ilad", "subtopic_coverage", "gini"


def note(run: Run, goal: str, *, part: Part = "validation", tested: bool = True, **about: Any) -> str | None:
    return note_question(run, run.problem(), BudgetQuestion.of(goal, {}, part=part, **about), tested=tested)


def ledger(run: Run) -> list[str]:
    return (run.path.parent / LEDGER).read_text(encoding="utf-8").splitlines()


def test_other_questions_lower_the_confidence_of_all_answers(trained_run: Trained) -> None:
    run = trained_run()
    assert note(run, ONE) is None
    assert note(run, ONE) is None, "the same question has the same answer"
    assert note(run, ONE, part="test") is None, "other labels"
    assert note(run, TWO, confidence=0.9) == (
        "The labels of the validation part answered another question before; all answers together hold with at least "
        "85 % confidence."
    )
    told = note(run, ONE, confidence=0.9, method="t")
    assert told is not None
    assert told.endswith("all answers but 1 approximate ones together hold with at least 85 % confidence.")
    note(run, THREE, tested=False)
    assert asdict(asked_of_labels(run, "validation")) == {
        "questions": 4,
        "confidence": pytest.approx(0.85),
        "approximate": 2,
    }
    again = note(run, THREE, confidence=0.6)
    assert again is not None
    assert again.endswith("together have no joint confidence.")
    assert asked_of_labels(run, "validation").confidence is None
    assert len(ledger(run)) == 6


def test_a_question_is_stored_as_it_always_was(trained_run: Trained) -> None:
    """Runs compare questions with those that they stored."""
    case = trained_run().problem()
    asked = BudgetQuestion.of("ilad+sc", {"ndcg": "5%", "recall@20": 0.02}, part="test", weight=3, method="t")
    plain = {"budgets": {"ndcg@10": 0.05, "recall@20": 0.02}, "goal": "ilad+subtopic_coverage", "k": 10}
    assert question_of(case, asked) == plain
    assert question_of(case, asked, methods=["mmr"], like=None) == {**plain, "methods": ["mmr"]}
    assert question_of(case, replace(asked, trade_offs=(0.1, 0.2))) == {**plain, "trade_offs": [0.1, 0.2]}
    assert question_of(case.with_window(7), replace(asked, through=DialsForm())) == {
        **plain,
        "history_window": 7,
        "compiled": {"form": "dials"},
    }


def test_copies_and_other_models_of_the_same_labels_count(trained_run: Trained, tmp_path: Path) -> None:
    first, other = tmp_path / "first", tmp_path / "other"
    shutil.copytree(trained_run().path, first)
    shutil.copytree(trained_run(3, 16).path, other)
    shutil.copytree(first, tmp_path / "copy")
    for path in (first, other, tmp_path / "copy"):
        note(Run.open(path), ONE)
    assert len(ledger(Run.open(first))) == 2, "a copy asks the same; another model does not"
    assert asked_of_labels(Run.open(first), "validation").confidence == pytest.approx(0.9)
    shutil.copytree(other, tmp_path / "elsewhere" / "other")
    moved = asked_of_labels(Run.open(tmp_path / "elsewhere" / "other"), "validation")
    assert (moved.questions, moved.confidence) == (1, 0.95), "a run takes its own questions with it"


def test_damaged_lines_are_skipped_and_a_ledger_that_cannot_be_written_is_named(
    trained_run: Trained, caplog: pytest.LogCaptureFixture
) -> None:
    run = trained_run()
    note(run, ONE)
    line = json.loads(ledger(run)[0])
    broken = [{**line, "confidence": "high"}, {**line, "questions": 3}, {**line, "labels": None}, {"time": 1}, [line]]
    with (run.path.parent / LEDGER).open("a", encoding="utf-8") as file:
        file.write("\n".join(json.dumps(it) for it in broken) + '\n{"time": 1, "ev')
    assert asked_of_labels(run, "validation").questions == 1
    note(run, TWO)
    assert asked_of_labels(run, "validation").questions == 2
    (run.path.parent / LEDGER).unlink()
    (run.path.parent / LEDGER).mkdir()
    with caplog.at_level(logging.WARNING):
        note(run, THREE)
    (told,) = caplog.messages
    assert told == f"{run.path.parent / LEDGER}: cannot be written, so that later commands may not count this question"
    assert asked_of_labels(run, "validation").questions == 3, "the log of the run has them"


@pytest.mark.slow
def test_python_on_a_run_takes_the_audit_over_and_an_edited_one_is_ignored(trained_run: Trained) -> None:
    run = trained_run()
    case = run.problem()
    audit = rp.audit(case, "subtopic_coverage", budgets={0.2: 1, 0.3: 3})
    asked = ledger(run)
    stops = {it.budget: it for it in audit.stops[Goal.parse("sc")]}
    result = rp.diversify(run.problem(), "subtopic_coverage", "30%")
    assert stops[0.3].certified is not None
    assert result.trade_off == stops[0.3].certified.trade_off
    assert result.certificate is not None
    assert result.certificate.questions == 2
    assert ledger(run) == asked
    alone = rp.diversify(run.problem(), "subtopic_coverage", "30%", confidence=0.9)
    assert alone.certificate is not None
    assert alone.certificate.questions == 1, "another confidence is another question"
    assert len(ledger(run)) == len(asked) + 1
    store = run.problem().store
    assert isinstance(store, RunStore)
    own_steps = replace(stops[0.3].question, part="validation", weight=1.0, trade_offs=(0.05, 0.1))
    found, _ = store.ask(run.problem(), own_steps)
    assert (found.certificate.questions, len(found.certificate.points)) == (1, 2), "audits test the steps of the goal"
    assert len(ledger(run)) == len(asked) + 2
    kept = run.path / "audit.json"
    kept.write_text(kept.read_text(encoding="utf-8").replace('"trade_off": ', '"trade_off": 0'), encoding="utf-8")
    asked_anew = rp.diversify(run.problem(), "subtopic_coverage", "30%")
    assert asked_anew.certificate is not None
    assert asked_anew.certificate.questions == 1
    assert len(ledger(run)) == len(asked) + 3


@pytest.mark.slow
def test_surfaces_say_the_joint_confidence(trained_run: Trained) -> None:
    run = trained_run(3, 16)
    kept = diversify_within(run, BudgetConfig(budgets={"ndcg@10": 0.3}))
    assert kept.certificate is not None
    run.file("events.jsonl").unlink()
    (run.path.parent / LEDGER).unlink()
    note(run, ONE)
    assert run.joint_certificate() == kept.certificate, "its own question"
    note(run, TWO, confidence=0.75)
    joint = run.joint_certificate()
    assert joint is not None
    assert "(70 % confidence for 2 questions together)" in joint.sentence()
    (row,) = [it for it in list_runs(run.path.parent) if it.state == "diversified"]
    assert row.confidence == "70 % confidence for 2 questions together"


def test_what_diversify_refuses_is_refused_before_labels_are_asked(
    trained_run: Trained, call: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    run = trained_run()
    asked = BudgetConfig(budgets={"ndcg@10": 0.3}, constraints=ConstraintsConfig(min_share={"IMAX": 0.9}))
    with pytest.raises(ConstraintError, match="at least 90% IMAX cannot be kept"):
        diversify_within(run, asked)
    assert call("diversify", run.path, "--budget", "0.3", "--metrics", "ilad_attributes@10") == 2
    assert "ilad_attributes@10 cannot be computed: it needs" in capsys.readouterr().err
    assert not (run.path.parent / LEDGER).exists()
    assert not run.is_diversified()


def test_an_approximate_result_is_marked_and_in_no_joint_confidence(trained_run: Trained) -> None:
    run = trained_run(3, 16)
    diversify_within(run, BudgetConfig(budgets={"ndcg@10": 0.3}, method="t"))
    note(run, ONE, confidence=0.9)
    asked = asked_of_labels(run, "validation")
    assert asked == Asked(2, 0.9, 1)
    (row,) = [it for it in list_runs(run.path.parent) if it.state == "diversified"]
    assert row.confidence == "approximate 95 % confidence"
    assert "(approximate 95 % confidence)" in card(run)
