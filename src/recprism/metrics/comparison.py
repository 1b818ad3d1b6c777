"""Comparison of two sets of lists of the same users: differences, intervals and paired tests."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from recprism.common.checks import random_generator
from recprism.common.display import Displayed
from recprism.errors import InputError
from recprism.metrics.evaluation import Evaluation, Score, frame_of, plain_row
from recprism.metrics.statistics import Array, bootstrap_means, percentile_interval, sign_flip_test

if TYPE_CHECKING:
    import polars as pl

Tested = tuple[float, float | None, float | None]
"""The p-value of a difference, and the ends of its interval."""


@dataclass(frozen=True)
class Difference:
    """One row: the change of a metric from a to b.

    Attributes:
        metric: Name of the metric.
        k: The cut.
        a: Mean of a over the users evaluated in both.
        b: Mean of b over the same users.
        difference: b - a.
        relative: The difference as a share of a; None if a is 0.
        low: Lower end of the bootstrap interval of the difference; None for values of all lists together.
        high: Upper end of the interval, likewise.
        p_value: p-value of the paired test; None for values of all lists together.
        n_users: Number of users evaluated in both.
        better: Whether b is better; None if equal, or if neither direction is better.
    """

    metric: str
    k: int
    a: float
    b: float
    difference: float
    relative: float | None
    low: float | None
    high: float | None
    p_value: float | None
    n_users: int
    better: bool | None

    @property
    def name(self) -> str:
        return f"{self.metric}@{self.k}"


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Displayed):
    """The changes from one evaluation to another.

    Attributes:
        rows: One row per metric that both have.
        level: Coverage of the intervals.
    """

    rows: tuple[Difference, ...]
    level: float

    def __getitem__(self, name: str) -> Difference:
        rows = {row.name: row for row in self.rows}
        if name not in rows:
            raise InputError(f"{name} was not compared; there are {', '.join(rows)}")
        return rows[name]

    def __len__(self) -> int:
        return len(self.rows)

    def _facts(self) -> dict[str, Any]:
        changes = {row.name: "" if row.relative is None else f"{100 * row.relative:+.1f} %" for row in self.rows[:5]}
        return changes | {"metrics": len(self.rows)}

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {"rows": [plain_row(row) for row in self.rows], "test": "permutation", "level": self.level}

    def to_frame(self) -> pl.DataFrame:
        """Return one row per metric, with one column per field of :class:`Difference`."""
        return frame_of(Difference, self.rows)


def compare(
    a: Evaluation,
    b: Evaluation,
    *,
    flips: int = 9_999,
    bootstrap: int = 1000,
    level: float = 0.95,
    seed: int | np.random.Generator | None = 0,
) -> Comparison:
    """Compare b with a, user by user, on the metrics that both have.

    The p-values are those of a permutation test, and are not corrected for the number of metrics.

    Args:
        a: An evaluation.
        b: An evaluation of the same users.
        flips: Number of times that the users' differences are reversed at random.
        bootstrap: Number of resamples of users for the intervals.
        level: Coverage of the intervals.
        seed: Seed of reversals and resamples.

    Returns:
        One row per metric.

    Raises:
        InputError: The users differ, or the evaluations have no metric in common.
    """
    _require_same_users(a, b)
    names = [score.name for score in a.scores if score.name in {other.name for other in b.scores}]
    if not names:
        raise InputError("the two evaluations have no metric in common; evaluate both with the same names")
    paired = [name for name in names if name in a.values]
    tested: dict[str, Tested] = {}
    if paired:
        generator = random_generator(seed)
        differences = np.stack([b.values[name] - a.values[name] for name in paired], axis=1)
        p_values = sign_flip_test(differences, flips, generator)
        low, high = percentile_interval(bootstrap_means(differences, bootstrap, generator), level)
        tested = dict(zip(paired, zip(p_values.tolist(), _or_none(low), _or_none(high), strict=True), strict=True))
    return Comparison(tuple(_difference(a, b, name, tested.get(name)) for name in names), level)


def _difference(a: Evaluation, b: Evaluation, name: str, tested: Tested | None) -> Difference:
    score = a[name]
    if tested is None:
        return _row(score, score.mean, b[name].mean, score.n_users, None)
    both = ~np.isnan(a.values[name] - b.values[name])
    if not both.any():
        return _row(score, math.nan, math.nan, 0, tested)
    return _row(score, float(a.values[name][both].mean()), float(b.values[name][both].mean()), int(both.sum()), tested)


def _row(score: Score, a: float, b: float, n_users: int, tested: Tested | None) -> Difference:
    change = b - a
    better = None if score.higher_is_better is None or not change else (change > 0) == score.higher_is_better
    p_value, low, high = tested or (None, None, None)
    relative = change / a if a else None
    return Difference(score.metric, score.k, a, b, change, relative, low, high, p_value, n_users, better)


def _or_none(ends: Array) -> list[float | None]:
    return [None if np.isnan(end) else float(end) for end in ends]


def _require_same_users(a: Evaluation, b: Evaluation) -> None:
    if len(a.users) != len(b.users):
        raise InputError(
            f"the evaluations cover {len(a.users)} and {len(b.users)} users; a paired comparison needs the same"
        )
    if not np.array_equal(a.users, b.users):
        where = int(np.argmax(a.users != b.users))
        raise InputError(
            f"the evaluations are of different users (row {where}: {a.users[where]!r} and {b.users[where]!r}); "
            "put them into the same order first"
        )
