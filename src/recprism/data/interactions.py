"""Interactions of users with items, their order in time, and their cleaning before a split."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from recprism.common.ids import show
from recprism.data.sparse_rows import SparseRows
from recprism.errors import InputError

DuplicatePolicy = Literal["last", "first", "max", "error"]


@dataclass(frozen=True, eq=False)
class Interactions:
    """Parallel arrays with one entry per interaction.

    Attributes:
        user: ``(n,)`` int64 positions in ``user_ids``.
        item: ``(n,)`` int64 positions in ``item_ids``.
        user_ids: ``(n_users,)`` sorted distinct ids, int64 or str objects.
        item_ids: ``(n_items,)`` sorted distinct ids, int64 or str objects.
        rating: ``(n,)`` float32, or None.
        timestamp: ``(n,)`` int64 in any unit, or None.
    """

    user: NDArray[np.int64]
    item: NDArray[np.int64]
    user_ids: NDArray[Any]
    item_ids: NDArray[Any]
    rating: NDArray[np.float32] | None = None
    timestamp: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.user)

    @property
    def n_users(self) -> int:
        return len(self.user_ids)

    @property
    def n_items(self) -> int:
        return len(self.item_ids)

    def matrix(self) -> SparseRows:
        """Return users x items."""
        return SparseRows.from_pairs(self.user, self.item, (self.n_users, self.n_items))

    def take(self, rows: NDArray[Any]) -> Interactions:
        """Return the chosen interactions (a mask or positions); users and items keep their numbers."""
        return replace(
            self,
            user=self.user[rows],
            item=self.item[rows],
            rating=None if self.rating is None else self.rating[rows],
            timestamp=None if self.timestamp is None else self.timestamp[rows],
        )

    def compact(self) -> Interactions:
        """Drop users and items without interactions, and renumber the others in the order of their ids."""
        users, user = np.unique(self.user, return_inverse=True)
        items, item = np.unique(self.item, return_inverse=True)
        return replace(self, user=user, item=item, user_ids=self.user_ids[users], item_ids=self.item_ids[items])


def keep_positives(interactions: Interactions, threshold: float | None) -> Interactions:
    """Keep ratings of at least ``threshold``, the positives. None keeps every interaction."""
    if threshold is None:
        return interactions
    if interactions.rating is None:
        raise InputError(
            f"threshold {threshold:g} needs ratings and there are none; map a rating column or use no threshold"
        )
    return interactions.take(interactions.rating >= threshold)


def drop_duplicates(interactions: Interactions, policy: DuplicatePolicy = "last") -> Interactions:
    """Keep one interaction per user and item: the last or first in time (or row), or the highest rating."""
    keys = interactions.user * interactions.n_items + interactions.item
    rows = np.arange(len(interactions))
    clock = rows if interactions.timestamp is None else interactions.timestamp
    if policy == "max":
        if interactions.rating is None:
            raise InputError(
                "duplicates='max' keeps the highest rating and there are no ratings; use 'last' or 'first'"
            )
        preference: NDArray[Any] = interactions.rating
    else:
        preference = -clock if policy == "first" else clock
    # After sorting by pair, preference and row, the last of each run of equal pairs is the one to keep.
    tie = -rows if policy == "first" else rows
    order = np.lexsort((tie, preference, keys))
    is_last = np.append(keys[order][1:] != keys[order][:-1], True) if len(order) else np.empty(0, bool)
    if policy == "error" and not is_last.all():
        at = order[np.flatnonzero(~is_last)[0]]
        user, item = interactions.user_ids[interactions.user[at]], interactions.item_ids[interactions.item[at]]
        raise InputError(
            f"user {show(user)} and item {show(item)} occur together twice; choose duplicates='last', 'first' or 'max'"
        )
    return interactions.take(np.sort(order[is_last]))


def keep_frequent(interactions: Interactions, min_user: int, min_item: int) -> Interactions:
    """Drop users and items with too few interactions, repeatedly until nothing changes."""
    keep = np.ones(len(interactions), bool)
    while True:
        users = np.bincount(interactions.user[keep], minlength=interactions.n_users)
        items = np.bincount(interactions.item[keep], minlength=interactions.n_items)
        stay = keep & (users[interactions.user] >= min_user) & (items[interactions.item] >= min_item)
        if stay.sum() == keep.sum():
            return interactions.take(keep).compact()
        keep = stay


@dataclass(frozen=True, eq=False)
class HistoryOrder:
    """The place of every interaction in the history of its user.

    Attributes:
        pairs: All interactions, users x items.
        place: ``(len(pairs),)`` int32, in the order of ``pairs``; a user's oldest interaction has the lowest place.
    """

    pairs: SparseRows
    place: NDArray[np.int32]

    @classmethod
    def of(cls, *parts: Interactions) -> HistoryOrder | None:
        """Order the interactions of some parts, over the same users and items, by their times; None without times.

        Of equal times, the item with the smaller number is first. A pair that occurs again has its last place.
        """
        times = [part.timestamp for part in parts if part.timestamp is not None]
        if len(times) < len(parts):
            return None
        user, item = (np.concatenate([getattr(part, name) for part in parts]) for name in ("user", "item"))
        by_time = np.lexsort((item, np.concatenate(times), user))
        counts = np.bincount(user, minlength=parts[0].n_users)
        place = np.empty(len(user), np.int32)
        place[by_time] = np.arange(len(user)) - np.repeat(np.cumsum(counts) - counts, counts)
        pairs = SparseRows.from_pairs(user, item, (parts[0].n_users, parts[0].n_items))
        by_pair = np.lexsort((place, item, user))
        keys = user[by_pair] * pairs.n_cols + item[by_pair]
        return cls(pairs, place[by_pair][np.append(keys[1:] != keys[:-1], True)[: len(keys)]])

    def places_of(self, some: SparseRows) -> NDArray[np.int32]:
        """Return ``(len(some),)`` places of some of the interactions, users x items.

        Raises:
            InputError: One of them has no known place.
        """
        at = np.searchsorted(self.pairs.keys, some.keys)
        if not np.array_equal(self.pairs.keys[at.clip(max=max(len(self.pairs) - 1, 0))], some.keys):
            raise InputError("some interactions have no known time; give all of them when the split is made")
        return self.place[at]

    def by_time(self, some: SparseRows) -> NDArray[np.int64]:
        """Return ``(len(some),)`` numbers of the entries of ``some``: user by user, the oldest first."""
        return np.lexsort((self.places_of(some), some.row_of_entry))

    def latest(self, some: SparseRows, n: int) -> SparseRows:
        """Return the last n interactions of each user of ``some``, users x items."""
        from_the_end = np.repeat(np.cumsum(some.row_counts), some.row_counts) - np.arange(len(some))
        kept = self.by_time(some)[from_the_end <= n]
        return SparseRows.from_pairs(some.row_of_entry[kept], some.indices[kept], some.shape)

    def of_users(self, rows: NDArray[Any]) -> HistoryOrder:
        """Return the order of some users, given by their row numbers."""
        places = replace(self.pairs, indices=self.place)  # places travel like the entries they belong to
        return HistoryOrder(self.pairs.take_rows(rows), places.take_rows(rows).indices)
