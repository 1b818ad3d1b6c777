"""Checks of what a request gives."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from recprism.common.ids import Id, canonical_text
from recprism.errors import InputError

LARGEST_SCORE = 1e150
"""Differences and products of larger scores may not be numbers."""


def as_dials(dials: Mapping[str, Any] | None, names: Sequence[str]) -> dict[int, float]:
    """Return column -> share of the score range.

    Raises:
        InputError: If a category is unknown or a share is out of range.
    """
    if dials is not None and not isinstance(dials, Mapping):
        raise InputError(f"dials are {{category: share of the score range}}, not {dials!r}")
    found = {}
    for name, value in (dials or {}).items():
        if name not in names:
            raise InputError(f"there is no dial {name!r}; dials are {', '.join(names)}")
        if not isinstance(value, float | int | np.number) or not -1 <= value <= 1:
            raise InputError(f"the dial {name} must be from -1 to 1, not {value!r}")
        found[names.index(name)] = float(value)
    return found


def list_length(k: int) -> int:
    """Return the length of a list, checked."""
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 0:
        raise InputError(f"k must be a whole number from 0 up, not {k!r}")
    return int(k)


def as_scores(scores: ArrayLike) -> NDArray[np.float64]:
    """Return scores as an array; what is no number is refused."""
    try:
        return np.asarray(scores, np.float64)
    except (TypeError, ValueError):
        raise InputError("scores are not numbers; give one number for each candidate") from None


def check_candidates(
    ids: list[Id], numbers: NDArray[np.int64], unknown: Sequence[Id], score: NDArray[Any], *, distinct: bool = False
) -> bool:
    """Check candidates and scores, and return whether every score is finite: -inf is not shown.

    Args:
        ids: Ids of the candidates.
        numbers: Their item numbers, (n,); those of unknown items are the same.
        unknown: Ids that the export does not know.
        score: Scores of the candidates, (n,).
        distinct: Whether the ids are known to be distinct.

    Raises:
        InputError: If there are scores for other candidates, no usable numbers, or a candidate twice.
    """
    if score.shape != (len(ids),):
        raise InputError(f"there are {len(ids)} candidates and scores of shape {score.shape}; give one score each")
    high, low = (float(score.max()), float(score.min())) if len(ids) else (0.0, 0.0)
    finite = low > -math.inf
    if not finite:
        low = float(score.min(initial=0.0, where=score > -np.inf))
    if not high < math.inf:  # NaN is not smaller, too
        raise InputError("scores must be numbers, or -inf for an item that is not shown")
    if max(high, -low) > LARGEST_SCORE:
        raise InputError(f"scores must be from -{LARGEST_SCORE:g} to {LARGEST_SCORE:g}; scale them")
    if not distinct and _n_distinct(numbers, unknown) < len(ids):
        raise InputError(f"candidate {_first_repeat(ids, numbers, unknown)!r} occurs more than once")
    return finite


def _n_distinct(numbers: NDArray[np.int64], unknown: Sequence[Id]) -> int:
    found = len(set(numbers.tolist()))
    return found + len({canonical_text(one) for one in unknown}) - 1 if unknown else found


def _first_repeat(ids: list[Id], numbers: NDArray[np.int64], unknown: Sequence[Id]) -> Id:
    seen, new = set[int | str](), {canonical_text(one) for one in unknown}
    for one, number in zip(ids, numbers.tolist(), strict=True):
        key = canonical_text(one) if canonical_text(one) in new else number
        if key in seen:
            return one
        seen.add(key)
    raise AssertionError("no candidate occurs twice")


def as_ids(given: Iterable[Id] | None, name: str) -> list[Id]:
    """Return ids as a list; a single text is refused, because its letters would be taken for ids."""
    if given is None:
        return []
    if isinstance(given, str):
        raise InputError(f"{name} is a list of ids, not the text {given!r}")
    return given.tolist() if isinstance(given, np.ndarray) else list(given)


def check_time_limit(seconds: Any) -> None:
    """Refuse a time limit that is no number."""
    if isinstance(seconds, bool) or not isinstance(seconds, float | int | None):
        raise InputError(f"time_limit is a number of seconds, not {seconds!r}")


def known_options(request: Mapping[str, Any], options: Sequence[str]) -> Mapping[str, Any]:
    """Return the arguments of a request of a batch.

    Raises:
        InputError: If one is unknown, or candidates or scores are missing.
    """
    for name in request:
        if name not in options:
            raise InputError(f"there is no option {name!r}; there are {', '.join(options)}")
    for name in options[:2]:
        if name not in request:
            raise InputError(f"it has no {name}; candidates and scores are needed")
    return request
