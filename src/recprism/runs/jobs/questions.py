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
from typing import Any, Literal

from recprism.budget.audit import Audit
from recprism.budget.certificate import APPROXIMATE, Certificate
from recprism.budget.path import Compile, deciding_part, weighs_history
from recprism.budget.scenario import Scenario
from recprism.budget.within import CertifiedRule, within_budget
from recprism.data.progress import ProgressCallback
from recprism.data.shares import CONFIDENCE, Share, share, shares
from recprism.data.split import Part
from recprism.errors import RecprismError
from recprism.metrics.registry import metric_name
from recprism.rerank.goal import Goal, Words
from recprism.runs._event_log import append_event, read_events
from recprism.runs._run_parts.paths import RunPaths
from recprism.runs._run_parts.results import RunResults, clusters_hash

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

    Stability: provisional.
    """

    questions: int
    confidence: float | None
    approximate: int = 0


def asked_of_labels(run: RunResults, part: str | None) -> Asked:
    """Return how many questions the labels of a part have answered, and the confidence of all answers together.

    Args:
        run: A run.
        part: The part whose labels answered; None is the test part.

    Stability: provisional.
    """
    return _together(_lines(run, run.labels_hash(part or "test")))


def joint_certificate(run: RunResults) -> Certificate | None:
    """Return the certificate of a result with the confidence of all questions that its labels have answered.

    An approximate certificate keeps its own words: it is part of no joint confidence. None without a certificate.

    Stability: provisional.
    """
    kept = run.certificate()
    return None if kept is None else together_with_others(run, Certificate.from_dict(kept["certificate"]))


def together_with_others(run: RunResults, own: Certificate) -> Certificate:
    """Return a certificate with the confidence of all questions that its labels have answered."""
    asked = asked_of_labels(run, own.part)
    valid = asked.questions - asked.approximate
    if own.method == APPROXIMATE or valid <= own.questions:
        return own
    return replace(own, confidence=asked.confidence or 0.0, questions=valid)


# -- asking -----------------------------------------------------------------------------------------------------------


def question_of(scenario: Scenario, goal: Words, budgets: Mapping[str, float], **others: Any) -> dict[str, Any]:
    """Return what makes a question differ from others on the same labels and model, in plain values.

    Args:
        scenario: Its constraints, its history window and the clusters of its users count by their content.
        goal: The goal of the path.
        budgets: Metric -> the share of it that may be lost.
        **others: What else changes the answer, such as other steps of the path.
    """
    goal = Goal.parse(goal)
    window = scenario.history_window if weighs_history(scenario, goal) else None
    others["clusters"] = clusters_hash(scenario.clusters)
    about = {"k": scenario.k, "history_window": window, "constraints": scenario.constraint_facts, **others}
    asked = {"goal": str(goal), "budgets": dict(budgets), **{name: it for name, it in about.items() if it}}
    plain: dict[str, Any] = json.loads(json.dumps(asked, sort_keys=True))
    return plain


def ask(
    scenario: Scenario,
    goal: str,
    budgets: Mapping[str, Share],
    *,
    confidence: Share = 0.95,
    method: Literal["betting", "t"] = "betting",
    certify_on: Part | None = None,
    through: Compile | None = None,
    compiled: Mapping[str, Any] | None = None,
    on_step: ProgressCallback | None = None,
) -> tuple[CertifiedRule, str | None]:
    """Find the rule within a budget. In a run, what its audit answered is taken over; else the labels are asked.

    Arguments are those of :func:`recprism.budget.within_budget`; ``compiled`` says in plain values what ``through``
    makes.

    Returns:
        The rule, and a sentence about other questions to the same labels; None without any, and outside of a run.
    """
    part, sure = (
        certify_on or deciding_part(scenario.split, scenario.part),
        share(confidence, "confidence", *CONFIDENCE),
    )
    run, asked, answer = run_of(scenario), None, None
    if run is not None:
        allowed = shares({metric_name(name, scenario.k): it for name, it in budgets.items()}, "budget", ends=False)
        asked = _line(run, part, sure, method, [question_of(scenario, goal, allowed, compiled=compiled)])
        asked, answer = _audited(run, asked) or (asked, None)
    found = within_budget(
        scenario,
        goal,
        budgets,
        confidence=sure,
        method=method,
        certify_on=part,
        through=through,
        certificate=answer,
        on_step=on_step,
    )
    return found, None if run is None or asked is None else _note(run, asked)


def keep_audit(scenario: Scenario, found: Audit, compiled: Mapping[str, Any] | None = None) -> str | None:
    """Note what an audit asked the labels of a run, and keep its answers for ``diversify``.

    Args:
        scenario: What was audited.
        found: The audit.
        compiled: How the lists of a form were made; None for those of the rule.

    Returns:
        A sentence about other questions to the same labels; None without any, and outside of a run.
    """
    run = run_of(scenario)
    answers = [(goal, it.certificate) for goal, of in found.stops.items() for it in of if it.certificate is not None]
    if run is None or not answers:
        return None
    first = answers[0][1]
    questions = [
        question_of(scenario, goal, {it.metric: it.budget for it in certificate.points[0].checks}, compiled=compiled)
        for goal, certificate in answers
    ]
    line = _line(run, first.part, first.confidence, first.method, questions)
    if len(set(found.weights)) > 1:
        line["weights"] = list(found.weights)
    run.keep_audit(line, [{"trade_off": _reached(*it), "certificate": it[1].to_dict()} for it in answers])
    return _note(run, line)


def note_question(
    run: RunResults, part: str | None, confidence: float | None, method: str, question: Mapping[str, Any]
) -> str | None:
    """Note one question that the labels of a run answered.

    Args:
        run: The run.
        part: The part whose labels answered.
        confidence: Of the answer; None without a test.
        method: The test, or "measured".
        question: From :func:`question_of`.

    Returns:
        A sentence about other questions to the same labels; None without any.
    """
    return _note(run, _line(run, part, confidence, method, [question]))


def run_of(scenario: Scenario) -> RunResults | None:
    """Return the run that a scenario was read from; None without one."""
    return scenario.store.run if isinstance(scenario.store, RunPaths) else None


def _line(
    run: RunResults, part: str | None, confidence: float | None, method: str, questions: Sequence[Mapping[str, Any]]
) -> Line:
    about = {"labels": run.labels_hash(part or "test"), "model": run.fingerprint(), "part": part}
    return {**about, "confidence": confidence, "method": method, "questions": [dict(it) for it in questions]}


def _audited(run: RunResults, asked: Line) -> tuple[Line, Certificate] | None:
    """Return what the last audit with this question asked, and its answer; None if there is no such audit."""
    (question,), same = asked["questions"], ("labels", "model", "part", "confidence", "method")
    for line, answers in reversed(run.audits()):
        if question in line["questions"] and all(line[name] == asked[name] for name in same):
            found = answers[line["questions"].index(question)]
            certificate = Certificate.from_dict(found["certificate"])
            if _reached(question["goal"], certificate) == found["trade_off"]:  # else of other steps
                return line, certificate
    return None


def _reached(goal: str, certificate: Certificate) -> float | None:
    return None if certificate.last is None else Goal.parse(goal).steps[certificate.last]


# -- the ledger -------------------------------------------------------------------------------------------------------


def _note(run: RunResults, line: Line) -> str | None:
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


def _places(run: RunResults) -> tuple[Path, Path]:
    """Return the files that keep the questions: next to the runs, and in the run."""
    return run.path.resolve().parent / LEDGER, run.path / "events.jsonl"


def _lines(run: RunResults, labels: str) -> list[Line]:
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
