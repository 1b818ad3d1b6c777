"""The two parts of a change, plain promotion of items and the rest, and the effect of each on every metric."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from recprism.cmb.factors.change import Change
from recprism.cmb.factors.evaluator import Evaluator
from recprism.errors import InputError

SMALL = 1e-3  # share of the base value; a smaller change is noise, so it is not divided into parts


@dataclass(frozen=True)
class PartsOfOne:
    """The effect of the whole change, of its bias part alone and of the rest alone on one metric.

    Attributes:
        metric: Name of the metric.
        base: Its value before the change.
        full: Difference to ``base`` under the whole change, in units of the metric.
        bias: The same under the bias part alone.
        rest: The same under the rest alone.
    """

    metric: str
    base: float
    full: float
    bias: float
    rest: float

    @property
    def bias_share(self) -> float | None:
        """Share of the full change that the bias part alone reaches; None if the full change is about 0."""
        return None if is_small(self.full, self.base) else self.bias / self.full

    @property
    def rest_share(self) -> float | None:
        """Share of the full change that the rest alone reaches; None if the full change is about 0."""
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
    """The two parts of a change under every metric of an evaluator; their shares need not add up to 1.

    Attributes:
        rows: One entry per metric.
    """

    rows: tuple[PartsOfOne, ...]

    def __getitem__(self, metric: str) -> PartsOfOne:
        rows = {row.metric: row for row in self.rows}
        if metric not in rows:
            raise InputError(f"{metric} was not judged; there are {', '.join(rows)}")
        return rows[metric]

    def sentence(self, metric: str) -> str:
        """Describe the parts of one metric: the first line of an explanation."""
        return self[metric].sentence()

    def to_dict(self) -> dict[str, Any]:
        return {"rows": [row.to_dict() for row in self.rows]}


def bias_and_rest(change: Change, evaluator: Evaluator) -> Parts:
    """Evaluate a change and its two parts alone.

    The bias part raises an item by the same amount for every user. The rest has mean 0 over all users for every item.

    Args:
        change: The change of the vectors.
        evaluator: Ranks and evaluates.
    """
    base, full, bias, rest = (
        evaluator.means(it) for it in (change.base, change.after, change.bias_alone, change.without_bias)
    )
    return Parts(
        tuple(
            PartsOfOne(name, base[name], *(after[name] - base[name] for after in (full, bias, rest))) for name in base
        )
    )


def is_small(gain: float, base: float) -> bool:
    """Whether a gain is too small to be divided into parts; NaN counts as small."""
    return not abs(gain) > SMALL * max(abs(base), SMALL)
