"""Constraints around any re-ranker: bans, pins, shares of subtopics, a floor for the tail, diversity per user."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from recprism.data.shares import share, shares
from recprism.errors import InputError
from recprism.metrics.catalogue import tail_items
from recprism.rerank._arrays import as_tensor
from recprism.rerank._pool import Pool
from recprism.rerank.base import Reranker, _as_length
from recprism.rerank.constraints._repair import (
    Limits,
    in_the_places_left,
    limits_of,
    pinned_items,
    raise_tail,
    repair,
    require_possible,
    whole_places,
    with_pins,
)
from recprism.rerank.constraints.violations import Violation, Violations, violation_of
from recprism.rerank.features import Features

LEVELS = 20  # of per_user_diversity: a re-ranker is called once for each
NONE: Mapping[Any, Any] = MappingProxyType({})


@dataclass(frozen=True, eq=False)
class Constrained:
    """A re-ranker whose lists meet constraints; it is called like the re-ranker.

    Lists that violate a share are changed by exchanges, the cheapest in relevance first. A new item takes the place of
    the one that it replaces, or the place of its score if the re-ranker sorts back. If the candidates cannot meet a
    constraint, the list is as near as possible; ``report`` says by how much it misses.

    Attributes:
        inner: The re-ranker.
        banned: Items that never appear; the re-ranker does not see them as candidates.
        pinned: {place: item} for all lists, where 1 is the top, or items, (n_users, places), with -1 where nothing is
            pinned. A pinned item appears at its place even if it is not a candidate, and nowhere else.
        min_share: {subtopic: share}, the smallest share of a list's items. Subtopics are column numbers of the
            features' subtopics or, with ``names``, names. Fractions of places are rounded up.
        max_share: The same for the largest share; fractions of places are rounded down.
        tail_floor: Share of the places of all lists together that goes to items of the tail, by ``popularity``.
        per_user_diversity: Factors from 0 to 1, (n_users,), that multiply the re-ranker's trade_off, in steps of
            1 / 20. "history" uses the entropy of ``Features(user_subtopics=...)`` divided by the largest possible;
            unknown users get 1. The re-ranker is then called once per step, so a re-ranker that balances exposure does
            so among the users of one step.
        popularity: Training interactions per item, (n_items,).
        names: Names of the subtopics, such as ``dataset.subtopics.names``.
        item_ids: Ids of the items, for messages; row numbers by default.

    Raises:
        InputError: The constraints contradict each other, or a value is out of range.

    Stability: stable.
    """

    inner: Reranker
    banned: Sequence[int] | NDArray[Any] = ()
    pinned: Mapping[int, int] | ArrayLike = field(default_factory=lambda: NONE)
    min_share: Mapping[int | str, float] = field(default_factory=lambda: NONE)
    max_share: Mapping[int | str, float] = field(default_factory=lambda: NONE)
    tail_floor: float = 0.0
    per_user_diversity: ArrayLike | str | None = None
    popularity: ArrayLike | None = None
    names: Sequence[str] | None = None
    item_ids: Sequence[Any] | NDArray[Any] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "tail_floor", share(self.tail_floor, "tail_floor"))
        for setting in ("min_share", "max_share"):
            object.__setattr__(self, setting, shares(getattr(self, setting), setting))
            for subtopic in getattr(self, setting):
                self._column(subtopic)
        if self.tail_floor > 0 and self.popularity is None:
            raise InputError("tail_floor needs to know the tail: give popularity, training interactions per item")
        low, high = self.share_limits
        for column in low.keys() & high.keys():
            if low[column] > high[column]:
                raise InputError(
                    f"min_share of {self._name(column)} is {low[column]:g} and its max_share {high[column]:g}; "
                    "the least cannot be more than the most"
                )
        pinned = pinned_items(self.pinned)
        both = np.intersect1d(pinned[pinned >= 0], np.asarray(self.banned, np.int64))
        if len(both):
            raise InputError(f"item {self._item(int(both[0]))} is pinned and banned; choose one of the two")

    def __call__(
        self, candidates: ArrayLike | Tensor, scores: ArrayLike | Tensor, k: int, *, features: Features | None = None
    ) -> Any:
        """Choose k items for each user; arguments and result are those of :class:`Reranker`."""
        k, features = _as_length(k), Features() if features is None else features
        lists = self.lists(*self.pool_and_pins(candidates, scores, k, features), features)
        return torch.from_numpy(lists).to(candidates.device) if isinstance(candidates, Tensor) else lists

    def lists(self, pool: Pool, pins: NDArray[np.int64], features: Features) -> NDArray[np.int64]:
        """Choose the lists, (n_users, k), from what :meth:`pool_and_pins` returned."""
        free = (pins < 0).sum(1)
        items = np.full((pool.n_users, 0), -1)
        if free.any():
            pool = pool.at_least(pins.shape[1])
            positions = self._repaired(pool.to("cpu"), self._positions(pool, free, features), pins, features)
            items = np.where(positions >= 0, np.take_along_axis(pool.items.cpu().numpy(), positions, 1), -1)
        return with_pins(items, pins)

    def report(
        self, lists: ArrayLike | Tensor, *, features: Features | None = None, user_ids: ArrayLike | None = None
    ) -> Violations:
        """Measure how far lists violate the constraints.

        Args:
            lists: Item numbers, (n_users, k), from any source; -1 in empty places.
            features: The subtopics of the items, if shares are constrained.
            user_ids: Ids of the users, for messages; row numbers by default.
        """
        ids = None if user_ids is None else np.asarray(user_ids)
        items = np.asarray(lists.cpu() if isinstance(lists, Tensor) else lists, np.int64)
        real = items >= 0
        rows = []
        if len(self.banned):
            rows.append(violation_of("banned items", np.isin(items, np.asarray(self.banned)).sum(1), ids))
        if isinstance(self.pinned, Mapping):
            rows += [
                violation_of(f"item {self._item(item)} at place {place}", items[:, place - 1] != item, ids)
                for place, item in self.pinned.items()
            ]
        elif len(pinned_items(self.pinned)):
            pins = self._pins(len(items), items.shape[1])
            rows.append(violation_of("pinned items", ((pins >= 0) & (pins != items)).sum(1), ids))
        low, high = self.share_limits
        for word, sign, limits in (("at least", 1, low), ("at most", -1, high)):
            for column, part in limits.items():
                count = (self.has_subtopic(column, features)[items] & real).sum(1)
                over = sign * (whole_places(part, real.sum(1), up=sign > 0) - count)
                rows.append(violation_of(f"{word} {part:.0%} {self._name(column)}", np.maximum(over, 0), ids))
        if self.tail_floor > 0:
            there = int(self._in_tail(items).sum())
            missing = max(0, int(whole_places(self.tail_floor, np.array(real.sum()), up=True)) - there)
            rows.append(
                Violation(
                    constraint=f"at least {self.tail_floor:.0%} from the tail over all lists",
                    lists=len(items) if missing else 0,
                    places=float(missing),
                    worst=float(missing),
                )
            )
        return Violations(len(items), tuple(rows))

    def pool_and_pins(self, candidates: Any, scores: Any, k: int, features: Features) -> tuple[Pool, NDArray[np.int64]]:
        """Return the candidates that are neither banned nor pinned, and the pins, (n_users, k)."""
        pool = Pool.of(candidates, scores, features.device, features.n_items).at_least(k)
        pins = self._pins(pool.n_users, k)
        named = np.concatenate([pins[pins >= 0], np.asarray(self.banned, np.int64)])
        n_items = features.n_items
        unknown = named[(named < 0) | (named >= (math.inf if n_items is None else n_items))]
        if len(unknown):
            to = "" if n_items is None else f" to {n_items - 1}"
            raise InputError(f"banned or pinned is item {unknown[0]}; items go from 0{to}")
        if not len(named):
            return pool, pins
        items = pool.items.cpu().numpy()
        out = np.isin(items, np.asarray(self.banned, np.int64))
        for column in pins.T[(pins >= 0).any(0)]:
            out |= (items == column[:, None]) & (items >= 0)
        left = torch.from_numpy(np.where(out, -1, items)).to(pool.device)
        return Pool.of(left, pool.relevance, features.device, pool.n_items), pins

    def _positions(self, pool: Pool, free: NDArray[np.int64], features: Features) -> NDArray[np.int64]:
        """Call the re-ranker once for each trade-off and number of free places; -1 where a user has fewer places.

        A user's list then depends on the user's own pins only.
        """
        if self.per_user_diversity is None and free.min() == free.max():
            return self.inner.choose(pool, int(free[0]), features).cpu().numpy().copy()
        trade_offs = self.trade_offs(pool.n_users, features)
        groups, number = np.unique(np.stack([trade_offs, free], 1), axis=0, return_inverse=True)
        positions = np.full((pool.n_users, int(free.max())), -1)
        for group, (trade_off, places) in enumerate(groups):
            users = torch.from_numpy(np.flatnonzero(number.ravel() == group)).to(pool.device)
            some = Pool(pool.items[users], pool.relevance[users], pool.lengths[users], pool.n_items)
            method = self.inner if self.per_user_diversity is None else replace(self.inner, trade_off=float(trade_off))
            if places > 0:
                chosen = method.choose(some, int(places), features.of_users(users)).cpu().numpy()
                positions[users.cpu().numpy(), : int(places)] = chosen
        return positions

    def trade_offs(self, n_users: int, features: Features) -> NDArray[np.float64]:
        """Return the trade-off of each user, (n_users,): that of the re-ranker, times the user's diversity."""
        if self.per_user_diversity is None:
            return np.full(n_users, self.inner.trade_off, np.float64)
        return self.inner.trade_off * np.round(self._user_diversity(n_users, features) * LEVELS) / LEVELS

    def _user_diversity(self, n_users: int, features: Features) -> NDArray[np.float64]:
        """Return the factors of ``per_user_diversity``, (n_users,)."""
        if isinstance(self.per_user_diversity, str):
            if self.per_user_diversity != "history":
                raise InputError(
                    "per_user_diversity must be (n_users,) numbers from 0 to 1, or 'history', not "
                    f"{self.per_user_diversity!r}"
                )
            intents = features.intents(n_users)
            entropy: Tensor = torch.special.entr(intents).sum(1) / math.log(max(intents.shape[1], 2))
            return entropy.clamp(0, 1).cpu().numpy()
        given = np.asarray(self.per_user_diversity, np.float64)
        if given.shape != (n_users,) or not ((given >= 0) & (given <= 1)).all():
            raise InputError(
                f"per_user_diversity must be one number from 0 to 1 for each of {n_users} users, got shape "
                f"{given.shape}"
            )
        return given

    def _repaired(
        self, pool: Pool, positions: NDArray[np.int64], pins: NDArray[np.int64], features: Features
    ) -> NDArray[np.int64]:
        """Return the positions, (n_users, free), after the exchanges for shares and tail."""
        low, high = self.share_limits
        if low or high or self.tail_floor > 0:
            items, relevance = pool.items.numpy(), np.where(pool.real.numpy(), pool.relevance.numpy(), 0.0)
            inside = np.zeros(items.shape, np.bool_)
            user, place = np.nonzero(positions >= 0)
            inside[user, positions[user, place]] = True
            limits = self.limits(items, inside, pins, features)
            repair(inside, relevance, limits)
            if self.tail_floor > 0:
                tail = self._in_tail(items)
                there = int((tail & inside).sum() + self._in_tail(pins).sum())
                places = np.array(inside.sum() + (pins >= 0).sum())
                raise_tail(inside, relevance, limits, tail, int(whole_places(self.tail_floor, places, up=True)) - there)
            positions = in_the_places_left(positions, inside)
        if self.inner.sort_back:
            positions = np.sort(positions.view(np.uint64), axis=1).view(np.int64)  # -1 goes last
        return positions

    def limits(
        self, items: NDArray[np.int64], inside: NDArray[np.bool_], pins: NDArray[np.int64], features: Features
    ) -> Limits:
        """Return how many items of each limited subtopic the chosen part of each list may have.

        Args:
            items: Item numbers of the candidates, (n_users, n_candidates).
            inside: The chosen candidates, (n_users, n_candidates) bool.
            pins: Pinned items, (n_users, k); -1 where nothing is pinned.
            features: The subtopics of the items.
        """
        low, high = self.share_limits
        columns = sorted(low.keys() | high.keys())
        has = np.zeros((1, 0), np.bool_)
        if columns:
            has = np.stack([self.has_subtopic(column, features) for column in columns], 1)
        require_possible(has, columns, low)
        return limits_of(items, inside, pins, has, (low, high))

    def _pins(self, n_users: int, k: int) -> NDArray[np.int64]:
        """Return the pins, (n_users, k); -1 where nothing is pinned."""
        given = pinned_items(self.pinned)
        if given.shape[1] > k and (given[:, k:] >= 0).any():
            raise InputError(f"an item is pinned beyond place {k}, where the lists end")
        if not isinstance(self.pinned, Mapping) and len(given) != n_users:
            raise InputError(f"pinned has {len(given)} rows and there are {n_users} users; give one row per user")
        pins = np.full((n_users, k), -1)
        width = min(k, given.shape[1])
        if len(given):
            pins[:, :width] = given[:, :width]
        return pins

    @property
    def share_limits(self) -> tuple[dict[int, float], dict[int, float]]:
        """The least and the largest share of subtopics, by column."""
        low, high = ({self._column(s): part for s, part in of.items()} for of in (self.min_share, self.max_share))
        return low, high

    def _column(self, subtopic: int | str) -> int:
        if not isinstance(subtopic, str):
            return int(subtopic)
        if self.names is None:
            raise InputError(
                f"subtopic {subtopic!r} is given by name: give names, such as dataset.subtopics.names, too"
            )
        if subtopic not in self.names:
            raise InputError(f"there is no subtopic {subtopic!r} among {', '.join(self.names)}")
        return list(self.names).index(subtopic)

    def _item(self, number: int) -> str:
        return str(number if self.item_ids is None else self.item_ids[number])

    def _name(self, column: int) -> str:
        return f"subtopic {column}" if self.names is None else self.names[column]

    def has_subtopic(self, column: int, features: Features | None) -> NDArray[np.bool_]:
        """Return whether each item has the subtopic, (n_items + 1,) bool; the last entry, for -1, is False."""
        topics = (Features() if features is None else features).topics
        if not 0 <= column < topics.n_cols:
            raise InputError(f"there is no subtopic {column}; the features have columns 0 to {topics.n_cols - 1}")
        has: NDArray[np.bool_] = topics.member[:, column].cpu().numpy()
        return has

    def _in_tail(self, items: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return whether each item is in the tail, in the same shape; an empty place is not."""
        popularity = as_tensor(self.popularity, "popularity", torch.device("cpu"), torch.float64)  # type: ignore[arg-type]
        if items.max(initial=-1) >= len(popularity):
            raise InputError(f"popularity has {len(popularity)} items and there is an item {items.max()}")
        tail: NDArray[np.bool_] = np.append(tail_items(popularity).numpy(), False)[items]
        return tail
