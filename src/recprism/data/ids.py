"""Ids of any type: integers stay integers, everything else is text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recprism.errors import InputError


def as_id_array(ids: Any, side: str, *, distinct: bool = True) -> NDArray[Any]:
    """(n,) int64 or str objects; ``side`` names them in errors."""
    array = np.asarray(ids)
    if array.ndim != 1:
        raise InputError(f"{side} ids have shape {array.shape}; a plain list is needed")
    array = (
        array.astype(np.int64) if array.dtype.kind in "iu" else np.array([str(i) for i in array.tolist()], dtype=object)
    )
    if distinct:
        values, counts = np.unique(array, return_counts=True)
        if len(values) < len(array):
            raise InputError(f"{side} id {show(values[counts > 1][0])} stands more than once; ids must be distinct")
    return array


def show(value: Any) -> str:
    """An id as a person would write it in Python: 7, not np.int64(7)."""
    return repr(value.item() if isinstance(value, np.generic) else value)


def show_names(names: Iterable[str]) -> str:
    """Names of columns, one after another; one with line breaks and the like as Python writes it.

    >>> print(show_names(["user", "item\\n1"]))
    user, 'item\\n1'
    """
    return ", ".join(name if name.isprintable() else repr(name) for name in names)


def id_positions(wanted: NDArray[Any], known: NDArray[Any], side: str) -> NDArray[np.int64]:
    """Where each wanted id stands among the known ones; an unknown id is an error that names it."""
    if wanted.dtype.kind != known.dtype.kind:
        wanted = _cast_like(wanted, known, side)
    order = np.argsort(known, kind="stable")
    at = np.searchsorted(known, wanted, sorter=order)
    found = order[np.minimum(at, len(known) - 1)]
    unknown = np.flatnonzero(known[found] != wanted)
    if len(unknown):
        raise InputError(
            f"{side} id {show(wanted[unknown[0]])} is unknown ({len(unknown)} such ids); use ids of the training data"
        )
    return found


def _cast_like(wanted: NDArray[Any], known: NDArray[Any], side: str) -> NDArray[Any]:
    if known.dtype.kind == "O":
        return np.array([str(i) for i in wanted.tolist()], dtype=object)
    try:
        return np.array([int(i) for i in wanted.tolist()], np.int64)
    except ValueError:
        raise InputError(
            f"{side} id {show(wanted[0])} is text but the known ids are integers; use ids of the training data"
        ) from None
