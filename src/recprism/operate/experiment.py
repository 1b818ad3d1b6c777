"""The plan of an A/B test: the number of users that it needs, and its guardrails.

The two arms have different users. A guard metric must not fall by more than its budget (non-inferiority, one-sided).
The goal must rise (superiority, two-sided). Means and deviations come from the run's held-out labels, with one list per
user. A metric that is measured differently online has a different deviation.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from statistics import NormalDist
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from recprism.common.progress import ProgressCallback
from recprism.common.shares import Share, shares
from recprism.common.shares import share as read_share
from recprism.data.split import Part
from recprism.errors import InputError
from recprism.metrics import Comparison
from recprism.metrics.evaluation import plain_row
from recprism.metrics.registry import parse
from recprism.operate.guardrails import WATCHED, Guardrail, guardrails
from recprism.result.effect import effect
from recprism.runs.run import Run

FEWEST_USERS = 30
"""Minimum per arm, whatever the effect: means of fewer users are not close to normal."""

Question = Literal["not worse", "better"]
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Size:
    """The number of users that one question needs.

    Attributes:
        metric: Name of the metric.
        question: "not worse" (by more than ``margin``) or "better".
        base: Mean of the base lists over the run's users.
        new: Mean of the new lists over the run's users.
        base_deviation: Standard deviation of one user's value under the base lists.
        new_deviation: Standard deviation of one user's value under the new lists.
        margin: Share of the base that may be lost; None for "better".
        distance: The difference that the test must detect, in units of the metric.
        base_users: Users of the base arm; None if no number is enough.
        new_users: Users of the new arm; None if no number is enough.
        why: The assumption behind the number, or the reason why no number is enough.
    """

    metric: str
    question: Question
    base: float
    new: float
    base_deviation: float
    new_deviation: float
    margin: float | None
    distance: float
    base_users: int | None
    new_users: int | None
    why: str

    @property
    def users(self) -> int | None:
        """Users of both arms."""
        return None if self.base_users is None or self.new_users is None else self.base_users + self.new_users

    def sentence(self) -> str:
        """Describe the question and the number of users."""
        asked = f"{self.metric} {self.question}" + ("" if self.margin is None else f" by more than {self.margin:.2%}")
        if self.users is None:
            return f"{asked}: {self.why}."
        return f"{asked}: {self.users:,} users, {self.base_users:,} base and {self.new_users:,} new; {self.why}."


@dataclass(frozen=True)
class Plan:
    """The plan of an experiment; power and alpha apply to each question separately.

    Attributes:
        run: The run directory.
        part: The part whose labels were used.
        power: Power of each test.
        alpha: Significance level of each test.
        share: Share of the users who get the new lists.
        sizes: One entry per question.
        guardrails: Limits that the experiment must keep.
    """

    run: str
    part: str
    power: float
    alpha: float
    share: float
    sizes: tuple[Size, ...]
    guardrails: tuple[Guardrail, ...]

    @property
    def users(self) -> int | None:
        """Users that answer all questions; None if a question cannot be answered."""
        needed = [size.users for size in self.sizes]
        return None if not needed or None in needed else max(filter(None, needed))

    def sentence(self) -> str:
        """Describe the total number of users."""
        terms = f"with {self.power:.0%} power at alpha {self.alpha:g}"
        if self.users is None:
            return f"No number of users answers all questions {terms}; see above which."
        return f"{self.users:,} users answer all of these questions, each {terms}."

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        sizes = [{**plain_row(size), "users": size.users} for size in self.sizes]
        return {**asdict(self), "sizes": sizes, "users": self.users, "sentence": self.sentence()}


def plan(
    run: Run,
    *,
    budgets: Mapping[str, Share] | None = None,
    power: Share = 0.8,
    alpha: Share = 0.05,
    share: Share = 0.5,
    retained: Share = 1.0,
    part: Part = "test",
    on_step: ProgressCallback | None = None,
) -> Plan:
    """Plan an A/B test of base lists against swapped lists: the number of users, and guardrails.

    Args:
        run: A diversified run.
        budgets: Guard metric -> share of it that may be lost; by default the budgets of the run.
        power: Power of each test.
        alpha: Significance level of each test.
        share: Share of the users who get the new lists.
        retained: Share of the measured gain that the test must still detect.
        part: The part whose labels are used.
        on_step: Receives progress.

    Raises:
        InputError: If the run has no budget and none is given, or if there are no labels.
    """
    guards = _budgets_of(run) if budgets is None else shares(budgets, "budget", ends=False)
    asked = (read_share(it, name, ends=False) for it, name in ((power, "power"), (alpha, "alpha"), (share, "share")))
    terms, to_find = Terms(*asked), read_share(retained, "retained", 0.01)
    result = run.load_result(part)
    goal = result.objective
    run.split().require_labels(part, "a plan for a test")
    found = effect(result, tuple(dict.fromkeys((*guards, goal, *WATCHED))), on_step=on_step)

    def size(metric: str, margin: float | None) -> Size:
        if metric not in found.before.values:
            return _without_users(found.change, metric, margin)
        base, new = _judged(found.before.values[metric], found.after.values[metric])
        return (
            better(metric, base, new, to_find, terms) if margin is None else not_worse(metric, base, new, margin, terms)
        )

    sizes = [*(size(metric, margin) for metric, margin in guards.items()), size(goal, None)]
    rails = guardrails(run, found.change, guards, goal)
    return Plan(str(run.path), part, terms.power, terms.alpha, terms.share, tuple(sizes), rails)


# -- sizes ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Terms:
    """Power and alpha of a test, and the share of the users who get the new lists."""

    power: float
    alpha: float
    share: float

    def users(self, distance: float, base: float, new: float, alpha: float) -> tuple[int, int]:
        """Return the users of each arm for a normal test.

        Args:
            distance: The difference to detect.
            base: Standard deviation in the base arm.
            new: Standard deviation in the new arm.
            alpha: Significance level of a one-sided test.
        """
        normal = NormalDist()
        reach = normal.inv_cdf(1 - alpha) + normal.inv_cdf(self.power)
        total = (reach / distance) ** 2 * (base**2 / (1 - self.share) + new**2 / self.share)
        base_users, new_users = total * (1 - self.share), total * self.share
        return max(FEWEST_USERS, math.ceil(base_users)), max(FEWEST_USERS, math.ceil(new_users))


def not_worse(metric: str, base: Array, new: Array, margin: float, terms: Terms) -> Size:
    """Compute the size of a test that the new mean is above (1 - margin) times the base mean.

    The measured loss is taken as true. A measured gain counts as no loss, because it may be chance.

    Args:
        metric: Name of the metric.
        base: (n,) values of the run's users under the base lists.
        new: (n,) values under the new lists.
        margin: Share of the base that may be lost.
        terms: Power, alpha and share.
    """
    moments = _moments(base, new)
    loss = max(0.0, 1 - float(np.divide(moments[1], moments[0])))  # a mean of 0 makes it 0
    distance = (margin - loss) * moments[0]
    facts = (*moments, margin, distance)
    if distance <= 0:
        why = f"the run itself loses {loss:.2%}, so no number of users shows that it keeps within {margin:.2%}"
        return Size(metric, "not worse", *facts, None, None, why)
    users = terms.users(distance, (1 - margin) * facts[2], facts[3], terms.alpha)
    return Size(metric, "not worse", *facts, *users, f"one-sided, if it truly loses {loss:.2%}")


def better(metric: str, base: Array, new: Array, retained: float, terms: Terms) -> Size:
    """Compute the size of a test that the two means differ by ``retained`` times the measured gain."""
    gain = float(new.mean() - base.mean())
    facts = (*_moments(base, new), None, retained * gain)
    higher = parse(metric)[0].higher_is_better is not False
    if (gain > 0) != higher or gain == 0:
        return Size(metric, "better", *facts, None, None, "the run does not improve it, so there is nothing to find")
    users = terms.users(retained * gain, facts[2], facts[3], terms.alpha / 2)
    change = retained * gain / facts[0] if facts[0] else math.nan
    return Size(metric, "better", *facts, *users, f"two-sided, if it truly changes by {change:+.2%}")


def _moments(base: Array, new: Array) -> tuple[float, float, float, float]:
    """Return both means, then both standard deviations."""
    return float(base.mean()), float(new.mean()), float(base.std(ddof=1)), float(new.std(ddof=1))


def _without_users(change: Comparison, metric: str, margin: float | None) -> Size:
    row = change[metric]
    question: Question = "better" if margin is None else "not worse"
    why = "it is one number for all lists of an arm, without a value per user to test; watch it"
    return Size(metric, question, row.a, row.b, math.nan, math.nan, margin, row.difference, None, None, why)


def _judged(base: Array, new: Array) -> tuple[Array, Array]:
    both = ~np.isnan(base - new)
    if both.sum() < 2:
        raise InputError(
            f"{int(both.sum())} users are judged before and after; at least two are needed for a deviation"
        )
    return base[both], new[both]


# -- budgets ----------------------------------------------------------------------------------------------------------


def _budgets_of(run: Run) -> dict[str, float]:
    asked = run.within
    if asked is None:
        raise InputError(
            f"{run.argument}: was not diversified within a budget, so it has no margin to test; name one: --budget 0.01"
        )
    return dict(asked.budgets)
