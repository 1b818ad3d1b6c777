"""Which questions the held-out labels of a run have answered: each certificate uses up some of the allowed error."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from recprism.runs._event_log import append_event, read_events
from recprism.runs.run import Run

ASKED = "labels asked"
LEAST = 0.5  # a joint confidence below this is not worth a number


def note_questions(run: Run, part: str | None, confidence: float, questions: Sequence[Mapping[str, Any]]) -> str | None:
    """Note what the labels of a part were asked in one command, and say what they were asked before.

    The same questions asked again have the same answers, and are not counted twice.

    Args:
        run: The run; its event log keeps the questions.
        part: The part whose labels answered.
        confidence: Of all answers together.
        questions: One per path and set of budgets: what makes it differ from others, in plain values.

    Returns:
        A sentence about earlier questions and the confidence of all answers together; None if there were none.
    """
    asked = {"part": part, "confidence": confidence, "questions": [dict(it) for it in questions]}
    log = run.path / "events.jsonl"
    known = [{name: it.get(name) for name in asked} for it in read_events(log) if _is_asked(it)]
    if asked not in known:
        append_event(log, {"time": round(time.time(), 3), "event": ASKED, **asked})
    return _about([it for it in known if it["part"] == part and it != asked], asked)


def _is_asked(event: Mapping[str, Any]) -> bool:
    """Whether an event notes questions; the file may have been edited."""
    whole = isinstance(event.get("questions"), list) and isinstance(event.get("confidence"), float)
    return event["event"] == ASKED and whole


def _about(earlier: Sequence[Mapping[str, Any]], asked: Mapping[str, Any]) -> str | None:
    if not earlier:
        return None
    count = sum(len(it["questions"]) for it in earlier)
    together = 1 - sum(1 - it["confidence"] for it in (*earlier, asked))
    sure = f"hold with at least {100 * together:.3g} % confidence" if together > LEAST else "have no joint confidence"
    many = "another question" if count == 1 else f"{count} other questions"
    return f"The labels of the {asked['part']} part answered {many} of this run before; all answers together {sure}."
