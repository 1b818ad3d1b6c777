"""Confidence sequences: intervals of means that hold at all times together, however often you look.

They are Theorem 4 of Howard, Ramdas, McAuliffe and Sekhon (2021, Annals of Statistics 49, 1055). Values lie within a
known range. Their sum stays within ``boundary(V)`` of the sum of their conditional means at all times. V is the sum of
squared errors of predictions, and a prediction is the mean of all earlier values. The boundary is the gamma-exponential
mixture (Proposition 9). The mean may change over time: the interval then holds for its average.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammainc, gammaln

ALPHA = 0.05
PRIOR = 1.0
"""Where the boundary is narrow, in squared ranges; a small one favours few requests. It must not depend on the data."""
STEPS = 12
LEAST_SHARE, MOST_SHARE = -1.0, 2.0  # where ends of the interval of a ratio are searched

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Interval:
    """A mean and its interval.

    Attributes:
        mean: The mean of the values; NaN if there are none.
        low: Lower end.
        high: Upper end.
        n: Number of values.
    """

    mean: float
    low: float
    high: float
    n: int

    def minus(self, other: Interval) -> Interval:
        """Return the interval of the difference of two means; it holds if both intervals hold."""
        return Interval(self.mean - other.mean, self.low - other.high, self.high - other.low, min(self.n, other.n))

    def times(self, other: Interval) -> Interval:
        """Return the interval of the product with a mean that is not negative; it holds if both intervals hold."""
        ends = [a * b for a in (self.low, self.high) for b in (other.low, other.high)]
        return Interval(self.mean * other.mean, min(ends), max(ends), self.n)


def log_mixture(s: ArrayLike, v: ArrayLike, scale: float) -> Array:
    """Return the logarithm of the mixture of exponential supermartingales, (n,).

    Args:
        s: Sums of deviations from the conditional means, (n,), from 0 up.
        v: Sums of squared errors of predictions, (n,).
        scale: Length of the range of the values.
    """
    sums, errors = np.asarray(s, np.float64) / scale, np.asarray(v, np.float64) / scale**2
    a, b = errors + PRIOR, sums + errors + PRIOR
    constant = PRIOR * math.log(PRIOR) - gammaln(PRIOR) - math.log(gammainc(PRIOR, PRIOR))
    found: Array = constant + gammaln(a) + np.log(gammainc(a, b)) - a * np.log(b) + sums + errors
    return found


def boundary(v: ArrayLike, alpha: float, scale: float) -> Array:
    """Return what the sum of deviations exceeds at some time with a chance of at most ``alpha``, (n,).

    Args:
        v: Sums of squared errors of predictions, (n,).
        alpha: The chance.
        scale: Length of the range of the values.
    """
    errors = np.atleast_1d(np.asarray(v, np.float64)) / scale**2
    wanted = math.log(1 / alpha)
    reach = wanted + np.log1p(errors) + 2
    found = 4 * np.sqrt((errors + PRIOR) * reach) + 4 * reach  # above the boundary
    a = errors + PRIOR
    for _ in range(STEPS):  # of Newton, which comes down to the boundary, because the logarithm is convex
        b = a + found
        density = np.exp((a - 1) * np.log(b) - b - gammaln(a)) / gammainc(a, b)
        found = found - (log_mixture(found, errors, 1.0) - wanted) / (density - a / b + 1)
    return scale * found


def prediction_errors(values: ArrayLike, start: float) -> Array:
    """Return each value minus the mean of ``start`` and all values before it, (n,)."""
    x = np.asarray(values, np.float64)
    before = np.concatenate([[0.0], np.cumsum(x)[:-1]]) if len(x) else x
    return x - (start + before) / np.arange(1, len(x) + 1)


def confidence_interval(values: ArrayLike, *, low: float = 0.0, high: float = 1.0, alpha: float = ALPHA) -> Interval:
    """Return the confidence sequence after the last value.

    Args:
        values: (n,), in the order of time, from ``low`` to ``high``.
        low: Least possible value.
        high: Largest possible value.
        alpha: Chance that the sequence misses the mean at some time.
    """
    x = np.asarray(values, np.float64)
    if not len(x):
        return Interval(math.nan, low, high, 0)
    errors = prediction_errors(x, (low + high) / 2)
    mean = float(x.mean())
    width = float(boundary(errors @ errors, alpha / 2, high - low)[0]) / len(x)
    return Interval(mean, max(mean - width, low), min(mean + width, high), len(x))


def ratio_interval(part: ArrayLike, whole: ArrayLike, *, alpha: float = ALPHA) -> Interval | None:
    """Return the confidence sequence of mean(part) / mean(whole) after the last value.

    A share f is inside if the confidence sequence of ``part - f * whole`` contains 0. The errors of its predictions are
    a quadratic function of f, so that a few sums give all of them.

    Args:
        part: (n,), equal to 0 or to ``whole``.
        whole: (n,), from -1 to 1, in the order of time.
        alpha: Chance that the sequence misses the ratio at some time.

    Returns:
        None if the mean of ``whole`` is not clear of 0.
    """
    a, b = np.asarray(part, np.float64), np.asarray(whole, np.float64)
    if not len(b) or confidence_interval(b, low=-1.0, alpha=alpha).low <= 0:
        return None
    of_part, of_whole = prediction_errors(a, 0.0), prediction_errors(b, 0.0)
    squares = of_part @ of_part, of_part @ of_whole, of_whole @ of_whole
    sums = float(a.sum()), float(b.sum())

    def is_inside(f: float) -> bool:
        v = max(0.0, float(squares[0] - 2 * f * squares[1] + f * f * squares[2]))
        reach = 2 * max(abs(f), abs(1 - f))  # of (0 or 1, minus f) times -1 .. 1
        return bool(log_mixture(abs(sums[0] - f * sums[1]), v, reach) <= math.log(2 / alpha))

    estimate = sums[0] / sums[1]
    low, high = (_last_inside(is_inside, estimate, end) for end in (LEAST_SHARE, MOST_SHARE))
    return Interval(estimate, low, high, len(b))


def _last_inside(is_inside: Callable[[float], bool], start: float, end: float) -> float:
    """Return the point towards ``end`` up to which values are inside."""
    if is_inside(end):
        return end
    near, far = start, end
    for _ in range(30):
        middle = (near + far) / 2
        near, far = (middle, far) if is_inside(middle) else (near, middle)
    return far
