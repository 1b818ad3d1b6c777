"""Negatives: never one of the user's own items, and uniformly drawn from all others."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.stats import chisquare

from recprism.data.sparse_rows import SparseRows
from recprism.errors import InputError
from recprism.models.sampling import NegativeSampler, Triples

CPU = torch.device("cpu")


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@given(hnp.arrays(bool, st.tuples(st.integers(1, 8), st.integers(1, 12))))
def test_negatives_are_all_items_the_user_lacks_and_no_others(dense: np.ndarray) -> None:
    lacking = np.flatnonzero(~dense.all(axis=1))
    users = torch.from_numpy(lacking)
    drawn = NegativeSampler(SparseRows.coerce(dense), CPU).draw(users, 200, seeded()).numpy()
    assert drawn.shape == (len(lacking), 200)
    for user, items in zip(lacking, drawn, strict=True):
        missing = np.flatnonzero(~dense[user])
        assert set(items) <= set(missing)
        if len(missing) <= 8:  # 200 draws miss one of 8 items with probability 2e-11
            assert set(items) == set(missing)


def test_negatives_are_uniformly_distributed(random_matrix: SparseRows) -> None:
    users = torch.arange(1, 40)
    drawn = NegativeSampler(random_matrix, CPU).draw(users, 5_000, seeded(1)).numpy()
    for user, items in zip(users.tolist(), drawn, strict=True):
        missing = np.setdiff1d(np.arange(30), random_matrix.row(user))
        counts = np.array([(items == item).sum() for item in missing])
        assert counts.sum() == 5_000
        assert chisquare(counts).pvalue > 1e-4, f"user {user}"


def test_draws_of_one_call_are_independent() -> None:
    nothing = SparseRows.empty((1, 6))
    drawn = NegativeSampler(nothing, CPU).draw(torch.zeros(20_000, dtype=torch.int64), 2, seeded(2)).numpy()
    pairs = np.bincount(drawn[:, 0] * 6 + drawn[:, 1], minlength=36)
    assert chisquare(pairs).pvalue > 1e-4


def test_an_epoch_has_every_pair_once_with_new_negatives(random_matrix: SparseRows) -> None:
    triples = Triples(random_matrix, 2, CPU)
    generator = seeded()
    epochs = [list(triples.batches(50, generator)) for _ in range(2)]
    for batches in epochs:
        assert all((batch.users.diff() >= 0).all() for batch in batches)
        users, items = (torch.cat(column).numpy() for column in zip(*[b[:2] for b in batches], strict=True))
        taken = np.zeros(random_matrix.shape, int)
        np.add.at(taken, (users, items), 1)
        wanted = random_matrix.dense().astype(int)
        wanted[0] = 0  # a user with all items has no negatives
        assert (taken == wanted).all()
    first, second = (torch.cat([batch.negatives for batch in batches]) for batches in epochs)
    assert first.shape == second.shape == (len(triples), 2)
    assert not torch.equal(first, second)


def test_fixed_negatives_stay_and_every_triple_is_an_example(random_matrix: SparseRows) -> None:
    triples = Triples(random_matrix, 3, CPU, fixed=seeded())
    assert len(triples) == 3 * (len(random_matrix) - 30)
    generator = seeded(9)

    def epoch() -> list[list[int]]:
        rows = [torch.stack([b.users, b.positives, b.negatives[:, 0]], 1) for b in triples.batches(64, generator)]
        return sorted(torch.cat(rows).tolist())

    assert epoch() == epoch()


def test_more_items_can_be_avoided_than_the_training_items() -> None:
    train, held_out = SparseRows.coerce([[1, 0, 0, 0]]), SparseRows.coerce([[0, 1, 0, 0]])
    triples = Triples(train, 100, CPU, avoid=train.union(held_out))
    (batch,) = triples.batches(10, seeded())
    assert set(batch.negatives.flatten().tolist()) == {2, 3}


@pytest.mark.parametrize("train", [np.ones((3, 4)), np.zeros((3, 4))])
def test_nothing_to_learn_from_is_an_error(train: np.ndarray) -> None:
    with pytest.raises(InputError, match="3 users, 4 items"):
        Triples(SparseRows.coerce(train), 1, CPU)
