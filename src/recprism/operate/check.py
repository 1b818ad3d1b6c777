"""A check for pipelines: whether the gains and losses of a diversified run are within given limits."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal
from xml.etree import ElementTree

import numpy as np
from numpy.typing import ArrayLike

from recprism.budget.certificate import Check
from recprism.budget.certifying import by_cluster, certify
from recprism.budget.evidence import BUDGETS, Array, betting_test, possible_losses, users_needed
from recprism.common.progress import ProgressCallback
from recprism.common.shares import CONFIDENCE, Share, share, shares
from recprism.data.split import Part
from recprism.errors import InputError
from recprism.metrics import Difference
from recprism.metrics.registry import parse
from recprism.result.effect import Effect, effect
from recprism.result.result import Result
from recprism.runs.run import Run

Kind = Literal["loss", "gain"]
HALF = 0.5
"""The budget that stands for a gain: new lists scaled by HALF / (1 + gain) lose at most half of the base."""


@dataclass(frozen=True)
class Limit:
    """One limit: at most this loss of a metric, or at least this gain, as a share of the base's value.

    A metric that is better when it is lower gains by falling.

    Attributes:
        kind: "loss" or "gain".
        metric: Name of the metric.
        limit: The largest loss or the least gain.
        value: The measured loss or gain.
        passed: Whether the limit holds.
        users: How many users were judged.
        confidence: Of the bound; None if the limit was compared with the measured value.
        bound: Upper confidence bound of the loss, or lower one of the gain; None if the value was measured only.
        users_needed: To show that the limit holds, at this value and spread, with 80 % power. None if the limit holds,
            or if the value is beyond it.
    """

    kind: Kind
    metric: str
    limit: float
    value: float
    passed: bool
    users: int
    confidence: float | None = None
    bound: float | None = None
    users_needed: int | None = None

    def sentence(self) -> str:
        """Describe the limit, whether it holds, and why not."""
        end, word, beyond = _WORDS[self.kind]
        state, why = "holds" if self.passed else "FAILS", ""
        doubt = "measured"
        if self.bound is not None:
            doubt = (
                f"{end} bound {self.bound:+.2%}, {100 * (self.confidence or 0):g} % confidence, {self.users:,} users"
            )
            if not self.passed:
                why = f"; the measured {self.kind} is {beyond}" if self._is_beyond() else "; that is not shown yet"
            if self.users_needed is not None:
                why += f", about {self.users_needed:,} users are needed"
        return f"{state}: {self.kind} of {self.metric} {self.value:+.2%} ({doubt}), {word} {self.limit:.2%} wanted{why}"

    def _is_beyond(self) -> bool:
        return self.value > self.limit if self.kind == "loss" else self.value < self.limit


_WORDS = {"loss": ("upper", "at most", "larger"), "gain": ("lower", "at least", "smaller")}


@dataclass(frozen=True)
class CheckResult:
    """The result of a check.

    Attributes:
        run: The run directory.
        part: The part whose labels were used.
        limits: One entry per limit.
    """

    run: str
    part: str
    limits: tuple[Limit, ...]

    @property
    def passed(self) -> bool:
        """Whether all limits hold."""
        return all(limit.passed for limit in self.limits)

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "passed": self.passed, "limits": [asdict(limit) for limit in self.limits]}

    def to_junit(self) -> str:
        """Return JUnit XML with one test case per limit, for build servers."""
        failures = {f"{it.kind} of {it.metric}": None if it.passed else it.sentence() for it in self.limits}
        return junit("recprism check", self.run, failures)


def junit(suite: str, about: str, cases: Mapping[str, str | None]) -> str:
    """Return JUnit XML.

    Args:
        suite: Name of the test suite.
        about: Class name of the test cases.
        cases: Name -> why the case failed; None if it passed.
    """
    failed = sum(failure is not None for failure in cases.values())
    root = ElementTree.Element("testsuite", name=suite, tests=str(len(cases)), failures=str(failed), errors="0")
    for name, failure in cases.items():
        case = ElementTree.SubElement(root, "testcase", classname=about, name=name)
        if failure is not None:
            ElementTree.SubElement(case, "failure", message=failure)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True)


def check(
    run: Run,
    losses: Mapping[str, Share],
    gains: Mapping[str, Share],
    *,
    part: Part = "test",
    confidence: Share | None = 0.95,
    on_step: ProgressCallback | None = None,
) -> CheckResult:
    """Check a diversified run against limits.

    A limit holds if the test of the certificate shows it: the one-sided test by betting, on the users of the part. Each
    limit is tested at the full level. That is right for "all limits hold", which is wrong only if a limit that does not
    hold passes its own test (intersection-union). No test on users can decide on a metric of all lists together, or on
    one whose values may leave 0 to 1. Their measured value must be within the limit.

    Args:
        run: A diversified run.
        losses: Metric -> largest loss, as a share of the base's value.
        gains: Metric -> least gain, as a share of the base's value.
        part: The part whose labels are used.
        confidence: That all limits hold, if all pass. None compares measured values with the limits.
        on_step: Receives progress.

    Raises:
        InputError: If there is no limit, or a limit cannot be measured.
    """
    if not losses and not gains:
        raise InputError(
            "nothing to check: name a limit, such as --max-ndcg-loss 1% or --min-gain subtopic_coverage@10=5%"
        )
    wanted: list[tuple[Kind, str, float]] = [("loss", name, limit) for name, limit in shares(losses, "loss").items()]
    wanted += [("gain", name, limit) for name, limit in shares(gains, "gain", 0, math.inf).items()]
    level = None if confidence is None else share(confidence, "confidence", *CONFIDENCE)
    result = run.load_result(part)
    names = tuple(dict.fromkeys((*losses, *gains)))
    found = effect(result, names, on_step=on_step)
    limits = tuple(_limit(kind, found.change[name], limit, level, result, found) for kind, name, limit in wanted)
    return CheckResult(str(run.path), part, limits)


def _limit(kind: Kind, row: Difference, limit: float, level: float | None, result: Result, found: Effect) -> Limit:
    if row.relative is None:
        raise InputError(f"{row.name} is 0 before the change; no share of it can be lost or gained")
    metric = parse(row.name)[0]
    value = row.relative * (1 if (kind == "gain") == (metric.higher_is_better is not False) else -1)
    if level is None or not (metric.per_user and metric.higher_is_better and metric.bounds == (0.0, 1.0)):
        return Limit(kind, row.name, limit, value, value <= limit if kind == "loss" else value >= limit, row.n_users)
    values = found.before.values[row.name], found.after.values[row.name]
    if kind == "loss":
        bound, needed = _most_lost(row.name, *values, limit, level, result)
        bound = max(bound, value)
        return Limit(kind, row.name, limit, value, bound <= limit, row.n_users, level, bound, needed)
    bound, needed = _least_gained(*values, limit, value, 1 - level, result.problem.clusters)
    return Limit(kind, row.name, limit, value, bound >= limit, row.n_users, level, bound, needed)


def _most_lost(
    name: str, before: Array, after: Array, limit: float, level: float, result: Result
) -> tuple[float, int | None]:
    """Return the upper confidence bound of a loss, and the users that the limit needs."""
    problem, cut = result.problem, parse(name)[1]
    old, new = (problem.rank(it, cut)[0] for it in (problem.base, result.model))
    possible = {name: possible_losses(old, new, name)}

    def tested(budget: float) -> Check:
        made = certify(
            {name: before},
            [{name: after}],
            {name: budget},
            possible=[possible],
            clusters=problem.clusters,
            confidence=level,
        )
        return made.points[0].checks[0]

    clearest = tested(float(BUDGETS[0]))
    bound = min(clearest.budget, clearest.largest_loss) if clearest.upper is None else clearest.upper
    return bound, tested(limit).users_needed if 0 < limit < min(bound, 1) else None


def _least_gained(
    before: Array, after: Array, limit: float, value: float, alpha: float, clusters: ArrayLike | None = None
) -> tuple[float, int | None]:
    """Return the lower confidence bound of a gain, and the users that the limit needs."""
    judged = ~np.isnan(before - after)
    users = judged.sum()
    if clusters is not None:
        before, after, judged, _ = by_cluster(clusters, before, after, judged, None, "the gain")
    old, new = before[judged], after[judged]

    def is_shown(gain: float) -> bool:
        return betting_test(old, new * HALF / (1 + gain), HALF, alpha)(HALF) <= alpha

    passed = value >= limit and is_shown(limit)
    low, high = (limit, value) if passed else (-1.0, min(limit, value))
    for _ in range(16):
        middle = (low + high) / 2
        low, high = (middle, high) if is_shown(middle) else (low, middle)
    needed = None if passed else users_needed(old, new * HALF / (1 + limit), HALF, alpha, "betting", HALF)
    return low, needed if needed is None or clusters is None else math.ceil(needed * users / len(old))
