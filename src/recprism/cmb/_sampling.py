"""Rewards from a sample of the users, drawn again in every iteration and growing, with their standard error.

A draw depends on the seed and the iteration alone. A search can therefore be resumed or distributed without storing
the samples.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from recprism.common.checks import Whole, random_generator
from recprism.errors import InputError

UsersPerStep = int | Literal["auto"] | None
# Up to this many users, all are ranked in every step. The sample for more users is larger than what gave the metrics
# of all users within 1 % on ML-1M (benchmarks/sample.py).
ALL_UP_TO = 100_000
AUTO_SAMPLE = 20_000
FEWEST = 2  # one user gives no standard error
FIRST_SHARE, GROWN_BY = 0.25, 0.5  # the first sample, of the largest; the share of the iterations in which it grows

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Sampling:
    """Which users are ranked in each iteration.

    Attributes:
        n_users: Number of all users.
        size: Of the largest sample. The first has a quarter of it; it grows over the first half of the iterations.
        iterations: Number of iterations.
        seed: Of the draws.
    """

    n_users: int
    size: int
    iterations: int
    seed: int = 0

    def size_at(self, iteration: int) -> int:
        """Number of users in an iteration."""
        grown = FIRST_SHARE + (1 - FIRST_SHARE) * iteration / (GROWN_BY * self.iterations)
        return max(FEWEST, math.ceil(self.size * min(1.0, grown)))

    def rows(self, iteration: int) -> NDArray[np.int64]:
        """Row numbers of the users of an iteration, ascending; all users are equally likely."""
        generator = random_generator(self.seed, iteration)
        return np.sort(generator.choice(self.n_users, self.size_at(iteration), replace=False, shuffle=False))


def require_users_per_step(users: object) -> None:
    """Raise an error for a wrong value of the setting ``users_per_step``."""
    if not isinstance(users, str) or users != "auto":
        Whole(FEWEST, none="for all users, or 'auto'").read("users_per_step", users)


def sampling_for(
    users_per_step: UsersPerStep, n_users: int, iterations: int, seed: int, *, possible: bool, certain: bool = True
) -> Sampling | None:
    """The sampling for a setting.

    Args:
        users_per_step: The setting.
        n_users: Number of all users.
        iterations: Number of iterations.
        seed: Of the draws.
        possible: Whether the reward may be estimated from a sample.
        certain: Whether every metric is known to have a value per user; "auto" samples only then.

    Returns:
        The sampling; None to rank all users.
    """
    if users_per_step == "auto":
        if n_users <= ALL_UP_TO or not (possible and certain):
            return None
        log.warning(
            "%d users: each step looks at up to %d of them; users_per_step=None takes all", n_users, AUTO_SAMPLE
        )
        return Sampling(n_users, AUTO_SAMPLE, iterations, seed)
    if users_per_step is None or users_per_step >= n_users:
        return None
    if not possible:
        raise InputError(
            "users_per_step: a sample can stand for all users under side='item', for vectors and metrics that have a"
            " value per user; leave it at None here"
        )
    return Sampling(n_users, users_per_step, iterations, seed)


def mean_and_error(weights: Sequence[float], values: Sequence[Tensor], n_users: int) -> tuple[Tensor, Tensor]:
    """Estimate psi of all users from a sample, with its standard error.

    The mean over a simple random sample is unbiased. The square of the error is an unbiased estimate of its variance,
    with the finite-population correction. With NaN values both hold in the limit.

    Args:
        weights: Of the metrics.
        values: (n,) for each metric, one value per sampled user, NaN where it is not defined.
        n_users: Number of all users.

    Returns:
        psi and its standard error, () each.
    """
    n = len(values[0])
    psi, residual = values[0].new_zeros(()), values[0].new_zeros(n)
    for weight, of_users in zip(weights, values, strict=True):
        mean = of_users.nanmean()
        judged = ~of_users.isnan()
        psi = psi + weight * mean
        residual = residual + weight * torch.where(judged, of_users - mean, 0.0) * (n / judged.sum())
    variance = (residual**2).sum() / (n - 1) / n * (1 - n / n_users)
    return psi, variance.sqrt()
