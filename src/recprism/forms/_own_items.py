"""A rule from settings: what its file holds of items with categories or embeddings, in plain numpy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from recprism.common.checks import COUNT, POSITIVE
from recprism.common.ids import as_id_array, show
from recprism.common.shares import share
from recprism.errors import InputError
from recprism.rule.constraints.constraints import NONE, Constraints
from recprism.rule.constraints.fields import read_fields

COVERAGE, BY_CATEGORIES, BY_EMBEDDINGS = "subtopic_coverage", "ilad_subtopics", "ilad"
GOALS = {COVERAGE: "categories", BY_CATEGORIES: "categories", BY_EMBEDDINGS: "embeddings"}
"""Goals whose units follow from one list, and what the items must have."""


class Rows(NamedTuple):
    """Which item has which category, as in :class:`recprism.forms.RuleFile`."""

    names: tuple[str, ...]
    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]


def own_items(
    ids: Any,
    categories: Any,
    embeddings: ArrayLike | None,
    goal: str | Mapping[str, float] | None,
    trade_off: float | str,
    k: int,
    constraints: Constraints | Mapping[str, Any] | None,
    fields: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """Return the arguments of :class:`recprism.forms.RuleFile`; see :meth:`RuleFile.of`.

    Raises:
        InputError: If an argument is invalid.
    """
    COUNT.read("k", k)
    item_ids = as_id_array(ids, "item")
    given = {"categories": categories is not None, "embeddings": embeddings is not None}
    goals = _goals(goal, given)
    n = len(item_ids)
    rows = _rows(categories, n) if given["categories"] else Rows((), np.zeros(n + 1, np.int64), np.zeros(0, np.int32))
    vectors = None if embeddings is None else _vectors(embeddings, item_ids)
    sizes = rows.indptr[1:] - rows.indptr[:-1]
    if BY_EMBEDDINGS in goals and vectors is not None:
        unit, known = vectors
    elif BY_CATEGORIES in goals:
        unit, known = _by_categories(rows), sizes > 0
    else:
        unit, known = np.zeros((1, 1)), np.zeros(1, np.bool_)
    kept = Constraints.parse(constraints, one_list=True)
    return {
        "goals": goals,
        "units": {name: _unit(name, rows, k) for name in goals},
        "trade_off": float(share(trade_off, "trade_off")),
        "history_weight": 0.0,
        "k": int(k),
        "candidates": max(1, n),
        "constraints": {} if kept is NONE else kept.to_dict(),
        "item_ids": item_ids,
        **rows._asdict(),
        "shares": np.repeat(1 / np.maximum(sizes, 1), sizes) if len(rows.indices) else np.zeros(0),
        "unit": unit,
        "known": known,
        **stored_fields(read_fields(fields, n)),
    }


def stored_fields(fields: Mapping[str, list[tuple[str, ...]]]) -> dict[str, Any]:
    """Return names of fields, and the values of each item and field as numbers."""
    if not fields:
        return {}
    number: dict[str, int] = {}
    rows = [
        [number.setdefault(it, len(number)) for it in own]
        for each in zip(*fields.values(), strict=True)
        for own in each
    ]
    return {
        "fields": tuple(fields),
        "field_indptr": np.cumsum([0, *map(len, rows)]),
        "field_indices": np.array([it for own in rows for it in own], np.int32),
    }


def _goals(goal: str | Mapping[str, float] | None, given: Mapping[str, bool]) -> dict[str, float]:
    """Return the weights of the goals."""
    if not any(given.values()):
        raise InputError("give categories or embeddings: a list needs one of them to be diverse in")
    if goal is None:
        return {name: 1.0 for name in (COVERAGE, BY_EMBEDDINGS) if given[GOALS[name]]}
    weights = dict.fromkeys(goal.split("+"), 1.0) if isinstance(goal, str) else goal
    if not isinstance(weights, Mapping) or not weights:
        raise InputError(f"goal is a name, several joined by +, or {{name: weight}}, not {goal!r}")
    for name, weight in weights.items():
        if name not in GOALS:
            raise InputError(f"there is no goal {name!r} for items without users; goals are {', '.join(GOALS)}")
        if not given[GOALS[name]]:
            raise InputError(f"the goal {name} needs {GOALS[name]}; give them, or choose another goal")
        POSITIVE.read(f"the weight of goal {name!r}", weight)
    if {BY_CATEGORIES, BY_EMBEDDINGS} <= weights.keys():
        raise InputError(f"{BY_EMBEDDINGS} and {BY_CATEGORIES} are two ways to measure one goal; choose one of them")
    return {name: float(weight) for name, weight in weights.items()}


def _unit(goal: str, rows: Rows, k: int) -> float:
    """Return the value of one more category, or of one unit of distance of one pair."""
    if goal != COVERAGE:
        return 2 / max(k * (k - 1), 1)
    most = int(np.diff(rows.indptr).max(initial=0))
    return 1 / max(1, min(len(rows.names), k * most))


def _rows(categories: Any, n: int) -> Rows:
    """Read categories: names of each item, or a matrix."""
    if isinstance(categories, str | Mapping) or not isinstance(categories, Iterable):
        raise InputError("categories are one entry per item (a name, several names, or None), or a matrix of numbers")
    if isinstance(categories, np.ndarray) and categories.ndim == 2 and categories.dtype.kind in "biuf":
        return _of_matrix(categories, n)
    each = list(categories)
    if len(each) != n:
        raise InputError(f"there are {n} ids and categories of {len(each)} items; give one entry per item")
    number: dict[str, int] = {}
    indices: list[int] = []
    indptr = [0]
    for at, given in enumerate(each):
        own = (given,) if isinstance(given, str) else () if given is None else given
        if not isinstance(own, list | tuple | set | frozenset | np.ndarray):
            raise InputError(f"the categories of item {at + 1} are {given!r}; give a name, several names, or None")
        indices += sorted({number.setdefault(str(name), len(number)) for name in own})
        indptr.append(len(indices))
    return Rows(tuple(number), np.array(indptr, np.int64), np.array(indices, np.int32))


def _of_matrix(matrix: NDArray[Any], n: int) -> Rows:
    if len(matrix) != n:
        raise InputError(f"there are {n} ids and categories of {len(matrix)} items; give one row per item")
    if not np.isfinite(matrix).all():
        raise InputError("the matrix of categories has a value that is no number; use 0 for an item without a category")
    present = np.flatnonzero((matrix != 0).any(0))
    item, column = np.nonzero(matrix[:, present])
    indptr = np.append(0, np.cumsum(np.bincount(item, minlength=n)))
    return Rows(tuple(f"category {it}" for it in present.tolist()), indptr, column.astype(np.int32))


def _by_categories(rows: Rows) -> NDArray[np.float64]:
    """Return the categories of each item as a vector of length 1, (n, n_categories)."""
    sizes = np.diff(rows.indptr)
    unit = np.zeros((len(sizes), max(1, len(rows.names))))
    unit[np.repeat(np.arange(len(sizes)), sizes), rows.indices] = np.repeat(1 / np.sqrt(np.maximum(sizes, 1)), sizes)
    return unit


def _vectors(embeddings: ArrayLike, item_ids: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the embeddings, (n, d), and one divided by their lengths, (n,); float32 if they are, else float64.

    One product instead of (n, d) of them; kernels take the lengths into account where they copy the vectors.
    """
    n = len(item_ids)
    if n == 0:
        return np.zeros((0, 1)), np.zeros(0)
    try:
        given = np.asarray(embeddings)
    except ValueError:
        raise InputError("embeddings are lists of different lengths; every item needs a vector of one length") from None
    if given.ndim != 2 or len(given) != n or not given.shape[1] or given.dtype.kind not in "fiub":
        raise InputError(f"embeddings have shape {given.shape} of {given.dtype}; ({n}, d) numbers are needed")
    kind: Any = np.float32 if given.dtype in (np.float32, np.float16) else np.float64
    vectors = np.ascontiguousarray(given, kind)
    with np.errstate(all="ignore"):
        squares = np.vecdot(vectors, vectors)
    least = np.finfo(kind).tiny
    if not (squares.min() > least and squares.max() < np.inf):
        vectors = _rescaled(vectors, np.flatnonzero(~((squares > least) & (squares < np.inf))), item_ids)
        squares = np.vecdot(vectors, vectors)
    return vectors, 1 / np.sqrt(squares)


def _rescaled(vectors: NDArray[Any], rows: NDArray[np.int64], item_ids: NDArray[Any]) -> NDArray[Any]:
    """Divide rows, whose squares are too large or too small for their type, by their largest value.

    Raises:
        InputError: If one of them is zero or no number.
    """
    largest = np.abs(vectors[rows]).max(1)
    for row, most in zip(rows.tolist(), largest.tolist(), strict=True):
        if not 0 < most < np.inf:
            said = "is zero, so it has no direction" if most == 0 else "holds a value that is no number"
            raise InputError(
                f"the embedding of item {show(item_ids[row])} {said}; leave the item out, or give categories instead"
            )
    found = vectors.copy()
    found[rows] /= largest[:, None]
    return found
