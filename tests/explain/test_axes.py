"""Canonical axes: no list changes, and the result does not depend on the original axes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recprism.cmb.factors.axes import Axes, canonical
from recprism.cmb.factors.change import Change
from recprism.cmb.factors.naming import halves
from recprism.data.subtopics import Subtopics
from recprism.errors import InputError
from recprism.models import Factors

SEEDS = st.integers(0, 2**32 - 1)
METHODS = ["svd", "varimax", "subtopics"]


def made(seed: int, n_users: int = 40, n_items: int = 60, dim: int = 5, bias: bool = False) -> Factors:
    """Random vectors whose axes are well apart, so that rounding cannot swap them."""
    generator = np.random.default_rng(seed)
    user, item = generator.gamma(1.0, size=(n_users, dim)), generator.standard_t(5, size=(n_items, dim))
    item_bias = generator.normal(size=n_items) if bias else None
    return Factors.from_arrays(user * 1.7 ** np.arange(dim), item, item_bias=item_bias)


def subtopics_for(factors: Factors, seed: int) -> Subtopics:
    """Three subtopics: each goes with some direction of the items."""
    generator = np.random.default_rng(seed)
    scores = factors.item @ generator.normal(size=(factors.dim, 3))
    item, subtopic = np.nonzero(scores > np.quantile(scores, 0.7, axis=0))
    return Subtopics.from_pairs(item, np.array(["a", "b", "c"])[subtopic], factors.n_items)


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


@given(seed=SEEDS, method=st.sampled_from(METHODS), bias=st.booleans())
@settings(deadline=None, max_examples=60)
def test_no_score_and_no_list_changes(seed: int, method: str, bias: bool) -> None:
    base = made(seed, bias=bias)
    axes = canonical(base, method, subtopics=subtopics_for(base, seed))
    np.testing.assert_allclose(scores(axes.factors), scores(base), atol=1e-5 * np.abs(scores(base)).max())
    same_lists(base, axes.factors)
    assert axes.factors.item_bias is base.item_bias
    np.testing.assert_allclose(axes.user_map.T @ axes.item_map, np.eye(5), atol=1e-9)


@given(seed=SEEDS, mix=SEEDS, method=st.sampled_from(METHODS))
@settings(deadline=None, max_examples=60)
def test_the_axes_do_not_depend_on_an_invertible_map(seed: int, mix: int, method: str) -> None:
    base = made(seed)
    other = mixed(base, mix)
    subtopics = subtopics_for(base, seed)
    one, two = (canonical(factors, method, subtopics=subtopics, tie=0.05) for factors in (base, other))
    same_lists(base, two.factors)
    np.testing.assert_allclose(two.strengths, one.strengths, rtol=1e-3)
    if one.ties or method == "varimax":
        return  # only the plane of tied axes is defined; varimax has its own test
    scale = np.abs(one.factors.item).max()
    np.testing.assert_allclose(two.factors.item, one.factors.item, atol=2e-3 * scale)
    np.testing.assert_allclose(two.factors.user, one.factors.user, atol=2e-3 * np.abs(one.factors.user).max())


@pytest.mark.parametrize("seed", range(5))
def test_varimax_finds_simple_axes_again_from_any_others(seed: int) -> None:
    """Items lie on one axis each: varimax recovers these axes, the singular vectors do not."""
    generator = np.random.default_rng(seed)
    own = generator.integers(0, 4, 200)
    item = 0.02 * generator.normal(size=(200, 4))
    item[np.arange(200), own] += generator.gamma(3.0, size=200)
    user = (
        np.linalg.qr(generator.normal(size=(90, 4)))[0] * 9
    )  # users at right angles, so that axes are a rotation away
    base = Factors.from_arrays(user, item)
    found = canonical(mixed(base, seed), "varimax").factors.item
    match = np.abs(np.corrcoef(found.T, item.T)[:4, 4:])
    assert match.max(axis=1).min() > 0.99
    np.testing.assert_allclose(canonical(base, "varimax").factors.item, found, atol=0.01)


def test_axes_are_sorted_by_strength_and_ties_are_reported() -> None:
    generator = np.random.default_rng(0)
    user, item = (np.linalg.qr(generator.normal(size=(n, 4)))[0] for n in (30, 40))
    axes = canonical(Factors.from_arrays(user * [5, 3, 3, 1], item))
    np.testing.assert_allclose(axes.strengths, [5, 3, 3, 1], rtol=1e-5)
    assert axes.ties == ((1, 2),)
    assert canonical(Factors.from_arrays(user * [5, 3, 2.98, 2.96], item)).ties == ((1, 2, 3),)
    assert canonical(Factors.from_arrays(user * [5, 3, 2, 1], item)).ties == ()


@pytest.mark.parametrize("method", METHODS)
def test_empty_columns_and_copies_disappear(method: str) -> None:
    base = made(1)
    twice = np.hstack([base.user, base.user[:, :2], base.user[:, :1]])
    empty = np.hstack([base.item, base.item[:, :2], np.zeros((60, 1))])
    wide = Factors.from_arrays(twice, empty)
    axes = canonical(wide, method, subtopics=subtopics_for(base, 1))
    assert axes.factors.dim == 5
    np.testing.assert_allclose(scores(axes.factors), scores(wide), atol=1e-4)
    change = Change(axes.factors, item=np.ones((60, 5), np.float32))
    assert np.allclose(scores(axes.to_original(change).after), scores(change.after), atol=1e-3)


@given(seed=SEEDS, method=st.sampled_from(METHODS), sides=st.sampled_from([("item",), ("user",), ("item", "user")]))
@settings(deadline=None, max_examples=40)
def test_a_change_can_be_mapped_and_mapped_back(seed: int, method: str, sides: tuple[str, ...]) -> None:
    base = made(seed)
    axes = canonical(base, method, subtopics=subtopics_for(base, seed))
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


def test_axes_of_subtopics_hold_on_held_out_items() -> None:
    axes = _along_subtopics(related=True)
    assert axes.targets == ("a", "b", "c")
    assert axes.held_out is not None
    assert axes.held_out.min() > 0.4
    loose = _along_subtopics(related=False)
    assert loose.held_out is not None
    assert np.abs(loose.held_out).max() < 0.3


def _along_subtopics(related: bool) -> Axes:
    generator = np.random.default_rng(0)
    base = Factors.from_arrays(generator.normal(size=(100, 8)), generator.normal(size=(400, 8)))
    subtopics = subtopics_for(base, 1)
    if not related:
        subtopics = subtopics.take_items(generator.permutation(400))
    return canonical(base, "subtopics", subtopics=subtopics)


def test_with_more_subtopics_than_axes_the_rarest_are_left_out() -> None:
    base = made(0, dim=2)
    axes = canonical(base, "subtopics", subtopics=subtopics_for(base, 0))
    assert len(axes.targets) == 2


def test_halves_are_disjoint_and_complete() -> None:
    learn, test = halves(11)
    assert sorted([*learn, *test]) == list(range(11))
    assert len(learn) == 5


def test_invalid_arguments_are_refused() -> None:
    base = made(0)
    with pytest.raises(InputError, match="varimax"):
        canonical(base, "quartimax")
    with pytest.raises(InputError, match="subtopics"):
        canonical(base, "subtopics")
    with pytest.raises(InputError, match="all scores"):
        canonical(Factors.from_arrays(np.zeros((3, 2)), np.ones((4, 2))))
