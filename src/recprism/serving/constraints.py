"""Constraints of one request: bans, pins, shares and least numbers of categories."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recprism.data._ids import canonical_text
from recprism.data.shares import Share, shares
from recprism.errors import InputError
from recprism.rerank.constraints._repair import Limits, in_the_places_left, limits_of, repair, whole_places

Id = int | str


@dataclass(frozen=True, kw_only=True)
class RequestConstraints:
    """What one list must keep.

    Attributes:
        banned: Ids of items that are not shown.
        pinned: {place: id}, places from 1. A pinned item is shown there even if it is no candidate.
        min_share: {category: smallest share of the list}; fractions of places are rounded up.
        max_share: {category: largest share of the list}; fractions of places are rounded down.
        min_items: {category: smallest number of items}.

    Raises:
        InputError: If a value is out of range, or an item is pinned twice, or pinned and banned.

    Stability: provisional.
    """

    banned: Sequence[Id] = ()
    pinned: Mapping[int, Id] = field(default_factory=dict)
    min_share: Mapping[str, Share] = field(default_factory=dict)
    max_share: Mapping[str, Share] = field(default_factory=dict)
    min_items: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._require_mappings()
        try:
            pinned = {int(place): item for place, item in self.pinned.items()}
        except (TypeError, ValueError):
            raise InputError(f"pinned is {{place: id}} with places from 1; got {dict(self.pinned)!r}") from None
        if len(pinned) < len(self.pinned):
            raise InputError(f"pinned names a place twice: {dict(self.pinned)!r}")
        object.__setattr__(self, "pinned", pinned)
        if any(place < 1 for place in pinned):
            raise InputError(f"pinned is {{place: id}} with places from 1; got {pinned!r}")
        if isinstance(self.banned, str):
            raise InputError(f"banned is a list of ids, not the text {self.banned!r}")
        at_places = [canonical_text(item) for item in pinned.values()]
        if len(set(at_places)) < len(at_places):
            raise InputError(f"an item is pinned to two places: {pinned!r}")
        if set(at_places) & {canonical_text(item) for item in self.banned}:
            raise InputError("an item is pinned and banned; choose one of the two")
        for name in ("min_share", "max_share"):
            object.__setattr__(self, name, shares(getattr(self, name), name))
        for name, count in self.min_items.items():
            if not isinstance(count, int) or isinstance(count, bool) or count < 0:
                raise InputError(f"min_items of {name} must be a whole number from 0 up, not {count!r}")
        for name in self.min_share.keys() & self.max_share.keys():
            if float(self.min_share[name]) > float(self.max_share[name]):
                raise InputError(f"min_share of {name} is above its max_share; the least cannot be more than the most")

    def _require_mappings(self) -> None:
        for name in ("pinned", "min_share", "max_share", "min_items"):
            if not isinstance(getattr(self, name), Mapping):
                key = "place: id" if name == "pinned" else "category: number"
                raise InputError(f"{name} is {{{key}}}, not {getattr(self, name)!r}")

    @classmethod
    def of(cls, given: RequestConstraints | Mapping[str, Any] | None) -> RequestConstraints:
        """Read the constraints of a request.

        Raises:
            InputError: If a constraint has an unknown name or an invalid value.
        """
        if given is None:
            return NONE
        if isinstance(given, RequestConstraints):
            return given
        if not isinstance(given, Mapping):
            raise InputError(f"constraints are {{name: value}}, not {given!r}")
        unknown = set(given) - set(cls.__dataclass_fields__)
        if unknown:
            raise InputError(
                f"there is no constraint {sorted(unknown)[0]!r}; there are {', '.join(cls.__dataclass_fields__)}"
            )
        return cls(**given)

    def with_those_of(self, other: RequestConstraints) -> RequestConstraints:
        """Return both together; where both set the same place or category, ``other`` counts."""
        if other is NONE:
            return self
        if self is NONE:
            return other
        named = {canonical_text(it) for it in (*other.banned, *other.pinned.values())}
        pinned = {place: it for place, it in self.pinned.items() if canonical_text(it) not in named}
        return RequestConstraints(
            banned=[*self.banned, *other.banned],
            pinned={**pinned, **other.pinned},
            min_share={**self.min_share, **other.min_share},
            max_share={**self.max_share, **other.max_share},
            min_items={**self.min_items, **other.min_items},
        )

    @property
    def names_shares(self) -> bool:
        """Whether shares or numbers of categories are limited."""
        return bool(self.min_share or self.max_share or self.min_items)


NONE = RequestConstraints()


@dataclass(frozen=True)
class Unmet:
    """A constraint that the candidates of a request cannot meet.

    Attributes:
        constraint: The constraint in words.
        places: How many places too few or too many.

    Stability: provisional.
    """

    constraint: str
    places: int


@dataclass(frozen=True, eq=False)
class ShareLimits:
    """Limits on the categories of one list.

    Attributes:
        low: Column -> smallest share.
        high: Column -> largest share.
        least: Column -> smallest number of items.
        names: Names of all categories.
        having: Column -> whether each item has the category, (n_items + 1,) bool.
    """

    low: Mapping[int, float]
    high: Mapping[int, float]
    least: Mapping[int, int]
    names: Sequence[str]
    having: Callable[[int], NDArray[np.bool_]]

    @property
    def columns(self) -> list[int]:
        """The limited columns in order."""
        return sorted(self.low.keys() | self.high.keys() | self.least.keys())

    def has(self, numbers: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return whether items have the limited categories, (n, m)."""
        return np.stack([self.having(column)[numbers] for column in self.columns], 1)

    def keep(
        self, items: NDArray[np.int64], relevance: NDArray[np.float64], chosen: NDArray[np.int64], pins: NDArray[Any]
    ) -> NDArray[np.int64]:
        """Exchange items of a list until it is within its limits, or as near as possible.

        Args:
            items: Item numbers of the candidates, (n,).
            relevance: Their relevance, (n,).
            chosen: Positions of the list, (m,).
            pins: Pinned items, (k,); -1 where nothing is pinned.
        """
        inside, limits = self._limits(items, chosen, pins)
        repair(inside, relevance[None], limits)
        found: NDArray[np.int64] = in_the_places_left(chosen[None], inside)[0]
        return found

    def groups(
        self, items: NDArray[np.int64], chosen: NDArray[np.int64], pins: NDArray[Any]
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return :meth:`Limits.groups` of one list; the arguments are those of :meth:`keep`."""
        inside, limits = self._limits(items, chosen, pins)
        return limits.groups(inside)

    def _limits(
        self, items: NDArray[np.int64], chosen: NDArray[np.int64], pins: NDArray[Any]
    ) -> tuple[NDArray[np.bool_], Limits]:
        """Return whether each candidate is chosen, (1, n), and the limits of the chosen part."""
        n, held = len(items), pins[pins >= 0]
        inside = np.zeros((1, n), np.bool_)
        inside[0, chosen] = True
        local = np.full(len(pins), -1)  # candidates and pins get numbers of their own: the catalogue may be large
        local[pins >= 0] = n + np.arange(len(held))
        has = np.vstack([self.has(np.concatenate([items, held])), np.zeros((1, len(self.columns)), np.bool_)])
        return inside, limits_of(np.arange(n)[None], inside, local[None], has, (self.low, self.high), self.least)

    def unmet(self, items: NDArray[np.int64]) -> list[Unmet]:
        """Return the limits that a list of item numbers misses, and by how many places."""
        counts = zip(self.columns, self.has(items).sum(0).tolist(), strict=True)
        missed = (
            Unmet(words, sign * (wanted - count))
            for column, count in counts
            for words, sign, wanted in self._wanted(column, len(items))
        )
        return [it for it in missed if it.places > 0]

    def _wanted(self, column: int, size: int) -> Iterator[tuple[str, int, int]]:
        name = self.names[column]
        if column in self.low:
            yield f"at least {self.low[column]:.0%} {name}", 1, _places(self.low[column], size, up=True)
        if column in self.least:
            yield f"at least {self.least[column]} {name}", 1, self.least[column]
        if column in self.high:
            yield f"at most {self.high[column]:.0%} {name}", -1, _places(self.high[column], size, up=False)


def _places(part: float, size: int, *, up: bool) -> int:
    return int(whole_places(part, np.array(size), up=up))
