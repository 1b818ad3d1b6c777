"""A check for pipelines: whether the gains and losses of a diversified run are within given limits."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal
from xml.etree import ElementTree

from recprism.data.progress import ProgressCallback
from recprism.data.shares import Share, shares
from recprism.data.split import Part
from recprism.errors import InputError
from recprism.metrics import Difference, parse
from recprism.runs.jobs.diversify import effect
from recprism.runs.run import Run

Kind = Literal["loss", "gain"]


@dataclass(frozen=True)
class Limit:
    """One limit: at most this loss of a metric, or at least this gain, as a share of the base's value.

    A metric that is better when it is lower gains by falling.

    Attributes:
        kind: "loss" or "gain".
        metric: Name of the metric.
        limit: The largest loss or the least gain.
        value: The measured loss or gain.
        bound: The unfavourable end of its 95 % interval; None for a metric of all lists together.
        passed: Whether the limit holds.

    Stability: provisional.
    """

    kind: Kind
    metric: str
    limit: float
    value: float
    bound: float | None
    passed: bool

    def sentence(self) -> str:
        """Describe the limit and whether it holds."""
        word = "at most" if self.kind == "loss" else "at least"
        doubt = "" if self.bound is None else f" ({self.bound:+.2%} at the end of its interval)"
        state = "holds" if self.passed else "FAILS"
        return f"{state}: {self.kind} of {self.metric} {self.value:+.2%}{doubt}, {word} {self.limit:.2%} wanted"


@dataclass(frozen=True)
class CheckResult:
    """The result of a check.

    Attributes:
        run: The run directory.
        part: The part whose labels were used.
        confident: Whether limits apply to the unfavourable end of each interval, instead of to the mean.
        limits: One entry per limit.

    Stability: provisional.
    """

    run: str
    part: str
    confident: bool
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
    confident: bool = False,
    on_step: ProgressCallback | None = None,
) -> CheckResult:
    """Check a diversified run against limits.

    Args:
        run: A diversified run.
        losses: Metric -> largest loss, as a share of the base's value.
        gains: Metric -> least gain, as a share of the base's value.
        part: The part whose labels are used.
        confident: Apply limits to the unfavourable end of each 95 % interval, instead of to the mean.
        on_step: Receives progress.

    Raises:
        InputError: If there is no limit, or a limit cannot be measured.
    """
    if not losses and not gains:
        raise InputError(
            "nothing to check: name a limit, such as --max-ndcg-loss 1% or --min-gain subtopic_coverage@10=5%"
        )
    change = effect(run, tuple(dict.fromkeys((*losses, *gains))), part=part, controls=False, on_step=on_step).change
    wanted: list[tuple[Kind, str, float]] = [("loss", name, limit) for name, limit in shares(losses, "loss").items()]
    wanted += [("gain", name, limit) for name, limit in shares(gains, "gain", 0, math.inf).items()]
    limits = tuple(_limit(kind, change[name], limit, confident) for kind, name, limit in wanted)
    return CheckResult(str(run.path), part, confident, limits)


def _limit(kind: Kind, row: Difference, limit: float, confident: bool) -> Limit:
    if row.relative is None:
        raise InputError(f"{row.name} is 0 before the change; no share of it can be lost or gained")
    if confident and row.low is None:
        raise InputError(f"{row.name} is one number for all lists and has no interval; check it without --confident")
    downwards = parse(row.name)[0].higher_is_better is False
    sign = (-1.0 if kind == "loss" else 1.0) * (-1.0 if downwards else 1.0)
    doubtful = row.high if downwards else row.low  # the unfavourable end for losses and gains
    bound = None if doubtful is None else sign * doubtful / row.a
    judged = bound if confident and bound is not None else sign * row.relative
    passed = judged <= limit if kind == "loss" else judged >= limit
    return Limit(kind, row.name, limit, sign * row.relative, bound, passed)
