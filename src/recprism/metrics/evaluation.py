"""The result of an evaluation: one row per metric, and the values of every user."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from recprism.common.display import Displayed
from recprism.errors import InputError
from recprism.metrics.registry import parse

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class Score:
    """One row: a metric at one cut.

    Attributes:
        metric: Name of the metric.
        k: The cut.
        mean: Mean over ``n_users`` users, or the value of all lists together.
        low: Lower end of the bootstrap interval, or None.
        high: Upper end of the bootstrap interval, or None.
        n_users: Number of users in the mean; for a value of all lists together, the number of lists.
        left_out: Number of users that could not be evaluated.
        higher_is_better: None if neither direction is better.
        popularity: The same metric for lists of the most popular items; None if popularity is not known.
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


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation(Displayed):
    """Scores of one set of lists.

    Attributes:
        scores: The rows, in the order of the request.
        values: Name -> ``(n_users,)`` float64, NaN for users left out; for metrics with a value per user.
        users: ``(n_users,)`` ids of the rows.
        notes: Sentences about the users that were left out and the metrics that were skipped.
        bootstrap: Number of resamples of the intervals.
        level: Coverage of the intervals.
    """

    scores: tuple[Score, ...]
    values: Mapping[str, NDArray[np.float64]]
    users: NDArray[Any]
    notes: tuple[str, ...]
    bootstrap: int
    level: float

    def __getitem__(self, name: str) -> Score:
        """Return the row of a name such as "ndcg@10"."""
        rows = {score.name: score for score in self.scores}
        if name not in rows:
            metric, k = parse(name)
            name = f"{metric.name}@{k}"
        if name not in rows:
            raise InputError(f"{name} was not evaluated; there are {', '.join(rows)}")
        return rows[name]

    def __len__(self) -> int:
        return len(self.scores)

    def with_popularity(self, baseline: Evaluation) -> Evaluation:
        """Return the same rows, each with the value of ``baseline``, the lists of the most popular items."""
        reached = {score.name: score.mean for score in baseline.scores}
        return replace(self, scores=tuple(replace(it, popularity=reached.get(it.name)) for it in self.scores))

    def _facts(self) -> dict[str, Any]:
        return {score.name: score.mean for score in self.scores[:5]} | {"metrics": len(self.scores)}

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; NaN becomes None."""
        return {
            "scores": [plain_row(score) for score in self.scores],
            "level": self.level,
            "bootstrap": self.bootstrap,
            "notes": list(self.notes),
        }

    def to_frame(self) -> pl.DataFrame:
        """Return one row per score, with one column per field of :class:`Score`."""
        return frame_of(Score, self.scores)


def plain_row(row: Any) -> dict[str, Any]:
    """Return the fields of a row for JSON; NaN and infinity become None."""
    return {key: None if _is_no_number(value) else value for key, value in asdict(row).items()}


def frame_of(kind: type, rows: Sequence[Any]) -> pl.DataFrame:
    """Return rows of a dataclass as a table; column types follow the fields, so that a column of None has one."""
    import polars as pl

    columns = {"str": pl.String, "int": pl.Int64, "float": pl.Float64, "bool": pl.Boolean}
    schema = {field.name: columns[str(field.type).split(" | ")[0]] for field in fields(kind)}
    return pl.DataFrame([asdict(row) for row in rows], schema=schema)


def _is_no_number(value: Any) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


def joined(parts: Sequence[Evaluation]) -> Evaluation:
    """Join evaluations of the same users by different metrics."""
    scores = tuple(score for part in parts for score in part.scores)
    values = {name: it for part in parts for name, it in part.values.items()}
    notes = tuple(dict.fromkeys(note for part in parts for note in part.notes))
    return replace(parts[0], scores=scores, values=values, notes=notes)
