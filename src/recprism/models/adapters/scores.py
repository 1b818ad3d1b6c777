"""Candidates with scores and no vectors: the output of a second-stage ranker, EASE, or a session model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from recprism.common.display import Displayed
from recprism.common.files import readable
from recprism.common.ids import as_id_array, id_positions, ids_at
from recprism.data.id_files import read_with_ids, write_with_ids
from recprism.data.sparse_rows import SparseRows
from recprism.errors import InputError

SCORES = "scores"
"""What a run calls its model if it has scores and no vectors."""


@dataclass(frozen=True, eq=False, repr=False)
class ScoredCandidates(Displayed):
    """The best items of each user with their scores. They can be ranked like :class:`recprism.Factors`.

    Attributes:
        items: Item numbers, (n_users, n) int64, the best first; -1 in empty places.
        scores: Scores of these items, (n_users, n) float32; -inf in empty places.
        user_ids: Ids of the users, (n_users,).
        item_ids: Ids of all items, (n_items,).
    """

    items: NDArray[np.int64]
    scores: NDArray[np.float32]
    user_ids: NDArray[Any]
    item_ids: NDArray[Any]

    @classmethod
    def from_pairs(
        cls, users: ArrayLike, items: ArrayLike, scores: ArrayLike, *, user_ids: ArrayLike, item_ids: ArrayLike
    ) -> ScoredCandidates:
        """Build candidates from a long table.

        Args:
            users: Id of the user of each row, (n_rows,).
            items: Id of the item, (n_rows,).
            scores: Score, (n_rows,).
            user_ids: Ids of all users in the order of the split, (n_users,). A user may have no rows.
            item_ids: Ids of all items in the order of the split, (n_items,).

        Raises:
            InputError: If an id is unknown, a pair occurs twice, or a score is not finite.
        """
        known_users, known_items = as_id_array(user_ids, "user"), as_id_array(item_ids, "item")
        user = id_positions(as_id_array(users, "user", distinct=False), known_users, "user")
        item = id_positions(as_id_array(items, "item", distinct=False), known_items, "item")
        return cls.from_numbers(user, item, scores, user_ids=known_users, item_ids=known_items)

    @classmethod
    def from_numbers(
        cls,
        users: NDArray[np.int64],
        items: NDArray[np.int64],
        scores: ArrayLike,
        *,
        user_ids: NDArray[Any],
        item_ids: NDArray[Any],
    ) -> ScoredCandidates:
        """Build candidates from row numbers of users and items; arguments and errors as in :meth:`from_pairs`."""
        score = np.asarray(scores, np.float32)
        if not np.isfinite(score).all():
            row = int(np.flatnonzero(~np.isfinite(score))[0])
            raise InputError(f"the score in row {row} is {score[row]}; scores must be finite numbers")
        pairs = users * len(item_ids) + items
        if len(np.unique(pairs)) != len(pairs):
            values, counts = np.unique(pairs, return_counts=True)
            twice = divmod(int(values[counts > 1][0]), len(item_ids))
            raise InputError(
                f"user {user_ids[twice[0]]} has item {item_ids[twice[1]]} twice among the scores; keep one row"
            )
        order = np.lexsort((-score, users))
        user, item, score = users[order], items[order], score[order]
        place = np.arange(len(user)) - np.searchsorted(user, user)
        shape = (len(user_ids), int(place.max(initial=-1)) + 1)
        numbers, best = np.full(shape, -1, np.int64), np.full(shape, -np.inf, np.float32)
        numbers[user, place], best[user, place] = item, score
        return cls(numbers, best, user_ids, item_ids)

    @property
    def n_users(self) -> int:
        return len(self.user_ids)

    @property
    def n_items(self) -> int:
        return len(self.item_ids)

    def of_users(self, rows: NDArray[Any]) -> ScoredCandidates:
        """Return the candidates of some users, given by row numbers."""
        return replace(self, items=self.items[rows], scores=self.scores[rows], user_ids=self.user_ids[rows])

    def rank(
        self, k: int, *, exclude: SparseRows | Any | None = None, users: NDArray[Any] | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Rank the best k candidates of each user; arguments and result are those of :meth:`recprism.Factors.rank`."""
        if users is not None:
            hidden = None if exclude is None else SparseRows.coerce(exclude).take_rows(users)
            return self.of_users(users).rank(k, exclude=hidden)
        items, scores = self.items, self.scores
        if exclude is not None:
            keys = np.arange(self.n_users)[:, None] * self.n_items + items
            gone = np.isin(keys, SparseRows.coerce(exclude).keys) | (items < 0)
            order = np.argsort(gone, axis=1, kind="stable")
            items = np.take_along_axis(np.where(gone, -1, items), order, 1)
            scores = np.take_along_axis(np.where(gone, np.float32(-np.inf), scores), order, 1)
        missing = ((0, 0), (0, max(k - items.shape[1], 0)))
        items, scores = items[:, :k], scores[:, :k]
        return np.pad(items, missing, constant_values=-1), np.pad(scores, missing, constant_values=-np.inf)

    def scores_of(self, items: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the scores of listed items, (n_users, k); -inf in empty places and for items without a score."""
        same = (items[:, :, None] == self.items[:, None, :]) & (items >= 0)[:, :, None]
        found = np.take_along_axis(self.scores, same.argmax(2), 1)
        return np.where(same.any(2), found, np.float32(-np.inf))

    def ids_of(self, items: NDArray[Any]) -> NDArray[Any]:
        """Return the ids of item numbers, in the same shape; where the number is -1, None (-1 for integer ids)."""
        return ids_at(self.item_ids, items)

    def save(self, path: str | Path, *, made_from: Mapping[str, str] | None = None) -> None:
        """Write the candidates to ``path`` (safetensors), and ids to the same name with .json.

        Args:
            path: The file of the candidates.
            made_from: Hashes of other files that the candidates belong to.
        """
        tensors: dict[str, NDArray[Any]] = {"items": self.items, "scores": self.scores}
        settings = {"model": SCORES, "sizes": {"user": self.n_users, "item": self.n_items}}
        write_with_ids(Path(path), tensors, self.user_ids, self.item_ids, settings, made_from)

    @classmethod
    def load(cls, path: str | Path) -> ScoredCandidates:
        """Read files that ``save`` wrote.

        Raises:
            InputError: A file is missing, damaged, or does not belong to the other.
        """
        path = Path(path)
        advice = "scores are a .safetensors file and a .json file of the same name; import them again"
        with readable(path, "not scores written by recprism", advice):
            tensors, about = read_with_ids(path, advice)
            items, scores = np.asarray(tensors["items"], np.int64), np.asarray(tensors["scores"], np.float32)
            user_ids, item_ids = (
                np.arange(size) if about[f"{side}_ids"] is None else as_id_array(about[f"{side}_ids"], side)
                for side, size in about["settings"]["sizes"].items()
            )
            rows, most = (len(user_ids), *items.shape[1:]), int(items.max(initial=-1))
            if items.shape != rows or scores.shape != rows or most >= len(item_ids):
                raise ValueError("items, scores and ids have different sizes")
        return cls(items, scores, user_ids, item_ids)

    def to_dict(self) -> dict[str, Any]:
        """Return the sizes in plain values."""
        return {"users": self.n_users, "items": self.n_items, "candidates": self.items.shape[1]}
