"""Limits on fields of items, such as the author: caps and spacing, one list after another; plain Python.

An item has any number of values of a field. The same value in two fields counts as two values.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recprism.common.ids import canonical_text
from recprism.errors import InputError
from recprism.rule.constraints.violations import Unmet

EXCHANGES = 20  # of one list, for its spacing; a few are usual
Value = tuple[str, object]
"""A field, and one of its values."""
Values = tuple[Value, ...]
Groups = tuple[NDArray[np.int64], NDArray[np.bool_]]
GroupsOf = Callable[[NDArray[np.int64]], Groups | None]
"""A list -> the group of each candidate under other limits, and which group may replace which; None without."""


def read_fields(fields: Mapping[str, Any] | None, n: int) -> dict[str, list[tuple[str, ...]]]:
    """Return field -> the values of each of n items, as text.

    Raises:
        InputError: If a field has no entry for each item, or an entry is no value, list of values, or None.
    """
    if fields is not None and not isinstance(fields, Mapping):
        raise InputError(f"fields are {{name: one value per item}}, not {fields!r}")
    found = {}
    for name, given in (fields or {}).items():
        if isinstance(given, str | Mapping) or not isinstance(given, Iterable) or len(each := list(given)) != n:
            raise InputError(f"the field {name!r} needs one value, several, or None for each of {n} items")
        found[name] = [tuple(map(canonical_text, _entry(one, name))) for one in each]
    return found


def _entry(one: Any, name: str) -> Sequence[Any]:
    """Return the values of one item; None and empty text are no values."""
    if one is None or (isinstance(one, str) and not one):
        return ()
    some = tuple(one) if isinstance(one, list | tuple | set | frozenset | np.ndarray) else (one,)
    if not all(isinstance(it, str | int | np.integer) for it in some):
        raise InputError(f"the field {name!r} has {one!r}; values are text or whole numbers")
    return some


@dataclass(frozen=True, eq=False)
class ItemFields:
    """Caps and spacing of the lists of many users.

    Attributes:
        most: Field -> largest number of items with one value.
        apart: Field -> so many places in a row hold a value at most once.
        values: Values of the limited fields of each item; the last entry, of no item, is empty.
    """

    most: Mapping[str, int]
    apart: Mapping[str, int]
    values: Sequence[Values]

    def of_list(self, items: NDArray[np.int64], pins: NDArray[np.int64]) -> FieldLimits:
        """Return the limits of one list.

        Args:
            items: Item numbers of the candidates, (n,), the most relevant first.
            pins: Pinned items, (k,); -1 where nothing is pinned.
        """
        pinned = {place: self.values[item] for place, item in enumerate(pins.tolist()) if item >= 0}
        return FieldLimits(self.most, self.apart, [self.values[item] for item in items.tolist()], pinned)

    def missed(self, lists: NDArray[np.int64]) -> list[tuple[str, NDArray[np.int64]]]:
        """Return each limit in words, and by how many places lists of item numbers, (n, k), miss it, (n,)."""
        nothing = np.zeros(0, np.int64)
        words = [it.constraint for it in self.of_list(nothing, nothing).missed([])]
        found = [[it.places for it in self.of_list(row, nothing).missed(range(len(row)))] for row in lists]
        return list(zip(words, np.array(found, np.int64).reshape(len(lists), len(words)).T, strict=True))


@dataclass(frozen=True, eq=False)
class FieldLimits:
    """Caps and spacing of one list.

    Attributes:
        most: Field -> largest number of items with one value.
        apart: Field -> so many places in a row hold a value at most once.
        values: Values of the limited fields of each candidate, the most relevant first.
        pinned: Place from 0 -> the values of the item that is pinned there.
    """

    most: Mapping[str, int]
    apart: Mapping[str, int]
    values: Sequence[Values]
    pinned: Mapping[int, Values]

    def keep(self, chosen: NDArray[np.int64], relevance: NDArray[np.float64], groups_of: GroupsOf) -> NDArray[np.int64]:
        """Exchange and move items of a list until it keeps the limits, or is as near as possible.

        Args:
            chosen: Positions of the list, (m,), without pins.
            relevance: Relevance of the candidates, (n,).
            groups_of: What other limits allow.
        """
        found = chosen.tolist()
        while True:
            over = {it for it, n in self._counts(found).items() if n > self.most.get(it[0], n)}
            if not over or not self._exchange(found, over, relevance, groups_of):
                break
        if not self.apart:
            return np.array(sorted(found) if (chosen[1:] > chosen[:-1]).all() else found, np.int64)
        best, fewest, tried = found, math.inf, set[frozenset[int]]()
        while len(tried) < EXCHANGES and frozenset(found) not in tried:  # with several fields, lists may come back
            tried.add(frozenset(found))
            placed = self._spaced(found)
            misses = sum(it.places for it in self.missed(placed))
            if misses < fewest:
                best, fewest = placed, misses
            crowded = self._crowded(placed)
            if not crowded or not self._exchange(found, crowded, relevance, groups_of):
                break
        return np.array(best, np.int64)

    def groups(self, chosen: NDArray[np.int64], others: Groups | None) -> Groups:
        """Return the group of each candidate, (n,), and which group may replace which without more misses.

        Args:
            chosen: Positions of the list, (m,), each of which is a group.
            others: The same under other limits.
        """
        listed, m = chosen.tolist(), len(chosen)
        keys = {own: m + at for at, own in enumerate(dict.fromkeys(self._keys(others)))}
        group = np.array([keys[own] for own in self._keys(others)], np.int64)
        first = {number: at for at, number in reversed([*enumerate(group.tolist())])}
        allowed = np.zeros((m + len(keys),) * 2, np.bool_)
        for place, (leaving, blocked) in enumerate(zip(listed, self._blocked(listed), strict=True)):
            for number, at in first.items():
                fits = others is None or others[1][others[0][leaving], others[0][at]]
                allowed[place, number] = fits and blocked.isdisjoint(self.values[at])
        group[listed] = np.arange(m)
        return group, allowed

    def _keys(self, others: Groups | None) -> list[tuple[int, Values]]:
        """Return what tells the groups of the candidates apart."""
        known = [0] * len(self.values) if others is None else others[0].tolist()
        return [*zip(known, self.values, strict=True)]

    def _blocked(self, listed: Sequence[int]) -> list[set[Value]]:
        """Return, for each item of a list, the values that no other item may bring to its place."""
        whole, counts = self._whole(listed), self._counts(listed)
        full = {it for it, n in counts.items() if n >= self.most.get(it[0], n + 1)}
        free = [place for place in range(len(whole)) if place not in self.pinned]
        return [
            {it for it in counts if it in full or self._is_near(it, place, whole)} - set(self.values[leaving])
            for place, leaving in zip(free, listed, strict=False)
        ]

    def unmet(self, chosen: Sequence[int]) -> list[Unmet]:
        """Return the limits that a list misses."""
        return [it for it in self.missed(chosen) if it.places]

    def missed(self, chosen: Sequence[int]) -> list[Unmet]:
        """Return all limits, and by how many places a list misses each."""
        counts, found = self._counts(chosen), []
        for field, most in self.most.items():
            places = sum(max(0, n - most) for it, n in counts.items() if it[0] == field)
            found.append(Unmet(f"at most {most} of one {field}", places))
        whole = self._whole(chosen)
        for field, apart in self.apart.items():
            near = (self._is_near(it, at, whole[:at]) for at, own in enumerate(whole) for it in own if it[0] == field)
            found.append(Unmet(f"one {field} at most once in {apart} places", sum(near)))
        return found

    def _counts(self, chosen: Sequence[int]) -> Counter[Value]:
        """Count the values of a list, pins included."""
        return Counter(chain(chain.from_iterable(self.pinned.values()), *(self.values[at] for at in chosen)))

    def _whole(self, chosen: Sequence[int]) -> list[Values]:
        """Return the values of each place; a short list has no gaps."""
        found = [self.values[at] for at in chosen]
        for place, own in sorted(self.pinned.items()):
            found.insert(place, own)
        return found

    def _is_near(self, value: Value, place: int, whole: Sequence[Values]) -> bool:
        """Return whether another place has the value within the spacing of its field."""
        reach = self.apart.get(value[0], 1)
        first = max(0, place - reach + 1)
        return any(value in whole[at] for at in range(first, min(len(whole), place + reach)) if at != place)

    def _exchange(
        self, found: list[int], over: set[Value], relevance: NDArray[np.float64], groups_of: GroupsOf
    ) -> bool:
        """Replace the item with one of these values that costs least relevance, in place; False if none can be."""
        inside, best, loss = set(found), None, np.inf
        counts, groups = self._counts(found), groups_of(np.array(found, np.int64))
        for place, leaving in enumerate(found):
            if over.isdisjoint(self.values[leaving]):
                continue
            gone = Counter(self.values[leaving])
            for c, own in enumerate(self.values):
                if relevance[leaving] - relevance[c] >= loss:
                    break
                if c in inside or not (groups is None or groups[1][groups[0][leaving], groups[0][c]]):
                    continue
                if self._has_room(own, counts - gone, over, counts):
                    best, loss = (place, c), relevance[leaving] - relevance[c]
                    break
        if best is not None:
            found[best[0]] = best[1]
        return best is not None

    def _has_room(self, own: Values, rest: Counter[Value], over: set[Value], before: Counter[Value]) -> bool:
        """Return whether an item with these values can join the rest of a list without a new miss.

        Under spacing, its values must stay rarer than those that are too many: so the exchanges come to an end.
        """
        for it in own:
            if it in over or rest[it] >= self.most.get(it[0], rest[it] + 1):
                return False
            rarest = min((before[other] for other in over if other[0] == it[0]), default=rest[it] + 2)
            if it[0] in self.apart and rest[it] + 1 >= rarest > 1:
                return False
        return True

    def _spaced(self, found: Sequence[int]) -> list[int]:
        """Return a list in an order that keeps the spacing, as near to the order of relevance as it allows.

        Each place gets the most relevant item that is not too near to its like and leaves the rest enough room. If
        there is none, it gets the first one of those with the fewest misses.
        """
        left, placed = sorted(found), list[int]()
        k = len(found) + len(self.pinned)
        whole: list[Values] = [self.pinned.get(place, ()) for place in range(k)]
        for place in range(k):
            if place in self.pinned or not left:
                continue
            near = [sum(self._is_near(it, place, whole) for it in self.values[at]) for at in left]
            counts = Counter(chain.from_iterable(self.values[at] for at in left))
            fits = (
                at
                for at, misses in zip(left, near, strict=True)
                if not misses and self._leave_room(counts - Counter(self.values[at]), k - 1 - place)
            )
            best = next(fits, left[int(np.argmin(near))])
            left.remove(best)
            placed.append(best)
            whole[place] = self.values[best]
        return placed

    def _leave_room(self, counts: Counter[Value], room: int) -> bool:
        """Return whether so many places are enough for items with these values."""
        for field, apart in self.apart.items():
            own = [n for it, n in counts.items() if it[0] == field]
            most = max(own, default=0)
            if most > 1 and (most - 1) * apart + own.count(most) > room:
                return False
        return True

    def _crowded(self, placed: Sequence[int]) -> set[Value]:
        """Return the most frequent values that are too near to their like, and those as frequent."""
        whole, counts = self._whole(placed), self._counts(placed)
        near = {it for at, own in enumerate(whole) for it in own if self._is_near(it, at, whole)}
        most = max((counts[it] for it in near), default=0)
        return {it for it in near if counts[it] == most}
