"""Directions of a change of scores: they add up, can be erased exactly, and do not depend on the model's axes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recprism.cmb.factors.change import Change
from recprism.cmb.factors.score_directions import directions
from recprism.errors import InputError
from recprism.models import Factors

SEEDS = st.integers(0, 2**32 - 1)
SIDES = st.sampled_from([("item",), ("user",), ("item", "user")])


def made(seed: int, sides: tuple[str, ...], bias: bool = False) -> Change:
    generator = np.random.default_rng(seed)
    item_bias = generator.normal(size=25) if bias else None
    base = Factors.from_arrays(generator.gamma(1, size=(40, 4)), generator.normal(size=(25, 4)), item_bias=item_bias)
    moved = {side: generator.gamma(1, size=getattr(base, side).shape) for side in sides}
    return Change(base, **{side: (0.2 * values).astype(np.float32) for side, values in moved.items()})


def scores(factors: Factors) -> np.ndarray:
    user, item = factors.search_vectors
    return user.astype(float) @ item.astype(float).T


@given(seed=SEEDS, sides=SIDES, centred=st.booleans(), bias=st.booleans())
@settings(deadline=None, max_examples=60)
def test_all_directions_together_are_the_change(seed: int, sides: tuple[str, ...], centred: bool, bias: bool) -> None:
    change = made(seed, sides, bias)
    found = directions(change, centred=centred)
    difference = scores(change.after) - scores(change.base)
    whole = (found.users * found.strengths) @ found.items.T + (change.bias if centred else 0)
    np.testing.assert_allclose(whole, difference, atol=1e-5 * np.abs(scores(change.after)).max())
    assert found.shares.sum() == pytest.approx(1)
    assert np.all(np.diff(found.strengths) <= 0)
    assert ((found.users**3).sum(axis=0) >= 0).all()
    for basis in (found.users, found.items):
        np.testing.assert_allclose(basis.T @ basis, np.eye(len(found)), atol=1e-9)


@given(seed=SEEDS, sides=SIDES, centred=st.booleans())
@settings(deadline=None, max_examples=60)
def test_erasing_takes_away_exactly_one_direction(seed: int, sides: tuple[str, ...], centred: bool) -> None:
    change = made(seed, sides)
    found = directions(change, 3, centred=centred)
    one = found[1]
    atol = 1e-5 * np.abs(scores(change.after)).max()
    less = scores(change.after) - one.strength * np.outer(one.users, one.items)
    np.testing.assert_allclose(scores(found.erased(1)), less, atol=atol)
    everybody = change.bias if centred else 0
    alone = scores(change.base) + one.strength * np.outer(one.users, one.items) + everybody
    np.testing.assert_allclose(scores(found.kept(1)), alone, atol=atol)
    np.testing.assert_allclose(scores(found.erased()), scores(change.after), atol=atol)
    every = directions(change, centred=centred)
    np.testing.assert_allclose(scores(every.kept(*range(len(every)))), scores(change.after), atol=atol)


@given(seed=SEEDS, mix=SEEDS, centred=st.booleans())
@settings(deadline=None, max_examples=60)
def test_directions_do_not_depend_on_the_axes(seed: int, mix: int, centred: bool) -> None:
    change = made(seed, ("item", "user"))
    generator = np.random.default_rng(mix)
    left, _, right = np.linalg.svd(generator.normal(size=(4, 4)))
    matrix = left @ np.diag(generator.uniform(0.3, 3, 4)) @ right
    maps = {"user": matrix, "item": np.linalg.inv(matrix).T}
    turned = {side: (getattr(change.base, side) @ maps[side]).astype(np.float32) for side in maps}
    moved = {side: (values @ maps[side]).astype(np.float32) for side, values in change.sides.items()}
    one = directions(change, centred=centred)
    two = directions(Change(change.base.with_vectors(**turned), **moved), centred=centred)
    n = min(len(one), len(two), 2)
    size = one.strengths[0]
    np.testing.assert_allclose(two.strengths[:n], one.strengths[:n], atol=1e-4 * size)
    parts = [it.strengths[0] * np.outer(it.users[:, 0], it.items[:, 0]) for it in (one, two)]
    if one.strengths[0] > 1.2 * one.strengths[1]:
        np.testing.assert_allclose(parts[1], parts[0], atol=1e-3 * size)


def test_the_personal_part_has_no_mean_over_users() -> None:
    found = directions(made(0, ("item",)), centred=True)
    np.testing.assert_allclose(found.users.mean(axis=0), 0, atol=1e-9)


def test_a_plain_promotion_is_one_direction_without_a_personal_part() -> None:
    base = Factors.from_arrays(np.ones((10, 3)), np.random.default_rng(0).normal(size=(8, 3)))
    delta = np.zeros((8, 3), np.float32)
    delta[2] = 1.0
    change = Change(base, item=delta)
    (only,) = directions(change)
    assert only.share == pytest.approx(1)
    assert np.flatnonzero(np.abs(only.items) > 1e-9).tolist() == [2]
    assert only.items[2] > 0  # raised for the users with a positive coordinate: all users
    assert (only.users > 0).all()
    assert len(directions(change, centred=True)) == 0


def test_missing_directions_are_refused() -> None:
    change = made(0, ("item",))
    found = directions(change, 2)
    assert len(found) == 2
    assert len(list(found)) == 2
    with pytest.raises(IndexError, match="no direction 2"):
        found.erased(2)
    with pytest.raises(InputError, match="at least one"):
        directions(change, 0)
