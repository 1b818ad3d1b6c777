"""Rewards from some of the users: drawn anew in every iteration, more of them as it goes on, with the error they leave.

A draw hangs on the seed and on the number of the iteration alone, so that a search can be resumed or shared out without
a word about who was drawn.
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

from recprism.errors import InputError

UsersPerStep = int | Literal["auto"] | None
# Up to here all users are ranked in every step; beyond, as many as gave the metrics of all within 1 % on ML-1M, with
# room to spare (benchmarks/sample.py).
ALL_UP_TO = 100_000
AUTO_SAMPLE = 20_000
FEWEST = 2  # of one user no error can be told
FIRST_SHARE, GROWN_BY = 0.25, 0.5  # the first sample, of the largest; the share of the iterations in which it grows

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Sampling:
    """Whose lists pay, iteration by iteration.

    n_users: out of how many
    size: the largest sample; the first has a quarter of it, and it grows over the first half of the iterations
    """

    n_users: int
    size: int
    iterations: int
    seed: int = 0

    def size_at(self, iteration: int) -> int:
        grown = FIRST_SHARE + (1 - FIRST_SHARE) * iteration / (GROWN_BY * self.iterations)
        return max(FEWEST, math.ceil(self.size * min(1.0, grown)))

    def rows(self, iteration: int) -> NDArray[np.int64]:
        """Row numbers of the users of an iteration, rising; every user is as likely as any other."""
        generator = np.random.default_rng([self.seed, iteration])
        return np.sort(generator.choice(self.n_users, self.size_at(iteration), replace=False, shuffle=False))


def require_users_per_step(users: object) -> None:
    if users is None or users == "auto":
        return
    if not isinstance(users, int) or users < FEWEST:
        raise InputError(f"users_per_step is a number of users, at least {FEWEST}, None or 'auto'; got {users!r}")


def sampling_for(
    users_per_step: UsersPerStep, n_users: int, iterations: int, seed: int, *, possible: bool, certain: bool = True
) -> Sampling | None:
    """The sampling that a setting asks for, or None for all users.

    possible: whether a sample may stand for all users; certain: whether it surely does. "auto" samples only then
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
    """psi of all users from a sample of them, and its standard error.

    weights: of the metrics; values: (n,) per metric, one per sampled user, NaN where the user cannot be judged

    The mean over a simple random sample is unbiased, and the square of the error is an unbiased estimate of its
    variance, the smaller the more of all users were drawn. (Where not everybody can be judged, in the limit.)
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
