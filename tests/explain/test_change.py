"""The difference between two sets of factors, and its two parts."""

from __future__ import annotations

import numpy as np
import pytest

from recprism.cmb.factors.change import Change
from recprism.errors import InputError
from recprism.models import Factors


@pytest.fixture
def base() -> Factors:
    generator = np.random.default_rng(0)
    return Factors.from_arrays(generator.normal(size=(40, 6)), generator.normal(size=(25, 6)))


def moved(base: Factors, side: str, seed: int = 1) -> Factors:
    generator = np.random.default_rng(seed)
    vectors = getattr(base, side)
    return base.with_vectors(**{side: vectors + generator.normal(0, 0.2, vectors.shape).astype(np.float32)})


def scores(factors: Factors) -> np.ndarray:
    user, item = factors.search_vectors
    return user.astype(float) @ item.astype(float).T


@pytest.mark.parametrize("sides", [("item",), ("user",), ("item", "user")])
def test_the_change_of_scores_is_the_product_of_its_two_matrices(base: Factors, sides: tuple[str, ...]) -> None:
    after = base
    for side in sides:
        after = moved(after, side)
    change = Change.between(base, after)
    users, items = change.score_change
    assert tuple(sorted(change.sides)) == sides
    assert users.shape[1] == 6 * len(sides)
    np.testing.assert_allclose(users @ items.T, scores(after) - scores(base), atol=1e-5)


@pytest.mark.parametrize("side", ["item", "user"])
def test_bias_and_the_rest_add_up(base: Factors, side: str) -> None:
    change = Change.between(base, moved(base, side))
    difference = scores(change.after) - scores(base)
    np.testing.assert_allclose(change.bias, difference.mean(axis=0), atol=1e-6)
    bias, rest = scores(change.bias_alone) - scores(base), scores(change.without_bias) - scores(base)
    np.testing.assert_allclose(bias + rest, difference, atol=1e-5)
    np.testing.assert_allclose(rest.mean(axis=0), 0, atol=1e-6)


def test_what_cannot_be_compared_is_refused(base: Factors) -> None:
    with pytest.raises(InputError, match="nothing to explain"):
        Change.between(base, base)
    with pytest.raises(InputError, match="item_ids"):
        Change.between(base, Factors.from_arrays(base.user, base.item, item_ids=np.arange(25) + 1))
    with pytest.raises(InputError, match="shape"):
        Change(base, item=np.zeros((3, 6), np.float32))
