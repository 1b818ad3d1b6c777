"""A gate for pipelines: is what a diversified run gained and lost within limits that were set before?"""

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
    """One demand: at most this loss of a metric, or at least this gain, as a share of the base's value.

    A metric that is better when it is lower gains by falling.

    value: what was measured; bound: the end of its 95 % interval on the side of doubt, None for a metric of all lists
        together
    """

    kind: Kind
    metric: str
    limit: float
    value: float
    bound: float | None
    passed: bool

    def sentence(self) -> str:
        word = "at most" if self.kind == "loss" else "at least"
        doubt = "" if self.bound is None else f" ({self.bound:+.2%} at the end of its interval)"
        state = "holds" if self.passed else "FAILS"
        return f"{state}: {self.kind} of {self.metric} {self.value:+.2%}{doubt}, {word} {self.limit:.2%} wanted"


@dataclass(frozen=True)
class Checked:
    """All demands on a run; ``confident``: judged by the doubtful end of each interval, not by the mean."""

    run: str
    part: str
    confident: bool
    limits: tuple[Limit, ...]

    @property
    def passed(self) -> bool:
        return all(limit.passed for limit in self.limits)

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "passed": self.passed, "limits": [asdict(limit) for limit in self.limits]}

    def to_junit(self) -> str:
        """One test case per demand, as build servers read them."""
        failures = {f"{it.kind} of {it.metric}": None if it.passed else it.sentence() for it in self.limits}
        return junit("recprism check", self.run, failures)


def junit(suite: str, about: str, cases: Mapping[str, str | None]) -> str:
    """The XML of test cases; cases: name -> why it failed, None where it passed."""
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
) -> Checked:
    """losses, gains: metric -> largest loss and least gain, as shares of the base's value."""
    if not losses and not gains:
        raise InputError(
            "nothing to check: name a limit, such as --max-ndcg-loss 1% or --min-gain subtopic_coverage@10=5%"
        )
    change = effect(run, tuple(dict.fromkeys((*losses, *gains))), part=part, controls=False, on_step=on_step).change
    wanted: list[tuple[Kind, str, float]] = [("loss", name, limit) for name, limit in shares(losses, "loss").items()]
    wanted += [("gain", name, limit) for name, limit in shares(gains, "gain", 0, math.inf).items()]
    limits = tuple(_limit(kind, change[name], limit, confident) for kind, name, limit in wanted)
    return Checked(str(run.path), part, confident, limits)


def _limit(kind: Kind, row: Difference, limit: float, confident: bool) -> Limit:
    if row.relative is None:
        raise InputError(f"{row.name} is 0 before the change; no share of it can be lost or gained")
    if confident and row.low is None:
        raise InputError(f"{row.name} is one number for all lists and has no interval; check it without --confident")
    downwards = parse(row.name)[0].higher_is_better is False
    sign = (-1.0 if kind == "loss" else 1.0) * (-1.0 if downwards else 1.0)
    doubtful = row.high if downwards else row.low  # of either kind: where the run would come off worse
    bound = None if doubtful is None else sign * doubtful / row.a
    judged = bound if confident and bound is not None else sign * row.relative
    passed = judged <= limit if kind == "loss" else judged >= limit
    return Limit(kind, row.name, limit, sign * row.relative, bound, passed)
