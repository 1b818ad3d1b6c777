"""Confidence sequences: they hold at all times together, where an interval for one look does not."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest
from scipy.integrate import quad

from recprism.operate.served.confidence import (
    ALPHA,
    PRIOR,
    Interval,
    boundary,
    confidence_interval,
    log_mixture,
    prediction_errors,
    ratio_interval,
)

STREAMS, LENGTH = 1_000, 600


def confidence_path(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both ends of the confidence sequence of values within 0 .. 1 after each value, (n,) each."""
    errors = np.cumsum(prediction_errors(values, 0.5) ** 2)
    times = np.arange(1, len(values) + 1)
    mean, width = np.cumsum(values) / times, boundary(errors, ALPHA / 2, 1.0) / times
    return np.maximum(mean - width, 0.0), np.minimum(mean + width, 1.0)


def streams(kind: str) -> tuple[np.ndarray, float]:
    """Values within 0 .. 1, (STREAMS, LENGTH), and their mean."""
    generator = np.random.default_rng(3)
    size = (STREAMS, LENGTH)
    if kind == "coin":
        return (generator.random(size) < 0.3).astype(float), 0.3
    if kind == "rare":
        return (generator.random(size) < 0.02).astype(float), 0.02
    return generator.beta(2, 3, size), 0.4


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["coin", "rare", "smooth"])
def test_a_look_after_every_value_misses_at_most_one_stream_in_twenty(kind: str) -> None:
    """The control is the usual interval of the mean, looked at after every value from the 30th on."""
    values, mean = streams(kind)
    ends = [confidence_path(row) for row in values]
    missed = np.mean([bool(((low > mean) | (high < mean)).any()) for low, high in ends])
    assert missed <= 0.05
    times = np.arange(1, LENGTH + 1)
    running = np.cumsum(values, 1) / times
    deviation = np.sqrt(np.maximum(np.cumsum(values**2, 1) / times - running**2, 1e-12))
    usual = NormalDist().inv_cdf(0.975) * deviation / np.sqrt(times)
    assert (np.abs(running - mean) > usual)[:, 29:].any(1).mean() > 0.2
    widths = np.array([high[-1] - low[-1] for low, high in ends])
    assert widths.mean() < 6 * usual[:, -1].mean()  # an interval that says nothing would never miss


@pytest.mark.slow
def test_a_mean_that_changes_is_covered_on_average_over_time() -> None:
    generator = np.random.default_rng(5)
    means = np.where(np.arange(LENGTH) < 200, 0.8, 0.3)
    average = np.cumsum(means) / np.arange(1, LENGTH + 1)
    missed = 0
    for _ in range(300):
        low, high = confidence_path((generator.random(LENGTH) < means).astype(float))
        missed += bool(((low > average) | (high < average)).any())
    assert missed <= 15


def test_the_ratio_of_two_means_is_covered() -> None:
    """Values are equal in both streams, or 0 in the first one, as for lists that are shown or not."""
    generator = np.random.default_rng(7)
    missed, looks = 0, (20, 50, 100, 200, 400, 600)
    for _ in range(200):
        whole = generator.choice([-0.1, 0.1, 0.2, 0.4], LENGTH)
        part = np.where(generator.random(LENGTH) < 0.7, whole, 0.0)
        found = [ratio_interval(part[:n], whole[:n]) for n in looks]
        missed += any(it is not None and not it.low <= 0.7 <= it.high for it in found)
        assert found[-1] is not None and found[-1].high - found[-1].low < 0.7
    assert missed <= 10


def test_the_mixture_is_the_integral_that_defines_it() -> None:
    """By quadrature over the mixed parameter, with the density of the paper."""
    for s, v, scale in ((0.0, 0.0, 1.0), (3.0, 2.0, 1.0), (12.0, 30.0, 1.0), (5.0, 7.0, 2.0)):

        def density(rate: float, scale: float = scale) -> float:
            y = 1 - scale * rate
            return y ** (PRIOR - 1) * math.exp(-PRIOR * y)

        def integrand(rate: float, s: float = s, v: float = v, scale: float = scale) -> float:
            cumulant = (-math.log1p(-scale * rate) - scale * rate) / scale**2
            return (
                math.exp(rate * s - v * cumulant)
                * (1 - scale * rate) ** (PRIOR - 1)
                * math.exp(-PRIOR * (1 - scale * rate))
            )

        top = (1 - 1e-12) / scale
        expected = quad(integrand, 0, top)[0] / quad(density, 0, top)[0]
        assert log_mixture(s, v, scale) == pytest.approx(math.log(expected), abs=1e-6)


def test_the_boundary_is_where_the_mixture_reaches_the_limit() -> None:
    v = np.array([0.0, 0.5, 40.0, 1e5])
    for scale in (1.0, 2.0):
        found = boundary(v, 0.025, scale)
        assert log_mixture(found, v, scale) == pytest.approx(np.full(4, math.log(40)), abs=1e-6)
        assert (np.diff(found) > 0).all()


def test_the_boundary_is_below_the_closed_form_of_the_paper() -> None:
    """The stitched boundary for values within 0 .. 1, with the constants printed there for 95 %."""
    v = np.array([10.0, 100.0, 1000.0, 1e4])
    stitched = 1.7 * np.sqrt(v * (np.log(np.log(2 * v)) + 3.8)) + 3.4 * np.log(np.log(2 * v)) + 13
    found = boundary(v, 0.025, 1.0)
    assert (found < stitched).all() and (found > 0.6 * (stitched - 13)).all()


def test_a_case_by_hand() -> None:
    """Three values; the predictions are 1/2, then 3/4, then 1/2."""
    assert prediction_errors([1.0, 0.0, 1.0], 0.5).tolist() == [0.5, -0.75, 0.5]
    found = confidence_interval([1.0, 0.0, 1.0])
    assert (found.mean, found.low, found.high, found.n) == (pytest.approx(2 / 3), 0.0, 1.0, 3)
    long = confidence_interval(np.tile([1.0, 0.0], 500))
    low, high = confidence_path(np.tile([1.0, 0.0], 500))
    assert (long.low, long.high) == (pytest.approx(low[-1]), pytest.approx(high[-1]))
    assert 0.4 < long.low < 0.5 < long.high < 0.6


def test_nothing_is_known_without_values() -> None:
    found = confidence_interval([], low=-1.0)
    assert math.isnan(found.mean) and (found.low, found.high, found.n) == (-1.0, 1.0, 0)
    assert ratio_interval([], []) is None
    assert ratio_interval(np.full(50, 0.01), np.full(50, 0.01)) is None, "a gain that is not clear of 0"


def test_intervals_are_combined_end_by_end() -> None:
    a, b = Interval(0.5, 0.4, 0.6, 10), Interval(0.2, 0.1, 0.3, 20)
    assert a.minus(b) == Interval(0.3, pytest.approx(0.1), pytest.approx(0.5), 10)
    assert a.times(b) == Interval(pytest.approx(0.1), pytest.approx(0.04), pytest.approx(0.18), 10)
    assert Interval(0.1, -0.2, 0.4, 5).times(b) == Interval(
        pytest.approx(0.02), pytest.approx(-0.06), pytest.approx(0.12), 5
    )
