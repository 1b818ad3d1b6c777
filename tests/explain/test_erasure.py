"""Erasing features of a change: which entries are erased, and what the curves show."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recprism.cmb.factors.change import Change
from recprism.cmb.factors.erasure import BY, BY_CHANCE, WHICH, By, Erasure, Which, erase, erased, usual_features
from recprism.cmb.factors.evaluator import Evaluator
from recprism.data.sparse_rows import SparseRows
from recprism.errors import InputError
from recprism.metrics import Context
from recprism.models import Factors

N_USERS, N_ITEMS, DIM = 30, 40, 8


def a_change(seed: int = 0, sides: tuple[str, ...] = ("item",)) -> Change:
    generator = np.random.default_rng(seed)
    base = Factors.from_arrays(generator.normal(size=(N_USERS, DIM)), generator.normal(size=(N_ITEMS, DIM)))
    # cubes spread the sizes; some entries are exactly 0, as in learned changes
    drawn = {side: generator.normal(size=getattr(base, side).shape) ** 3 for side in sides}
    zeroed = {side: np.where(generator.random(values.shape) < 0.3, 0, values) for side, values in drawn.items()}
    return Change(base, **{side: values.astype(np.float32) for side, values in zeroed.items()})


def an_evaluator(base: Factors, metrics: tuple[str, ...] = ("subtopic_coverage@5", "ndcg@5")) -> Evaluator:
    generator = np.random.default_rng(5)
    categories, relevant = (
        generator.random((base.n_items, 12)) < 0.15,
        generator.random((base.n_users, base.n_items)) < 0.2,
    )
    return Evaluator(Context(relevant=relevant, categories=categories, vectors=base.item), nothing_seen(base), metrics)


def nothing_seen(base: Factors) -> SparseRows:
    return SparseRows.empty((base.n_users, base.n_items))


def removed(before: Change, after: Change, axis: int | None) -> np.ndarray:
    """The erased sum of |delta|, over all sides (axis None) or per row of the only side."""
    gone = [np.abs(before.sides[side]) - np.abs(after.sides[side]) for side in before.sides]
    return sum(part.astype(float).sum() for part in gone) if axis is None else gone[0].astype(float).sum(axis)


@given(seed=st.integers(0, 50), n=st.integers(0, DIM), sides=st.sampled_from([("item",), ("user",), ("item", "user")]))
def test_a_matched_erasure_removes_as_much_as_the_top(seed: int, n: int, sides: tuple[str, ...]) -> None:
    change, generator = a_change(seed, sides), np.random.default_rng(seed)
    for by in BY:
        top, matched, squares = (erased(change, which, by, n, generator) for which in ("top", "matched", "squares"))
        np.testing.assert_allclose(removed(change, top, None), removed(change, matched, None), rtol=1e-5, atol=1e-5)
        if by == "individual" and len(sides) == 1:
            np.testing.assert_allclose(removed(change, top, 1), removed(change, matched, 1), rtol=1e-5, atol=1e-5)
        energy = [sum((side.astype(float) ** 2).sum() for side in it.sides.values()) for it in (top, squares)]
        assert energy[0] == pytest.approx(energy[1], rel=1e-5, abs=1e-5)


@given(seed=st.integers(0, 50), n=st.integers(0, DIM))
def test_top_removes_the_most_and_least_the_least(seed: int, n: int) -> None:
    change, generator = a_change(seed), np.random.default_rng(seed)
    sums = {which: removed(change, erased(change, which, "individual", n, generator), 1) for which in WHICH}
    assert (sums["least"] <= sums["random"] + 1e-5).all()
    assert (sums["random"] <= sums["top"] + 1e-5).all()


@pytest.mark.parametrize("which", ["top", "least", "random"])
def test_n_entries_of_every_row_or_n_whole_factors_go(which: Which) -> None:
    change = a_change()
    change = change.replaced(item=change.item + np.float32(0.01) * (change.item == 0))  # no zeros to begin with
    individual = erased(change, which, "individual", 3, np.random.default_rng(0)).item
    shared = erased(change, which, "shared", 3, np.random.default_rng(0)).item
    assert ((individual == 0).sum(axis=1) == 3).all()
    assert sorted((shared == 0).sum(axis=0)) == [0] * (DIM - 3) + [N_ITEMS] * 3


def test_shared_takes_the_factors_that_moved_most() -> None:
    change = a_change()
    gone = np.flatnonzero((erased(change, "top", "shared", 2).item == 0).all(axis=0))
    assert set(gone) == set(np.argsort(-np.abs(change.item).mean(axis=0))[:2])


def test_shared_takes_the_same_factors_from_both_sides() -> None:
    change = a_change(sides=("item", "user"))
    after = erased(change, "top", "shared", 2)
    gone = [set(np.flatnonzero((side == 0).all(axis=0))) for side in after.sides.values()]
    assert gone[0] == gone[1] == set(np.argsort(-np.mean([np.abs(it).mean(0) for it in change.sides.values()], 0))[:2])


def test_one_draw_chooses_in_the_same_order_for_any_number() -> None:
    change = a_change()
    few, many = (erased(change, "random", "individual", n, np.random.default_rng(3)).item for n in (2, 5))
    assert ((many == 0) | (few != 0)).all()


@pytest.mark.parametrize("by", BY)
def test_nothing_erased_is_the_change_and_all_erased_is_the_base(by: By) -> None:
    change = a_change()
    for which in WHICH:
        np.testing.assert_array_equal(erased(change, which, by, 0).item, change.item)
        np.testing.assert_allclose(erased(change, which, by, DIM).item, 0, atol=1e-6)


def planted() -> tuple[Change, Evaluator]:
    """Ten similar items are in every list; factor 0 of the thirty others brings them into the lists.

    Factors 1 to 7 of the change are nearly as large, and no user looks at them.
    """
    generator = np.random.default_rng(1)
    user = np.zeros((N_USERS, DIM))
    user[:, 0] = generator.uniform(0.8, 1.2, N_USERS)
    item = np.zeros((N_ITEMS, DIM))
    item[:, 0] = np.where(np.arange(N_ITEMS) < 10, 1.0, 0.5) + generator.uniform(0, 0.1, N_ITEMS)
    base = Factors.from_arrays(user, item)
    delta = generator.uniform(-0.6, 0.6, (N_ITEMS, DIM))
    delta[:, 0] = np.where(np.arange(N_ITEMS) < 10, 0.0, generator.uniform(0.7, 0.9, N_ITEMS))
    categories = np.zeros((N_ITEMS, 12), bool)
    categories[np.arange(N_ITEMS), np.where(np.arange(N_ITEMS) < 10, 0, np.arange(N_ITEMS) % 12)] = True
    evaluator = Evaluator(Context(categories=categories, vectors=item), nothing_seen(base), ("subtopic_coverage@5",))
    return Change(base, item=delta.astype(np.float32)), evaluator


def test_where_only_one_factor_matters_erasing_it_takes_back_everything() -> None:
    change, evaluator = planted()
    found = erase(change, evaluator, "subtopic_coverage@5", features=range(DIM + 1), draws=20)
    for by in BY:
        assert found.taken_back(by, "top", 1) == pytest.approx(1)
        assert found.taken_back(by, "least", 1) == pytest.approx(0)
        for against in ("matched", "squares"):
            area = found.faithfulness(by, against)
            assert area is not None
            assert 0 <= area.low <= area.mean <= area.high < 1
            assert area.mean > 0.1
    assert found.taken_back("shared", "least", DIM - 1) == pytest.approx(0)
    assert "tells more than size alone" in found.sentence("individual", 1)
    # one draw in eight erases this factor first, and is as good as the ranking
    assert "tells no more than size alone" in found.sentence("shared", 1)


def test_a_ranking_of_equal_entries_is_uninformative() -> None:
    generator = np.random.default_rng(0)
    base = Factors.from_arrays(generator.normal(size=(100, DIM)), generator.normal(size=(N_ITEMS, DIM)))
    signs = np.where(generator.random((N_ITEMS, DIM)) < 0.5, -1, 1) * generator.uniform(0.99, 1.01, (N_ITEMS, DIM))
    change = Change(base, item=(0.5 * signs).astype(np.float32))
    area = erase(change, an_evaluator(base), "ilad@5", draws=10).faithfulness("individual")
    assert area is not None
    assert area.low < 0.2
    assert area.mean == pytest.approx(0, abs=0.3)


def some_erasure() -> Erasure:
    change = a_change()
    return erase(change, an_evaluator(change.base), "subtopic_coverage@5", draws=2)


def test_curves_run_from_the_change_to_the_base() -> None:
    found = some_erasure()
    for by in BY:
        for which in WHICH:
            curve = found.curves[by][which]
            assert curve.shape == (2 if which in BY_CHANCE else 1, len(found.features), 2)
            np.testing.assert_array_equal(curve[:, 0], np.broadcast_to(found.learned, curve[:, 0].shape))
            np.testing.assert_array_equal(curve[:, -1], np.broadcast_to(found.base, curve[:, 0].shape))


def test_the_same_seed_gives_the_same_curves() -> None:
    a, b = some_erasure(), some_erasure()
    np.testing.assert_array_equal(a.curves["shared"]["matched"], b.curves["shared"]["matched"])


def test_rows_and_plain_values() -> None:
    found = some_erasure()
    rows = found.rows()
    assert len(rows) == 2 * 5 * len(found.features) * 2
    assert set(rows[0]) >= {"by", "which", "features", "metric", "value", "remaining"}
    plain = json.loads(json.dumps(found.to_dict()))
    assert set(plain["faithfulness"]["squares"]) == {"individual", "shared"}


def test_progress_is_reported_after_every_curve() -> None:
    steps: list[tuple[str, int, int]] = []
    change = a_change()
    erase(
        change,
        an_evaluator(change.base),
        "subtopic_coverage@5",
        features=[2],
        draws=2,
        on_step=lambda *step: steps.append(step),
    )
    assert steps == [("erasing", n, 16) for n in range(17)]


def test_no_gain_no_shares() -> None:
    change = a_change()
    found = erase(
        change.replaced(item=np.zeros_like(change.item)), an_evaluator(change.base), "subtopic_coverage@5", draws=1
    )
    assert found.faithfulness("shared") is None
    assert found.taken_back("shared", "top", 5) is None
    assert "hardly changed" in found.sentence("shared", 5)


def test_usual_features() -> None:
    assert usual_features(50) == (0, 1, 2, 3, 5, 8, 10, 15, 20, 30, 40, 50)
    assert usual_features(4)[0] == 0
    assert usual_features(4)[-1] == 4


def test_invalid_arguments_are_refused() -> None:
    change = a_change()
    with pytest.raises(InputError, match="9 features cannot be erased; there are 8"):
        erased(change, "top", "shared", 9)
    with pytest.raises(InputError, match="individual or shared"):
        erased(change, "top", "item", 1)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="top, least, random, matched, squares"):
        erased(change, "best", "shared", 1)  # type: ignore[arg-type]
    found = some_erasure()
    with pytest.raises(InputError, match="catalogue_coverage@5 was not judged"):
        found.values("shared", "top", "catalogue_coverage@5")
    with pytest.raises(InputError, match="7 features were not erased"):
        found.taken_back("shared", "top", 7)
