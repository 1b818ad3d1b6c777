"""Who pays: segments come out as counted by hand, and a change is found where it was put."""

from __future__ import annotations

import json
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from recprism.budget.segments import (
    by_segment,
    exposure_by_segment,
    history_breadth,
    item_segments,
    mean_popularity,
    outer_thirds,
    user_segments,
)
from recprism.data import Categories, SparseRows
from recprism.errors import InputError
from recprism.testing.synthetic import make_world

# three users: the first took items 0 to 3, the second 0 and 1, the third 0; no user took 4 or 5
TRAIN = SparseRows.coerce(np.array([[1, 1, 1, 1, 0, 0], [1, 1, 0, 0, 0, 0], [1, 0, 0, 0, 0, 0]]))
CATEGORIES = Categories.from_pairs(np.array([0, 1, 1, 2, 3, 5]), ["a", "a", "b", "c", "d", "a"], 6)


def test_users_are_sorted_by_what_they_did() -> None:
    segments = user_segments(TRAIN, CATEGORIES)
    assert {name: np.flatnonzero(mask).tolist() for name, mask in segments.items()} == {
        "light": [2],
        "heavy": [0],
        "niche": [0],
        "mainstream": [2],
        "focused": [2],
        "broad": [0],
    }
    assert mean_popularity(TRAIN).tolist() == [(3 + 2 + 1 + 1) / 4, 2.5, 3.0]
    assert list(user_segments(TRAIN)) == ["light", "heavy", "niche", "mainstream"]


def test_breadth_is_the_entropy_of_the_history() -> None:
    """An item of two categories gives half to each."""
    expected = [stats.entropy([1.5, 0.5, 1, 1]), stats.entropy([1.5, 0.5]), 0.0]
    assert history_breadth(TRAIN, CATEGORIES) == pytest.approx(np.array(expected) / np.log(4))
    nothing = history_breadth(SparseRows.coerce(np.array([[0, 0, 0, 0, 1, 0], [0] * 6])), CATEGORIES)
    assert np.isnan(nothing).all(), "one user has an item without categories, the other has none"


def test_items_are_cut_at_thirds_of_the_interactions() -> None:
    segments = item_segments(TRAIN)  # 3 + 2 + 1 + 1 interactions; the borders lie at 7/3 and 14/3
    assert {name: np.flatnonzero(mask).tolist() for name, mask in segments.items()} == {
        "head": [0],
        "mid": [1],
        "tail": [2, 3, 4, 5],
    }
    table = exposure_by_segment([[0, 1], [0, -1]], [[2, 1], [0, 3]], segments)
    rows = [(row.items, row.before, row.after) for row in table.rows]
    assert rows == [(1, 2 / 3, 0.25), (1, 1 / 3, 0.25), (4, 0, 0.5)]
    assert table["head"].relative == pytest.approx(-0.625)
    assert table["tail"].relative is None
    assert json.loads(json.dumps(table.to_dict(), allow_nan=False))["rows"][2]["after"] == 0.5


@given(arrays(np.float64, st.integers(1, 40), elements=st.sampled_from([0.0, 1.0, 2.0, 5.0, np.nan])))
def test_thirds_are_apart_and_keep_equals_together(trait: np.ndarray) -> None:
    low, high = outer_thirds(trait)
    assert not (low & high).any()
    assert not (low | high)[np.isnan(trait)].any()
    if low.any() and high.any():
        assert trait[low].max() < trait[high].min()
    for value in np.unique(trait[~np.isnan(trait)]):
        assert len(set(low[trait == value].tolist())) == 1


def test_the_change_is_found_where_it_was_put() -> None:
    generator = np.random.default_rng(0)
    before = generator.random(600)
    paying = np.arange(600) < 200
    after = np.clip(before * np.where(paying, 0.8, 1.0) + generator.normal(0, 0.01, 600), 0, 1)
    table = by_segment(before, after, {"paying": paying, "others": ~paying})
    hit, spared = table["paying"], table["others"]
    assert hit.low < -0.2 < hit.high < 0
    assert hit.p_value < 1e-6
    assert spared.low < 0 < spared.high
    assert hit.p_value == pytest.approx(stats.ttest_rel(after[paying], before[paying]).pvalue)
    assert [row.users for row in table.rows] == [600, 200, 400]
    assert table.to_frame().columns[:2] == ["segment", "users"]


def test_intervals_cover_as_often_as_they_say() -> None:
    generator = np.random.default_rng(1)
    inside = 0
    for _ in range(400):
        before = generator.beta(1, 3, 150)
        after = before * generator.uniform(0.7, 1.1, 150)  # a relative change of -10 % on average
        row = by_segment(before, after, {})["everyone"]
        inside += row.low <= -0.1 <= row.high
    assert stats.binom.ppf(0.001, 400, 0.95) <= inside <= stats.binom.ppf(0.999, 400, 0.95)


def test_no_change_and_an_empty_segment() -> None:
    values = np.array([0.2, np.nan, 0.5, 0.0])
    masks = {"none": np.zeros(4, bool), "one": np.array([True, True, False, False]), "zero": np.arange(4) == 3}
    table = by_segment(values, values, masks)
    everyone = table["everyone"]
    assert (everyone.users, everyone.relative, everyone.low, everyone.high, everyone.p_value) == (3, 0, 0, 0, 1)
    assert table["none"].users == 0
    assert table["one"].low is None
    assert table["zero"].relative is None
    assert json.loads(json.dumps(table.to_dict(), allow_nan=False))["rows"][1]["before"] is None


def test_segments_of_a_synthetic_world() -> None:
    data = make_world(300, 100, seed=3).dataset()
    segments = user_segments(data.interactions.matrix(), data.categories)
    assert all(0.2 < mask.mean() < 0.5 for mask in segments.values())


def test_bad_input_is_named() -> None:
    with pytest.raises(InputError, match=r"\(2,\) and after \(3,\)"):
        by_segment([1, 2], [1, 2, 3], {})
    with pytest.raises(InputError, match="none of 2 users"):
        by_segment([np.nan, 1], [1, np.nan], {})
    with pytest.raises(InputError, match="above 0 and below 1"):
        by_segment([1.0], [1.0], {}, confidence=95)
    with pytest.raises(InputError, match=r"'short' is bool of shape \(1,\).* 2 users"):
        by_segment([0.1, 0.2], [0.1, 0.2], {"short": np.array([True])})
    with pytest.raises(InputError, match="no segment 'young'; there are everyone"):
        by_segment([0.1], [0.1], {})["young"]
    with pytest.raises(InputError, match=r"hold item 6 .* cover 6"):
        exposure_by_segment([[6]], [[0]], item_segments(TRAIN))
    with pytest.raises(InputError, match="show no item"):
        exposure_by_segment([[-1]], [[0]], item_segments(TRAIN))
    with pytest.raises(InputError, match="of 6 items and the split has 2"):
        history_breadth(SparseRows.empty((2, 2)), CATEGORIES)


def test_without_training_interactions_there_are_no_segments_of_items() -> None:
    assert item_segments(SparseRows.empty((2, 3))) == {}
    assert exposure_by_segment([[0]], [[1]], {}).rows == ()


# -- who pays more ----------------------------------------------------------------------------------------------------


def shop(generator: np.random.Generator, n: int, harm: np.ndarray | float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Values before and after, as NDCG is: most users have 0 and do not change, a few lose everything."""
    before = np.where(generator.random(n) < 0.5, 0.0, generator.beta(1, 3, n))
    change = np.where(generator.random(n) < 0.7, 1.0, generator.uniform(0.6, 1.2, n))
    lost = generator.random(n) < 0.02 + harm
    return before, np.where(lost, 0.0, before * change)


def groups(generator: np.random.Generator, n: int) -> dict[str, np.ndarray]:
    """Three pairs of outer thirds, as the real segments are, and a group of a few users."""
    masks = {f"{trait} {end}": mask for trait in range(3) for end, mask in enumerate(outer_thirds(generator.random(n)))}
    return {**masks, "few": np.arange(n) < 8}


@pytest.mark.parametrize("n", [40, pytest.param(200, marks=pytest.mark.slow)])
def test_without_a_difference_a_group_is_named_in_at_most_a_twentieth_of_draws(n: int) -> None:
    generator, draws = np.random.default_rng(n), 300
    named = sum(len(by_segment(*shop(generator, n), groups(generator, n)).paying) > 0 for _ in range(draws))
    assert named <= stats.binom.ppf(0.999, draws, 0.05)


@pytest.mark.slow
def test_an_uncorrected_test_would_name_groups_by_chance() -> None:
    """The control of the test above: the same draws, each group tested alone by a t test."""
    generator, draws, named = np.random.default_rng(200), 200, 0
    for _ in range(draws):
        before, after = shop(generator, 200)
        masks, loss = groups(generator, 200), after - before
        tests = (
            stats.ttest_ind(loss[mask], loss[~mask], equal_var=False, alternative="less") for mask in masks.values()
        )
        named += min(it.pvalue for it in tests) <= 0.05
    assert named > stats.binom.ppf(0.999, draws, 0.05)


def test_a_planted_group_is_named_and_no_other() -> None:
    generator, right = np.random.default_rng(5), 0
    for _ in range(20):
        masks = groups(generator, 900)
        table = by_segment(*shop(generator, 900, 0.15 * masks["1 0"]), masks)
        right += [row.segment for row in table.paying][:1] == ["1 0"]
        assert "1 1" not in [row.segment for row in table.paying], "the other end of the same trait pays less"
    assert right >= 19
    row = table["1 0"]
    assert table.sentence().startswith("Who pays more than the others, beyond chance: 1 0 users (-")
    assert f"{100 * row.low:+.1f} .. {100 * row.high:+.1f} NDCG@10" in table.sentence()
    assert table.to_dict()["paying"][0] == "1 0"


def test_a_larger_base_is_no_larger_loss() -> None:
    """All users lose a tenth of their own value: the loss in points differs, the relative loss does not."""
    generator = np.random.default_rng(2)
    before = generator.beta(2, 5, 300) * np.where(np.arange(300) < 100, 2.0, 0.5)
    table = by_segment(before, before * generator.uniform(0.8, 1.0, 300), {"rich": np.arange(300) < 100})
    assert table.paying == ()
    assert table.sentence() == "Who pays: no group clearly pays more than the others."
    assert by_segment(before, before * 0.9, {"rich": np.arange(300) < 100})["rich"].p_loses_more == 1.0


def test_a_group_that_loses_nothing_does_not_pay() -> None:
    """All others gain: beyond chance, the group has less of it, and still it loses nothing."""
    generator = np.random.default_rng(3)
    before, group = generator.beta(2, 5, 300), np.arange(300) < 100
    table = by_segment(before, np.where(group, before, before * generator.uniform(1.1, 1.3, 300)), {"same": group})
    assert table["same"].p_loses_more < 0.05
    assert table.paying == ()


def test_the_p_value_is_that_of_all_permutations() -> None:
    """Small enough to try every way of choosing the group; the statistic is written down independently."""
    before = np.array([0.9, 0.1, 0.4, 0.5, 0.8, 0.3, 0.6, 0.2])
    after = np.array([0.3, 0.1, 0.1, 0.5, 0.9, 0.3, 0.55, 0.2])
    loss = after.sum() / before.sum()

    def statistic(chosen: tuple[int, ...]) -> float:
        inside = np.isin(np.arange(8), chosen)
        old = [before[side].mean() for side in (inside, ~inside)]
        apart = [(after - loss * before)[side] for side in (inside, ~inside)]
        errors = [side.var(ddof=1) / len(side) for side in apart]
        new = [after[side].mean() for side in (inside, ~inside)]
        return (old[1] * new[0] - old[0] * new[1]) / np.sqrt(old[1] ** 2 * errors[0] + old[0] ** 2 * errors[1])

    ways = [statistic(chosen) for chosen in combinations(range(8), 3)]
    exact = np.mean([it <= statistic((0, 1, 2)) + 1e-10 for it in ways])
    found = by_segment(before, after, {"first": np.isin(np.arange(8), (0, 1, 2))})["first"].p_loses_more
    assert found == pytest.approx(exact, abs=4 * np.sqrt(exact / 1999))


def test_groups_that_cannot_be_tested_do_not_count() -> None:
    generator = np.random.default_rng(1)
    before, after = shop(generator, 60, 0.3 * (np.arange(60) < 25))
    masks = {"some": np.arange(60) < 25}
    more = {**masks, "none": np.zeros(60, bool), "one": np.arange(60) == 4, "all": np.ones(60, bool)}
    table = by_segment(before, after, more)
    assert [table[name].p_loses_more for name in ("none", "one", "all", "everyone")] == [None] * 4
    assert table["some"].p_loses_more == by_segment(before, after, masks)["some"].p_loses_more
    same = by_segment(before, before, masks)
    assert (same["some"].p_loses_more, same.paying) == (1.0, ())


def test_many_users_are_tested_without_permutations() -> None:
    generator = np.random.default_rng(3)
    masks = {"first": np.arange(30_000) < 10_000, "second": np.arange(30_000) >= 20_000}
    table = by_segment(*shop(generator, 30_000, 0.05 * masks["first"]), masks)
    assert [row.segment for row in table.paying] == ["first"]


def test_exposure_has_an_interval_over_users() -> None:
    """Lists of equal length: the share is a mean over users, so the interval is that of by_segment."""
    generator = np.random.default_rng(7)
    lists = [np.array([generator.choice(9, 4, replace=False) for _ in range(80)]) for _ in range(2)]
    mask = np.arange(9) < 3
    row = exposure_by_segment(*lists, {"head": mask})["head"]
    same = by_segment(*(mask[it].mean(axis=1) for it in lists), {})["everyone"]
    assert (row.relative, row.low, row.high) == pytest.approx((same.relative, same.low, same.high))
    with pytest.raises(InputError, match="80 lists before and 79 after"):
        exposure_by_segment(lists[0], lists[1][1:], {"head": mask})
