"""The certificate of a path: which of its points keep all budgets, in figures and in words."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from recprism.budget.promise import carried_over, judges
from recprism.common.display import Displayed
from recprism.common.shares import percent
from recprism.metrics.evaluation import frame_of, plain_row

if TYPE_CHECKING:
    import polars as pl


SAME_LISTS = "same lists"
APPROXIMATE = "t"  # the method that does not hold at every number of users


@dataclass(frozen=True)
class Check:
    """The test of one metric at one point.

    Attributes:
        metric: Its name, with a cut.
        budget: The share of it that may be lost.
        users: How many users are judged in both sets of lists.
        base: Their mean in the base lists.
        new: Their mean in the new lists.
        loss: 1 - new / base.
        upper: One-sided upper confidence bound of the true loss at a point that was refused. None if the test passed:
            a certified point is only promised to keep its budget.
        p_value: Of "the true loss exceeds the budget".
        passed: Whether the p-value is small enough for this metric and point alone.
        method: The test that was used; "same lists" needs none.
        users_needed: For a certificate at this loss and spread with 80 % power. None if the test passed, or if the
            loss is too large.
        largest_loss: The limit of the point: no list may lose more, whatever the labels are. Lists that could are base
            lists; 1 is no limit.
        clusters: How many clusters the users are in; None if users were taken to be independent.
    """

    metric: str
    budget: float
    users: int
    base: float
    new: float
    loss: float
    upper: float | None
    p_value: float
    passed: bool
    method: str
    users_needed: int | None
    largest_loss: float = 1.0
    clusters: int | None = None


@dataclass(frozen=True)
class Point:
    """All metrics of one point.

    Attributes:
        checks: One test per metric.
        certified: Whether the point keeps all budgets.
    """

    checks: tuple[Check, ...]
    certified: bool

    @property
    def p_value(self) -> float:
        """The largest p-value of the metrics."""
        return max(check.p_value for check in self.checks)

    @property
    def is_base(self) -> bool:
        """Whether the point has the base lists."""
        return self.checks[0].method == SAME_LISTS


@dataclass(frozen=True, repr=False)
class Certificate(Displayed):
    """Which points of a path keep all budgets, with one confidence for all of them together.

    Attributes:
        points: The points that were tested.
        confidence: That no certified point exceeds a budget; 0 if so many questions share it that none is left.
        method: The test of a point: "betting", or "t", whose confidence is approximate.
        part: The part whose interactions judged, validation or test; None if unknown.
        questions: How many questions share the confidence: the answers to all of them hold together.
    """

    points: tuple[Point, ...]
    confidence: float
    method: str
    part: str | None = None
    questions: int = 1

    @property
    def last(self) -> int | None:
        """The furthest certified point, counted from 0; None if there is none."""
        return max((at for at, point in enumerate(self.points) if point.certified), default=None)

    @property
    def checks(self) -> tuple[Check, ...]:
        """The tests of the furthest certified point, one per metric; empty if nothing is certified."""
        return () if self.last is None else self.points[self.last].checks

    @property
    def certified(self) -> dict[str, float]:
        """Metric -> the share of it that is certified not to be lost."""
        return {it.metric: it.budget for it in self.checks}

    @property
    def limits(self) -> dict[str, float]:
        """Metric -> the largest loss that a list of the furthest certified point may allow; those below 1."""
        return {it.metric: it.largest_loss for it in self.checks if it.largest_loss < 1}

    def scope(self) -> str:
        """Return a sentence: where the certificate was measured, and where it is assumed to hold."""
        return carried_over(self.part)

    def sentence(self) -> str:
        """Return the verdict in words: the certified budgets, the measured loss, and the step of the path."""
        if self.last is None or self.refusal() is not None:
            return f"No change of the lists is certified ({self.sure()}). {self.refusal()}"
        last, checks = self.last, self.checks
        loss = ", ".join(f"{percent(it.loss)} of {it.metric}" for it in checks)
        budgets = ", ".join(f"{percent(it.budget)} of {it.metric}" for it in checks)
        return (
            f"Measured loss on {self._judges(checks[0])}: {loss}. Certified: at most {budgets} ({self.sure()}). "
            f"This is step {last + 1} of {len(self.points)} tested."
        )

    def refusal(self) -> str | None:
        """Return a sentence: why no change of the lists is certified; None if one is."""
        refused = [at for at, point in enumerate(self.points) if not point.certified]
        if self.last is not None and not (refused and self.points[self.last].is_base):
            return None
        return self._why_not(refused[0])

    def sure(self) -> str:
        """Return how sure the certificate is, and of how many questions together."""
        approximate = "approximate " if self.method == APPROXIMATE else ""
        together = f" for {self.questions} questions together" if self.questions > 1 else ""
        if not self.confidence:
            return f"no joint confidence{together}"
        return f"{approximate}{100 * self.confidence:.3g} % confidence{together}"

    def _why_not(self, at: int) -> str:
        """Say why a point was refused, by its metric with the weakest evidence."""
        check = max(self.points[at].checks, key=lambda it: (it.p_value, it.users_needed or math.inf))
        users, verb = self._judges(check), "gains" if check.loss < 0 else "loses"
        step = f"Step {at + 1} {verb} {percent(abs(check.loss))} of {check.metric}"
        if check.loss >= check.budget:
            return f"{step} ({users}), and its budget is {percent(check.budget)}."
        if check.upper is not None:
            step = f"{step} (upper bound of the loss {percent(check.upper)})"
        if check.users_needed is None:
            return f"{step}, too close to its budget of {percent(check.budget)} to decide."
        return (
            f"{step}, and its budget is {percent(check.budget)}. "
            f"To certify it, about {check.users_needed:,} users are needed instead of {users}."
        )

    def _judges(self, check: Check) -> str:
        return judges(check.users, self.part, check.clusters)

    def within(self, other: Certificate) -> Certificate:
        """Return the further one of two certificates, as one of this budget.

        A point that keeps the smaller budget of ``other`` also keeps this one: a loss above this budget is above the
        smaller one, so a wrong certificate here is a wrong one there, and no error is added. The p-values stay valid
        for the same reason.

        Args:
            other: Of the same path and metrics, with budgets that are at most those of this one.
        """
        if other.last is None or (self.last is not None and self.last >= other.last):
            return self
        budgets = {it.metric: it.budget for it in self.points[0].checks}
        points = [
            replace(point, checks=tuple(replace(it, budget=budgets[it.metric]) for it in point.checks))
            for point in other.points[: other.last + 1]
        ]
        return replace(self, points=(*points, *self.points[other.last + 1 :]))

    def figures(self) -> dict[str, Any]:
        """Return metric -> budget and measured loss, of the furthest certified point."""
        kept = {it.metric: {"budget": it.budget, "loss": it.loss} for it in self.checks}
        return {"certified": self.last is not None, "confidence": self.confidence, "part": self.part, **kept}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Certificate:
        """Read what :meth:`to_dict` wrote."""
        points = tuple(
            Point(tuple(_check_of(row) for row in point["checks"]), bool(point["certified"]))
            for point in stored["points"]
        )
        about = (stored["confidence"], stored["method"], stored["part"])
        return cls(points, *about, stored.get("questions", 1))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values only, ready for JSON."""
        points = [
            {"certified": point.certified, "p_value": point.p_value, "checks": [plain_row(it) for it in point.checks]}
            for point in self.points
        ]
        about: dict[str, Any] = {"confidence": self.confidence, "method": self.method, "part": self.part}
        about["questions"] = self.questions
        return {"sentence": self.sentence(), "scope": self.scope(), "last": self.last, **about, "points": points}

    def to_frame(self) -> pl.DataFrame:
        """Return one row per point and metric: the fields of ``Check``, after the number of the point."""
        import polars as pl

        checks = frame_of(Check, [check for point in self.points for check in point.checks])
        numbers = [at for at, point in enumerate(self.points) for _ in point.checks]
        certified = [point.certified for point in self.points for _ in point.checks]
        return checks.select(pl.Series("point", numbers), pl.Series("certified", certified), pl.all())

    def _facts(self) -> dict[str, Any]:
        return {"last": self.last, "points": len(self.points), "confidence": self.confidence, "part": self.part}


def _check_of(row: Mapping[str, Any]) -> Check:
    """Read a stored check: JSON has no infinity, so a missing number is infinite."""
    numbers = {name: math.inf if row[name] is None else row[name] for name in ("base", "new", "loss")}
    return Check(**{**row, **numbers})
