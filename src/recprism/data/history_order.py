"""The order in time of what users did."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recprism.data.incidence import Incidence
from recprism.data.interactions import Interactions
from recprism.errors import InputError


@dataclass(frozen=True, eq=False)
class HistoryOrder:
    """The place of every interaction in the history of its user.

    Attributes:
        pairs: All interactions, users x items.
        place: ``(len(pairs),)`` int32, in the order of ``pairs``; a user's oldest interaction has the lowest place.

    Stability: provisional.
    """

    pairs: Incidence
    place: NDArray[np.int32]

    @classmethod
    def of(cls, *parts: Interactions) -> HistoryOrder | None:
        """Order the interactions of some parts, over the same users and items, by their times; None without times.

        Of equal times, the item with the smaller number is first.
        """
        times = [part.timestamp for part in parts if part.timestamp is not None]
        if len(times) < len(parts):
            return None
        user, item = (np.concatenate([getattr(part, name) for part in parts]) for name in ("user", "item"))
        by_time = np.lexsort((item, np.concatenate(times), user))
        counts = np.bincount(user, minlength=parts[0].n_users)
        place = np.empty(len(user), np.int32)
        place[by_time] = np.arange(len(user)) - np.repeat(np.cumsum(counts) - counts, counts)
        pairs = Incidence.from_pairs(user, item, (parts[0].n_users, parts[0].n_items))
        return cls(pairs, place[np.lexsort((item, user))])

    def places_of(self, some: Incidence) -> NDArray[np.int32]:
        """Return ``(len(some),)`` places of some of the interactions, users x items.

        Raises:
            InputError: One of them has no known place.
        """
        at = np.searchsorted(self.pairs.keys, some.keys)
        if not np.array_equal(self.pairs.keys[at.clip(max=max(len(self.pairs) - 1, 0))], some.keys):
            raise InputError("some interactions have no known time; give all of them when the split is made")
        return self.place[at]

    def by_time(self, some: Incidence) -> NDArray[np.int64]:
        """Return ``(len(some),)`` numbers of the entries of ``some``: user by user, the oldest first."""
        return np.lexsort((self.places_of(some), some.row_of_entry))

    def latest(self, some: Incidence, n: int) -> Incidence:
        """Return the last n interactions of each user of ``some``, users x items."""
        from_the_end = np.repeat(np.cumsum(some.row_counts), some.row_counts) - np.arange(len(some))
        kept = self.by_time(some)[from_the_end <= n]
        return Incidence.from_pairs(some.row_of_entry[kept], some.indices[kept], some.shape)

    def of_users(self, rows: NDArray[Any]) -> HistoryOrder:
        """Return the order of some users, given by their row numbers."""
        places = replace(self.pairs, indices=self.place)  # places travel like the entries they belong to
        return HistoryOrder(self.pairs.take_rows(rows), places.take_rows(rows).indices)
