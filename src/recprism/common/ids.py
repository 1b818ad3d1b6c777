"""One form for ids of any kind: whole numbers if every id is one, else text.

7, "7" and 7.0 are the same id, and 007 is another. Ids that are all whole numbers are kept as int64 and sort by number.
All others are kept as text and sort as text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from recprism.common.checks import require_unmasked
from recprism.errors import InputError

if TYPE_CHECKING:
    import polars as pl

Id = int | str
WHOLE_FLOAT = r"^(-?(?:0|[1-9][0-9]*))\.0+$"  # 7.0, as tables with missing values write whole numbers; not 007.0

MISSING = ("", "nan", "NaT", "<NA>")  # missing values of numpy and pandas as text


def as_id_array(ids: Any, side: str, *, distinct: bool = True) -> NDArray[Any]:
    """Return ``(n,)`` int64 or str objects; ``side`` names the ids in errors."""
    if _are_texts(ids):
        return _of_texts(ids, side, distinct=distinct)
    require_unmasked(ids, f"{side} ids")
    try:
        array = np.asarray(ids)
    except ValueError:  # lists of different lengths
        raise InputError(f"{side} ids are lists of different lengths; a plain list is needed") from None
    if array.ndim != 1:
        raise InputError(f"{side} ids have shape {array.shape}; a plain list is needed")
    if array.dtype.kind not in "OUSiuf":
        raise InputError(f"{side} ids are of the type {array.dtype}; ids are whole numbers or text")
    if array.dtype.kind in "OUSf":
        given = array.tolist()
        if _are_texts(given):
            return _of_texts(given, side, distinct=distinct)
        _require_none_missing({None if one is None else str(one) for one in given}, side)
    if _is_whole(array):
        array = array.astype(np.int64)
    else:
        array = np.array([canonical_text(one) for one in array.tolist()], dtype=object)
    if distinct:
        _require_distinct(array, side)
    return array


def _of_texts(ids: list[str], side: str, *, distinct: bool) -> NDArray[Any]:
    """Return ids that are all text; few passes over them, because one list of a request has no time for more."""
    known = set(ids)
    _require_none_missing(known, side)
    if "." in "".join(known):
        ids = list(map(canonical_text, ids))
        known = set(ids)
    array = np.array(ids, object)
    if distinct and len(known) < len(ids):
        _require_distinct(array, side)
    return array


def _require_none_missing(known: set[Any], side: str) -> None:
    if None in known or not known.isdisjoint(MISSING):
        raise InputError(f"{side} ids: one is missing (None, NaN or empty); every row needs an id")


def _require_distinct(ids: NDArray[Any], side: str) -> None:
    ordered = np.sort(ids)
    twice = ordered[1:][ordered[1:] == ordered[:-1]]
    if len(twice):
        raise InputError(f"{side} id {show(twice[0])} occurs more than once; ids must be distinct")


def _is_whole(array: NDArray[Any]) -> bool:
    if array.dtype.kind == "f" and len(array):
        return bool((np.isfinite(array) & (array == np.floor(array)) & (np.abs(array) < 2**53)).all())
    return array.dtype.kind == "i" or (array.dtype.kind == "u" and bool((array <= np.iinfo(np.int64).max).all()))


def _are_texts(ids: Any) -> bool:
    """Return whether ids are a list of text: an array of it need not be as wide as the longest one."""
    return isinstance(ids, list) and set(map(type, ids)) == {str}


def canonical_text(value: Any) -> str:
    """Return an id as text, the same for 7, "7", 7.0 and "7.0".

    >>> [canonical_text(value) for value in (7, "7", 7.0, "7.0", "007")]
    ['7', '7', '7', '7', '007']
    """
    text = str(value)
    return re.sub(WHOLE_FLOAT, r"\1", text) if "." in text else text


def canonical_ids(column: pl.Series) -> pl.Series:
    """Return a column of ids as Int64 if every id is a plain whole number (no 007, no +7), else as String."""
    import polars as pl

    if column.dtype.is_signed_integer() and column.dtype != pl.Int128:
        return column.cast(pl.Int64)
    text = column.cast(pl.String).str.replace(WHOLE_FLOAT, "${1}")
    as_integers = text.cast(pl.Int64, strict=False)
    canonical = as_integers.cast(pl.String) == text
    return as_integers if canonical.fill_null(False).all() else text


def id_series(ids: NDArray[Any], name: str = "") -> pl.Series:
    """Return an array of ids as a column, Int64 or String, even if it is empty."""
    import polars as pl

    if ids.dtype.kind == "i":
        return pl.Series(name, ids, dtype=pl.Int64)
    return pl.Series(name, ids.tolist(), dtype=pl.String)


def number_ids(ids: pl.Series) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the sorted distinct ids, and the position of each row among them."""
    import polars as pl

    distinct = ids.unique().sort()
    position = ids.rank("dense").cast(pl.Int64) - 1
    known = distinct.to_numpy() if distinct.dtype == pl.Int64 else np.array(distinct.to_list(), dtype=object)
    return known, position.to_numpy()


def known_positions(ids: pl.Series, known_ids: NDArray[Any]) -> pl.Series:
    """Return positions among ``known_ids``, null for unknown ids; one side may be numbers and the other text."""
    import polars as pl

    wanted, known = canonical_ids(ids), id_series(known_ids)
    if wanted.dtype != known.dtype:
        wanted, known = wanted.cast(pl.String), known.cast(pl.String)
    table = pl.DataFrame({"id": known, "position": np.arange(len(known_ids))})
    return pl.DataFrame({"id": wanted}).join(table, on="id", how="left", maintain_order="left")["position"]


def find_ids(wanted: NDArray[Any], known: NDArray[Any]) -> NDArray[np.int64]:
    """``(n,)`` position of each wanted id among the known ones, -1 if it is unknown."""
    if wanted.dtype.kind != "i" or known.dtype.kind != "i":
        number = {str(one): at for at, one in enumerate(known.tolist())}
        return np.array([number.get(str(one), -1) for one in wanted.tolist()], np.int64)
    if not len(known):
        return np.full(len(wanted), -1, np.int64)
    order = np.argsort(known, kind="stable")
    found = order[np.minimum(np.searchsorted(known, wanted, sorter=order), len(known) - 1)]
    return np.where(known[found] == wanted, found, -1)


def ids_at(known: NDArray[Any], numbers: NDArray[Any]) -> NDArray[Any]:
    """Ids of numbers, in the same shape; where the number is -1, None (-1 for integer ids)."""
    ids: NDArray[Any] = known[numbers]
    ids[numbers < 0] = -1 if known.dtype.kind == "i" else None
    return ids


def id_positions(wanted: NDArray[Any], known: NDArray[Any], side: str) -> NDArray[np.int64]:
    """``(n,)`` position of each wanted id among the known ones; an unknown id raises an error that names it."""
    found = find_ids(wanted, known)
    unknown = np.flatnonzero(found < 0)
    if len(unknown):
        others = f" ({len(unknown):,} such ids)" if len(unknown) > 1 else ""
        raise InputError(f"{side} id {show(wanted[unknown[0]])} is unknown{others}; use ids of the training data")
    return found


def show(value: Any) -> str:
    """Return an id as a person would write it in Python: 7, not np.int64(7)."""
    return repr(value.item() if isinstance(value, np.generic) else value)


def show_names(names: Iterable[str]) -> str:
    """Join names of columns; a name with unprintable characters is quoted.

    >>> print(show_names(["user", "item\\n1"]))
    user, 'item\\n1'
    """
    return ", ".join(name if name.isprintable() else repr(name) for name in names)
