"""Fields of the items of a request, such as the author, under their limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recprism.common.ids import Id, canonical_text
from recprism.errors import InputError
from recprism.rule.constraints.constraints import CATEGORY, Constraints
from recprism.rule.constraints.fields import FieldLimits
from recprism.serving._pool import Pool
from recprism.serving._prepared import PreparedRule

Fields = Mapping[str, Sequence[tuple[Any, ...]]]
"""Field -> the values of each candidate, in the order in which candidates were given."""


def field_limits(
    rule: PreparedRule, pool: Pool, pins: NDArray[np.int64], pinned: Mapping[int, Id], kept: Constraints, given: Fields
) -> FieldLimits | None:
    """Return the limits on fields with the values of the candidates; None if no field is limited.

    Args:
        rule: The rule.
        pool: The candidates that are not pinned.
        pins: Item numbers of the pins, (k,); -1 where nothing is pinned.
        pinned: Place from 0 -> id.
        kept: The constraints.
        given: The fields of the request; they count instead of those of the rule.

    Raises:
        InputError: If a limited field is neither in the request nor in the rule.
    """
    if not kept.limited_fields:
        return None
    values = [list[tuple[str, Any]]() for _ in range(len(pool))]
    held = {place: list[tuple[str, Any]]() for place in pinned}
    row_of = {canonical_text(one): row for row, one in enumerate(pool.given)} if pinned and given else {}
    for field in kept.limited_fields:
        if field in given:
            rows = given[field]
            own = [rows[at] for at in pool.order]
            of_pins = [rows[row_of[text]] if (text := canonical_text(it)) in row_of else () for it in pinned.values()]
        else:
            own = _stored(rule, field, pool.numbers.tolist(), given)
            of_pins = _stored(rule, field, pins[list(pinned)].tolist(), given)
        for found, some in ((values, own), (list(held.values()), of_pins)):
            for one, these in zip(found, some, strict=True):
                one += [(field, value) for value in these]
    whole = {place: tuple(some) for place, some in held.items()}
    return FieldLimits(kept.max_items, kept.spacing, [tuple(some) for some in values], whole)


def _stored(rule: PreparedRule, field: str, numbers: list[int], given: Fields) -> list[tuple[Any, ...]]:
    """Return the values of items that the rule stores."""
    if field == CATEGORY:
        return [tuple(rule.categories(number)) for number in numbers]
    if field not in rule.file.fields:
        known = ", ".join([CATEGORY, *rule.file.fields, *given])
        raise InputError(
            f"there is no field {field!r}; there are {known}; give fields={{{field!r}: one per candidate}}"
        )
    return [rule.field_values(field, number) for number in numbers]
