"""What components for documents share: a diverse list of retrieved documents, with reasons."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from recprism.common.ids import show
from recprism.errors import InputError
from recprism.rule.constraints.constraints import CATEGORY, Constraints
from recprism.serving.one_list import diversify_list

REASON = "recprism_reason"
"""The key of the metadata that holds the reason of a document."""


def chosen(
    ids: Sequence[str],
    scores: Sequence[float],
    metadata: Sequence[Mapping[str, Any]],
    embeddings: Any,
    *,
    k: int,
    trade_off: float,
    goal: str | Mapping[str, float] | None,
    category_field: str | None,
    constraints: Mapping[str, Any] | None,
    reasons: bool,
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the position of each document of the list, and its metadata, with the reason if reasons are wanted.

    Args:
        ids: Ids of the retrieved documents, (n,).
        scores: Their scores, (n,).
        metadata: Their metadata, (n,).
        embeddings: Their vectors, (n, d); None without.
        k: Length of the list.
        trade_off: From 0, the order of the scores, to 1, diversity alone.
        goal: As in :func:`recprism.diversify_list`.
        category_field: The field of the metadata with the categories.
        constraints: As in :class:`recprism.rule.Constraints`; limited fields are fields of the metadata.
        reasons: Whether reasons are computed.

    Raises:
        InputError: If an option is invalid, no document has a named field, or a pinned document was not retrieved.
    """
    if not ids:
        return
    kept = Constraints.parse(constraints, one_list=True)
    row_of = {one: row for row, one in enumerate(ids)}
    absent = next((it for it in kept.by_place.values() if it not in row_of), None)
    if absent is not None:
        raise InputError(f"document {show(absent)} is pinned and was not retrieved; retrieve it, or leave the pin out")
    found = diversify_list(
        ids,
        scores,
        categories=None if category_field is None else [*map(_names, _column(metadata, category_field))],
        embeddings=embeddings,
        k=k,
        trade_off=trade_off,
        goal=goal,
        constraints=kept,
        fields={name: _column(metadata, name) for name in kept.limited_fields if name != CATEGORY},
        reasons=reasons,
    )
    said = [{REASON: {**it.to_dict(), "sentence": it.sentence(str)}} for it in found.reasons] or [{}] * len(found.ids)
    for one, reason in zip(found.ids, said, strict=True):
        row = row_of[str(one)]
        yield row, {**metadata[row], **reason}


def _column(metadata: Sequence[Mapping[str, Any]], field: str) -> list[Any]:
    found = [own.get(field) for own in metadata]
    if all(it is None for it in found):
        raise InputError(f"no document has {field!r} in its metadata; name another field, or write it there")
    return found


def _names(value: Any) -> Any:
    """Return categories as names; metadata may number them."""
    return str(value) if isinstance(value, int) else value
