"""The order in time of what users did, and its latest part."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recprism.data import Interactions
from recprism.data.interactions import HistoryOrder
from recprism.data.labels import split_labels
from recprism.data.sparse_rows import SparseRows
from recprism.data.split import METHODS, Split, split_interactions
from recprism.errors import InputError

USERS, ITEMS = 5, 8


def timed(seed: int, times: int) -> Interactions:
    generator = np.random.default_rng(seed)
    keys = generator.choice(USERS * ITEMS, size=25, replace=False)
    clock = generator.integers(0, times, 25)
    return Interactions(keys // ITEMS, keys % ITEMS, np.arange(USERS), np.arange(ITEMS), None, clock)


def last(interactions: Interactions, some: SparseRows, user: int, n: int) -> set[int]:
    """The last n items of a user, by sorting (time, item) in plain Python."""
    assert interactions.timestamp is not None
    rows = zip(interactions.user.tolist(), interactions.timestamp.tolist(), interactions.item.tolist(), strict=True)
    own = sorted((when, item) for who, when, item in rows if who == user and item in some.row(user))
    return {item for _, item in own[-n:]}


@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 3, 1000]), st.sampled_from([*METHODS]), st.integers(1, 9))
def test_the_latest_interactions_of_any_part(seed: int, times: int, method: str, n: int) -> None:
    interactions = timed(seed, times)
    split = split_interactions(interactions, method, seed=seed)
    for seen in (split.train, split.seen_before("test"), split.live().train):
        kept = split.require_order().latest(seen, n)
        assert [set(kept.row(user).tolist()) for user in range(USERS)] == [
            last(interactions, seen, user, n) for user in range(USERS)
        ]


@given(st.integers(0, 2**32 - 1))
def test_the_order_travels_with_users_and_with_derived_splits(seed: int) -> None:
    interactions, users = timed(seed, 6), np.array([3, 0, 3])
    split = split_interactions(interactions, seed=seed)
    derived: list[Split] = [split.live(), split.refit(), split_interactions(interactions, "paper").carve_validation()]
    for one in derived:
        assert one.require_order().latest(one.train, 2).keys.tolist() == [
            user * ITEMS + item for user in range(USERS) for item in sorted(last(interactions, one.train, user, 2))
        ]
    some = split.of_users(users)
    kept = some.require_order().latest(some.train, 2)
    for row, user in enumerate(users.tolist()):
        assert set(kept.row(row).tolist()) == last(interactions, split.train, user, 2)


def test_held_out_labels_have_their_place() -> None:
    ids = (np.arange(1), np.arange(4))
    history = Interactions(np.zeros(2, np.int64), np.array([3, 1]), *ids, None, np.array([10, 20]))
    labels = Interactions(np.zeros(2, np.int64), np.array([0, 2]), *ids, None, np.array([30, 40]))
    split, _ = split_labels(history, labels)
    everything = split.live().train
    assert split.require_order().by_time(everything).tolist() == [3, 1, 0, 2], "entries are in the order of items"
    assert split_labels(history)[0].require_order().latest(split.train, 1).row(0).tolist() == [1]


def test_a_pair_that_occurs_again_has_its_last_place() -> None:
    items, times = np.array([0, 1, 2, 0]), np.array([1, 5, 7, 10])
    log = Interactions(np.zeros(4, np.int64), items, np.arange(1), np.arange(3), None, times)
    order = HistoryOrder.of(log)
    assert order is not None
    assert order.by_time(order.pairs).tolist() == [1, 2, 0]
    assert order.latest(order.pairs, 1).row(0).tolist() == [0]


def test_without_times_nothing_is_the_latest(toy_interactions: Interactions) -> None:
    untimed = Interactions(
        toy_interactions.user, toy_interactions.item, toy_interactions.user_ids, toy_interactions.item_ids
    )
    with pytest.raises(InputError, match="needs the times of all interactions"):
        split_interactions(untimed).require_order()


def test_an_unknown_interaction_has_no_place() -> None:
    order = HistoryOrder(SparseRows.from_pairs(np.array([0]), np.array([1]), (2, 3)), np.zeros(1, np.int32))
    for pair in ([0, 2], [0, 0], [1, 1]):
        with pytest.raises(InputError, match="no known time"):
            order.places_of(SparseRows.from_pairs(np.array(pair[:1]), np.array(pair[1:]), (2, 3)))
