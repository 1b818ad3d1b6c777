"""Tests on held-out users which points of a path keep a budget.

Users are the sample. A point keeps budget b of a metric if E[new - (1 - b) base] >= 0; the test is one-sided. A point
must keep the budgets of all its metrics, so its p-value is the largest of theirs, without a correction
(intersection-union). Over the points, the family-wise error is controlled: the chance that any certified point really
exceeds a budget is at most 1 - confidence (learn then test: Angelopoulos et al., 2021). The labels must be new: used
neither to fit the model nor to make the path.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from recprism._display import Displayed
from recprism.data._checks import random_generator
from recprism.data.shares import CONFIDENCE, Share, percent, share, shares
from recprism.errors import InputError
from recprism.metrics._statistics import holm
from recprism.metrics.evaluation import frame_of, plain_row

if TYPE_CHECKING:
    import polars as pl

Array = NDArray[np.float64]
Values = Mapping[str, ArrayLike]
PValue = Callable[[float], float]  # of "the true loss exceeds the budget", for any budget

SAME_LISTS = "same lists"
ROUNDING = 1e-12  # smaller differences come from floating-point sums
FEW_CHANGES = 30  # users whose value changed; with fewer of them "betting" replaces "t", ...
LEANING = -0.1  # ... and if the sum of changes is skewed further to losses: there the t test errs in 6 % for 5 %
LARGEST_BET = 0.9  # below 1, so that one user who loses everything does not end the game
IMAGINED_CHANGE = 0.1  # what bets expect of a user before the first one is seen
POWER = 0.8  # of the test with the number of users that a certificate needs


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
        upper: One-sided upper confidence bound of the true loss, for this metric and point alone.
        p_value: Of "the true loss exceeds the budget".
        passed: Whether the p-value is small enough for this metric and point alone.
        method: The test that was used; "same lists" needs none.
        users_needed: For a certificate at this loss and spread with 80 % power. None if the test passed, or if the
            loss is too large.

    Stability: provisional.
    """

    metric: str
    budget: float
    users: int
    base: float
    new: float
    loss: float
    upper: float
    p_value: float
    passed: bool
    method: str
    users_needed: int | None


@dataclass(frozen=True)
class Point:
    """All metrics of one point.

    Attributes:
        checks: One test per metric.
        certified: Whether the point keeps all budgets.

    Stability: provisional.
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
        confidence: That no certified point exceeds a budget.
        method: The test of a point: "t" or "betting".
        procedure: The test of several points: "fixed-sequence" or "holm".
        part: The part whose interactions judged, validation or test; None if unknown.

    Stability: provisional.
    """

    points: tuple[Point, ...]
    confidence: float
    method: str
    procedure: str
    part: str | None = None

    @property
    def last(self) -> int | None:
        """The furthest certified point, counted from 0; None if there is none."""
        return max((at for at, point in enumerate(self.points) if point.certified), default=None)

    def scope(self) -> str:
        """Return a sentence: where the certificate was measured, and where it is assumed to hold."""
        return carried_over(self.part)

    def sentence(self) -> str:
        """Return the verdict in words: measured loss, certified loss, and the step of the path."""
        sure = f"{100 * self.confidence:g} % confidence"
        last, refused = self.last, [at for at, point in enumerate(self.points) if not point.certified]
        if last is None or (refused and self.points[last].is_base):
            clearest = min(refused, key=lambda at: self.points[at].p_value)
            at = refused[0] if self.procedure == "fixed-sequence" else clearest
            return f"No change of the lists is certified ({sure}). {self._why_not(at)}"
        checks = self.points[last].checks
        loss = ", ".join(f"{percent(it.loss)} of {it.metric} (upper bound {percent(it.upper)})" for it in checks)
        budgets = ", ".join(f"{percent(it.budget)} of {it.metric}" for it in checks)
        return (
            f"Measured loss: {loss}. Certified: at most {budgets} ({sure}, {self._judges(checks[0].users)}). "
            f"This is step {last + 1} of {len(self.points)} tested."
        )

    def _why_not(self, at: int) -> str:
        """Say why a point was refused, by its metric with the weakest evidence."""
        check = max(self.points[at].checks, key=lambda it: (it.p_value, it.users_needed or math.inf))
        users, verb = self._judges(check.users), "gains" if check.loss < 0 else "loses"
        step = f"Step {at + 1} {verb} {percent(abs(check.loss))} of {check.metric}"
        if check.loss >= check.budget:
            return f"{step} ({users}), and its budget is {percent(check.budget)}."
        step = f"{step} (upper bound of the loss {percent(check.upper)})"
        if check.users_needed is None:
            return f"{step}, which is not clear enough for one of several steps."
        return (
            f"{step}, and its budget is {percent(check.budget)}. "
            f"To certify it, about {check.users_needed:,} users are needed instead of {users}."
        )

    def _judges(self, users: int) -> str:
        return f"{users:,} held-out users" if self.part is None else f"{users:,} users of the {self.part} part"

    def figures(self) -> dict[str, Any]:
        """Return metric -> budget, measured loss and its upper bound, of the furthest certified point."""
        checks = () if self.last is None else self.points[self.last].checks
        kept = {it.metric: {"budget": it.budget, "loss": it.loss, "upper": it.upper} for it in checks}
        return {"certified": self.last is not None, "confidence": self.confidence, "part": self.part, **kept}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Certificate:
        """Read what :meth:`to_dict` wrote."""
        points = tuple(
            Point(tuple(_check_of(row) for row in point["checks"]), bool(point["certified"]))
            for point in stored["points"]
        )
        return cls(points, stored["confidence"], stored["method"], stored["procedure"], stored["part"])

    def to_dict(self) -> dict[str, Any]:
        """Return plain values only, ready for JSON."""
        points = [
            {"certified": point.certified, "p_value": point.p_value, "checks": [plain_row(it) for it in point.checks]}
            for point in self.points
        ]
        about = {"confidence": self.confidence, "method": self.method, "procedure": self.procedure, "part": self.part}
        return {"sentence": self.sentence(), "scope": self.scope(), "last": self.last, **about, "points": points}

    def to_frame(self) -> pl.DataFrame:
        """Return one row per point and metric: the fields of :class:`Check`, after the number of the point."""
        import polars as pl

        checks = frame_of(Check, [check for point in self.points for check in point.checks])
        numbers = [at for at, point in enumerate(self.points) for _ in point.checks]
        certified = [point.certified for point in self.points for _ in point.checks]
        return checks.select(pl.Series("point", numbers), pl.Series("certified", certified), pl.all())

    def _facts(self) -> dict[str, Any]:
        return {"last": self.last, "points": len(self.points), "confidence": self.confidence, "part": self.part}


def _check_of(row: Mapping[str, Any]) -> Check:
    """Read a stored check: JSON has no infinity, so a missing number is infinite."""
    numbers = {name: math.inf if row[name] is None else row[name] for name in ("base", "new", "loss", "upper")}
    return Check(**{**row, **numbers})


def carried_over(part: str | None) -> str:
    """Return a sentence about lists that were not judged; ``part`` is whose interactions judged."""
    where = "held-out interactions" if part is None else f"held-out interactions of the {part} part"
    return f"The certificate was earned on {where}; it is assumed to carry over to live lists."


def certify(
    base: Values,
    points: Sequence[Values],
    budgets: Mapping[str, Share],
    *,
    confidence: Share = 0.95,
    method: Literal["t", "betting"] = "t",
    procedure: Literal["fixed-sequence", "holm"] = "fixed-sequence",
    seed: int = 0,
    part: str | None = None,
) -> Certificate:
    """Test every point of a path against all budgets.

    Args:
        base: Metric -> ``(n_users,)`` values between 0 and 1 on held-out labels. NaN users are left out of that metric.
        points: The same of each point, nearest to the base first. The order must be fixed before these labels are
            seen. If a point is the object ``base`` itself, its lists are the same: it loses nothing and needs no test.
        budgets: Metric -> the relative loss allowed, above 0 and below 1.
        confidence: That no certified point exceeds a budget.
        method: "t", the paired t test, or "betting", which holds for any number of users and any values from 0 to 1
            but needs more users (Waudby-Smith and Ramdas, 2023).
        procedure: "fixed-sequence" walks the path and stops at the first point that fails. "holm" is for points that
            have no order; it is at least as good as Bonferroni's correction.
        seed: Of the order in which "betting" takes the users.
        part: The part of the labels, which the verdict names.

    Raises:
        InputError: If values are missing, of different users, or outside 0 to 1, or if a setting is unknown.

    >>> base = {"recall@10": np.tile([0.2, 0.4, 0.6], 400)}
    >>> point = {"recall@10": base["recall@10"] + np.tile([0.05, -0.05, 0.0, 0.0], 300)}
    >>> certify(base, [base, point], {"recall@10": 0.01}).last
    1

    Stability: provisional.
    """
    _require_known(method, METHODS, "method")
    _require_known(procedure, PROCEDURES, "procedure")
    if not points or not budgets:
        raise InputError(f"{len(points)} points and {len(budgets)} budgets; a certificate needs at least one of each")
    confidence, allowed = share(confidence, "confidence", *CONFIDENCE), shares(budgets, "budget", ends=False)
    alpha = 1 - confidence
    checks = [_checked(base, point, at, allowed, alpha, method, seed) for at, point in enumerate(points)]
    p_values = np.array([max(check.p_value for check in of_point) for of_point in checks])
    certified = PROCEDURES[procedure](p_values, alpha).tolist()
    return Certificate(tuple(map(Point, checks, certified)), confidence, method, procedure, part)


def t_test(base: Array, new: Array, alpha: float = 0.05, seed: int = 0) -> PValue:  # noqa: ARG001
    """Return Student's paired test of new - (1 - budget) base, as a function of the budget.

    A relative loss is defined only for a mean above 0. This is tested, too; therefore the p-value falls with the
    budget.

    Args:
        base: ``(n,)`` values without NaN, n at least 2.
        new: ``(n,)`` values of the same users.
        alpha: Not used.
        seed: Not used.
    """
    above_zero = _t_p_value(base)
    return lambda budget: max(_t_p_value(new - (1 - budget) * base), above_zero)


def betting_test(base: Array, new: Array, alpha: float = 0.05, seed: int = 0) -> PValue:
    """Return a test by betting, as a function of the budget.

    The test bets on each user that new - (1 - budget) base is above 0. If its mean is not, the game is not
    favourable, so a large capital is evidence. One over the largest capital ever held is a p-value (Ville). A bet
    depends on the users before it and not on the budget, so that the p-value falls with the budget.

    Args:
        base: ``(n,)`` values from 0 to 1 without NaN.
        new: ``(n,)`` values of the same users.
        alpha: The level that the bets are sized for.
        seed: Of the order of the users.
    """
    order = random_generator(seed).permutation(len(base))
    base, new = base[order], new[order]
    squares = np.cumsum(np.append(IMAGINED_CHANGE**2, (new - base) ** 2))[:-1]
    spread = squares / np.arange(1, len(base) + 1)
    bets = np.minimum(LARGEST_BET, np.sqrt(2 * math.log(1 / alpha) / (len(base) * spread)))

    def p_value(budget: float) -> float:
        capital = np.cumsum(np.log1p(bets * (new - (1 - budget) * base)))
        return math.exp(-max(0.0, float(capital.max())))

    return p_value


METHODS: dict[str, Callable[[Array, Array, float, int], PValue]] = {"t": t_test, "betting": betting_test}


def _t_p_value(differences: Array) -> float:
    """Return the p-value of "the mean is at most 0"; without any spread it is 0 or 1."""
    from scipy.special import stdtr

    mean, deviation = float(differences.mean()), float(differences.std(ddof=1))
    if deviation < ROUNDING:
        return 0.0 if mean > ROUNDING else 1.0
    return float(stdtr(len(differences) - 1, -mean / deviation * math.sqrt(len(differences))))


def _smallest_certified(p_value: PValue, alpha: float) -> float:
    """Return the smallest budget that the data certify, to a millionth: an upper confidence bound of the loss."""
    low, high = 0.0, 1.0
    if p_value(low) <= alpha:
        return low
    for _ in range(20):
        middle = (low + high) / 2
        low, high = (low, middle) if p_value(middle) <= alpha else (middle, high)
    return high


def _checked(
    base: Values, point: Values, at: int, budgets: Mapping[str, float], alpha: float, method: str, seed: int
) -> tuple[Check, ...]:
    made = []
    for metric, budget in budgets.items():
        old, new = _paired(base, point, metric, at)
        used = SAME_LISTS if point is base else _method_for(old, new, method)
        p_value = (lambda _: 0.0) if point is base else METHODS[used](old, new, alpha, seed)
        p, upper = p_value(budget), _smallest_certified(p_value, alpha)
        needed = None if p <= alpha else _users_needed(old, new, budget, alpha, used)
        means = float(old.mean()), float(new.mean())
        loss = 1 - means[1] / means[0]
        made.append(Check(metric, budget, len(old), *means, loss, upper, p, p <= alpha, used, needed))
    return tuple(made)


def _method_for(base: Array, new: Array, method: str) -> str:
    """Choose "betting" if the mean may be far from normal: the t test could miss a few users who lose much."""
    changes = (new - base)[np.abs(new - base) > ROUNDING]
    if len(changes) < FEW_CHANGES:
        return "betting"
    skewness_of_sum = float((changes**3).sum() / (changes**2).sum() ** 1.5)
    return method if skewness_of_sum > LEANING else "betting"


def _users_needed(base: Array, new: Array, budget: float, alpha: float, method: str) -> int | None:
    """Return how many users a certificate needs. A gain counts as no loss: without a certificate it may be chance."""
    room = min(float(new.mean()), float(base.mean())) - (1 - budget) * float(base.mean())
    if room <= ROUNDING:
        return None
    deviation = max(float((new - (1 - budget) * base).std()), ROUNDING)
    luck, riches = NormalDist().inv_cdf(POWER), math.log(1 / alpha)
    distance = math.sqrt(2 * riches) if method == "betting" else NormalDist().inv_cdf(1 - alpha)
    users = ((distance + luck) * deviation / room) ** 2
    if method == "betting" and LARGEST_BET**2 * users * deviation**2 < 2 * riches:
        # the bet is held back: users * growth - luck * sqrt(users) * LARGEST_BET * deviation must reach the riches
        growth, swing = LARGEST_BET * (room - LARGEST_BET * deviation**2 / 2), luck * LARGEST_BET * deviation
        users = ((swing + math.sqrt(swing**2 + 4 * growth * riches)) / (2 * growth)) ** 2
    return max(len(base) + 1, math.ceil(users))


def fixed_sequence(p_values: Array, alpha: float) -> NDArray[np.bool_]:
    """Test in the given order, each at the full level, until the first failure.

    >>> fixed_sequence(np.array([0.01, 0.04, 0.2, 0.001]), 0.05).tolist()
    [True, True, False, False]
    """
    return np.logical_and.accumulate(p_values <= alpha)


def step_down(p_values: Array, alpha: float) -> NDArray[np.bool_]:
    """Test from the smallest p-value on, each at alpha over the number left, until the first failure (Holm)."""
    return holm(p_values) <= alpha


PROCEDURES: dict[str, Callable[[Array, float], NDArray[np.bool_]]] = {
    "fixed-sequence": fixed_sequence,
    "holm": step_down,
}


def _paired(base: Values, point: Values, metric: str, at: int) -> tuple[Array, Array]:
    """Return the values of users who are judged in both."""
    before, after = _column(base, metric, "the base"), _column(point, metric, f"point {at}")
    if before.shape != after.shape:
        raise InputError(
            f"{metric} has {len(before)} users in the base and {len(after)} in point {at}; give the same users"
        )
    judged = ~np.isnan(before - after)
    if not judged.any():
        raise InputError(f"{metric}: no user is judged in both the base and point {at}; all values are NaN or missing")
    if before[judged].mean() <= ROUNDING:
        raise InputError(f"{metric} of the base is 0 for every user; a relative loss needs a base above 0")
    return before[judged], after[judged]


def _column(values: Values, metric: str, where: str) -> Array:
    if metric not in values:
        raise InputError(f"{where} has no {metric}, which has a budget; there are {', '.join(values) or 'none'}")
    column = np.asarray(values[metric], np.float64)
    if column.ndim != 1:
        raise InputError(f"{metric} of {where} has shape {column.shape}; one value per user is needed")
    outside = np.flatnonzero((column < 0) | (column > 1 + 1e-9))
    if len(outside):
        raise InputError(
            f"{metric} of {where} is {column[outside[0]]:g} for user row {outside[0]}; values must lie between 0 and 1"
        )
    return column


def _require_known(name: str, known: Mapping[str, Any], what: str) -> None:
    if name not in known:
        raise InputError(f"unknown {what} {name!r}; choose one of {', '.join(known)}")
