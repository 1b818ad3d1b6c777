"""The content of a report as plain values: no arrays, no models, no access to the run directory."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from recprism.result.summary import Kind, Sizes, Statement

if TYPE_CHECKING:
    from recprism.explain.explained import ExplanationInShort


def known(value: float | None) -> float | None:
    """Return None for NaN and infinity: JSON has no such values, and a page shows them as not judged."""
    return None if value is None or not math.isfinite(value) else float(value)


@dataclass(frozen=True)
class FrontPoint:
    """Lists at one point of the path.

    Attributes:
        trade_off: The trade-off of the point.
        loss: Loss of NDCG@10 as a share of the base.
        gain: Gain in the goal as a share of the base.
        certified_for: The smallest tested budget that the point is certified to keep; None if there is none.
    """

    trade_off: float
    loss: float
    gain: float
    certified_for: float | None


@dataclass(frozen=True)
class Chosen:
    """The vectors of the run as a point of the front.

    Attributes:
        loss: Loss of NDCG@10 as a share of the base.
        gain: Gain in the goal as a share of the base.
        budget: The certified budget; None if nothing was certified.
        sentence: The certificate in words.
    """

    loss: float
    gain: float
    budget: float | None
    sentence: str


@dataclass(frozen=True)
class Change:
    """A metric before and after, for all users or for one segment.

    Attributes:
        name: Name of the metric or segment.
        words: What it is.
        n: Number of users or items.
        before: Value before the change; None if no user could be judged.
        after: Value after the change; None if no user could be judged.
        difference: ``after`` minus ``before``.
        relative: The difference as a share of ``before``.
        low: Lower end of the interval of ``relative``; in an audit, of ``before``.
        high: Upper end of that interval.
        p_value: p-value of the difference.
        better: Whether the change is an improvement; None if neither direction is better.
        popularity: Value for lists of the most popular items, if known.
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
    """The result of one control: gain in the objective, and as a share of the learned gain."""

    name: str
    gain: float | None
    share: float | None
    p_value: float | None


@dataclass(frozen=True)
class Feature:
    """A factor; ``taken_back`` is the share of the gain that erasing it alone undoes."""

    label: str
    name: str
    sentence: str
    size: float
    taken_back: float | None


@dataclass(frozen=True)
class ErasedPoint:
    """What remains of the gain after ``features`` were erased; mean, minimum and maximum over the draws."""

    by: str
    which: str
    features: int
    remaining: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Cell:
    """One cell of the heat map."""

    item: str
    factor: str
    value: float


@dataclass(frozen=True)
class Entry:
    """One place of a list; ``reason`` says why a new item came, and is empty for other items."""

    rank: int
    title: str
    year: str
    categories: tuple[str, ...]
    state: str
    reason: tuple[str, ...] = ()


@dataclass(frozen=True)
class Dial:
    """A named weight of a user; ``share`` is of the user's score range, ``width`` of the widest bar on the page."""

    name: str
    share: float
    width: float


@dataclass(frozen=True)
class User:
    """An example user.

    Attributes:
        name: The user id.
        reason: Why the user was selected.
        changes: Metric -> (before, after) of this user's list; None if it cannot be judged.
        before: The list before.
        after: The list after.
        dials: Weights that serve the list, the largest first; empty if no dials serve it.
    """

    name: str
    reason: str
    changes: Mapping[str, tuple[float | None, float | None]]
    before: tuple[Entry, ...]
    after: tuple[Entry, ...]
    dials: tuple[Dial, ...] = ()


@dataclass(frozen=True)
class Explained:
    """The explanation of the change.

    Attributes:
        objective: The metric whose gain is explained.
        holds: Whether the gain is beyond its controls on held-out users.
        checked: Whether controls were run.
        known_users: Whether the gain is beyond its controls, but only on users it was made for.
        sentence: The verdict in words.
        notes: What a reader must know about the controls, such as their users.
        promotion: The share of plain promotion in words.
        stability: Agreement of the rankings of factors in words.
        gain: Gain of the change in the better direction; None without controls.
        controls: One entry per control.
        features: Factors, largest first.
        nulls: Name of each erasure without a meaning, and the share of the gain that it takes back.
        together: What erasing all of them takes back, in words.
        erased: Points of the erasure curves.
        erasure_sentences: One sentence per manner of erasure.
        heat: Cells of the heat map.
        heat_side: Whose vectors moved; it determines the meaning of a cell.
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
    nulls: tuple[tuple[str, float | None], ...] = ()


@dataclass(frozen=True)
class Headline:
    """What a reader sees first; the command line, the report and the studio show the same.

    Attributes:
        statements: In the order of the page.
        next_steps: What to do, commands between backticks.
    """

    statements: tuple[Statement, ...]
    next_steps: tuple[str, ...]

    def of(self, kind: Kind) -> tuple[Statement, ...]:
        """Return the statements of one kind."""
        return tuple(it for it in self.statements if it.kind == kind)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Content:
    """Everything on the page.

    Attributes:
        title: Data set and model.
        run: The run as an argument of a command.
        part: The part whose labels were used.
        goal: The metric of the goal.
        cost: The metric of accuracy.
        budget: The share of ``cost`` that may be lost.
        sizes: Of the data.
        headline: The first words of the page.
        diversified: Whether the run was diversified; the page is an audit if not.
        front: Points of the path; empty without labels.
        decided_on: The part whose labels decided the certificates.
        front_sentences: The front in words.
        chosen: The run's own vectors; None in an audit or without labels.
        changes: Metrics before and after; in an audit, now.
        payers: Accuracy by segment of users; ``p_value`` is of "it loses more than the other users", corrected.
        paying: Segments that pay more than the other users, beyond chance.
        payers_sentence: The same in words; empty without labels.
        exposure: Share of the places by segment of items.
        payers_of: The lists to which ``payers`` and ``exposure`` belong, in words.
        explained: The explanation of players' factors; None for other runs.
        rule: The explanation of a rule; None for other runs.
        users: Example users; empty in an audit.
        notes: Notes about the metrics.
        facts: Heading -> (name, value) pairs; names may repeat.
    """

    title: str
    run: str
    part: str
    goal: str
    cost: str
    budget: float
    sizes: Sizes
    headline: Headline
    diversified: bool
    front: tuple[FrontPoint, ...]
    decided_on: str | None
    front_sentences: tuple[str, ...]
    chosen: Chosen | None
    changes: tuple[Change, ...]
    payers: tuple[Change, ...]
    paying: tuple[str, ...]
    payers_sentence: str
    exposure: tuple[Change, ...]
    payers_of: str
    explained: Explained | None
    rule: ExplanationInShort | None
    users: tuple[User, ...]
    notes: tuple[str, ...]
    facts: Mapping[str, Sequence[tuple[str, str]]]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return asdict(self)
