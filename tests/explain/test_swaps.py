"""Parts of swaps: they add up, and each swap is evaluated on the list in which it happened."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recprism.cmb.factors.change import Change
from recprism.cmb.factors.evaluator import Evaluator
from recprism.cmb.factors.swaps import find_swaps
from recprism.data.categories import Categories
from recprism.data.sparse_rows import SparseRows
from recprism.metrics import Context, evaluate
from recprism.models import Factors

SIDES = st.sampled_from([("item",), ("user",), ("item", "user")])


def made(seed: int, sides: tuple[str, ...] = ("item",), size: float = 0.4, bias: bool = False) -> Change:
    generator = np.random.default_rng(seed)
    item_bias = generator.normal(size=30) if bias else None
    base = Factors.from_arrays(generator.normal(size=(20, 5)), generator.normal(size=(30, 5)), item_bias=item_bias)
    moved = {side: generator.normal(0, size, getattr(base, side).shape) for side in sides}
    return Change(base, **{side: values.astype(np.float32) for side, values in moved.items()})


@given(seed=st.integers(0, 2**32 - 1), sides=SIDES, bias=st.booleans())
@settings(deadline=None, max_examples=60)
def test_the_parts_add_up_to_the_change_of_the_score_difference(seed: int, sides: tuple[str, ...], bias: bool) -> None:
    change = made(seed, sides, bias=bias)
    found = find_swaps(change, 8)
    left, right = change.score_change  # float64, and the item bias is in neither
    difference = left @ right.T
    wanted = difference[found.users, found.came] - difference[found.users, found.went]
    assert tuple(found.parts) == sides
    # The sum q + delta is rounded to float32 in the changed vectors that difference comes from.
    np.testing.assert_allclose(found.total, wanted, atol=1e-5)
    exact = _exact(change)
    wanted = exact[found.users, found.came] - exact[found.users, found.went]
    np.testing.assert_allclose(found.total, wanted, atol=1e-12)


def _exact(change: Change) -> np.ndarray:
    """The change of every score in float64 from beginning to end."""
    user, item = change.base.user.astype(float), change.base.item.astype(float)
    moved_user, moved_item = (0 if side is None else side.astype(float) for side in (change.user, change.item))
    return (user + moved_user) @ (item + moved_item).T - user @ item.T


@given(seed=st.integers(0, 2**32 - 1), sides=SIDES)
@settings(deadline=None, max_examples=30)
def test_swaps_turn_the_base_lists_into_the_new_ones(seed: int, sides: tuple[str, ...]) -> None:
    change = made(seed, sides)
    exclude = SparseRows.coerce(np.random.default_rng(seed).random((20, 30)) < 0.5)
    found = find_swaps(change, 12, exclude=exclude)
    base, after = change.base.rank(12, exclude=exclude)[0], change.after.rank(12, exclude=exclude)[0]
    np.testing.assert_array_equal(found.base_lists, base)
    np.testing.assert_array_equal(after[found.users, found.rank_in], found.came)
    np.testing.assert_array_equal(base[found.users, found.rank_out], found.went)
    turned = base.copy()
    turned[found.users, found.rank_out] = found.came
    np.testing.assert_array_equal(np.sort(turned, axis=1), np.sort(after, axis=1))
    for user in np.unique(found.users):
        mine = found.of_user(int(user))
        assert (np.diff(mine.rank_in) > 0).all()
        assert (np.diff(mine.rank_out) > 0).all()


def test_a_swap_is_evaluated_alone_in_its_list() -> None:
    change = made(3, ("item", "user"))
    generator = np.random.default_rng(0)
    categories = Categories.from_pairs(np.arange(30), np.array(list("abcdef"))[generator.integers(0, 6, 30)], 30)
    context = Context(relevant=generator.random((20, 30)) < 0.2, categories=categories, vectors=change.base.item)
    evaluator = Evaluator(
        context, SparseRows.empty((20, 30)), ("ndcg@6", "subtopic_coverage@6", "catalogue_coverage@6")
    )
    found = find_swaps(change, 6)
    effects = found.effects(evaluator)
    assert set(effects) == {"ndcg@6", "subtopic_coverage@6"}  # catalogue_coverage belongs to all lists together
    before = evaluate(found.base_lists, context, ["ndcg@6", "subtopic_coverage@6"], bootstrap=0).values
    for number in range(len(found)):
        lists = found.base_lists.copy()
        lists[found.users[number], found.rank_out[number]] = found.came[number]
        after = evaluate(lists, context, ["ndcg@6", "subtopic_coverage@6"], bootstrap=0).values
        for metric, values in effects.items():
            user = found.users[number]
            assert values[number] == pytest.approx(after[metric][user] - before[metric][user], nan_ok=True)


def test_means_over_swaps_are_per_factor() -> None:
    found = find_swaps(made(1), 10)
    np.testing.assert_allclose(found.mean_parts()["item"].sum(), found.total.mean())
    assert (found.total > 0).all()  # what came in must have gained on what went out


def test_a_change_too_small_for_any_swap_gives_no_swaps() -> None:
    found = find_swaps(made(0, size=1e-7), 5)
    assert len(found) == 0
    assert found.mean_parts()["item"].tolist() == [0.0] * 5
    evaluator = Evaluator(Context(relevant=np.eye(20, 30)), SparseRows.empty((20, 30)), ("ndcg@5",))
    assert found.effects(evaluator)["ndcg@5"].shape == (0,)
