"""EASE against the regressions that define it, and the candidates that it leaves for each part."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contest.base_models.ease import EASE
from recprism.budget import Problem
from recprism.budget.problem import CANDIDATES
from recprism.data import Dataset, SparseRows, Split
from recprism.errors import InputError


def by_regressions(x: np.ndarray, regularization: float) -> np.ndarray:
    """B column by column: a ridge regression of each item on all others, which is what the closed form must solve."""
    n = x.shape[1]
    weights = np.zeros((n, n))
    for item in range(n):
        others = np.delete(np.arange(n), item)
        rest = x[:, others]
        system = rest.T @ rest + regularization * np.eye(n - 1)
        weights[others, item] = np.linalg.solve(system, rest.T @ x[:, item])
    return weights


@given(st.integers(0, 2**32 - 1), st.floats(0.1, 50))
def test_closed_form_is_the_ridge_regression_of_each_item_on_the_others(seed: int, regularization: float) -> None:
    x = (np.random.default_rng(seed).random((15, 8)) < 0.4).astype(float)
    found = EASE(regularization=regularization).weights(SparseRows.coerce(x)).numpy()
    np.testing.assert_allclose(found, by_regressions(x, regularization), atol=1e-9)
    assert (np.diag(found) == 0).all()


def split_of(train: np.ndarray, validation: np.ndarray) -> Split:
    n_users, n_items = train.shape
    parts = (SparseRows.coerce(part) for part in (train, validation, np.zeros_like(train)))
    return Split(*parts, np.arange(n_users), np.arange(n_items))


def test_scores_and_lists_of_a_small_world() -> None:
    generator = np.random.default_rng(1)
    train = (generator.random((20, 9)) < 0.4).astype(float)
    train[3] = 0  # no history: the scores of an average user
    split = split_of(train, np.zeros_like(train))
    history = np.where(train.any(1)[:, None], train, train.sum(0) / train.any(1).sum())
    expected = history @ by_regressions(train, 5.0)
    expected[train > 0] = -np.inf
    found = EASE(regularization=5.0).fit(split, device="cpu")
    for user in range(20):
        n = int((train[user] == 0).sum())
        assert found.items[user, :n].tolist() == np.argsort(-expected[user], kind="stable")[:n].tolist()
        assert (found.items[user, n:] == -1).all()
        np.testing.assert_allclose(found.scores[user, :n], np.sort(expected[user])[::-1][:n], atol=1e-5)


def test_candidates_are_deep_enough_for_both_parts(small: Dataset) -> None:
    split = small.split("random", seed=3)
    model = EASE(regularization=200.0).fit(split, device="cpu")
    for part in ("validation", "test"):
        problem = Problem(model, split, small.categories, part)  # type: ignore[arg-type]
        items, scores = model.rank(CANDIDATES, exclude=problem.seen)
        assert (items >= 0).all()
        assert np.isfinite(scores).all()
        assert (np.diff(scores, axis=1) <= 0).all()
        rows = np.repeat(np.arange(split.n_users), CANDIDATES)
        assert not np.isin(rows * split.n_items + items.ravel(), problem.seen.keys).any()


def test_labels_do_not_change_the_scores(small: Dataset) -> None:
    split = small.split("random", seed=3)
    other = Split(split.train, split.test, split.validation, split.user_ids, split.item_ids)
    first, second = (EASE().fit(parts, device="cpu").rank(50) for parts in (split, other))
    assert np.array_equal(first[0], second[0])
    assert np.array_equal(first[1], second[1])


def test_nothing_to_learn_from_is_refused() -> None:
    with pytest.raises(InputError, match="the training part has no interactions"):
        EASE().fit(split_of(np.zeros((2, 3)), np.eye(2, 3)))
    with pytest.raises(InputError, match="regularization"):
        EASE(regularization=0.0)
