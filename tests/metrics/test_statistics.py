"""Intervals cover, tests are calibrated, and comparisons are paired."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from recprism.errors import InputError
from recprism.metrics import Context, Evaluation, compare, evaluate
from recprism.metrics import statistics as statistics_module
from recprism.metrics.statistics import bootstrap_means, percentile_interval, sign_flip_test


def test_bootstrap_intervals_cover_as_often_as_they_say() -> None:
    """Two hundred samples of a skewed distribution: 90 % intervals hold its mean in about nine of ten."""
    generator = np.random.default_rng(0)
    samples = generator.exponential(1.0, (150, 200))
    low, high = percentile_interval(bootstrap_means(samples, 500, generator), 0.9)
    assert 0.83 <= np.mean((low <= 1) & (high >= 1)) <= 0.95


def test_bootstrap_spread_is_the_standard_error() -> None:
    values = np.random.default_rng(1).normal(5, 2, (400, 1))
    means = bootstrap_means(values, 4000, np.random.default_rng(2))
    assert means.mean() == pytest.approx(values.mean(), abs=0.01)
    assert means.std() == pytest.approx(values.std() / np.sqrt(400), rel=0.05)


def test_bootstrap_leaves_out_users_without_a_value() -> None:
    values = np.array([[1.0, np.nan], [3.0, np.nan], [np.nan, np.nan]])
    means = bootstrap_means(values, 300, np.random.default_rng(0))
    drawn = means[:, 0][~np.isnan(means[:, 0])]
    assert ((drawn >= 1) & (drawn <= 3)).all()
    assert np.isnan(means[:, 1]).all()
    low, high = percentile_interval(means, 0.95)
    assert (low[0], high[0]) == (1, 3)
    assert np.isnan([low[1], high[1]]).all()


def test_resampling_in_small_blocks_is_still_resampling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics_module, "MAX_CELLS", 250)
    values = np.arange(100.0)[:, None]
    means = bootstrap_means(values, 501, np.random.default_rng(0))
    assert means.shape == (501, 1)
    assert means.mean() == pytest.approx(49.5, abs=0.5)
    assert sign_flip_test(values, 99, np.random.default_rng(0))[0] == 0.01


def test_sign_flips_agree_with_scipy() -> None:
    differences = np.random.default_rng(3).normal(0.15, 1, (60, 1))
    found = sign_flip_test(differences, 20_000, np.random.default_rng(0))[0]
    expected = stats.permutation_test(
        (differences[:, 0],), np.mean, permutation_type="samples", n_resamples=20_000, random_state=1
    ).pvalue
    assert found == pytest.approx(expected, abs=0.02)


def test_sign_flips_find_no_effect_where_there_is_none() -> None:
    differences = np.random.default_rng(4).normal(0, 1, (80, 300))
    p_values = sign_flip_test(differences, 499, np.random.default_rng(0))
    assert 0.02 <= np.mean(p_values <= 0.05) <= 0.09
    assert sign_flip_test(np.zeros((10, 1)), 99, np.random.default_rng(0))[0] == 1


def judged(seed: int, boost: float) -> Evaluation:
    """Lists of which a share ``boost`` of the users finds one held-out item more."""
    n_users, n_items = 300, 60
    relevant = np.zeros((n_users, n_items))
    relevant[:-5, :10] = 1
    generator = np.random.default_rng(0)
    items = np.argsort(generator.random((n_users, n_items)), axis=1)[:, :10]
    for user in np.flatnonzero(np.random.default_rng(seed).random(n_users) < boost):
        missed = np.setdiff1d(np.arange(10), items[user])
        free = np.flatnonzero(items[user] >= 10)
        if len(missed) and len(free):
            items[user, free[0]] = missed[0]
    return evaluate(
        items, Context(relevant=relevant), ["recall@10", "ndcg@10", "gini@10", "catalogue_coverage@10"], bootstrap=100
    )


def test_a_comparison_finds_what_is_there() -> None:
    comparison = compare(judged(0, 0.0), judged(1, 0.5))
    row = comparison["recall@10"]
    assert row.difference == pytest.approx(row.b - row.a) == pytest.approx(0.05, abs=0.01)
    assert row.relative == pytest.approx(row.difference / row.a)
    assert 0 < row.low <= row.difference <= row.high
    assert row.p_value < 0.001
    assert row.better
    assert row.n_users == 295


def test_nothing_changed_is_no_difference() -> None:
    row = compare(judged(0, 0.0), judged(1, 0.0))["ndcg@10"]
    assert (row.difference, row.low, row.high, row.p_value, row.better) == (0, 0, 0, 1, None)


def test_a_comparison_without_resamples_has_no_interval() -> None:
    row = compare(judged(0, 0.0), judged(1, 0.5), bootstrap=0)["ndcg@10"]
    assert (row.low, row.high) == (None, None)
    assert row.p_value < 0.001


def test_values_of_all_lists_together_have_a_difference_only() -> None:
    comparison = compare(judged(0, 0.0), judged(1, 0.9))
    row = comparison["gini@10"]
    assert row.difference > 0
    assert row.better is False
    assert (row.low, row.high, row.p_value) == (None, None, None)
    assert len(comparison) == 4
    frame = comparison.to_frame()
    assert frame["metric"].to_list() == ["recall", "ndcg", "gini", "catalogue_coverage"]
    assert comparison.to_dict()["rows"][2]["p_value"] is None


def test_only_users_judged_in_both_are_compared(world: Context, items: NDArray[np.int64]) -> None:
    full, one_empty = items.copy(), items.copy()
    one_empty[0] = -1
    row = compare(*(evaluate(lists, world, ["novelty@2"]) for lists in (full, one_empty)))["novelty@2"]
    assert row.n_users == 2
    assert row.a == row.b == 3


def test_invalid_comparisons_are_refused(world: Context, items: NDArray[np.int64]) -> None:
    a = evaluate(items, world, ["subtopic_coverage@4"], users=["ann", "bob", "cy"])
    with pytest.raises(InputError, match=r"row 1: .*'bob'.*'bea'.*same order"):
        compare(a, evaluate(items, world, ["subtopic_coverage@4"], users=["ann", "bea", "cy"]))
    with pytest.raises(InputError, match="cover 3 and 2 users"):
        compare(a, replace(a, users=a.users[:2]))
    with pytest.raises(InputError, match="no metric in common"):
        compare(a, evaluate(items, world, ["subtopic_coverage@2"], users=a.users))
    with pytest.raises(InputError, match="ndcg@4 was not compared; there are subtopic_coverage@4"):
        compare(a, a)["ndcg@4"]
