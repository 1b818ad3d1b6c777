"""benchmarks/folding.py: the result is the minimum, training users get their lists back, and bad input is refused."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recprism.data.sparse_rows import SparseRows
from recprism.data.split import Split
from recprism.errors import InputError
from recprism.models import BPRMF, Factors

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from folding import fold_in


def world(seed: int, bias: bool = False, d: int = 4) -> tuple[Factors, SparseRows]:
    """Random factors, and five new users, of whom the first has no item and the second all."""
    generator = np.random.default_rng(seed)
    factors = Factors.from_arrays(
        generator.normal(size=(6, d)),
        generator.normal(size=(20, d)),
        item_bias=generator.normal(size=20) if bias else None,
    )
    taken = generator.random((5, 20)) < 0.3
    taken[0], taken[1], taken[2:, 0], taken[2:, 1] = False, True, True, False
    return factors, SparseRows.coerce(taken)


def loss_of(factors: Factors, row: SparseRows, vector: np.ndarray, weight_decay: float) -> float:
    """Return the BPR loss of one row against all other items, each positive counting once."""
    taken = row.dense()[0]
    scores = factors.item.astype(np.float64) @ vector
    if factors.item_bias is not None:
        scores = scores + factors.item_bias
    lead = scores[taken][:, None] - scores[~taken][None]
    return float(np.logaddexp(0, -lead).mean(1).sum()) + 0.5 * weight_decay * float(vector @ vector)


@given(st.integers(0, 10_000), st.booleans(), st.sampled_from([0.1, 2.0]))
def test_the_result_is_a_minimum(seed: int, bias: bool, weight_decay: float) -> None:
    # With many negatives the sample mean is close to the mean over all of them.
    factors, taken = world(seed, bias)
    vectors = fold_in(factors, taken, weight_decay=weight_decay, negatives=2000)
    generator = np.random.default_rng(seed)
    for row in range(2, 5):
        own = taken.take_rows(np.array([row]))
        found = loss_of(factors, own, vectors[row].astype(np.float64), weight_decay)
        for _ in range(10):
            other = vectors[row] + 0.5 * generator.normal(size=factors.dim)
            assert found <= loss_of(factors, own, other, weight_decay)


def test_users_with_no_or_all_items_get_the_mean_vector() -> None:
    factors, taken = world(0)
    vectors = fold_in(factors, taken)
    assert vectors.dtype == np.float32
    assert vectors.shape == (5, 4)
    assert (vectors[:2] == factors.user.mean(0)).all()
    assert fold_in(factors, SparseRows.empty((3, 20))).shape == (3, 4)
    assert fold_in(factors, SparseRows.empty((0, 20))).shape == (0, 4)


def test_same_seed_same_bits_and_a_row_does_not_depend_on_dense_or_sparse() -> None:
    factors, taken = world(1)
    assert (fold_in(factors, taken, seed=3) == fold_in(factors, taken.dense(), seed=3)).all()
    assert (fold_in(factors, taken, seed=3) != fold_in(factors, taken, seed=4)).any()


def test_training_users_get_similar_lists(blocks: Split) -> None:
    factors = BPRMF(dim=8).fit(blocks, seed=0, device="cpu")
    again = factors.with_vectors(user=fold_in(factors, blocks.train))
    own, back = (vectors.rank(5, exclude=blocks.train)[0] for vectors in (factors, again))
    near = float((own[:, :, None] == back[:, None, :]).any(2).mean())
    others = float((own[:, :, None] == back[::-1][:, None, :]).any(2).mean())
    assert near > 0.6
    assert near > others + 0.4
    cosine = (again.user * factors.user).sum(1)
    assert (cosine / np.linalg.norm(again.user, axis=1) / np.linalg.norm(factors.user, axis=1)).mean() > 0.8


def test_a_new_user_gets_items_of_their_own_block(blocks: Split) -> None:
    # The model is trained without the last user of each block. Folded in, both get only items of their block.
    away = np.array([29, 59])
    rest = np.setdiff1d(np.arange(blocks.n_users), away)
    parts = (part.take_rows(rest) for part in (blocks.train, blocks.validation, blocks.test))
    factors = BPRMF(dim=8).fit(Split(*parts, blocks.user_ids[rest], blocks.item_ids), seed=0, device="cpu")
    taken = blocks.train.take_rows(away)
    lists, _ = factors.with_vectors(user=fold_in(factors, taken)).rank(5, exclude=taken)
    assert (lists // 25 == np.array([[0], [1]])).all()


def test_bad_input_raises_an_error() -> None:
    factors, taken = world(0)
    with pytest.raises(InputError, match="the interactions have 3 items and the model 20"):
        fold_in(factors, np.ones((2, 3)))
    with pytest.raises(InputError, match="weight_decay is 0"):
        fold_in(factors, taken, weight_decay=0)
    with pytest.raises(InputError, match="negatives is 0"):
        fold_in(factors, taken, negatives=0)
