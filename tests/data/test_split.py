from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recprism.data import Dataset, Interactions, Split
from recprism.data.split import BY_TIME, METHODS, Part, split_interactions
from recprism.errors import InputError

PARTS: tuple[Part, ...] = ("train", "validation", "test")


def sizes(split: Split) -> list[tuple[int, int, int]]:
    parts = (split.train, split.validation, split.test)
    return list(zip(*(part.row_counts.tolist() for part in parts), strict=True))


def test_the_stated_rule_for_small_users(toy_interactions: Interactions) -> None:
    assert sizes(split_interactions(toy_interactions)) == [
        (1, 0, 0),
        (2, 0, 0),
        (1, 1, 1),
        (3, 1, 1),
        (8, 1, 1),
        (16, 2, 2),
    ]
    assert sizes(split_interactions(toy_interactions, "leave-last")) == [
        (1, 0, 0),
        (1, 0, 1),
        (1, 1, 1),
        (3, 1, 1),
        (8, 1, 1),
        (18, 1, 1),
    ]
    in_time = split_interactions(toy_interactions, "user-temporal")
    assert sizes(in_time) == sizes(split_interactions(toy_interactions)), "the numbers per user are those of random"
    of_thirty = [(1, 0, 0), (2, 0, 0), (1, 1, 1), (1, 2, 2), (4, 3, 3), (8, 6, 6)]
    assert sizes(split_interactions(toy_interactions, validation=0.3, test="30%")) == of_thirty, "1.5 of 5 are 2"
    paper = [(1, 0, 0), (1, 0, 1), (2, 0, 1), (4, 0, 1), (8, 0, 2), (16, 0, 4)]
    assert sizes(split_interactions(toy_interactions, "paper")) == paper


@pytest.mark.parametrize("method", METHODS)
def test_parts_are_disjoint_and_complete(method: str, toy_interactions: Interactions) -> None:
    split = split_interactions(toy_interactions, method)
    whole = toy_interactions.matrix().dense()
    total = split.train.dense().astype(int) + split.validation.dense() + split.test.dense()
    assert (total == whole).all()


@pytest.mark.parametrize("method", METHODS)
@given(seed=st.integers(0, 2**32 - 1))
def test_the_order_of_rows_does_not_matter(method: str, seed: int) -> None:
    generator = np.random.default_rng(seed)
    keys = generator.choice(40, size=25, replace=False)
    rows = Interactions(keys // 8, keys % 8, np.arange(5), np.arange(8), None, generator.permutation(25))
    shuffled = rows.take(generator.permutation(25))
    for part in ("train", "validation", "test"):
        ours = split_interactions(rows, method, seed=3).part(part)  # type: ignore[arg-type]
        assert (ours.dense() == split_interactions(shuffled, method, seed=3).part(part).dense()).all()  # type: ignore[arg-type]


def test_leave_last_and_temporal_follow_timestamps(toy_interactions: Interactions) -> None:
    assert toy_interactions.timestamp is not None
    clock = np.zeros((6, 20), np.int64)
    clock[toy_interactions.user, toy_interactions.item] = toy_interactions.timestamp + 1
    split = split_interactions(toy_interactions, "leave-last")
    for user in range(2, 6):
        assert clock[user][split.test.row(user)] == clock[user].max()
    temporal = split_interactions(toy_interactions, "temporal")
    latest_training = clock[temporal.train.dense()].max()
    assert latest_training < clock[temporal.validation.dense()].min()
    assert clock[temporal.validation.dense()].max() < clock[temporal.test.dense()].min()


def timed(seed: int, times: int) -> Interactions:
    """25 interactions of 5 users at random times, of which few are distinct if ``times`` is small."""
    generator = np.random.default_rng(seed)
    keys = generator.choice(40, size=25, replace=False)
    return Interactions(keys // 8, keys % 8, np.arange(5), np.arange(8), None, generator.integers(times, size=25))


def clock_of(interactions: Interactions) -> np.ndarray:
    assert interactions.timestamp is not None
    clock = np.full((interactions.n_users, interactions.n_items), -1, np.int64)
    clock[interactions.user, interactions.item] = interactions.timestamp
    return clock


@given(st.integers(0, 2**32 - 1), st.sampled_from([2, 6, 1000]), st.sampled_from([(0.1, 0.1), (0.3, 0.2), (0.0, 0.4)]))
def test_user_temporal_trains_on_nothing_later_than_what_it_holds_out(
    seed: int, times: int, shares: tuple[float, float]
) -> None:
    interactions = timed(seed, times)
    clock = clock_of(interactions)
    options = {"validation": shares[0], "test": shares[1]}
    split = split_interactions(interactions, "user-temporal", seed=seed, **options)
    assert sizes(split) == sizes(split_interactions(interactions, "random", seed=seed, **options))
    for user in range(5):
        train, validation, test = (clock[user][split.part(part).row(user)] for part in PARTS)
        assert train.max(initial=-1) <= min(validation.min(initial=2000), test.min(initial=2000))
        assert validation.max(initial=-1) <= test.min(initial=2000)


@pytest.mark.parametrize("method", ["leave-last", "user-temporal", "temporal"])
@given(st.integers(0, 2**32 - 1), st.sampled_from([2, 6, 1000]))
def test_splits_by_time_know_the_order_of_training(method: str, seed: int, times: int) -> None:
    interactions = timed(seed, times)
    clock = clock_of(interactions)
    split = split_interactions(interactions, method, seed=seed)
    users = np.array([3, 0, 3])
    for part, rows in ((split, np.arange(5)), (split.of_users(users), users)):
        assert part.train_order is not None
        assert len(part.train_order) == len(part.train)
        for place, user in enumerate(rows):
            entries = slice(part.train.indptr[place], part.train.indptr[place + 1])
            order = part.train_order[entries]
            assert sorted(order.tolist()) == list(range(len(order)))
            assert (np.diff(clock[user][part.train.indices[entries][np.argsort(order)]]) >= 0).all()


def test_splits_without_time_have_no_order(toy_interactions: Interactions) -> None:
    for method in ("random", "paper"):
        assert split_interactions(toy_interactions, method).train_order is None
    assert split_interactions(toy_interactions, "leave-last").refit().train_order is None


def test_seeds_differ_and_repeat(small: Dataset) -> None:
    first, again, other = (small.split(seed=seed).test.indices for seed in (1, 1, 2))
    assert (first == again).all()
    assert not np.array_equal(first, other)


def test_seen_before_test_holds_training_and_validation(small: Dataset) -> None:
    split = small.split()
    seen = split.seen_before("test")
    assert len(seen) == len(split.train) + len(split.validation)
    assert split.seen_before("validation") is split.train
    refit = split.refit()
    assert len(refit.train) == len(seen)
    assert len(refit.validation) == 0


def test_bad_splits_are_refused(toy_interactions: Interactions) -> None:
    with pytest.raises(InputError, match="unknown split 'half'; choose one of random"):
        split_interactions(toy_interactions, "half")
    with pytest.raises(InputError, match="leave nothing to train on"):
        split_interactions(toy_interactions, validation=0.6, test=0.6)
    untimed = Interactions(toy_interactions.user, toy_interactions.item, np.arange(6), np.arange(20))
    for method in BY_TIME:
        with pytest.raises(InputError, match="no timestamps"):
            split_interactions(untimed, method)


PRINT_SPLIT = """
from recprism.data import load_dataset
import hashlib
split = load_dataset("ml-latest-small").split(seed=5)
print(hashlib.sha256(split.test.indices.tobytes() + split.test.indptr.tobytes()).hexdigest())
"""


@pytest.mark.slow
def test_the_same_under_any_hash_seed() -> None:
    digests = {
        subprocess.run(
            [sys.executable, "-c", PRINT_SPLIT],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "12345")
    }
    assert len(digests) == 1


def test_a_validation_part_can_be_carved_from_training(small: Dataset) -> None:
    split = small.split("paper", seed=3)
    carved = split.carve_validation(0.125, seed=3)
    both = carved.train.union(carved.validation)
    assert np.array_equal(both.indices, split.train.indices)
    assert len(both) == len(carved.train) + len(carved.validation)
    assert carved.test is split.test
    assert (carved.train.row_counts >= 1).all()
    assert 0.11 < len(carved.validation) / len(split.train) < 0.14
    assert np.array_equal(carved.train.indices, split.carve_validation(0.125, seed=3).train.indices)
    with pytest.raises(InputError, match="has a validation part already"):
        carved.carve_validation()
