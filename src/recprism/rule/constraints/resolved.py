"""Constraints in numbers of items and columns of categories."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from recprism.errors import InputError
from recprism.rule.constraints.fields import ItemFields
from recprism.rule.constraints.repair import ROUNDING, Limits, in_the_places_left, limits_of, repair, whole_places
from recprism.rule.constraints.violations import Unmet

if TYPE_CHECKING:
    from recprism.data.sparse_rows import SparseRows

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Having = Callable[[int], Bools]
"""Column -> whether each item has the category, (n_items + 1,); the last entry, of no item, is False."""


@dataclass(frozen=True, eq=False)
class ShareLimits:
    """Limits on the categories of lists.

    Attributes:
        low: Column -> smallest share.
        high: Column -> largest share.
        least: Column -> smallest number of items.
        names: Names of all categories; None if they have none.
        having: Which items have a category.
    """

    low: Mapping[int, float] = field(default_factory=dict)
    high: Mapping[int, float] = field(default_factory=dict)
    least: Mapping[int, int] = field(default_factory=dict)
    names: Sequence[str] | None = None
    having: Having | None = None

    def of(self, having: Having) -> ShareLimits:
        """Return the same limits on items whose categories are known."""
        return replace(self, having=having)

    def __bool__(self) -> bool:
        return bool(self.columns)

    @property
    def columns(self) -> list[int]:
        """The limited columns in order."""
        return sorted(self.low.keys() | self.high.keys() | self.least.keys())

    def has(self, numbers: Ints | slice) -> Bools:
        """Return whether items have the limited categories, (..., m)."""
        assert self.having is not None
        return np.stack([self.having(column)[numbers] for column in self.columns], -1)

    def limits(self, items: Ints, inside: Bools, pins: Ints) -> Limits:
        """Return the limits in numbers of items; the arguments are those of :func:`limits_of`.

        Raises:
            InputError: If the smallest shares add up to more than the items' numbers of categories allow.
        """
        has = self.has(slice(None)) if self else np.zeros((1, 0), np.bool_)
        wanted = [at for at, column in enumerate(self.columns) if self.low.get(column, 0) > 0]
        most, total = int(has[:, wanted].sum(1).max(initial=0)), sum(self.low.values())
        if wanted and most > 0 and total > most + ROUNDING:
            raise InputError(
                f"the smallest shares add up to {total:g} and no item has more than {most} of their categories; ask "
                "for less"
            )
        return limits_of(items, inside, pins, has, (self.low, self.high), self.least)

    def keep(self, items: Ints, relevance: NDArray[np.float64], chosen: Ints, pins: Ints) -> Ints:
        """Exchange items of one list until it is within its limits, or as near as possible.

        Args:
            items: Item numbers of the candidates, (n,).
            relevance: Their relevance, (n,).
            chosen: Positions of the list, (m,).
            pins: Pinned items, (k,); -1 where nothing is pinned.
        """
        inside, limits = self._of_list(items, chosen, pins)
        repair(inside, relevance[None], limits)
        found: Ints = in_the_places_left(chosen[None], inside)[0]
        return found

    def groups(self, items: Ints, chosen: Ints, pins: Ints) -> tuple[Ints, Bools]:
        """Return :meth:`Limits.groups` of one list; the arguments are those of :meth:`keep`."""
        inside, limits = self._of_list(items, chosen, pins)
        return limits.groups(inside)

    def groups_within(self, items: Ints, pins: Ints, chosen: Ints) -> tuple[Ints, Bools] | None:
        """Return the same; None without limits."""
        return self.groups(items, chosen, pins) if self else None

    def _of_list(self, items: Ints, chosen: Ints, pins: Ints) -> tuple[Bools, Limits]:
        """Return whether each candidate of one list is chosen, (1, n), and the limits of the chosen part."""
        n, held = len(items), pins[pins >= 0]
        inside = np.zeros((1, n), np.bool_)
        inside[0, chosen] = True
        local = np.full(len(pins), -1)  # candidates and pins get numbers of their own: the catalogue may be large
        local[pins >= 0] = n + np.arange(len(held))
        has = np.vstack([self.has(np.concatenate([items, held])), np.zeros((1, len(self.columns)), np.bool_)])
        return inside, limits_of(np.arange(n)[None], inside, local[None], has, (self.low, self.high), self.least)

    def missed(self, lists: Ints) -> list[tuple[str, Ints]]:
        """Return each limit in words, and by how many places lists of item numbers, (n, k), miss it, (n,)."""
        return list(self._missed((lists >= 0).sum(1), self.has(lists).sum(1))) if self else []

    def unmet(self, items: Ints) -> list[Unmet]:
        """Return the limits that one list of item numbers misses."""
        return [Unmet(words, int(places[0])) for words, places in self.missed(items[None]) if places[0]]

    def _missed(self, sizes: Ints, counts: Ints) -> Iterator[tuple[str, Ints]]:
        """Yield what lists of so many items, with these counts of the limited categories, (n, m), miss."""
        count = dict(zip(self.columns, counts.T, strict=True))
        for word, sign, shares in (("at least", 1, self.low), ("at most", -1, self.high)):
            for column, part in shares.items():
                over = sign * (whole_places(part, sizes, up=sign > 0) - count[column])
                yield f"{word} {part:.0%} {self._name(column)}", np.maximum(over, 0)
        for column, number in self.least.items():
            yield f"at least {number} {self._name(column)}", np.maximum(number - count[column], 0)

    def _name(self, column: int) -> str:
        return f"category {column}" if self.names is None else self.names[column]


@dataclass(frozen=True, eq=False)
class ResolvedConstraints:
    """What :meth:`recprism.rule.Constraints.resolve` returns.

    Attributes:
        banned: Item numbers, (n,), rising.
        pinned: {place: item number}; or item numbers, (n_users, places), with -1 where nothing is pinned.
        shares: Limits on categories.
        tail_floor: Share of the places of all lists together that goes to items of the tail.
        per_user_diversity: Factors from 0 to 1, (n_users,), or "history"; None without.
        item_ids: Ids of the items, for messages; None for item numbers.
        fields: Limits on fields of the items; None without.
    """

    banned: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    pinned: Mapping[int, int] | Ints = field(default_factory=dict)
    shares: ShareLimits = field(default_factory=ShareLimits)
    tail_floor: float = 0.0
    per_user_diversity: NDArray[np.float64] | str | None = None
    item_ids: NDArray[Any] | None = None
    fields: ItemFields | None = None

    def __post_init__(self) -> None:
        rows = np.sort(self.pin_rows, 1)
        twice = (rows[:, 1:] == rows[:, :-1]) & (rows[:, 1:] >= 0)
        if twice.any():
            raise InputError(f"an item is pinned twice in the list of user {int(twice.any(1).argmax())}")

    @property
    def pin_rows(self) -> Ints:
        """The pins, (rows, places): one row if all users share them, none if there are no pins."""
        if not isinstance(self.pinned, Mapping):
            return self.pinned
        row = np.full((1 if self.pinned else 0, max(self.pinned, default=0)), -1)
        for place, item in self.pinned.items():
            row[0, place - 1] = item
        return row

    def pins(self, n_users: int, k: int | None = None, seen: SparseRows | None = None) -> Ints:
        """Return pinned items in the first k places, (n_users, k); -1 where nothing is pinned.

        Args:
            n_users: Number of users.
            k: Places; as many as have pins for None.
            seen: Items that the users have seen, (n_users, n_items): these are never shown again.

        Raises:
            InputError: If there are pins of another number of users.
        """
        rows = self.pin_rows
        if not isinstance(self.pinned, Mapping) and len(rows) != n_users:
            raise InputError(f"pinned has {len(rows)} rows and there are {n_users} users; give one row per user")
        pins = np.full((n_users, rows.shape[1] if k is None else k), -1)
        width = min(rows.shape[1], pins.shape[1])
        if rows.size:
            pins[:, :width] = rows[:, :width]
        if seen is not None and rows.size:
            pins[np.isin(np.arange(n_users)[:, None] * seen.n_cols + pins, seen.keys)] = -1
        return pins

    def item(self, number: int) -> str:
        """Return an item as messages name it."""
        return str(number if self.item_ids is None else self.item_ids[number])
