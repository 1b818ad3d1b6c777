"""Sentiment of a clause: vaderSentiment's word list, with its rules for negation and emphasis."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from recprism.cmb.text._packages import sentiment_analyzer


@cache
def opinion_words() -> frozenset[str]:
    """Return the words that praise or blame."""
    return frozenset(sentiment_analyzer().lexicon)


class ClauseSentiment:
    """Sentiment of clauses, from -1 to 1; 0 if nothing is praised or blamed.

    The aspects themselves are neutral: "distortion" and "noise" are not complaints about a pedal, and "gain" is not
    praise.
    """

    def __init__(self, aspects: Iterable[str]) -> None:
        self._analyzer = sentiment_analyzer()
        for word in {word for aspect in aspects for word in aspect.split()}:
            for form in (word, f"{word}s"):
                self._analyzer.lexicon.pop(form, None)

    def __call__(self, clause: str) -> float:
        return float(self._analyzer.polarity_scores(clause)["compound"])
