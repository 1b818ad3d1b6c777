"""What lists are evaluated against: held-out items, categories, vectors and popularity, on one device."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import copy
from functools import cached_property
from typing import Any, TypeVar, cast

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from recprism.common.checks import LARGEST, float32_array, require_real
from recprism.data.categories import Categories
from recprism.data.sparse_rows import SparseRows
from recprism.data.split import Part, Split
from recprism.errors import InputError
from recprism.metrics.tables import CategoryMatrix, Rows, Vectors, as_tensor

T = TypeVar("T")

HOW_TO_GIVE = {
    "relevant": "the held-out items: Context(relevant=<users x items>)",
    "categories": "what the items are about: Context(categories=<Categories, or items x categories>)",
    "vectors": "item vectors to take distances between: Context(vectors=<n_items x d>)",
    "attributes": "item attribute vectors: Context(attributes=<n_items x d>)",
    "popularity": "training interactions per item: Context(train=<users x items>) or Context(popularity=<counts>)",
    "history": "what each user's training items are about: Context(train=<users x items>, categories=...)",
    "user_categories": "the categories of users' own interactions: Context(train=..., relevant=..., categories=...)",
}


class Context:
    """What lists are evaluated against; one context serves any number of lists.

    Every argument is optional. A metric that needs a missing one raises an error that says how to give it.

    Args:
        relevant: Users x items, the held-out items that a list should find (SparseRows, SciPy sparse or dense).
        train: Users x items, what the model was trained on. It gives ``popularity`` and, with ``categories``,
            ``history`` and ``user_categories``.
        categories: A Categories, or items x categories, whose values other than 0 are weights.
        vectors: ``(n_items, d)`` vectors for distances; only directions matter.
        attributes: ``(n_items, d)`` attribute vectors for distances; only directions matter.
        popularity: ``(n_items,)`` training interactions per item.
        user_categories: ``(n_users, n_categories)`` bool, the categories that count for a user in gated metrics.
        n_items: Number of items; needed only if no other argument says it.
        device: Device of the tables.

    Raises:
        InputError: The arguments do not fit together.

    >>> context = Context(relevant=[[1, 0, 1]], categories=[[1, 0], [0, 1], [1, 1]])
    >>> context.n_items, context.has("categories"), context.has("vectors")
    (3, True, False)
    """

    n_items: int
    device: torch.device

    def __init__(
        self,
        *,
        relevant: Any = None,
        train: Any = None,
        categories: Any = None,
        vectors: ArrayLike | Tensor | None = None,
        attributes: ArrayLike | Tensor | None = None,
        popularity: ArrayLike | Tensor | None = None,
        user_categories: ArrayLike | Tensor | None = None,
        n_items: int | None = None,
        device: str | torch.device = "cpu",
    ) -> None:
        relevant, train = _sparse_rows(relevant, "relevant"), _sparse_rows(train, "train")
        categories = _as_categories(categories)
        self.device = torch.device(device)
        vectors, attributes, popularity, user_categories = (
            None if array is None else _with_rows(as_tensor(array, self.device, name), name)
            for name, array in {
                "vectors": vectors,
                "attributes": attributes,
                "numbers of popularity": popularity,
                "user_categories": user_categories,
            }.items()
        )
        self.n_items = _agreed_size(
            n_items=n_items,
            relevant=None if relevant is None else relevant.n_cols,
            train=None if train is None else train.n_cols,
            categories=None if categories is None else categories.items.n_rows,
            vectors=None if vectors is None else len(vectors),
            attributes=None if attributes is None else len(attributes),
            popularity=None if popularity is None else len(popularity),
        )
        if popularity is None and train is not None:
            popularity = as_tensor(train.col_counts, self.device)
        if user_categories is None and train is not None and categories is not None:
            interactions = train if relevant is None else train.union(relevant)
            user_categories = as_tensor(categories_of_users(interactions, categories), self.device)
        self._kept: dict[Any, Any] = {}
        self._train = train
        self._relevant = None if relevant is None else Rows.of(relevant, self.device)
        self._categories = None if categories is None else CategoryMatrix.of(categories, self.device)
        self._vectors = self._as_vectors(vectors, "vectors")
        self._attributes = self._as_vectors(attributes, "attributes")
        self._popularity = None if popularity is None else self._as_counts(popularity)
        self._user_categories = None if user_categories is None else self._as_gate(user_categories)

    @classmethod
    def from_split(cls, split: Split, part: Part = "test", **more: Any) -> Context:
        """Return the context to evaluate on a part of a split.

        Popularity is counted on the training part. ``user_categories`` come from all parts up to and including
        ``part``, so that a choice on validation does not use the test part.

        Args:
            split: The split.
            part: The part with the held-out items.
            **more: Other arguments of the constructor: categories, vectors, attributes, device.
        """
        relevant = split.part(part)
        categories = _as_categories(more.pop("categories", None))
        if categories is not None and "user_categories" not in more:
            more["user_categories"] = categories_of_users(split.seen_before(part).union(relevant), categories)
        return cls(relevant=relevant, train=split.train, categories=categories, **more)

    @property
    def is_unlabelled(self) -> bool:
        """Whether held-out items are given but no user has any."""
        return self._relevant is not None and not len(self._relevant.indices)

    def has(self, need: str) -> bool:
        return need not in self.missing((need,))

    def missing(self, needs: Iterable[str]) -> tuple[str, ...]:
        """Return those of ``needs`` (keys of HOW_TO_GIVE) that this context lacks."""
        unknown = [need for need in needs if need not in HOW_TO_GIVE]
        if unknown:
            raise InputError(f"a context never holds {unknown[0]!r}; a metric can need {', '.join(HOW_TO_GIVE)}")
        return tuple(need for need in needs if getattr(self, _FIELD[need]) is None)

    @property
    def relevant(self) -> Rows:
        return _present(self._relevant, "relevant")

    @property
    def categories(self) -> CategoryMatrix:
        return _present(self._categories, "categories")

    @property
    def vectors(self) -> Vectors:
        return _present(self._vectors, "vectors")

    @property
    def attributes(self) -> Vectors:
        return _present(self._attributes, "attributes")

    @property
    def popularity(self) -> Tensor:
        """``(n_items,)`` float64 training interactions per item."""
        return _present(self._popularity, "popularity")

    @property
    def user_categories(self) -> Tensor:
        """``(n_users, n_categories)`` bool."""
        return _present(self._user_categories, "user_categories")

    @cached_property
    def history(self) -> Tensor:
        """``(n_users, n_categories)`` float64: distribution of the user's training items over categories; 0 if none."""
        train = _present(self._history, "history")
        if self.n_users is not None and train.n_rows != self.n_users:
            raise InputError(f"train has {train.n_rows} users and the context {self.n_users}; one row per user")
        return self.categories.spread_of(Rows.of(train, self.device))

    @property
    def _history(self) -> SparseRows | None:
        return None if self._categories is None else self._train

    @cached_property
    def category_vectors(self) -> Vectors:
        """Items as their category weights."""
        return Vectors.of(self.categories.weight_matrix)

    @property
    def n_users(self) -> int | None:
        """Number of users, or None if the context has nothing per user."""
        if self._relevant is not None:
            return self._relevant.n_rows
        return None if self._user_categories is None else len(self._user_categories)

    def with_vectors(self, vectors: ArrayLike | Tensor) -> Context:
        """Return the same context with other item vectors, such as perturbed ones; the rest is shared."""
        changed = copy(self)
        changed._vectors = self._as_vectors(vectors, "vectors")
        return changed

    def of_users(self, rows: NDArray[np.int64]) -> Context:
        """Return the same context for some users, given by their row numbers; tables of items are shared."""
        some = copy(self)
        some._kept = {}
        some.__dict__.pop("history", None)  # it belongs to all users
        some._train = None if self._train is None else self._train.take_rows(rows)
        at = torch.from_numpy(rows).to(self.device)
        some._relevant = None if self._relevant is None else self._relevant.take(at)
        some._user_categories = None if self._user_categories is None else self._user_categories[at]
        return some

    def keep(self, key: Any, compute: Callable[[], T]) -> T:
        """Return ``compute()`` and keep the result; for what depends on the context and not on its vectors."""
        if key not in self._kept:
            self._kept[key] = compute()
        return cast(T, self._kept[key])

    def _as_vectors(self, vectors: ArrayLike | Tensor | None, name: str) -> Vectors | None:
        if vectors is None:
            return None
        matrix = as_tensor(vectors, self.device, name)
        if matrix.ndim != 2 or len(matrix) != self.n_items:
            raise InputError(
                f"{name} must have shape (n_items, d) with n_items = {self.n_items}, got {tuple(matrix.shape)}"
            )
        return Vectors.of(matrix)

    def _as_counts(self, popularity: ArrayLike | Tensor) -> Tensor:
        counts = as_tensor(popularity, self.device).to(torch.float64)
        if counts.ndim != 1 or not bool(((counts >= 0) & (counts < LARGEST)).all()):
            raise InputError(
                "popularity must be (n_items,) finite counts of training interactions, none below 0; "
                f"got shape {tuple(counts.shape)}, smallest {float(counts.min())}, largest {float(counts.max())}"
            )
        return counts

    def _as_gate(self, user_categories: ArrayLike | Tensor) -> Tensor:
        amounts = as_tensor(user_categories, self.device)
        if not bool(((amounts >= 0) & (amounts < torch.inf)).all()):
            raise InputError("user_categories hold NaN, infinity or a negative number; pass bool, or numbers from 0 up")
        gate = amounts.bool()
        if gate.ndim != 2 or gate.shape[1] != self.categories.n_cols:
            raise InputError(
                f"user_categories must have one column per category, {self.categories.n_cols}; got shape "
                f"{tuple(gate.shape)}"
            )
        if self._relevant is not None and len(gate) != self._relevant.n_rows:
            raise InputError(f"user_categories has {len(gate)} rows and relevant {self._relevant.n_rows}; one per user")
        return gate


_FIELD = {name: f"_{name}" for name in HOW_TO_GIVE}


def categories_of_users(interactions: SparseRows, categories: Categories) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return which categories occur among each user's items.

    Args:
        interactions: Users x items.
        categories: Categories of the items.

    Returns:
        ``(n_users, n_categories)`` bool.
    """
    items = categories.items
    of_entry = items.take_rows(interactions.indices)  # one row per interaction
    found = np.zeros((interactions.n_rows, items.n_cols), dtype=bool)
    found[interactions.row_of_entry[of_entry.row_of_entry], of_entry.indices] = True
    return found


def _sparse_rows(matrix: Any, name: str) -> SparseRows | None:
    return None if matrix is None else SparseRows.coerce(matrix, f"the numbers of {name}")


def _with_rows(array: Tensor, name: str) -> Tensor:
    if not array.ndim:
        raise InputError(f"{name} are one number; pass an array with one row per item or user")
    return array


def _as_categories(matrix: Any) -> Categories | None:
    """Convert a SparseRows or items x categories weights, dense or sparse; None stays None."""
    if matrix is None or isinstance(matrix, Categories):
        return matrix or None
    if isinstance(matrix, SparseRows):
        return Categories(tuple(str(s) for s in range(matrix.n_cols)), matrix)
    name = "weights of categories"
    require_real(matrix, name)
    weights = float32_array(matrix.toarray() if hasattr(matrix, "toarray") else matrix, name)
    items = SparseRows.coerce(weights, name)
    return Categories(tuple(str(s) for s in range(items.n_cols)), items, weights[items.row_of_entry, items.indices])


def _agreed_size(**sizes: int | None) -> int:
    given = {name: size for name, size in sizes.items() if size is not None}
    if not given:
        raise InputError("an empty context cannot judge anything; give at least relevant=, categories= or n_items=")
    if len(set(given.values())) > 1:
        told = ", ".join(f"{name}: {size}" for name, size in given.items())
        raise InputError(f"the parts of a context disagree on the number of items ({told}); index all of them alike")
    return next(iter(given.values()))


def _present(value: T | None, need: str) -> T:
    if value is None:
        raise InputError(f"needed but not given: {HOW_TO_GIVE[need]}")
    return value
