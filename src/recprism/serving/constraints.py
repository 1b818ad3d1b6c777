"""Constraints of one request: bans, pins, shares and least numbers of categories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
        try:
            pinned = {int(place): item for place, item in self.pinned.items()}
        except (TypeError, ValueError):
            raise InputError(f"pinned is {{place: id}} with places from 1; got {dict(self.pinned)!r}") from None
        object.__setattr__(self, "pinned", pinned)
        if any(place < 1 for place in pinned):
            raise InputError(f"pinned is {{place: id}} with places from 1; got {pinned!r}")
        if len({str(item) for item in pinned.values()}) < len(pinned):
            raise InputError(f"an item is pinned to two places: {pinned!r}")
        if {str(item) for item in pinned.values()} & {str(item) for item in self.banned}:
            raise InputError("an item is pinned and banned; choose one of the two")
        for name in ("min_share", "max_share"):
            object.__setattr__(self, name, shares(getattr(self, name), name))
        for name, count in self.min_items.items():
            if not isinstance(count, int) or isinstance(count, bool) or count < 0:
                raise InputError(f"min_items of {name} must be a whole number from 0 up, not {count!r}")

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
        pinned = {place: it for place, it in self.pinned.items() if str(it) not in {str(b) for b in other.banned}}
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
    """Shares of categories as columns and numbers.

    Attributes:
        low: Column -> smallest share.
        high: Column -> largest share.
        has: Whether each item has each limited category, (n_items + 1, m) in the order of the columns.
        names: Names of all categories.
    """

    low: Mapping[int, float]
    high: Mapping[int, float]
    has: NDArray[np.bool_]
    names: Sequence[str]

    @property
    def columns(self) -> list[int]:
        """The limited columns in order."""
        return sorted(self.low.keys() | self.high.keys())

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
        inside = np.zeros((1, len(items)), np.bool_)
        inside[0, chosen] = True
        limits: Limits = limits_of(items[None], inside, pins[None], self.has, (self.low, self.high))
        repair(inside, relevance[None], limits)
        found: NDArray[np.int64] = in_the_places_left(chosen[None], inside)[0]
        return found

    def excess_of(self, items: NDArray[np.int64]) -> NDArray[np.int64]:
        """Count places too few, then too many, for each limit of a list of item numbers, (2 * m,)."""
        size = np.array(len(items))
        count = self.has[items].sum(0)
        over = [
            sign * (int(whole_places(limits[column], size, up=sign > 0)) - int(count[at]))
            for sign, limits in ((1, self.low), (-1, self.high))
            for at, column in enumerate(self.columns)
            if column in limits
        ]
        return np.maximum(np.array(over, np.int64), 0)

    def unmet(self, items: NDArray[np.int64]) -> list[Unmet]:
        """Return the limits that a list of item numbers misses."""
        words = [
            f"{word} {limits[column]:.0%} {self.names[column]}"
            for word, limits in (("at least", self.low), ("at most", self.high))
            for column in self.columns
            if column in limits
        ]
        return [Unmet(it, int(n)) for it, n in zip(words, self.excess_of(items), strict=True) if n]

    def groups(
        self, items: NDArray[np.int64], listed: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return the group of each candidate, (n,), and which group may replace which without a larger excess.

        Args:
            items: Item numbers of the candidates, (n,).
            listed: Item numbers of the whole list, with pins.
        """
        code = self.has @ (1 << np.arange(len(self.columns)))
        codes, number = np.unique(code, return_inverse=True)
        member = (codes[:, None] >> np.arange(len(self.columns))) & 1
        now, size, count = self.excess_of(listed).sum(), np.array(len(listed)), self.has[listed].sum(0)
        there = count[None, None] + member[None] - member[:, None]
        after = np.zeros(there.shape[:2], np.int64)
        for at, column in enumerate(self.columns):
            for sign, limits in ((1, self.low), (-1, self.high)):
                if column in limits:
                    wanted = int(whole_places(limits[column], size, up=sign > 0))
                    after += np.maximum(sign * (wanted - there[:, :, at]), 0)
        return number[items], after <= now
