"""Rankings of factors by how far they moved."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recprism.cmb.factors._ranking import individual, order, rank_agreement, shared, through_lists
from recprism.errors import InputError

DELTA = np.array([[1.0, -4.0, 0.0], [-3.0, 0.0, 0.0], [0.0, 2.0, -1.0]], np.float32)


def test_shared_is_the_mean_of_individual() -> None:
    np.testing.assert_allclose(shared(DELTA), [4 / 3, 2, 1 / 3])
    np.testing.assert_allclose(individual(DELTA).mean(axis=0), shared(DELTA))
    np.testing.assert_allclose(individual(DELTA, [1]), [[3, 0, 0]])
    assert order(shared(DELTA)).tolist() == [1, 0, 2]
    assert order(np.array([[1.0, 1.0, 2.0], [0.0, 0.0, 0.0]])).tolist() == [[2, 0, 1], [0, 1, 2]]


def test_any_slice_can_be_taken() -> None:
    np.testing.assert_allclose(shared(DELTA, [1, 2]), [1.5, 1, 0.5])
    np.testing.assert_allclose(shared(DELTA, np.array([True, False, False])), [1, 4, 0])


def test_through_lists_averages_over_the_items_of_a_list() -> None:
    lists = np.array([[0, 2], [1, -1], [-1, -1]])
    np.testing.assert_allclose(through_lists(DELTA, lists), [[0.5, 3, 0.5], [3, 0, 0], [0, 0, 0]])


@given(st.integers(0, 2**32 - 1))
def test_rankings_that_are_the_same_agree_whatever_their_scale(seed: int) -> None:
    sizes = np.random.default_rng(seed).permutation(8).astype(float)
    found = rank_agreement([sizes, 3 * sizes + 1, np.exp(sizes)])
    assert found.mean == pytest.approx(1)
    assert found.low == pytest.approx(1)
    assert rank_agreement([sizes, -sizes]).mean == pytest.approx(-1)


@pytest.mark.slow
def test_the_interval_holds_the_truth() -> None:
    """Seeds with a common part: the interval of four seeds holds the mean of many about as often as its level says."""
    generator = np.random.default_rng(0)
    common = generator.normal(size=30)
    truth = rank_agreement(common + generator.normal(size=(300, 30))).mean
    drawn = [rank_agreement(common + generator.normal(size=(5, 30))) for _ in range(200)]
    held = np.mean([it.low <= truth <= it.high for it in drawn])
    assert 0.88 <= held <= 1
    assert 0.2 < truth < 0.8


def test_a_constant_ranking_agrees_with_nothing_and_two_have_no_interval() -> None:
    found = rank_agreement([[1, 1, 1], [1, 2, 3]])
    assert found.mean == 0
    assert np.isnan(found.low)


@pytest.mark.parametrize("sizes", [[[1, 2]], [[1], [2]], [[1, np.nan], [2, 3]]])
def test_invalid_rankings_are_refused(sizes: list[list[float]]) -> None:
    with pytest.raises(InputError):
        rank_agreement(sizes)


def test_missing_rows_are_refused() -> None:
    with pytest.raises(InputError, match="at least one row"):
        shared(DELTA, [])
    with pytest.raises(InputError, match="at least one row"):
        shared(DELTA, [3])
    with pytest.raises(InputError, match="item 3"):
        through_lists(DELTA, np.array([[3]]))
