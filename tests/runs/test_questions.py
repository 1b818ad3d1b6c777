"""The questions that the labels of a run have answered."""

from __future__ import annotations

from collections.abc import Callable

from recprism.runs.jobs._questions import ASKED, note_questions
from recprism.runs.run import Run


def test_other_questions_lower_the_confidence_of_all_answers(trained_run: Callable[[], Run]) -> None:
    run = trained_run()
    one, two = {"goal": "ilad"}, {"goal": "subtopic_coverage"}
    before = len([it for it in run.events() if it["event"] == ASKED])
    assert note_questions(run, "part 1", 0.95, [one]) is None
    assert note_questions(run, "part 1", 0.95, [one]) is None, "the same question has the same answer"
    assert note_questions(run, "part 2", 0.95, [one]) is None, "other labels"
    told = note_questions(run, "part 1", 0.9, [one, two])
    assert told == (
        "The labels of the part 1 part answered another question of this run before; all answers together hold with "
        "at least 85 % confidence."
    )
    again = note_questions(run, "part 1", 0.6, [two])
    assert again is not None
    assert again.endswith(
        "answered 3 other questions of this run before; all answers together have no joint confidence."
    )
    assert len([it for it in run.events() if it["event"] == ASKED]) == before + 4
