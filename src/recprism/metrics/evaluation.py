"""What an evaluation leaves behind: one row per metric, and the value of every user behind it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from recprism.errors import InputError
from recprism.metrics.registry import parse

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class Score:
    """One row: a metric at one cut.

    mean: over ``n_users`` users, or the one value of all lists together
    low, high: ends of the bootstrap interval; None without one
    n_users: users the mean is over (for a value of all lists together, the number of lists)
    left_out: users who could not be judged
    higher_is_better: None where neither direction is better
    popularity: the same metric for lists of the most popular items; None where popularity is not known
    """

    metric: str
    k: int
    mean: float
    low: float | None
    high: float | None
    n_users: int
    left_out: int
    higher_is_better: bool | None
    popularity: float | None = None

    @property
    def name(self) -> str:
        return f"{self.metric}@{self.k}"


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Scores of one set of lists.

    scores: the rows, in the order they were asked for
    values: name -> (n_users,) float64, NaN for users left out, for metrics that have a value per user
    users: (n_users,) the ids of the rows
    notes: what a reader must know beside the figures: who was left out and why, and what was skipped
    bootstrap, level: resamples and coverage of the intervals
    """

    scores: tuple[Score, ...]
    values: Mapping[str, NDArray[np.float64]]
    users: NDArray[Any]
    notes: tuple[str, ...]
    bootstrap: int
    level: float

    def __getitem__(self, name: str) -> Score:
        """The row of a name such as "ndcg@10"."""
        rows = {score.name: score for score in self.scores}
        if name not in rows:
            metric, k = parse(name)
            name = f"{metric.name}@{k}"
        if name not in rows:
            raise InputError(f"{name} was not evaluated; there are {', '.join(rows)}")
        return rows[name]

    def __len__(self) -> int:
        return len(self.scores)

    def beside(self, baseline: Evaluation) -> Evaluation:
        """The same rows, each with what lists of the most popular items reach."""
        reached = {score.name: score.mean for score in baseline.scores}
        return replace(self, scores=tuple(replace(it, popularity=reached.get(it.name)) for it in self.scores))

    def to_dict(self) -> dict[str, Any]:
        """Plain values only, ready for JSON; NaN becomes None."""
        return {
            "scores": [plain_row(score) for score in self.scores],
            "level": self.level,
            "bootstrap": self.bootstrap,
            "notes": list(self.notes),
        }

    def to_frame(self) -> pl.DataFrame:
        """One row per score, one column per field of Score."""
        return frame_of(Score, self.scores)

    def per_user_frame(self) -> pl.DataFrame:
        """One row per user, one column per metric that has a value per user; null where the user was left out."""
        import polars as pl

        return pl.DataFrame({"user": self.users, **self.values}).with_columns(pl.selectors.float().fill_nan(None))


def plain_row(row: Any) -> dict[str, Any]:
    """A row's fields as JSON knows them: no NaN, no infinity."""
    return {key: None if _is_no_number(value) else value for key, value in asdict(row).items()}


def frame_of(kind: type, rows: Sequence[Any]) -> pl.DataFrame:
    """Rows of one dataclass as a table; the column types follow the fields, so that a column of None keeps its type."""
    import polars as pl

    columns = {"str": pl.String, "int": pl.Int64, "float": pl.Float64, "bool": pl.Boolean}
    schema = {field.name: columns[str(field.type).split(" | ")[0]] for field in fields(kind)}
    return pl.DataFrame([asdict(row) for row in rows], schema=schema)


def _is_no_number(value: Any) -> bool:
    return isinstance(value, float) and not math.isfinite(value)
