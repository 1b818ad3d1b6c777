"""SASRec on a world whose next item is known, and the order that it may see."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from contest.base_models.sasrec import Network, SASRec, encode, histories_of
from recprism.data import Dataset, SparseRows, Split
from recprism.errors import InputError

SMALL = SASRec(dim=16, layers=2, heads=2, dropout=0.1, max_length=10, epochs=60, patience=60, learning_rate=0.01)


@pytest.mark.slow
def test_it_learns_the_cycle(cycle: Split) -> None:
    factors = SMALL.fit(cycle, seed=0, device="cpu")
    items, _ = factors.rank(1, exclude=cycle.train)
    assert np.array_equal(items[:, 0], cycle.validation.indices), "the item after the last training item comes first"
    assert factors.settings["validation_ndcg@10"] == pytest.approx(1.0)


@pytest.mark.slow
def test_it_cannot_learn_the_cycle_from_shuffled_histories(cycle: Split) -> None:
    """The control: with the order destroyed, the same items do not tell which one is next."""
    assert cycle.train_order is not None
    generator = np.random.default_rng(0)
    order = np.concatenate([generator.permutation(n) for n in cycle.train.row_counts]).astype(np.int32)
    factors = SMALL.fit(replace(cycle, train_order=order), seed=0, device="cpu")
    items, _ = factors.rank(1, exclude=cycle.train)
    assert (items[:, 0] == cycle.validation.indices).mean() < 0.9


def test_no_state_sees_a_later_item() -> None:
    torch.manual_seed(0)
    network = Network(30, SMALL).eval()
    items = torch.randint(30, (5, 10))
    for place in range(10):
        changed = items.clone()
        changed[:, place] = (changed[:, place] + 1) % 30
        with torch.no_grad():
            before, after = network(items), network(changed)
        assert torch.equal(before[:, :place], after[:, :place])
        assert (before[:, place:] != after[:, place:]).any(2).all(), "every later state sees the change"


def test_padding_and_batches_do_not_change_a_user() -> None:
    torch.manual_seed(0)
    network = Network(30, SMALL)
    generator = np.random.default_rng(0)
    histories = [generator.integers(0, 30, size) for size in (3, 0, 10, 1, 25)]
    together = encode(network, histories)
    for number in (0, 2, 3):
        torch.testing.assert_close(together[number], encode(network, [histories[number]])[0])
    torch.testing.assert_close(together[4], encode(network, [histories[4][-10:]])[0])
    torch.testing.assert_close(together[1], together[[0, 2, 3, 4]].mean(0))


def test_histories_are_the_training_items_in_time(small: Dataset) -> None:
    split = small.split("user-temporal", seed=0)
    clock = {}
    rows = small.interactions
    assert rows.timestamp is not None
    for user, item, time in zip(rows.user.tolist(), rows.item.tolist(), rows.timestamp.tolist(), strict=True):
        clock[user, item] = time
    for user, history in enumerate(histories_of(split)):
        assert sorted(history.tolist()) == split.train.row(user).tolist()
        times = [clock[user, item] for item in history.tolist()]
        assert times == sorted(times)


def test_the_same_seed_gives_the_same_bits_and_leaves_torchs_generator_alone(cycle: Split) -> None:
    model = replace(SMALL, epochs=3)
    state = torch.get_rng_state()
    first, again, other = (model.fit(cycle, seed=seed, device="cpu") for seed in (1, 1, 2))
    assert torch.equal(state, torch.get_rng_state())
    assert np.array_equal(first.user, again.user)
    assert np.array_equal(first.item, again.item)
    assert not np.array_equal(first.user, other.user)


def test_what_cannot_be_trained_is_refused(cycle: Split, small: Dataset) -> None:
    with pytest.raises(InputError, match="split by time"):
        SMALL.fit(small.split("random"))
    with pytest.raises(InputError, match="a training and a validation part"):
        SMALL.fit(replace(cycle, validation=SparseRows.empty(cycle.train.shape)))
    with pytest.raises(InputError, match="3 heads do not divide dim=16"):
        replace(SMALL, heads=3).fit(cycle)
