"""Splits into a part to train on, a part to choose settings on, and a part to report on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from recprism.common.checks import random_generator
from recprism.common.display import Displayed
from recprism.common.shares import Share, share
from recprism.data.interactions import HistoryOrder, Interactions
from recprism.data.sparse_rows import SparseRows
from recprism.errors import InputError

Part = Literal["train", "validation", "test"]
TRAIN, VALIDATION, TEST = 0, 1, 2


@dataclass(frozen=True, eq=False, repr=False)
class Split(Displayed):
    """Interactions in three parts, over the same users and items.

    Attributes:
        train: Users x items to learn from.
        validation: Users x items to choose settings on; empty in the paper's protocol.
        test: Users x items to report on.
        user_ids: ``(n_users,)`` ids of the rows.
        item_ids: ``(n_items,)`` ids of the columns.
        settings: How the split was made.
        train_order: ``(len(train),)`` place of each training interaction in its user's history, from 0, in the order of
            ``train``. Only splits by time have it; splits derived from them, except :meth:`of_users`, do not.
        order: The order in time of the interactions of all parts; None if they have no times.
    """

    train: SparseRows
    validation: SparseRows
    test: SparseRows
    user_ids: NDArray[Any]
    item_ids: NDArray[Any]
    settings: Mapping[str, Any] = field(default_factory=dict)
    train_order: NDArray[np.int32] | None = None
    order: HistoryOrder | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the sizes of the parts and the settings, in plain values."""
        sizes = {name: len(getattr(self, name)) for name in ("train", "validation", "test")}
        return {"users": self.n_users, "items": self.n_items, **sizes, "settings": dict(self.settings)}

    @property
    def n_users(self) -> int:
        return self.train.n_rows

    @property
    def n_items(self) -> int:
        return self.train.n_cols

    def part(self, name: Part) -> SparseRows:
        return {"train": self.train, "validation": self.validation, "test": self.test}[name]

    def require_labels(self, name: Part, what: str) -> None:
        """Raise an error if a part has no labels; ``what`` is what needs them."""
        if not len(self.part(name)):
            raise InputError(
                f"{what} needs held-out interactions and the {name} part has none; train with a split that has them, "
                "or import the vectors with --held-out or --set-aside"
            )

    def seen_before(self, name: Part) -> SparseRows:
        """Return what lists judged on part ``name`` must not contain: all interactions of the parts before it."""
        if name == "test":
            return self.seen_before_test
        return self.train if name == "validation" else SparseRows.empty(self.train.shape)

    @cached_property
    def seen_before_test(self) -> SparseRows:
        return self.train.union(self.validation) if len(self.validation) else self.train

    def live(self) -> Split:
        """Return the split for lists that real users see: every interaction is history, and nothing is held out."""
        nothing = SparseRows.empty(self.train.shape)
        known = self.seen_before_test.union(self.test) if len(self.test) else self.seen_before_test
        settings = {**self.settings, "live": True}
        return Split(known, nothing, nothing, self.user_ids, self.item_ids, settings, order=self.order)

    def require_order(self) -> HistoryOrder:
        """Return the order in time of the interactions.

        Raises:
            InputError: They have no times.
        """
        if self.order is None:
            raise InputError(
                "a history window needs the times of all interactions, held-out ones included; make the run again with "
                "a timestamp column, or diversify without a window"
            )
        return self.order

    def carve_validation(self, size: Share = 0.125, *, seed: int = 0) -> Split:
        """Take a validation part out of the training part of each user, for protocols that have none.

        Args:
            size: The share of each user's training interactions.
            seed: Seed of the random choice.

        Returns:
            A new split with the same test part.

        Raises:
            InputError: The split already has a validation part.
        """
        if len(self.validation):
            raise InputError("this split has a validation part already; there is nothing to carve")
        wanted = share(size, "validation", ends=False)
        generator = random_generator(seed)
        user, item = self.train.row_of_entry, self.train.indices.astype(np.int64)
        everything = Interactions(user, item, user_ids=self.user_ids, item_ids=self.item_ids)
        rank, counts = rank_in_user(everything, generator.permutation(len(user)))
        held_out = rank >= counts - np.minimum(held_out_counts(counts, wanted), counts - 1)
        train, validation = (
            SparseRows.from_pairs(user[it], item[it], self.train.shape) for it in (~held_out, held_out)
        )
        carved = {**self.settings, "carved": wanted}
        return Split(train, validation, self.test, self.user_ids, self.item_ids, carved, order=self.order)

    def of_users(self, rows: NDArray[np.int64]) -> Split:
        """Return the same split for some users, given by their row numbers."""
        train, validation, test = (part.take_rows(rows) for part in (self.train, self.validation, self.test))
        train_order, order = self.train_order, self.order
        if train_order is not None:  # places travel like the entries they belong to
            train_order = replace(self.train, indices=train_order).take_rows(rows).indices
        orders = (train_order, None if order is None else order.of_users(rows))
        return Split(train, validation, test, self.user_ids[rows], self.item_ids, self.settings, *orders)

    def of_items(self, columns: NDArray[np.int64]) -> Split:
        """Return the same split for some items, given by their column numbers; other interactions are dropped."""
        train, validation, test = (part.of_cols(columns) for part in (self.train, self.validation, self.test))
        return Split(train, validation, test, self.user_ids, self.item_ids[columns], self.settings)

    def refit(self) -> Split:
        """Return the split for the final training: validation joins the training part, test stays."""
        nothing, settings = SparseRows.empty(self.train.shape), {**self.settings, "refit": True}
        return replace(self, train=self.seen_before_test, validation=nothing, settings=settings, train_order=None)


def split_interactions(
    interactions: Interactions, method: str = "random", *, seed: int | np.random.Generator | None = 0, **options: Any
) -> Split:
    """Split interactions by a named method.

    The same seed gives the same split on every machine, under any PYTHONHASHSEED and for any order of the rows.

    Args:
        interactions: The interactions, one per pair of user and item.
        method: "random" (8:1:1 per user), "paper" (80/20 per user), "leave-last" (each user's last interaction),
            "user-temporal" (8:1:1 per user in time) or "temporal" (8:1:1 at two points in time for all users).
        seed: Seed of the random choices.
        **options: Options of the method: ``validation`` and ``test`` shares for "random", "user-temporal" and
            "temporal".

    Returns:
        The split.

    Raises:
        InputError: The method is unknown, or it needs timestamps and there are none.
    """
    if method not in METHODS:
        raise InputError(f"unknown split {method!r}; choose one of {', '.join(METHODS)}")
    ordered = in_canonical_order(interactions)
    generator = random_generator(seed)
    parts = METHODS[method](ordered, generator, **options)
    shape = (ordered.n_users, ordered.n_items)
    train, validation, test = (
        SparseRows.from_pairs(ordered.user[parts == part], ordered.item[parts == part], shape) for part in range(3)
    )
    settings = {"method": method, "seed": seed if isinstance(seed, int) else None, **options}
    train_order = _train_order(ordered.take(parts == TRAIN), generator) if method in BY_TIME else None
    ids = (ordered.user_ids, ordered.item_ids)
    return Split(train, validation, test, *ids, settings, train_order, HistoryOrder.of(ordered))


def per_user_random(
    interactions: Interactions, generator: np.random.Generator, *, validation: Share = 0.1, test: Share = 0.1
) -> NDArray[np.int8]:
    """Shuffle each user's interactions and divide them.

    A user with n >= 3 interactions gives floor(n * share + 1/2), and at least one, to each held-out part. At least one
    stays in training. All interactions of users with one or two are for training.
    """
    validation, test = _held_out_shares(validation, test)
    rank, size = rank_in_user(interactions, generator.permutation(len(interactions)))
    n_test = held_out_counts(size, test)
    n_validation = held_out_counts(size, validation)
    return _cut_from_the_end(rank, size, n_validation, n_test)


def paper(interactions: Interactions, generator: np.random.Generator) -> NDArray[np.int8]:
    """Divide 80/20 per user without validation, as the paper's code does: it optimises and reports on the 20 %."""
    rank, size = rank_in_user(interactions, generator.permutation(len(interactions)))
    return _cut_from_the_end(rank, size, np.zeros_like(size), size - (size * 4) // 5)


def leave_last(interactions: Interactions, generator: np.random.Generator) -> NDArray[np.int8]:
    """Test on each user's last interaction and validate on the one before it; equal times are in random order.

    Users with two interactions give one to test and none to validation. Users with one are for training only.
    """
    rank, size = rank_in_user(interactions, positions_in_time(interactions, generator))
    return _cut_from_the_end(rank, size, (size >= 3).astype(np.int64), (size >= 2).astype(np.int64))


def user_temporal(
    interactions: Interactions, generator: np.random.Generator, *, validation: Share = 0.1, test: Share = 0.1
) -> NDArray[np.int8]:
    """Divide each user's interactions in time: the last share is for the test, the share before it for validation.

    The numbers per user are those of "random". Equal times are in random order.
    """
    validation, test = _held_out_shares(validation, test)
    rank, size = rank_in_user(interactions, positions_in_time(interactions, generator))
    return _cut_from_the_end(rank, size, held_out_counts(size, validation), held_out_counts(size, test))


def temporal(
    interactions: Interactions, generator: np.random.Generator, *, validation: Share = 0.1, test: Share = 0.1
) -> NDArray[np.int8]:
    """Divide at one point in time for all users: the last share of all interactions is for the test.

    The share before it is for validation. Users who appear later have no training items and are cold users.
    """
    validation, test = _held_out_shares(validation, test)
    position = positions_in_time(interactions, generator)
    n = len(interactions)
    n_test, n_validation = round(n * test), round(n * validation)
    parts = np.full(n, TRAIN, np.int8)
    parts[position >= n - n_test - n_validation] = VALIDATION
    parts[position >= n - n_test] = TEST
    return parts


METHODS: dict[str, Callable[..., NDArray[np.int8]]] = {
    "random": per_user_random,
    "paper": paper,
    "leave-last": leave_last,
    "user-temporal": user_temporal,
    "temporal": temporal,
}
BY_TIME = ("leave-last", "user-temporal", "temporal")
WITH_SHARES = ("random", "user-temporal", "temporal")
"""The methods whose held-out shares can be chosen."""


def in_canonical_order(interactions: Interactions) -> Interactions:
    """Sort by user, then item, so that a split does not depend on the order of rows in a file."""
    return interactions.take(np.lexsort((interactions.item, interactions.user)))


def positions_in_time(interactions: Interactions, generator: np.random.Generator) -> NDArray[np.int64]:
    """``(n,)`` rank in time over all interactions; equal times are in random order."""
    if interactions.timestamp is None:
        raise InputError(
            "this split goes by time and there are no timestamps; map a timestamp column or split at random"
        )
    order = np.lexsort((generator.permutation(len(interactions)), interactions.timestamp))
    position = np.empty(len(order), np.int64)
    position[order] = np.arange(len(order))
    return position


def rank_in_user(
    interactions: Interactions, position: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rank each interaction among those of its user, by ``position``, and count those of its user; ``(n,)`` each."""
    order = np.lexsort((position, interactions.user))
    sizes = np.bincount(interactions.user, minlength=interactions.n_users)
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    rank = np.empty(len(interactions), np.int64)
    rank[order] = np.arange(len(interactions)) - np.repeat(starts, sizes)
    return rank, sizes[interactions.user]


def _train_order(train: Interactions, generator: np.random.Generator) -> NDArray[np.int32]:
    rank, _ = rank_in_user(train, positions_in_time(train, generator))
    return rank.astype(np.int32)


def _held_out_shares(validation: Share, test: Share) -> tuple[float, float]:
    found = share(validation, "validation"), share(test, "test", ends=False)
    if sum(found) >= 1:
        raise InputError(f"validation={validation} and test={test} leave nothing to train on; take less than 100 %")
    return found


def held_out_counts(size: NDArray[np.int64], share: float) -> NDArray[np.int64]:
    wanted = np.floor(size * share + 0.5).astype(np.int64)
    return np.where(size >= 3, np.maximum(wanted, 1 if share else 0), 0)


def _cut_from_the_end(
    rank: NDArray[np.int64], size: NDArray[np.int64], n_validation: NDArray[np.int64], n_test: NDArray[np.int64]
) -> NDArray[np.int8]:
    """Assign a user's last ``n_test`` to test, the ``n_validation`` before to validation, the rest to training."""
    n_test = np.minimum(n_test, np.maximum(size - 1, 0))
    n_validation = np.minimum(n_validation, np.maximum(size - 1 - n_test, 0))
    parts = np.full(len(rank), TRAIN, np.int8)
    parts[rank >= size - n_test - n_validation] = VALIDATION
    parts[rank >= size - n_test] = TEST
    return parts
