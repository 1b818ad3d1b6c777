"""Canonical axes: no list changes, and the result does not depend on the original axes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recprism.cmb.factors.axes import canonical
from recprism.cmb.factors.change import Change
from recprism.cmb.factors.naming import halves
from recprism.errors import InputError
from recprism.models import Factors

SEEDS = st.integers(0, 2**32 - 1)


def made(seed: int, n_users: int = 40, n_items: int = 60, dim: int = 5, bias: bool = False) -> Factors:
    """Random vectors whose axes are well apart, so that rounding cannot swap them."""
    generator = np.random.default_rng(seed)
    user, item = generator.gamma(1.0, size=(n_users, dim)), generator.standard_t(5, size=(n_items, dim))
    item_bias = generator.normal(size=n_items) if bias else None
    return Factors.from_arrays(user * 1.7 ** np.arange(dim), item, item_bias=item_bias)


def mixed(factors: Factors, seed: int) -> Factors:
    """The same recommender on other axes: any invertible matrix, not too near a singular one."""
    generator = np.random.default_rng(seed)
    left, _, right = np.linalg.svd(generator.normal(size=(factors.dim, factors.dim)))
    matrix = left @ np.diag(generator.uniform(0.3, 3.0, factors.dim)) @ right
    return factors.with_vectors(
        user=(factors.user @ matrix).astype(np.float32),
        item=(factors.item @ np.linalg.inv(matrix).T).astype(np.float32),
    )


def scores(factors: Factors) -> np.ndarray:
    user, item = factors.search_vectors
    return user.astype(float) @ item.astype(float).T


def same_lists(one: Factors, two: Factors, k: int = 10) -> None:
    """Each list of ``two`` is a best list of ``one``: equal up to items that rounding cannot tell apart."""
    truth = scores(one)
    best = np.take_along_axis(truth, one.rank(k)[0], axis=1)
    other = np.take_along_axis(truth, two.rank(k)[0], axis=1)
    np.testing.assert_allclose(other, best, atol=2e-5 * np.abs(truth).max())


@given(seed=SEEDS, bias=st.booleans())
@settings(deadline=None, max_examples=60)
def test_no_score_and_no_list_changes(seed: int, bias: bool) -> None:
    base = made(seed, bias=bias)
    axes = canonical(base)
    np.testing.assert_allclose(scores(axes.factors), scores(base), atol=1e-5 * np.abs(scores(base)).max())
    same_lists(base, axes.factors)
    assert axes.factors.item_bias is base.item_bias
    np.testing.assert_allclose(axes.user_map.T @ axes.item_map, np.eye(5), atol=1e-9)


@given(seed=SEEDS, mix=SEEDS)
@settings(deadline=None, max_examples=60)
def test_the_axes_do_not_depend_on_an_invertible_map(seed: int, mix: int) -> None:
    base = made(seed)
    other = mixed(base, mix)
    one, two = (canonical(factors, tie=0.05) for factors in (base, other))
    same_lists(base, two.factors)
    np.testing.assert_allclose(two.strengths, one.strengths, rtol=1e-3)
    if one.ties:
        return  # only the plane of tied axes is defined
    scale = np.abs(one.factors.item).max()
    np.testing.assert_allclose(two.factors.item, one.factors.item, atol=2e-3 * scale)
    np.testing.assert_allclose(two.factors.user, one.factors.user, atol=2e-3 * np.abs(one.factors.user).max())


def test_axes_are_sorted_by_strength_and_ties_are_reported() -> None:
    generator = np.random.default_rng(0)
    user, item = (np.linalg.qr(generator.normal(size=(n, 4)))[0] for n in (30, 40))
    axes = canonical(Factors.from_arrays(user * [5, 3, 3, 1], item))
    np.testing.assert_allclose(axes.strengths, [5, 3, 3, 1], rtol=1e-5)
    assert axes.ties == ((1, 2),)
    assert canonical(Factors.from_arrays(user * [5, 3, 2.98, 2.96], item)).ties == ((1, 2, 3),)
    assert canonical(Factors.from_arrays(user * [5, 3, 2, 1], item)).ties == ()


def test_empty_columns_and_copies_disappear() -> None:
    base = made(1)
    twice = np.hstack([base.user, base.user[:, :2], base.user[:, :1]])
    empty = np.hstack([base.item, base.item[:, :2], np.zeros((60, 1))])
    wide = Factors.from_arrays(twice, empty)
    axes = canonical(wide)
    assert axes.factors.dim == 5
    np.testing.assert_allclose(scores(axes.factors), scores(wide), atol=1e-4)
    change = Change(axes.factors, item=np.ones((60, 5), np.float32))
    assert np.allclose(scores(axes.to_original(change).after), scores(change.after), atol=1e-3)


@given(seed=SEEDS, sides=st.sampled_from([("item",), ("user",), ("item", "user")]))
@settings(deadline=None, max_examples=40)
def test_a_change_can_be_mapped_and_mapped_back(seed: int, sides: tuple[str, ...]) -> None:
    base = made(seed)
    axes = canonical(base)
    generator = np.random.default_rng(seed)
    change = Change(
        base, **{side: generator.normal(0, 0.1, getattr(base, side).shape).astype(np.float32) for side in sides}
    )
    there = axes.to_canonical(change)
    size = np.abs(scores(base)).max()
    np.testing.assert_allclose(scores(there.after), scores(change.after), atol=1e-4 * size)
    back = axes.to_original(there)
    for side in sides:
        np.testing.assert_allclose(back.sides[side], change.sides[side], atol=1e-4)


def test_halves_are_disjoint_and_complete() -> None:
    learn, test = halves(11)
    assert sorted([*learn, *test]) == list(range(11))
    assert len(learn) == 5


def test_a_model_whose_scores_are_all_0_has_no_axes() -> None:
    with pytest.raises(InputError, match="all scores"):
        canonical(Factors.from_arrays(np.zeros((3, 2)), np.ones((4, 2))))
