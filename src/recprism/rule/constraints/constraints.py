"""Constraints on lists, as users state them: items by id, categories by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recprism.common.ids import Id, as_id_array, canonical_text, id_positions, ids_at, show
from recprism.common.shares import Share, shares
from recprism.common.shares import share as read_share
from recprism.errors import InputError
from recprism.rule.constraints.fields import ItemFields
from recprism.rule.constraints.resolved import Ints, ResolvedConstraints, ShareLimits

NOT_ONE_LIST = "the lists of all users depend on each other under {}; a rule at request time sees one list at a time"
OF_ALL_LISTS = ("tail_floor", "per_user_diversity")
"""Constraints that do not exist where one list is seen at a time."""
CATEGORY = "category"
"""The field that every rule with categories has."""
EMPTY = np.array([None, -1], object)
"""Where a table of pins pins nothing."""


@dataclass(frozen=True, kw_only=True)
class Constraints:
    """What lists must keep.

    Attributes:
        banned: Ids of items that are not shown.
        pinned: {place: id} for all lists, places from 1; or ids, (n_users, places), with None or -1 where nothing is
            pinned. A pinned item is shown there even if it is no candidate, and nowhere else.
        min_share: {category: smallest share of a list}; fractions of places are rounded up.
        max_share: {category: largest share of a list}; fractions of places are rounded down.
        min_items: {category: smallest number of items in a list}.
        max_items: {field: largest number of items with one value}, such as {"author": 2}. "category" is a field: at
            most so many items of any one category. Other fields come with the items (``Problem(..., fields=...)``) or
            with the request.
        spacing: {field: places}: so many places in a row have a value at most once; 2 keeps neighbours apart.
        tail_floor: Share of the places of all lists together that goes to items of the tail.
        per_user_diversity: Factors from 0 to 1, (n_users,), that multiply the trade-off, in steps of 1 / 20. "history"
            uses the entropy of the categories in the user's history divided by the largest possible; unknown users get
            1.

    Raises:
        InputError: If a value is out of range, or constraints contradict each other.
    """

    banned: Sequence[Id] | NDArray[Any] = ()
    pinned: Mapping[int, Id] | NDArray[Any] = field(default_factory=dict)
    min_share: Mapping[Id, Share] = field(default_factory=dict)
    max_share: Mapping[Id, Share] = field(default_factory=dict)
    min_items: Mapping[Id, int] = field(default_factory=dict)
    max_items: Mapping[str, int] = field(default_factory=dict)
    spacing: Mapping[str, int] = field(default_factory=dict)
    tail_floor: float = 0.0
    per_user_diversity: NDArray[Any] | str | None = None

    def __post_init__(self) -> None:
        if isinstance(self.banned, str):
            raise InputError(f"banned is a list of ids, not the text {self.banned!r}")
        banned = self.banned.tolist() if isinstance(self.banned, np.ndarray) else self.banned
        found: dict[str, Any] = {"banned": tuple(banned), "pinned": _pins(self.pinned)}
        for name in ("min_share", "max_share", "min_items"):
            if not isinstance(getattr(self, name), Mapping):
                raise InputError(f"{name} is {{category: number}}, not {getattr(self, name)!r}")
        for name, unit in (("max_items", "number"), ("spacing", "places")):
            if not isinstance(getattr(self, name), Mapping):
                raise InputError(f"{name} is {{field: {unit}}}, not {getattr(self, name)!r}")
        found |= {name: shares(getattr(self, name), name) for name in ("min_share", "max_share")}
        found["tail_floor"] = read_share(self.tail_floor, "tail_floor")
        own = self.per_user_diversity
        if isinstance(own, str) and own != "history":
            raise InputError(f"per_user_diversity must be (n_users,) numbers from 0 to 1, or 'history', not {own!r}")
        if own is not None and not isinstance(own, str):
            found["per_user_diversity"] = np.asarray(own, np.float64)
        for name, value in found.items():
            object.__setattr__(self, name, value)
        self._require_consistent()

    def _require_consistent(self) -> None:
        both = {canonical_text(it) for it in self._pinned_ids()} & {canonical_text(it) for it in self.banned}
        if both:
            raise InputError(f"item {min(both)} is pinned and banned; choose one of the two")
        for name, count in self.min_items.items():
            if not isinstance(count, int) or isinstance(count, bool) or count < 0:
                raise InputError(f"min_items of {name} must be a whole number from 0 up, not {count!r}")
        for words in ("max_items", "spacing"):
            for name, count in getattr(self, words).items():
                if not isinstance(count, int) or isinstance(count, bool) or count < 1:
                    raise InputError(f"{words} of {name} must be a whole number from 1 up, not {count!r}")
        for name in self.min_share.keys() & self.max_share.keys():
            low, high = float(self.min_share[name]), float(self.max_share[name])
            if low > high:
                raise InputError(
                    f"min_share of {name} is {low:g} and its max_share {high:g}; the least cannot be more than the most"
                )

    def _pinned_ids(self) -> list[Id]:
        if isinstance(self.pinned, Mapping):
            return list(self.pinned.values())
        return [it for it in set(self.pinned.ravel().tolist()) if it not in EMPTY]

    @classmethod
    def parse(cls, given: Constraints | Mapping[str, Any] | None, *, one_list: bool = False) -> Constraints:
        """Read constraints by name; None leaves one out.

        Args:
            given: Name -> value.
            one_list: Whether they must be about one list, as at request time (:meth:`require_one_list`).

        Raises:
            InputError: If a constraint has an unknown name or an invalid value.
        """
        found = cls._read(given, OF_ALL_LISTS if one_list else ())
        if one_list:
            found.require_one_list()
        return found

    @classmethod
    def _read(cls, given: Constraints | Mapping[str, Any] | None, missing: Sequence[str]) -> Constraints:
        """Read constraints; what is ``missing`` is not offered in place of an unknown name."""
        if isinstance(given, Constraints):
            return given
        if given is None:
            return NONE
        if not isinstance(given, Mapping):
            raise InputError(f"constraints are {{name: value}}, not {given!r}")
        if not given:
            return NONE
        unknown = set(given) - set(cls.__dataclass_fields__)
        if unknown:
            names = ", ".join(it for it in cls.__dataclass_fields__ if it not in missing)
            raise InputError(f"there is no constraint {sorted(unknown)[0]!r}; there are {names}")
        return cls(**{name: value for name, value in given.items() if value is not None})

    @property
    def stated(self) -> dict[str, Any]:
        """The constraints that constrain anything, by name."""
        given = {one.name: getattr(self, one.name) for one in fields(self)}
        sizes = {name: it.size if isinstance(it, np.ndarray) else it for name, it in given.items()}
        return {name: it for name, it in given.items() if sizes[name]}

    def __bool__(self) -> bool:
        return bool(self.stated)

    @property
    def by_place(self) -> dict[int, Id]:
        """The pins that all users share."""
        return dict(self.pinned) if isinstance(self.pinned, Mapping) else {}

    @property
    def names_shares(self) -> bool:
        """Whether shares or numbers of categories are limited."""
        return bool(self.min_share or self.max_share or self.min_items)

    @property
    def limited_fields(self) -> list[str]:
        """The fields whose values are limited."""
        return list(dict.fromkeys([*self.max_items, *self.spacing]))

    @property
    def exchanges(self) -> bool:
        """Whether items of a list are exchanged. Its first places are then not the list of fewer places."""
        return self.names_shares or self.tail_floor > 0 or bool(self.limited_fields)

    def with_those_of(self, other: Constraints) -> Constraints:
        """Return both together, for one list; where both set the same place or category, ``other`` counts.

        Raises:
            InputError: If ``other`` is not about one list, or pins items where single users have pins.
        """
        if other is NONE:
            return self
        other.require_one_list()
        if not other:
            return self
        if not self:
            return other
        named = {canonical_text(it) for it in (*other.banned, *other._pinned_ids())}
        pinned = _without(self.pinned, named)
        if other.pinned and not isinstance(pinned, dict):
            raise InputError("items are pinned for single users here; no other pins can be added")
        return replace(
            self,
            banned=(*self.banned, *other.banned),
            pinned={**pinned, **dict(other.pinned)} if isinstance(pinned, dict) else pinned,
            min_share={**self.min_share, **other.min_share},
            max_share={**self.max_share, **other.max_share},
            min_items={**self.min_items, **other.min_items},
            max_items={**self.max_items, **other.max_items},
            spacing={**self.spacing, **other.spacing},
        )

    def require_one_list(self) -> None:
        """Refuse what cannot be kept where one list is seen at a time.

        Raises:
            InputError: If constraints depend on the lists of others, or differ by user.
        """
        if self.tail_floor > 0:
            raise InputError(NOT_ONE_LIST.format("tail_floor"))
        if self.per_user_diversity is not None:
            raise InputError(
                "per_user_diversity is not part of a rule at request time; give a price with each request instead"
            )
        if not isinstance(self.pinned, Mapping):
            raise InputError("pins of single users are not part of a rule at request time; give them with each request")

    def to_dict(self) -> dict[str, Any]:
        """Return the constraints that constrain anything in plain values, for files.

        Raises:
            InputError: If items are pinned for single users, or diversity is given for each of them.
        """
        if isinstance(self.pinned, np.ndarray):
            raise InputError("pins of single users cannot be kept in files; pin items for all users as {place: item}")
        if isinstance(self.per_user_diversity, np.ndarray):
            raise InputError("per_user_diversity of single users cannot be kept in files; pass 'history' instead")
        plain = {"banned": list(self.banned), "pinned": {str(place): it for place, it in self.by_place.items()}}
        return {name: plain.get(name, it) for name, it in self.stated.items()}

    def with_ids_of(self, item_ids: NDArray[Any]) -> Constraints:
        """Return the same in the ids of a catalogue, (n_items,): each ban once, in the order of the catalogue.

        Raises:
            InputError: If an item is unknown.
        """
        banned, pinned = self._item_numbers(item_ids)
        if isinstance(pinned, np.ndarray):
            return replace(self, banned=item_ids[banned], pinned=ids_at(item_ids, pinned))
        own = item_ids[[*pinned.values()]].tolist() if pinned else []
        return replace(self, banned=item_ids[banned], pinned=dict(zip(pinned, own, strict=True)))

    def resolve(
        self,
        item_ids: NDArray[Any] | None = None,
        names: Sequence[str] | None = None,
        fields: Mapping[str, Sequence[Sequence[Any]]] | None = None,
    ) -> ResolvedConstraints:
        """Return the same in numbers of items and columns of categories.

        Args:
            item_ids: Ids of the items, in the order of their numbers; by default, the constraints name item numbers.
            names: Names of the categories, in the order of their columns; by default, the constraints name columns.
            fields: Field -> the values of each item.

        Raises:
            InputError: If an item, a category or a field is unknown, or an item is pinned twice in one list.
        """
        return ResolvedConstraints(
            *self._item_numbers(item_ids),
            self.share_limits(names),
            self.tail_floor,
            self.per_user_diversity,
            item_ids,
            self._item_fields(fields or {}) if self.limited_fields else None,
        )

    def _item_fields(self, known: Mapping[str, Sequence[Sequence[Any]]]) -> ItemFields:
        """Return the limits on fields with the values of the items."""
        names = self.limited_fields
        unknown = next((it for it in names if it not in known), None)
        if unknown is not None:
            there = f"there are {', '.join(known)}" if known else "there are none"
            raise InputError(f"there is no field {unknown!r} of the items; {there}; give one value for each item")
        rows = zip(*(known[name] for name in names), strict=True)
        values = [tuple((name, it) for name, own in zip(names, row, strict=True) for it in own) for row in rows]
        return ItemFields(self.max_items, self.spacing, [*values, ()])

    def _item_numbers(self, item_ids: NDArray[Any] | None) -> tuple[Ints, dict[int, int] | Ints]:
        """Return the numbers of banned items, rising, and of pinned ones."""
        banned = np.unique(_numbers(self.banned, item_ids))
        if isinstance(self.pinned, Mapping):
            numbers = _numbers(self.pinned.values(), item_ids).tolist()
            return banned, dict(zip(self.pinned, numbers, strict=True))
        held = ~np.isin(self.pinned.astype(object), EMPTY)
        pinned = np.full(self.pinned.shape, -1)
        pinned[held] = _numbers(self.pinned[held].tolist(), item_ids)
        return banned, pinned

    def share_limits(self, names: Sequence[str] | None) -> ShareLimits:
        """Return the limits on categories, by column.

        Raises:
            InputError: If a category is unknown.
        """
        given = (self.min_share, self.max_share)
        low, high = ({_column(it, names): float(part) for it, part in of.items()} for of in given)
        return ShareLimits(low, high, {_column(it, names): count for it, count in self.min_items.items()}, names)


def _pins(given: Any) -> dict[int, Id] | NDArray[Any]:
    """Return pins of all users by place, or those of each user, (n_users, places)."""
    if not isinstance(given, Mapping):
        table = np.asarray(given)
        if table.ndim != 2:
            raise InputError(f"pinned is {{place: id}}, or ids of each user, (n_users, places); got {given!r}")
        return table
    try:
        pinned = {int(place): item for place, item in given.items()}
    except (TypeError, ValueError):
        raise InputError(f"pinned is {{place: id}} with places from 1; got {dict(given)!r}") from None
    if len(pinned) < len(given):
        raise InputError(f"pinned names a place twice: {dict(given)!r}")
    if any(place < 1 for place in pinned):
        raise InputError(f"pinned is {{place: id}} with places from 1; got {pinned!r}")
    if len({canonical_text(item) for item in pinned.values()}) < len(pinned):
        raise InputError(f"an item is pinned to two places: {pinned!r}")
    return pinned


def _without(pinned: Any, named: set[str]) -> Any:
    """Return pins without those of named items."""
    if isinstance(pinned, Mapping):
        return {place: it for place, it in pinned.items() if canonical_text(it) not in named}
    gone = [it for it in set(pinned.ravel().tolist()) if canonical_text(it) in named]
    return np.where(np.isin(pinned, gone), None if pinned.dtype == object else -1, pinned)


def _numbers(ids: Iterable[Id], item_ids: NDArray[Any] | None) -> Ints:
    """Return item numbers, (n,)."""
    given = list(ids)
    wanted = as_id_array(given, "item", distinct=False) if given else np.zeros(0, np.int64)
    if item_ids is not None:
        return id_positions(wanted, item_ids, "item")
    if wanted.dtype.kind != "i":
        raise InputError(f"item {show(wanted[0])} is given by id: give item_ids, the ids of all items, too")
    return wanted


def _column(category: Id, names: Sequence[str] | None) -> int:
    if names is None:
        if isinstance(category, str):
            raise InputError(
                f"category {category!r} is given by name: give names, such as dataset.categories.names, too"
            )
        return int(category)
    if category not in names:
        raise InputError(f"there is no category {category!r}; there are {', '.join(names)}")
    return names.index(category)


NONE = Constraints()
