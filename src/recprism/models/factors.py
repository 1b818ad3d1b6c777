"""A recommender as vectors: one per user and one per item, with their ids."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from recprism.common.checks import float32_array
from recprism.common.display import Displayed
from recprism.common.files import readable
from recprism.common.ids import as_id_array, id_positions, ids_at, show
from recprism.data.id_files import read_with_ids, write_with_ids
from recprism.data.sparse_rows import SparseRows
from recprism.errors import InputError
from recprism.ranking import topk

FloatArray = NDArray[np.float32]
INNER_PRODUCT, COSINE = "inner_product", "cosine"
BLOCK = 4096  # users whose scores are computed at once


@dataclass(frozen=True, eq=False, repr=False)
class Factors(Displayed):
    """A trained recommender: score(u, v) = user[u] . item[v] + item_bias[v].

    Attributes:
        user: User vectors, (n_users, d) float32.
        item: Item vectors, (n_items, d) float32.
        user_ids: The caller's ids, (n_users,) int64 or str objects, all distinct.
        item_ids: The same for items, (n_items,).
        item_bias: (n_items,) float32, or None. It is separate from the vectors because it is not perturbed.
        settings: How the vectors were made: model, hyper-parameters, epochs, seed.
    """

    user: FloatArray
    item: FloatArray
    user_ids: NDArray[Any]
    item_ids: NDArray[Any]
    item_bias: FloatArray | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the sizes and how the vectors were made, in plain values."""
        sizes = {"users": self.n_users, "items": self.n_items, "factors": self.dim}
        return {
            **sizes,
            "metric": self.metric,
            "item_bias": self.item_bias is not None,
            "settings": dict(self.settings),
        }

    @classmethod
    def from_arrays(
        cls,
        user: ArrayLike,
        item: ArrayLike,
        *,
        user_ids: ArrayLike | None = None,
        item_ids: ArrayLike | None = None,
        item_bias: ArrayLike | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> Factors:
        """Build factors from arrays.

        Args:
            user: User vectors, (n_users, d).
            item: Item vectors, (n_items, d).
            user_ids: Ids of the users, (n_users,); 0, 1, 2, ... by default.
            item_ids: Ids of the items, (n_items,); 0, 1, 2, ... by default.
            item_bias: Added to the score of each item, (n_items,).
            settings: How the vectors were made.

        Raises:
            InputError: The arrays do not fit together or hold values that are not finite.
        """
        users, items = _as_matrix(user, "user", user_ids), _as_matrix(item, "item", item_ids)
        if users.shape[1] != items.shape[1]:
            raise InputError(
                f"user vectors have {users.shape[1]} columns and item vectors {items.shape[1]}; they must agree"
            )
        bias = None if item_bias is None else _as_bias(item_bias, len(items))
        return cls(
            users,
            items,
            _ids_for(user_ids, len(users), "user"),
            _ids_for(item_ids, len(items), "item"),
            bias,
            dict(settings or {"model": "arrays"}),
        )

    @property
    def n_users(self) -> int:
        return len(self.user)

    @property
    def n_items(self) -> int:
        return len(self.item)

    @property
    def dim(self) -> int:
        return int(self.user.shape[1])

    @cached_property
    def search_vectors(self) -> tuple[FloatArray, FloatArray]:
        """User and item matrices whose dot product is the score; a bias becomes one more column."""
        if self.item_bias is None:
            return self.user, self.item
        ones = np.ones((self.n_users, 1), np.float32)
        return np.hstack([self.user, ones]), np.hstack([self.item, self.item_bias[:, None]])

    @property
    def metric(self) -> str:
        """What an index must search by, inner product or (after ``on_sphere``) cosine."""
        return str(self.settings.get("metric", INNER_PRODUCT))

    def on_sphere(self) -> Factors:
        """Return the recommender with item vectors of length 1, so that cosine and inner product rank alike.

        Later changes (players, compiled lists) keep the length at 1.

        Raises:
            InputError: The model has an item bias.
        """
        if self.item_bias is not None:
            raise InputError("an item bias has no place under cosine; train a model without one")
        length = np.linalg.norm(self.item, axis=1, keepdims=True)
        unit = (self.item / np.where(length > 0, length, 1)).astype(np.float32)
        return replace(self, item=unit, settings={**self.settings, "metric": COSINE})

    def with_vectors(self, *, user: FloatArray | None = None, item: FloatArray | None = None) -> Factors:
        """Return the recommender with other vectors, such as perturbed ones."""
        return replace(self, user=self.user if user is None else user, item=self.item if item is None else item)

    def of_users(self, rows: NDArray[Any]) -> Factors:
        """Return the recommender for some users, given by row numbers."""
        return replace(self, user=self.user[rows], user_ids=self.user_ids[rows])

    def of_items(self, rows: NDArray[Any]) -> Factors:
        """Return the recommender with some items, given by row numbers."""
        bias = None if self.item_bias is None else self.item_bias[rows]
        return replace(self, item=self.item[rows], item_ids=self.item_ids[rows], item_bias=bias)

    def rank(
        self, k: int, *, exclude: SparseRows | Any | None = None, users: NDArray[Any] | None = None
    ) -> tuple[NDArray[Any], FloatArray]:
        """Rank the best k items of each user.

        Args:
            k: Length of the lists.
            exclude: Items that cannot be recommended, such as seen items, (n_users, n_items).
            users: Row numbers of the users, (n,); all users by default.

        Returns:
            Item numbers and scores, each (n, k); the number is -1 where no item is left.
        """
        if users is not None:
            exclude = None if exclude is None else SparseRows.coerce(exclude).take_rows(users)
            return self.of_users(users).rank(k, exclude=exclude)
        return topk(*self.search_vectors, k, exclude=exclude)

    def recommend(
        self, users: Any, k: int = 10, *, exclude: SparseRows | Any | None = None
    ) -> tuple[NDArray[Any], FloatArray]:
        """Recommend items for one user id or several.

        Args:
            users: One id, or n ids.
            k: Length of the lists.
            exclude: Items that cannot be recommended, such as seen items, (n_users, n_items); one row per user of the
                model.

        Returns:
            Item ids and scores, each (k,) for one user or (n, k) for several. Where no item is left, the id is None
            (-1 for integer ids) and the score is -inf.

        Raises:
            InputError: A user id is unknown.
        """
        single = np.isscalar(users) or isinstance(users, str)
        wanted = as_id_array([users] if single else users, "user", distinct=False)
        numbers, scores = self.rank(k, exclude=exclude, users=id_positions(wanted, self.user_ids, "user"))
        ids = self.ids_of(numbers)
        return (ids[0], scores[0]) if single else (ids, scores)

    def scores_of(self, items: NDArray[np.int64]) -> FloatArray:
        """Return the scores of listed items, (n_users, k); -inf in empty places."""
        user, item = self.search_vectors
        scores = np.empty(items.shape, np.float32)
        for first in range(0, len(items), BLOCK):  # (n, k, d) of all users would not fit into memory
            rows = slice(first, first + BLOCK)
            scores[rows] = np.einsum("ud,ukd->uk", user[rows], item[items[rows].clip(0)])
        return np.where(items >= 0, scores, -np.inf).astype(np.float32)

    def ids_of(self, items: NDArray[Any]) -> NDArray[Any]:
        """Return the ids of item numbers, in the same shape; where the number is -1, None (-1 for integer ids)."""
        return ids_at(self.item_ids, items)

    def save(self, path: str | Path, *, made_from: Mapping[str, str] | None = None) -> None:
        """Write the vectors to ``path`` (safetensors), and ids and settings to the same name with .json.

        Args:
            path: The file of the vectors.
            made_from: Hashes of other files that the vectors belong to.
        """
        tensors = {"user": self.user, "item": self.item}
        if self.item_bias is not None:
            tensors["item_bias"] = self.item_bias
        write_with_ids(Path(path), tensors, self.user_ids, self.item_ids, self.settings, made_from)

    @classmethod
    def load(cls, path: str | Path, *, mapped: bool = False) -> Factors:
        """Read files that ``save`` wrote.

        Args:
            path: The file of the vectors.
            mapped: Leave the vectors in the file and read rows when they are used, for files larger than memory. They
                are then checked for NaN and infinity only when they are ranked. Changes are never written back.

        Raises:
            InputError: A file is missing, damaged, or does not belong to the other.
        """
        path = Path(path)
        advice = "factors are a .safetensors file and a .json file of the same name; train or export them again"
        with readable(path, "not factors written by recprism", advice):
            tensors, about = read_with_ids(path, advice, mapped_tensors(path) if mapped else None)
            user, item = tensors["user"], tensors["item"]
            user_ids, item_ids, settings = about["user_ids"], about["item_ids"], dict(about.get("settings", {}))
            bias = tensors.get("item_bias")
        if mapped:
            both = _ids_for(user_ids, len(user), "user"), _ids_for(item_ids, len(item), "item")
            return cls(user, item, *both, bias, settings)
        return cls.from_arrays(user, item, user_ids=user_ids, item_ids=item_ids, item_bias=bias, settings=settings)


def _as_matrix(values: ArrayLike, side: str, ids: ArrayLike | None) -> FloatArray:
    matrix = float32_array(values, f"{side} vectors")
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise InputError(f"{side} vectors have shape {matrix.shape}; a matrix of one row per {side} is needed")
    bad = np.flatnonzero(~np.isfinite(matrix).all(axis=1))
    if len(bad):
        row = int(bad[0])
        column = int(np.flatnonzero(~np.isfinite(matrix[row]))[0])
        named = np.asarray(ids, object).ravel()[row : row + 1] if ids is not None else ()
        whose = "".join(f" ({side} {show(it)})" for it in named)
        raise InputError(
            f"{side} vectors hold NaN or infinity, first in row {row}{whose}, column {column} ({len(bad)} rows in all);"
            " check the training"
        )
    return matrix


def mapped_tensors(path: Path) -> dict[str, Any]:
    """Map the arrays of a safetensors file into memory; rows are read when they are used.

    The format is 8 bytes (length of the header), the header (JSON: type, shape and offsets), then the numbers.
    """
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(size))
    header.pop("__metadata__", None)
    other = [name for name, about in header.items() if about["dtype"] != "F32"]
    if other:
        raise InputError(f"{path}: {other[0]} is {header[other[0]]['dtype']}; mapped vectors are float32 (F32)")
    return {
        name: np.memmap(path, "<f4", "c", 8 + size + about["data_offsets"][0], tuple(about["shape"]))
        for name, about in header.items()
    }


def _as_bias(values: ArrayLike, n_items: int) -> FloatArray:
    bias = float32_array(values, "the numbers of item_bias")
    if bias.shape != (n_items,) or not np.isfinite(bias).all():
        raise InputError(f"item_bias has shape {bias.shape}; {n_items} finite numbers are needed, one per item")
    return bias


def _ids_for(ids: ArrayLike | Sequence[Any] | None, size: int, side: str) -> NDArray[Any]:
    if ids is None:
        return np.arange(size)
    array = as_id_array(ids, side)
    if len(array) != size:
        raise InputError(f"{len(array)} {side} ids for {size} {side} vectors; one id per row is needed")
    return array
