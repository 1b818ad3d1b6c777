"""A recommender turned onto another one's axes: the same lists, and a copy comes back exactly."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recprism.errors import InputError
from recprism.models import Factors
from recprism.models.alignment import align


def model(seed: int, n_users: int = 30, n_items: int = 25, d: int = 6, bias: bool = False) -> Factors:
    generator = np.random.default_rng(seed)
    return Factors.from_arrays(
        generator.normal(size=(n_users, d)),
        generator.normal(size=(n_items, d)),
        user_ids=[f"u{number}" for number in range(n_users)],
        item_ids=np.arange(100, 100 + n_items),
        item_bias=generator.normal(size=n_items) if bias else None,
    )


def turned_and_shuffled(factors: Factors, seed: int) -> Factors:
    """The same recommender on random axes (mirrored, too), its users and items in another order."""
    generator = np.random.default_rng(seed)
    turn, _ = np.linalg.qr(generator.normal(size=(factors.dim, factors.dim)))
    users, items = generator.permutation(factors.n_users), generator.permutation(factors.n_items)
    moved = factors.with_vectors(
        user=(factors.user @ turn).astype(np.float32), item=(factors.item @ turn).astype(np.float32)
    )
    return moved.of_users(users).of_items(items)


def by_id(vectors: Any, ids: Any) -> dict[Any, Any]:
    return dict(zip(ids.tolist(), vectors, strict=True))


@given(st.integers(0, 1000), st.booleans())
def test_a_turned_and_shuffled_copy_comes_back(seed: int, bias: bool) -> None:
    old = model(seed, bias=bias)
    new = turned_and_shuffled(old, seed + 1)
    found = align(new, old)
    assert found.unlike < 1e-6 < found.unlike_before
    assert (found.users, found.items) == (30, 25)
    was = by_id(old.item, old.item_ids)
    for item, vector in by_id(found.factors.item, found.factors.item_ids).items():
        assert vector == pytest.approx(was[item], abs=1e-5)
    for user in ("u0", "u17"):
        assert found.factors.recommend(user, 8)[0].tolist() == old.recommend(user, 8)[0].tolist()


@given(st.integers(0, 1000))
def test_lists_do_not_change_and_the_turn_is_one(seed: int) -> None:
    new, old = model(seed), model(seed + 5000, n_users=22, n_items=31)
    found = align(new, old)
    assert found.turn @ found.turn.T == pytest.approx(np.eye(6), abs=1e-12)
    assert (found.factors.rank(10)[0] == new.rank(10)[0]).all()
    assert found.factors.user @ found.factors.item.T == pytest.approx(new.user @ new.item.T, abs=1e-4)
    assert found.unlike <= found.unlike_before
    assert (found.users, found.items) == (22, 25), "those that stand in both"


def test_new_users_and_items_take_no_part_and_are_turned_with_the_rest() -> None:
    old = model(0)
    new = turned_and_shuffled(old, 1)
    some = old.of_users(np.arange(0, 30, 2)).of_items(np.arange(3, 25))
    found = align(new, some)
    assert (found.users, found.items) == (15, 22)
    assert by_id(found.factors.item, found.factors.item_ids)[100] == pytest.approx(old.item[0], abs=1e-5)


def test_what_has_nothing_in_common_is_refused() -> None:
    old = model(0)
    with pytest.raises(InputError, match="4 columns and the old ones 6"):
        align(model(0, d=4), old)
    strangers = Factors.from_arrays(old.user, old.item, item_ids=[f"i{number}" for number in range(25)])
    with pytest.raises(InputError, match="no item in common"):
        align(strangers, old)
