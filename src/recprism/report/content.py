"""What a report says, as plain values: no arrays, no models, nothing that needs the run directory any more."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any


def known(value: float | None) -> float | None:
    """None for what is not a number: JSON has no word for that, and a page should say that it was not judged."""
    return None if value is None or not math.isfinite(value) else float(value)


@dataclass(frozen=True)
class FrontPoint:
    """Lists at one point of the path; loss of NDCG@10 and gain in the goal as shares of the base.

    certified_for: the smallest budget it is certified to keep; None for none of those tried
    """

    trade_off: float
    loss: float
    gain: float
    certified_for: float | None


@dataclass(frozen=True)
class Chosen:
    """The vectors that the run holds, as the front sees them; budget: what was certified, None if nothing was."""

    loss: float
    gain: float
    budget: float | None
    sentence: str


@dataclass(frozen=True)
class Change:
    """A metric, or a segment's metric, before and after; low and high are ends of the interval of ``difference``.

    before, after, difference: None where nobody could be judged
    popularity: what lists of the most popular items reach, where that is known
    """

    name: str
    words: str
    n: int
    before: float | None
    after: float | None
    difference: float | None
    relative: float | None
    low: float | None
    high: float | None
    p_value: float | None
    better: bool | None
    popularity: float | None = None


@dataclass(frozen=True)
class Control:
    """What a rival that knows nothing of factors reaches: gain in the objective, and as a share of the learned gain."""

    name: str
    gain: float | None
    share: float | None
    p_value: float | None


@dataclass(frozen=True)
class Feature:
    """A factor or a direction; taken_back: the share of the gain that erasing it alone undoes."""

    kind: str
    label: str
    name: str
    sentence: str
    size: float
    taken_back: float | None
    raises: tuple[str, ...] = ()
    lowers: tuple[str, ...] = ()


@dataclass(frozen=True)
class ErasedPoint:
    """What remains of the gain after ``features`` are erased; low, high: over draws."""

    by: str
    which: str
    features: int
    remaining: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Cell:
    """Of the heat map."""

    item: str
    factor: str
    value: float


@dataclass(frozen=True)
class Entry:
    """One place of a list; reason: why it came, sentence by sentence, empty for what stayed or went."""

    rank: int
    title: str
    year: str
    subtopics: tuple[str, ...]
    state: str
    reason: tuple[str, ...] = ()


@dataclass(frozen=True)
class User:
    """A telling user; changes: metric -> (before, after) of this list alone, None where it cannot be judged."""

    name: str
    reason: str
    changes: Mapping[str, tuple[float | None, float | None]]
    before: tuple[Entry, ...]
    after: tuple[Entry, ...]


@dataclass(frozen=True)
class Explained:
    """What may be said about factors.

    holds: whether the gain is beyond its controls; known_users: it is, but on the very users it was made for
    sentence: that in words; promotion: the share of plain promotion
    notes: what a reader must know about the controls, such as on whom they were judged
    gain: of the change itself, in the better direction, as its controls are told; None where there are none
    heat_side: whose vectors moved: what a cell of the heat map means depends on it
    """

    objective: str
    holds: bool
    checked: bool
    known_users: bool
    sentence: str
    notes: tuple[str, ...]
    promotion: str
    stability: str
    gain: float | None
    controls: tuple[Control, ...]
    features: tuple[Feature, ...]
    together: tuple[str, ...]
    erased: tuple[ErasedPoint, ...]
    erasure_sentences: tuple[str, ...]
    heat: tuple[Cell, ...]
    heat_side: str
    users: tuple[User, ...]


@dataclass(frozen=True)
class Content:
    """Everything on the page.

    goal: the metric whose gain is in question; cost: the one that pays; budget: the share of it that was allowed
    front: empty where there are no labels to tell the price
    facts: heading -> (name, value) pairs; a name may stand twice, such as two events of one second
    chosen, changes, payers, exposure, explained: of the perturbation; of the audit alone where there is none
    """

    title: str
    run: str
    part: str
    goal: str
    cost: str
    budget: float
    verdict: tuple[str, str, str]
    diversified: bool
    front: tuple[FrontPoint, ...]
    decided_on: str | None
    front_sentences: tuple[str, ...]
    chosen: Chosen | None
    changes: tuple[Change, ...]
    payers: tuple[Change, ...]
    exposure: tuple[Change, ...]
    payers_of: str
    explained: Explained | None
    notes: tuple[str, ...]
    facts: Mapping[str, Sequence[tuple[str, str]]]

    def to_dict(self) -> dict[str, Any]:
        """Plain values only, ready for JSON."""
        return asdict(self)
