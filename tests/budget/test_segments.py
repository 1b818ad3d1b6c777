"""Who pays: segments come out as counted by hand, and a change is found where it was put."""

from __future__ import annotations

import json

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
from recprism.data import Incidence, Subtopics
from recprism.errors import InputError
from recprism.testing.synthetic import make_world

# three users: the first took items 0 to 3, the second 0 and 1, the third 0; no user took 4 or 5
TRAIN = Incidence.coerce(np.array([[1, 1, 1, 1, 0, 0], [1, 1, 0, 0, 0, 0], [1, 0, 0, 0, 0, 0]]))
TOPICS = Subtopics.from_pairs(np.array([0, 1, 1, 2, 3, 5]), ["a", "a", "b", "c", "d", "a"], 6)


def test_users_are_sorted_by_what_they_did() -> None:
    segments = user_segments(TRAIN, TOPICS)
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
    """An item of two subtopics gives half to each."""
    expected = [stats.entropy([1.5, 0.5, 1, 1]), stats.entropy([1.5, 0.5]), 0.0]
    assert history_breadth(TRAIN, TOPICS) == pytest.approx(np.array(expected) / np.log(4))
    nothing = history_breadth(Incidence.coerce(np.array([[0, 0, 0, 0, 1, 0], [0] * 6])), TOPICS)
    assert np.isnan(nothing).all(), "one user has an item without subtopics, the other has none"


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
    segments = user_segments(data.interactions.matrix(), data.subtopics)
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
        history_breadth(Incidence.empty((2, 2)), TOPICS)


def test_without_training_interactions_there_are_no_segments_of_items() -> None:
    assert item_segments(Incidence.empty((2, 3))) == {}
    assert exposure_by_segment([[0]], [[1]], {}).rows == ()
