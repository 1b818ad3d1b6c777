"""Product aspects: frequent nouns and noun phrases that are not names and occur with opinions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

from recprism.cmb.text._clauses import Clause, Run
from recprism.cmb.text._generic import GENERIC
from recprism.common.shares import share
from recprism.errors import InputError

LONGEST = 3  # words of a noun phrase


@dataclass(frozen=True, kw_only=True)
class AspectSettings:
    """Which nouns are aspects."""

    top: int = 100
    """Number of aspects to keep: those with most mentions in clauses with an opinion word."""
    min_mentions: int = 5
    """Rarer phrases are left out."""
    max_share: float = 0.3
    """Phrases in a larger share of the reviews are their category (guitar, phone), and not features."""
    min_opinion: float = 0.35
    """Smallest share of mentions in clauses with an opinion word."""
    max_capitalised: float = 0.5
    """Largest share of mentions with a capital inside a sentence; above it, the phrase is a name."""
    min_in_place: float = 0.5
    """Smallest share of mentions that follow an article, an adjective or the like; below it, it is a verb."""
    min_cohesion: float = 0.1
    """Smallest number of mentions of a phrase, as a share of those of its rarest word."""

    def __post_init__(self) -> None:
        for name in ("top", "min_mentions"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise InputError(f"{name} is {value!r}; pass a whole number of at least 1")
        for name in ("max_share", "min_opinion", "max_capitalised", "min_in_place", "min_cohesion"):
            object.__setattr__(self, name, share(getattr(self, name), name))


@dataclass
class Evidence:
    """Counts of each noun and noun phrase, and of how it was used."""

    reviews: int = 0
    mentions: Counter[str] = field(default_factory=Counter)
    in_reviews: Counter[str] = field(default_factory=Counter)
    with_opinion: Counter[str] = field(default_factory=Counter)
    capitalised: Counter[str] = field(default_factory=Counter)
    in_place: Counter[str] = field(default_factory=Counter)

    def add_review(self, clauses: Sequence[Clause], opinion_words: Collection[str]) -> None:
        met = set()
        for clause in clauses:
            opinions = {word for word in clause.text.lower().split() if word in opinion_words}
            for run in clause.runs:
                for start, words in phrases(run):
                    phrase = " ".join(words)
                    met.add(phrase)
                    self.mentions[phrase] += 1
                    # The words of the phrase are not opinions about it: "gain" can be praise, or a knob.
                    self.with_opinion[phrase] += not opinions.issubset(words)
                    self.capitalised[phrase] += any(run.capitalised[start : start + len(words)])
                    self.in_place[phrase] += run.in_place or start > 0
        self.in_reviews.update(met)
        self.reviews += 1

    def choose(self, settings: AspectSettings) -> list[str]:
        """Return the aspects, those with most opinions first."""
        fit = [phrase for phrase in self.mentions if self._fits(phrase, settings)]
        return sorted(fit, key=lambda phrase: (-self.with_opinion[phrase], phrase))[: settings.top]

    def _fits(self, phrase: str, settings: AspectSettings) -> bool:
        words, mentions = phrase.split(), self.mentions[phrase]
        return (
            mentions >= settings.min_mentions
            and GENERIC.isdisjoint(words)
            and self.in_reviews[phrase] <= settings.max_share * self.reviews
            and self.with_opinion[phrase] >= settings.min_opinion * mentions
            and self.capitalised[phrase] <= settings.max_capitalised * mentions
            and self.in_place[phrase] >= settings.min_in_place * mentions
            and (len(words) == 1 or mentions >= settings.min_cohesion * min(self.mentions[word] for word in words))
        )


def phrases(run: Run) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield every phrase in a run of nouns, with the position of its first word."""
    for start in range(len(run.words)):
        for end in range(start + 1, min(start + LONGEST, len(run.words)) + 1):
            yield start, run.words[start:end]


def aspects_in(run: Run, aspects: Collection[str]) -> list[str]:
    """Return the aspects in a run: from the left, the longest phrase first; no word counts twice."""
    found, start = [], 0
    while start < len(run.words):
        for length in range(min(LONGEST, len(run.words) - start), 0, -1):
            phrase = " ".join(run.words[start : start + length])
            if phrase in aspects:
                found.append(phrase)
                start += length - 1
                break
        start += 1
    return found
