"""Checks of what a request gives."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recprism.data._ids import canonical_text
from recprism.errors import InputError
from recprism.serving.constraints import Id


def as_dials(dials: Mapping[str, Any] | None, names: Sequence[str]) -> dict[int, float]:
    """Return column -> share of the score range.

    Raises:
        InputError: If a category is unknown or a share is out of range.
    """
    found = {}
    for name, value in (dials or {}).items():
        if name not in names:
            raise InputError(f"there is no dial {name!r}; dials are {', '.join(names)}")
        if isinstance(value, str) or not -1 <= value <= 1:
            raise InputError(f"the dial {name} must be from -1 to 1, not {value!r}")
        found[names.index(name)] = float(value)
    return found


def list_length(k: int) -> int:
    """Return the length of a list, checked."""
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 0:
        raise InputError(f"k must be a whole number from 0 up, not {k!r}")
    return int(k)


def check_candidates(ids: list[Id], known: NDArray[np.int64], score: NDArray[np.float64]) -> None:
    """Raise an error if there are scores for other candidates, no numbers, or a candidate twice.

    Args:
        ids: Ids of the candidates.
        known: Item numbers of those that the export knows.
        score: Their scores, (n,).
    """
    if score.shape != (len(ids),):
        raise InputError(f"there are {len(ids)} candidates and scores of shape {score.shape}; give one score each")
    if len(ids) and not score.max() < np.inf:  # NaN is not smaller, too
        raise InputError("scores must be numbers, or -inf for an item that is not shown")
    repeats = len(set(known.tolist())) < len(known)
    if repeats or (len(known) < len(ids) and len(set(ids)) < len(ids)):
        texts = [canonical_text(one) for one in ids]
        twice = next(one for at, one in enumerate(texts) if one in texts[:at])
        raise InputError(f"candidate {twice!r} occurs more than once")


def as_ids(given: Iterable[Id] | None, name: str) -> list[Id]:
    """Return ids as a list; a single text is refused, because its letters would be taken for ids."""
    if given is None:
        return []
    if isinstance(given, str):
        raise InputError(f"{name} is a list of ids, not the text {given!r}")
    return given.tolist() if isinstance(given, np.ndarray) else list(given)
