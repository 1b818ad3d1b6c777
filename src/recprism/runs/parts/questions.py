"""Which questions held-out labels have answered: each certificate uses up some of the error that they may make.

``labels.jsonl``, next to the runs, has one line for each command that asked; the log of the run has the same line, so
that a copy of the run takes its own questions with it. Labels are known by their content, not by the run. Of labels
that are asked outside of runs, or in another folder, nothing is known.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recprism.budget.audit import Audit
from recprism.budget.certificate import APPROXIMATE, Certificate
from recprism.budget.path import weighs_history
from recprism.budget.problem import Problem
from recprism.budget.question import BudgetQuestion
from recprism.budget.within import CertifiedRule, within_budget
from recprism.common.bound import hash_of
from recprism.common.progress import ProgressCallback
from recprism.errors import RecprismError
from recprism.runs.event_log import append_event, read_events
from recprism.runs.parts.audits import RunAudits
from recprism.runs.parts.paths import RunPaths

log = logging.getLogger(__name__)

ASKED, LEDGER = "labels asked", "labels.jsonl"
MEASURED = "measured"  # labels chose by their figures, without a test
LEAST = 0.5  # a joint confidence below this is not worth a number
Line = dict[str, Any]
"""What one command asked, in plain values: labels, model, part, confidence, method, questions and their shares."""


@dataclass(frozen=True)
class Asked:
    """What the labels of a part have answered, in this run and in those next to it.

    Attributes:
        questions: How many questions: paths and budgets.
        confidence: That all valid answers hold together; None if it is below one half, or if there is no valid answer.
        approximate: How many of the questions have no valid answer: a t test, or figures alone, decided them. They are
            not part of the confidence.
    """

    questions: int
    confidence: float | None
    approximate: int = 0


def clusters_hash(clusters: NDArray[np.int64] | None) -> str | None:
    """Return what makes clusters of users differ from others; None without clusters."""
    return None if clusters is None else hash_of(clusters.astype("<i8").tobytes())


def asked_of_labels(run: RunAudits, part: str | None) -> Asked:
    """Return how many questions the labels of a part have answered, and the confidence of all answers together.

    Args:
        run: A run.
        part: The part whose labels answered; None is the test part.
    """
    return _together(_lines(run, run.labels_hash(part or "test")))


def together_with_others(run: RunAudits, own: Certificate) -> Certificate:
    """Return a certificate with the confidence of all questions that its labels have answered.

    An approximate certificate keeps its own words: it is part of no joint confidence.
    """
    asked = asked_of_labels(run, own.part)
    valid = asked.questions - asked.approximate
    if own.method == APPROXIMATE or valid <= own.questions:
        return own
    return replace(own, confidence=asked.confidence or 0.0, questions=valid)


# -- asking -----------------------------------------------------------------------------------------------------------


def question_of(problem: Problem, question: BudgetQuestion, **others: Any) -> dict[str, Any]:
    """Return what makes a question differ from others on the same labels and model, in plain values.

    Args:
        problem: Its constraints, its history window and the clusters of its users count by their content.
        question: The goal and its budgets.
        **others: What else changes the answer.
    """
    window = problem.history_window if weighs_history(problem, question.goal) else None
    asked = question.to_dict()
    about = {"compiled": asked.pop("compiled"), "k": problem.k, "history_window": window}
    about["trade_offs"] = question.trade_offs
    about |= {"constraints": problem.constraint_facts, "clusters": clusters_hash(problem.clusters), **others}
    asked |= {name: it for name, it in about.items() if it}
    plain: dict[str, Any] = json.loads(json.dumps(asked, sort_keys=True))
    return plain


class RunStore(RunPaths):
    """What problems of a run share: the lists of paths, and the questions that the labels have answered."""

    def ask(
        self, problem: Problem, question: BudgetQuestion, on_step: ProgressCallback | None = None
    ) -> tuple[CertifiedRule, str | None]:
        """Find the rule within a budget. What an audit of the run answered is taken over; else the labels are asked."""
        asked = _line(self.run, question, [question_of(problem, question)])
        asked, answer = _audited(self.run, asked, question) or (asked, None)
        found = within_budget(problem, question, certificate=answer, on_step=on_step)
        return found, _note(self.run, asked)


def keep_audit(problem: Problem, found: Audit) -> str | None:
    """Note what an audit asked the labels of a run, and keep its answers for ``diversify``.

    Returns:
        A sentence about other questions to the same labels; None without any, and outside of a run.
    """
    run, stops = run_of(problem), [it for of in found.stops.values() for it in of]
    if run is None or not stops:
        return None
    first = replace(stops[0].question, part=stops[0].question.part_in(problem))
    line = _line(run, first, [question_of(problem, it.question) for it in stops])
    weights = [it.question.weight for it in stops]
    if len(set(weights)) > 1:
        line["weights"] = weights
    answers = [(_reached(it.question, it.certificate), it.certificate.to_dict()) for it in stops]
    run.keep_audit(line, [{"trade_off": trade_off, "certificate": certificate} for trade_off, certificate in answers])
    return _note(run, line)


def note_question(
    run: RunAudits, problem: Problem, question: BudgetQuestion, *, tested: bool = True, **others: Any
) -> str | None:
    """Note one question that the labels of a run answered.

    Args:
        run: The run.
        problem: What the question is about.
        question: The goal and its budgets, with the part whose labels answered.
        tested: Whether a test decided; else figures alone.
        **others: As in :func:`question_of`.

    Returns:
        A sentence about other questions to the same labels; None without any.
    """
    line = _line(run, question, [question_of(problem, question, **others)])
    return _note(run, line if tested else {**line, "confidence": None, "method": MEASURED})


def run_of(problem: Problem) -> RunAudits | None:
    """Return the run that a problem was read from; None without one."""
    return problem.store.run if isinstance(problem.store, RunPaths) else None


def _line(run: RunAudits, asked: BudgetQuestion, questions: Sequence[Mapping[str, Any]]) -> Line:
    about: Line = {"labels": run.labels_hash(asked.part or "test"), "model": run.fingerprint(), "part": asked.part}
    about |= {"confidence": asked.confidence, "method": asked.method}
    return {**about, "questions": [dict(it) for it in questions]}


def _audited(run: RunAudits, asked: Line, of: BudgetQuestion) -> tuple[Line, Certificate] | None:
    """Return what the last audit with this question asked, and its answer; None if there is no such audit."""
    (question,), same = asked["questions"], ("labels", "model", "part", "confidence", "method")
    for line, answers in reversed(run.audits()):
        if question in line["questions"] and all(line[name] == asked[name] for name in same):
            found = answers[line["questions"].index(question)]
            certificate = Certificate.from_dict(found["certificate"])
            if _reached(of, certificate) == found["trade_off"]:  # else of other steps
                return line, certificate
    return None


def _reached(question: BudgetQuestion, certificate: Certificate) -> float | None:
    return None if certificate.last is None else question.steps[certificate.last]


# -- the ledger -------------------------------------------------------------------------------------------------------


def _note(run: RunAudits, line: Line) -> str | None:
    """Add a line that is not known yet, and say what the labels answered before."""
    earlier = [it for it in _lines(run, line["labels"]) if it != line]
    event = {"time": round(time.time(), 3), "event": ASKED, **line}
    unnoted = [place for place in _places(run) if line not in _read(place) and not _appended(place, event)]
    if unnoted:
        log.warning("%s: cannot be written, so that later commands may not count this question", unnoted[0])
    return _about(earlier, line) if earlier else None


def _appended(place: Path, event: Mapping[str, Any]) -> bool:
    try:
        append_event(place, event)
    except (OSError, RecprismError):
        return False
    return True


def _places(run: RunAudits) -> tuple[Path, Path]:
    """Return the files that keep the questions: next to the runs, and in the run."""
    return run.path.resolve().parent / LEDGER, run.path / "events.jsonl"


def _lines(run: RunAudits, labels: str) -> list[Line]:
    """Return what labels were asked, each once."""
    found: list[Line] = []
    for line in (line for place in _places(run) for line in _read(place)):
        if line["labels"] == labels and line not in found:
            found.append(line)
    return found


def _read(place: Path) -> list[Line]:
    """Read the lines of a file; those that were edited or cut short are skipped."""
    try:
        events = read_events(place)
    except OSError:
        return []
    found = [it for it in events if it["event"] == ASKED and _is_whole(it)]
    return [{name: it for name, it in event.items() if name not in ("time", "event")} for event in found]


def _is_whole(line: Mapping[str, Any]) -> bool:
    sure = line.get("confidence")
    tested = sure is None if line.get("method") == MEASURED else isinstance(sure, float) and 0 < sure < 1
    return tested and isinstance(line.get("labels"), str) and isinstance(line.get("questions"), list)


def _together(lines: Sequence[Line]) -> Asked:
    valid = [it for it in lines if it["method"] not in (APPROXIMATE, MEASURED)]
    sure = 1 - sum(1 - it["confidence"] for it in valid)
    count, counted = (sum(len(it["questions"]) for it in of) for of in (lines, valid))
    return Asked(count, sure if valid and sure > LEAST else None, count - counted)


def _about(earlier: Sequence[Line], line: Line) -> str:
    count, all_of = sum(len(it["questions"]) for it in earlier), _together([*earlier, line])
    many = "another question" if count == 1 else f"{count} other questions"
    sure = "have no joint confidence"
    if all_of.confidence is not None:
        sure = f"hold with at least {100 * all_of.confidence:.3g} % confidence"
    answers = "all answers" if not all_of.approximate else f"all answers but {all_of.approximate} approximate ones"
    return f"The labels of the {line['part']} part answered {many} before; {answers} together {sure}."
