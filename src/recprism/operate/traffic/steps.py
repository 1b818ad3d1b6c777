"""The next price of a governor, from the answers about its prices."""

from __future__ import annotations

from collections.abc import Sequence

CERTIFIED, UNDECIDED, BROKEN = "certified", "undecided", "broken"
"""The answers to a question, or to all questions about a price together."""


def together(answers: Sequence[str]) -> str:
    """Return the answer to all questions about one price: broken if one is, certified if all are."""
    return next((it for it in (BROKEN, UNDECIDED) if it in answers), CERTIFIED)


def next_place(current: int, answers: Sequence[str]) -> int:
    """Return the place of the next price.

    It goes down to the highest lower price that is not broken if the present one is broken. It goes up by one if the
    next one is certified. Else it stays.

    Args:
        current: Place of the present price; place 0 is the reference, which is never broken.
        answers: The answer about each price against the reference, the reference first.
    """
    if current and answers[current] == BROKEN:
        return max(at for at in range(current) if not at or answers[at] != BROKEN)
    if current + 1 < len(answers) and answers[current + 1] == CERTIFIED:
        return current + 1
    return current
