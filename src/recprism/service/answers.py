"""The answers of the service, as the client returns them and as the OpenAPI description shows them."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, TypeVar

from recprism.common.ids import Id
from recprism.explain.reasons.reason import Reason
from recprism.rule.constraints.violations import Unmet


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A list.

    Attributes:
        request: Id of the request, as in the log.
        ids: Ids of the items, the first place first.
        scores: Their scores as given; None for a pinned item that is no candidate.
        base: The list by relevance alone under the same constraints.
        shown: Which list ``ids`` is: "rule", or "base" in shadow mode and for a fallback.
        trade_off: The trade-off that made the list.
        holdout: Whether the trade-off is that of the holdout.
        fallback: Why the list is by relevance alone: "disabled", "time limit", or "limit" if the rule's own list could
            lose more than its limit; None if the rule made it.
        unmet: Constraints that the candidates could not meet.
        unknown: Ids of candidates and pinned items that the export does not know.
        unknown_history: Ids of the history that the export does not know; empty if the rule does not look at histories.
        history_age: Age of the stored history that was used, in seconds; None if the request gave one, or none is used.
        as_tested: True if the list was made as the certified ones were; else how it differs.
        notes: Why the list could hardly differ from the base list: too few candidates, or none with another category.
            Also why there are no reasons, and in what items of earlier pages do not count.
        reasons: The reason of each item, if they were asked for.
    """

    request: str
    ids: tuple[Id, ...]
    scores: tuple[float | None, ...]
    base: tuple[Id, ...]
    shown: str
    trade_off: float
    holdout: bool
    fallback: str | None = None
    unmet: tuple[Unmet, ...] = ()
    unknown: tuple[Id, ...] = ()
    unknown_history: tuple[Id, ...] = ()
    history_age: float | None = None
    as_tested: bool | tuple[str, ...] = True
    notes: tuple[str, ...] = ()
    reasons: tuple[Reason, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ExplainedAnswer(Answer):
    """A list whose reasons are also in words.

    Attributes:
        sentences: Why each item is in the list, for engineers, with the price at which it enters.
        for_users: The same, for the user who sees the list.
    """

    sentences: tuple[str, ...] = ()
    for_users: tuple[str, ...] = ()


@dataclass(frozen=True)
class Moved:
    """An item whose place dials change.

    Attributes:
        item: Id of the item.
        before: Its place without dials, from 1.
        after: Its place with dials.
    """

    item: Id
    before: int
    after: int


@dataclass(frozen=True, kw_only=True)
class SteeredAnswer(Answer):
    """A list with dials, compared with the list without them.

    Attributes:
        without: Ids of the list without dials.
        came: Ids that dials bring in.
        left: Ids that dials remove.
        moved: Items of both lists that change places.
    """

    without: tuple[Id, ...] = ()
    came: tuple[Id, ...] = ()
    left: tuple[Id, ...] = ()
    moved: tuple[Moved, ...] = ()


Kind = TypeVar("Kind", bound=Answer)


def answer_of(kind: type[Kind], values: dict[str, Any]) -> Kind:
    """Return an answer from what the service sent; fields of later versions are left out."""
    found = _known(kind, values)
    found["unmet"] = tuple(Unmet(**_known(Unmet, it)) for it in values.get("unmet", ()))
    found["reasons"] = tuple(map(Reason.from_dict, values.get("reasons", ())))
    if issubclass(kind, SteeredAnswer):
        found["moved"] = tuple(Moved(**_known(Moved, it)) for it in values.get("moved", ()))
    return kind(**found)


def _known(kind: type[Any], values: dict[str, Any]) -> dict[str, Any]:
    """Return the values of the fields of a class, with tuples instead of lists."""
    known = {it.name for it in fields(kind)}
    return {name: tuple(it) if isinstance(it, list) else it for name, it in values.items() if name in known}
