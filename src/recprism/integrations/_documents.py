"""What components for documents share: a diverse list of retrieved documents, with reasons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from recprism.common.ids import show
from recprism.errors import InputError
from recprism.rule.constraints.constraints import CATEGORY, Constraints
from recprism.rule.constraints.violations import Unmet
from recprism.serving.one_list import diversify_list

REASON = "recprism_reason"
"""The key of the metadata that holds the reason of a document."""


class Settings(Protocol):
    """What every component has; its class says what they mean."""

    k: int
    trade_off: float
    goal: str | dict[str, float] | None
    category_field: str | None
    constraints: dict[str, Any] | None
    reasons: bool


class Chosen(NamedTuple):
    """A list of documents.

    Attributes:
        rows: The position of each document among the retrieved ones, and its metadata, with the reason if reasons are
            wanted.
        unmet: What the list could not keep.
    """

    rows: list[tuple[int, dict[str, Any]]]
    unmet: tuple[Unmet, ...]


def choose(
    settings: Settings,
    ids: Sequence[str],
    scores: Sequence[float],
    metadata: Sequence[Mapping[str, Any]],
    embeddings: Any,
) -> Chosen:
    """Choose a list of documents.

    Args:
        settings: Those of the component.
        ids: Ids of the retrieved documents, (n,).
        scores: Their scores, (n,).
        metadata: Their metadata, (n,).
        embeddings: Their vectors, (n, d); None without.

    Raises:
        InputError: If a setting is invalid, no document has a named field, or a pinned document was not retrieved.
    """
    if not ids:
        return Chosen([], ())
    kept, field = Constraints.parse(settings.constraints, one_list=True), settings.category_field
    row_of = {one: row for row, one in enumerate(ids)}
    absent = next((it for it in kept.by_place.values() if it not in row_of), None)
    if absent is not None:
        raise InputError(f"document {show(absent)} is pinned and was not retrieved; retrieve it, or leave the pin out")
    found = diversify_list(
        ids,
        scores,
        categories=None if field is None else [*map(_names, _column(metadata, field))],
        embeddings=embeddings,
        k=settings.k,
        trade_off=settings.trade_off,
        goal=settings.goal,
        constraints=kept,
        fields={name: _column(metadata, name) for name in kept.limited_fields if name != CATEGORY},
        reasons=settings.reasons,
    )
    said = [{REASON: {**it.to_dict(), "sentence": it.sentence(str)}} for it in found.reasons] or [{}] * len(found.ids)
    rows = [row_of[str(one)] for one in found.ids]
    return Chosen([(row, {**metadata[row], **reason}) for row, reason in zip(rows, said, strict=True)], found.unmet)


def _column(metadata: Sequence[Mapping[str, Any]], field: str) -> list[Any]:
    found = [own.get(field) for own in metadata]
    if all(it is None for it in found):
        raise InputError(f"no document has {field!r} in its metadata; name another field, or write it there")
    return found


def _names(value: Any) -> Any:
    """Return categories as names; metadata may number them."""
    return str(value) if isinstance(value, int) else value
