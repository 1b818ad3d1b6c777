"""Constraints around any re-ranker: bans, pins, shares of categories, a floor for the tail, diversity per user."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from recprism.errors import InputError
from recprism.metrics.catalogue import tail_items
from recprism.rule._arrays import as_tensor
from recprism.rule.base import Reranker, _as_length
from recprism.rule.constraints.fields import ItemFields
from recprism.rule.constraints.repair import in_the_places_left, raise_tail, repair, whole_places, with_pins
from recprism.rule.constraints.resolved import ResolvedConstraints, ShareLimits
from recprism.rule.constraints.violations import Violation, Violations, violation_of
from recprism.rule.features import Features
from recprism.rule.pool import Pool

LEVELS = 20  # of per_user_diversity: a re-ranker is called once for each
NOTHING = ResolvedConstraints()


@dataclass(frozen=True, eq=False)
class Constrained:
    """A re-ranker whose lists meet constraints; it is called like the re-ranker.

    Lists that violate a share are changed by exchanges, the cheapest in relevance first. A new item takes the place of
    the one that it replaces, or the place of its score if the re-ranker sorts back. If the candidates cannot meet a
    constraint, the list is as near as possible; ``report`` says by how much it misses. Caps and spacing by fields come
    last: they exchange and move items within the limits on categories, and may undo a part of the floor for the tail.

    Attributes:
        inner: The re-ranker.
        constraints: What :meth:`Constraints.resolve` returns. The re-ranker does not see banned items as candidates.
            Under ``per_user_diversity`` it is called once per step, so a re-ranker that balances exposure does so
            among the users of one step.
        popularity: Training interactions per item, (n_items,).

    Raises:
        InputError: There is a floor for the tail, and the tail is unknown.

    Stability: stable.
    """

    inner: Reranker
    constraints: ResolvedConstraints = NOTHING
    popularity: ArrayLike | None = None

    def __post_init__(self) -> None:
        if self.constraints.tail_floor > 0 and self.popularity is None:
            raise InputError("tail_floor needs to know the tail: give popularity, training interactions per item")

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
            positions = self.repaired(pool.to("cpu"), self._positions(pool, free, features), pins, features)
            items = np.where(positions >= 0, np.take_along_axis(pool.items.cpu().numpy(), positions, 1), -1)
        return with_pins(items, pins)

    def report(
        self, lists: ArrayLike | Tensor, *, features: Features | None = None, user_ids: ArrayLike | None = None
    ) -> Violations:
        """Measure how far lists violate the constraints.

        Args:
            lists: Item numbers, (n_users, k), from any source; -1 in empty places.
            features: The categories of the items, if shares are constrained.
            user_ids: Ids of the users, for messages; row numbers by default.
        """
        ids = None if user_ids is None else np.asarray(user_ids)
        items = np.asarray(lists.cpu() if isinstance(lists, Tensor) else lists, np.int64)
        real = items >= 0
        rows, kept = [], self.constraints
        if len(kept.banned):
            rows.append(violation_of("banned items", np.isin(items, kept.banned).sum(1), ids))
        if isinstance(kept.pinned, Mapping):
            rows += [
                violation_of(f"item {kept.item(item)} at place {place}", items[:, place - 1] != item, ids)
                for place, item in kept.pinned.items()
            ]
        elif len(kept.pin_rows):
            pins = self._pins(len(items), items.shape[1])
            rows.append(violation_of("pinned items", ((pins >= 0) & (pins != items)).sum(1), ids))
        rows += [violation_of(words, places, ids) for words, places in self.shares_of(features).missed(items)]
        if kept.fields is not None:
            rows += [violation_of(words, places, ids) for words, places in kept.fields.missed(items)]
        if kept.tail_floor > 0:
            there = int(self._in_tail(items).sum())
            missing = max(0, int(whole_places(kept.tail_floor, np.array(real.sum()), up=True)) - there)
            rows.append(
                Violation(
                    constraint=f"at least {kept.tail_floor:.0%} from the tail over all lists",
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
        named = np.concatenate([pins[pins >= 0], self.constraints.banned])
        n_items = features.n_items
        unknown = named[(named < 0) | (named >= (math.inf if n_items is None else n_items))]
        if len(unknown):
            to = "" if n_items is None else f" to {n_items - 1}"
            raise InputError(f"banned or pinned is item {unknown[0]}; items go from 0{to}")
        if not len(named):
            return pool, pins
        items = pool.items.cpu().numpy()
        out = np.isin(items, self.constraints.banned)
        for column in pins.T[(pins >= 0).any(0)]:
            out |= (items == column[:, None]) & (items >= 0)
        left = torch.from_numpy(np.where(out, -1, items)).to(pool.device)
        return Pool.of(left, pool.relevance, features.device, pool.n_items), pins

    def _positions(self, pool: Pool, free: NDArray[np.int64], features: Features) -> NDArray[np.int64]:
        """Call the re-ranker once for each trade-off and number of free places; -1 where a user has fewer places.

        A user's list then depends on the user's own pins only.
        """
        if self.constraints.per_user_diversity is None and free.min() == free.max():
            return self.inner.choose(pool, int(free[0]), features).cpu().numpy().copy()
        trade_offs = self.trade_offs(pool.n_users, features)
        groups, number = np.unique(np.stack([trade_offs, free], 1), axis=0, return_inverse=True)
        positions = np.full((pool.n_users, int(free.max())), -1)
        for group, (trade_off, places) in enumerate(groups):
            users = torch.from_numpy(np.flatnonzero(number.ravel() == group)).to(pool.device)
            some = Pool(pool.items[users], pool.relevance[users], pool.lengths[users], pool.n_items)
            same = self.constraints.per_user_diversity is None
            method = self.inner if same else replace(self.inner, trade_off=float(trade_off))
            if places > 0:
                chosen = method.choose(some, int(places), features.of_users(users)).cpu().numpy()
                positions[users.cpu().numpy(), : int(places)] = chosen
        return positions

    def trade_offs(self, n_users: int, features: Features) -> NDArray[np.float64]:
        """Return the trade-off of each user, (n_users,): that of the re-ranker, times the user's diversity."""
        if self.constraints.per_user_diversity is None:
            return np.full(n_users, self.inner.trade_off, np.float64)
        return self.inner.trade_off * np.round(self._user_diversity(n_users, features) * LEVELS) / LEVELS

    def _user_diversity(self, n_users: int, features: Features) -> NDArray[np.float64]:
        """Return the factors of ``per_user_diversity``, (n_users,)."""
        given = self.constraints.per_user_diversity
        if given is None or isinstance(given, str):  # from the history
            intents = features.intents(n_users)
            entropy: Tensor = torch.special.entr(intents).sum(1) / math.log(max(intents.shape[1], 2))
            return entropy.clamp(0, 1).cpu().numpy()
        if given.shape != (n_users,) or not ((given >= 0) & (given <= 1)).all():
            raise InputError(
                f"per_user_diversity must be one number from 0 to 1 for each of {n_users} users, got shape "
                f"{given.shape}"
            )
        return given

    def repaired(
        self, pool: Pool, positions: NDArray[np.int64], pins: NDArray[np.int64], features: Features
    ) -> NDArray[np.int64]:
        """Return the positions, (n_users, free), after the exchanges for shares and tail."""
        floor = self.constraints.tail_floor
        if self.constraints.shares or floor > 0:
            items, relevance = pool.items.numpy(), np.where(pool.real.numpy(), pool.relevance.numpy(), 0.0)
            inside = np.zeros(items.shape, np.bool_)
            user, place = np.nonzero(positions >= 0)
            inside[user, positions[user, place]] = True
            limits = self.shares_of(features).limits(items, inside, pins)
            repair(inside, relevance, limits)
            if floor > 0:
                tail = self._in_tail(items)
                there = int((tail & inside).sum() + self._in_tail(pins).sum())
                places = np.array(inside.sum() + (pins >= 0).sum())
                raise_tail(inside, relevance, limits, tail, int(whole_places(floor, places, up=True)) - there)
            positions = in_the_places_left(positions, inside)
        fields = self.constraints.fields
        if fields is not None:
            positions = self._with_fields(fields, pool, positions, pins, features)
        if self.inner.sort_back and (fields is None or not fields.apart):
            positions = np.sort(positions.view(np.uint64), axis=1).view(np.int64)  # -1 goes last
        return positions

    def _with_fields(
        self, fields: ItemFields, pool: Pool, positions: NDArray[np.int64], pins: NDArray[np.int64], features: Features
    ) -> NDArray[np.int64]:
        """Return the positions, (n_users, free), after the exchanges and moves for caps and spacing."""
        shares, found = self.shares_of(features), np.full(positions.shape, -1)
        for user, n in enumerate(pool.lengths.tolist()):
            items, relevance = pool.items[user, :n].numpy(), pool.relevance[user, :n].numpy()
            own = positions[user][positions[user] >= 0]
            limits = fields.of_list(items, pins[user])
            kept = limits.keep(own, relevance, partial(shares.groups_within, items, pins[user]))
            found[user, : len(kept)] = kept
        return found

    def _pins(self, n_users: int, k: int) -> NDArray[np.int64]:
        """Return the pins, (n_users, k); -1 where nothing is pinned."""
        if (self.constraints.pin_rows[:, k:] >= 0).any():
            raise InputError(f"an item is pinned beyond place {k}, where the lists end")
        return self.constraints.pins(n_users, k)

    def shares_of(self, features: Features | None) -> ShareLimits:
        """Return the limits on the categories of the features' items."""

        def having(column: int) -> NDArray[np.bool_]:
            categories = (Features() if features is None else features).categories
            if not 0 <= column < categories.n_cols:
                raise InputError(
                    f"there is no category {column}; the features have columns 0 to {categories.n_cols - 1}"
                )
            has: NDArray[np.bool_] = categories.member[:, column].cpu().numpy()
            return has

        return self.constraints.shares.of(having)

    def _in_tail(self, items: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return whether each item is in the tail, in the same shape; an empty place is not."""
        popularity = as_tensor(self.popularity, "popularity", torch.device("cpu"), torch.float64)  # type: ignore[arg-type]
        if items.max(initial=-1) >= len(popularity):
            raise InputError(f"popularity has {len(popularity)} items and there is an item {items.max()}")
        tail: NDArray[np.bool_] = np.append(tail_items(popularity).numpy(), False)[items]
        return tail
