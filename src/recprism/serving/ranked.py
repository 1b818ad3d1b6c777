"""The answer to one request: the list, its reasons, and the list by relevance alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import isnan
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from recprism.common.ids import Id
from recprism.explain.reasons.compared import Compared
from recprism.explain.reasons.reason import Reason
from recprism.rule.constraints.violations import Unmet


@dataclass(frozen=True, eq=False)
class Ranked:
    """The list of one request.

    Attributes:
        ids: Ids of the items, the first place first.
        scores: Their scores as given, (k,); NaN for a pinned item that is no candidate.
        base: The list by relevance alone under the same constraints, for shadow logs.
        trade_off: The trade-off that made the list.
        fallback: Why the list is by relevance alone: "disabled", "time limit", or "limit" if the rule's own list could
            lose more than its limit; None if the rule made it.
        unmet: Constraints that the candidates could not meet.
        unknown: Ids of candidates and pinned items that the export does not know. They have no categories, and compete
            by score.
        unknown_history: Ids of the history that the export does not know; empty if the rule does not look at histories.
        user: Id of the user, if it was given.
        differences: How the request differs from what was tested; empty if it does not.
        history_age: Age of the stored history that was used, in seconds; None if the request gave one, or none is used.
        notes: Why the list could hardly differ from the base list: too few candidates, or none with another category.
            Also why there are no reasons, and in what items of earlier pages do not count.
    """

    ids: tuple[Id, ...]
    scores: NDArray[np.float64]
    base: tuple[Id, ...]
    trade_off: float
    fallback: str | None = None
    unmet: tuple[Unmet, ...] = ()
    unknown: tuple[Id, ...] = ()
    unknown_history: tuple[Id, ...] = ()
    user: Id | None = None
    history_age: float | None = None
    differences: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    _base_scores: Sequence[float] = field(default=(), repr=False)
    _span: float = field(default=0.0, repr=False)
    _compared: Callable[[], Compared] | None = field(default=None, repr=False)

    @property
    def as_tested(self) -> Literal[True] | tuple[str, ...]:
        """True if the list was made as the certified ones were; else how it differs. No single list is certified."""
        return self.differences or True

    def _plain_reasons(self) -> list[dict[str, Any]]:
        if self._compared is None:
            return []
        return self._compared().reasons(self.user, self.trade_off, self.ids, self.scores.tolist(), self.base)

    @cached_property
    def reasons(self) -> tuple[Reason, ...]:
        """The reason of each item, in the order of the list.

        There are none if they were not asked for, for a fallback, and for a goal that is a Python function.
        """
        return tuple(Reason.from_dict(it) for it in self._plain_reasons())

    @property
    def costs(self) -> tuple[float, ...]:
        """What each place costs in relevance, (k,); NaN for a pinned item without a score.

        It is the score of the base list in this place minus that of the list, as a share of the range of the
        candidates' scores.
        """
        pairs = zip(self._base_scores, self.scores.tolist(), strict=True)
        return tuple((base - own) / (self._span or 1.0) for base, own in pairs)

    @property
    def swaps(self) -> int:
        """How many items of the list the base list lacks."""
        return len(set(self.ids) - set(self.base))

    def to_dict(self, *, reasons: bool = True) -> dict[str, Any]:
        """Return plain values only, ready for JSON."""
        return {
            "ids": list(self.ids),
            "scores": [None if isnan(it) else it for it in self.scores.tolist()],
            "base": list(self.base),
            "trade_off": self.trade_off,
            "fallback": self.fallback,
            "unmet": [{"constraint": it.constraint, "places": it.places} for it in self.unmet],
            "unknown": list(self.unknown),
            "unknown_history": list(self.unknown_history),
            "history_age": self.history_age,
            "as_tested": list(self.differences) or True,
            "notes": list(self.notes),
            **({"reasons": self._plain_reasons()} if reasons else {}),
        }
