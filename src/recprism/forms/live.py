"""Figures of live lists: consumed items, and what the lists gain."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recprism.budget.problem import Problem, Ranker
from recprism.budget.promise import carried_over
from recprism.data.sparse_rows import SparseRows


@dataclass(frozen=True)
class LiveFigures:
    """Figures of live lists.

    Attributes:
        places: Number of places in the lists.
        consumed: Number of places with an item that the user already has.
        metric: The metric of the goal; None if the run is not diversified.
        base: Its mean in the live lists of the trained model; None if it needs labels.
        live: Its mean in the live lists.
        certified_on: The part whose labels earned the certificate; None without a certificate.
        constraints: How far the constraints of the run hold in the live lists, in words; None without constraints.
    """

    places: int
    consumed: int
    metric: str | None = None
    base: float | None = None
    live: float | None = None
    certified_on: str | None = None
    constraints: str | None = None

    @property
    def gain(self) -> float | None:
        """Gain relative to the live lists of the trained model."""
        return None if self.live is None or not self.base else self.live / self.base - 1

    def sentences(self) -> tuple[str, ...]:
        """Return the lines to print."""
        shown = f"Consumed items shown: {self.consumed:,} of {self.places:,} places."
        carried = None if self.certified_on is None else carried_over(self.certified_on)
        return (shown, self._about_gain(), *(it for it in (self.constraints, carried) if it is not None))

    def _about_gain(self) -> str:
        if self.metric is None:
            return "Gain of the live lists: none, they are those of the trained model."
        if self.gain is None:
            return f"Gain of the live lists: {self.metric} cannot be measured on them."
        return f"Gain of the live lists: {self.metric} {self.gain:+.1%} against live lists of the trained model."

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return {**asdict(self), "gain": self.gain, "sentences": list(self.sentences())}


def live_figures(
    problem: Problem,
    model: Ranker,
    rows: NDArray[Any],
    items: NDArray[Any],
    objective: str | None,
    certified_on: str | None = None,
) -> LiveFigures:
    """Compute the figures of live lists.

    Args:
        problem: The live context.
        model: The rule or the vectors; the gain is measured for all users, at the length of the problem's lists.
        rows: (n,) row numbers of the users with a list.
        items: (n, k) item numbers of these lists, -1 in empty places.
        objective: The metric of the goal; None for the trained model.
        certified_on: The part whose labels certified the rule; None if these lists are not those of a certified rule.
    """
    shown = int((items >= 0).sum())
    consumed = int(is_in(problem.seen.take_rows(rows), items).sum())
    served = problem.rank(model)[0]
    violations = problem.violations(served)
    held = None if violations is None else f"In the first {problem.k} places: {violations.sentence()}"
    if objective is None or np.array_equal(served, problem.base_lists):
        return LiveFigures(shown, consumed, constraints=held)
    lists = problem.base_lists, served
    base, live = (_mean(problem.judge(it, (objective,))[objective]) for it in lists)
    return LiveFigures(shown, consumed, objective, base, live, certified_on, held)


def _mean(values: NDArray[Any]) -> float | None:
    """Mean over the users with a value; None if there is none."""
    return None if np.isnan(values).all() else float(np.nanmean(values))


def is_in(pairs: SparseRows, items: NDArray[Any]) -> NDArray[np.bool_]:
    """(n, k) whether each item is in the same row of ``pairs``."""
    keys = pairs.row_of_entry.astype(np.int64) * pairs.n_cols + pairs.indices
    return np.isin(np.arange(len(items))[:, None] * pairs.n_cols + items, keys) & (items >= 0)
