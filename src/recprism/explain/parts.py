"""Plain promotion of items, and what is left: how much of every metric's change each of the two carries."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from recprism.errors import InputError
from recprism.explain.change import Change
from recprism.explain.evaluator import Evaluator

if TYPE_CHECKING:
    import polars as pl

SMALL = 1e-3  # of the base value: shares of a smaller change would be shares of noise


@dataclass(frozen=True)
class PartsOfOne:
    """One metric: what the whole change, its bias part alone and the rest alone did to it.

    base: before; full, bias, rest: after minus before, in the metric's own units
    """

    metric: str
    base: float
    full: float
    bias: float
    rest: float

    @property
    def bias_share(self) -> float | None:
        """Of the full change; None where that is about 0."""
        return None if is_small(self.full, self.base) else self.bias / self.full

    @property
    def rest_share(self) -> float | None:
        return None if is_small(self.full, self.base) else self.rest / self.full

    @property
    def relative(self) -> float | None:
        """The full change as a share of the base value."""
        return self.full / self.base if self.base else None

    def sentence(self) -> str:
        if self.bias_share is None or self.rest_share is None:
            return f"{self.metric} did not change enough to be divided ({self.base:.4f} before, {self.full:+.4f})."
        percent = "" if self.relative is None else f" ({self.relative:+.1%})"
        return (
            f"Of the change of {self.metric} by {self.full:+.4f}{percent}, plain promotion of items alone makes "
            f"{self.bias_share:.0%} and the rest alone {self.rest_share:.0%}; the two need not add up, "
            "because a place in a list is won or lost by both together."
        )

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "bias_share": self.bias_share, "rest_share": self.rest_share}


@dataclass(frozen=True)
class Parts:
    """The two parts of a change under every metric of a judge; their shares need not add up to 1."""

    rows: tuple[PartsOfOne, ...]

    def __getitem__(self, metric: str) -> PartsOfOne:
        rows = {row.metric: row for row in self.rows}
        if metric not in rows:
            raise InputError(f"{metric} was not judged; there are {', '.join(rows)}")
        return rows[metric]

    def sentence(self, metric: str) -> str:
        """The first line of an explanation."""
        return self[metric].sentence()

    def to_dict(self) -> dict[str, Any]:
        return {"rows": [row.to_dict() for row in self.rows]}

    def to_frame(self) -> pl.DataFrame:
        """One row per metric."""
        import polars as pl

        return pl.DataFrame([row.to_dict() for row in self.rows], infer_schema_length=None)


def bias_and_rest(change: Change, judge: Evaluator) -> Parts:
    """What the whole change did, and what its two parts do alone: promotion that is the same for every user, and the
    rest, whose mean over all users is 0 for every item."""
    base, full, bias, rest = (
        judge.means(it) for it in (change.base, change.after, change.bias_alone, change.without_bias)
    )
    return Parts(
        tuple(
            PartsOfOne(name, base[name], *(after[name] - base[name] for after in (full, bias, rest))) for name in base
        )
    )


def is_small(gain: float, base: float) -> bool:
    """Too little to take shares of; a value that is not a number counts as nothing."""
    return not abs(gain) > SMALL * max(abs(base), SMALL)
