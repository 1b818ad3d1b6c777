"""Guardrails of an experiment, from the certificate and the measured effect of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from recprism.common.shares import percent
from recprism.metrics import Comparison
from recprism.runs.run import Run

RETAINED = 0.8
"""Share of the measured gain that the goal's guardrail requires: the floor of ``recprism monitor``."""
WATCHED = ("catalogue_coverage@10", "tail_share@10", "gini@10")


@dataclass(frozen=True)
class Guardrail:
    """One limit of an experiment, as a change of a metric relative to the base arm.

    Attributes:
        metric: Name of the metric.
        direction: "not below" and "not above" have a limit; "watch" has none.
        limit: The limit.
        measured: The change on the run's held-out labels; None if the base is 0.
        why: The reason for the limit.
    """

    metric: str
    direction: Literal["not below", "not above", "watch"]
    limit: float | None
    measured: float | None
    why: str

    def sentence(self) -> str:
        """Describe the guardrail."""
        limit = "watch" if self.limit is None else f"{self.direction} {self.limit:+.2%}"
        seen = "" if self.measured is None else f" (measured {self.measured:+.2%})"
        return f"{self.metric}: {limit}{seen}; {self.why}"


def guardrails(run: Run, change: Comparison, guards: Mapping[str, float], goal: str) -> tuple[Guardrail, ...]:
    """Derive guardrails for guard metrics, for the goal, and for metrics that got worse.

    Args:
        run: A diversified run.
        change: Its measured effect.
        guards: Guard metric -> share of it that may be lost.
        goal: The metric of the goal.
    """
    certified = _certified(run)
    rails = [
        Guardrail(name, "not below", -budget, change[name].relative, certified.get(name, "your budget, not certified"))
        for name, budget in guards.items()
    ]
    gain = change[goal].relative
    if gain is not None:
        word: Literal["not below", "not above"] = "not below" if gain > 0 else "not above"
        rails.append(Guardrail(goal, word, RETAINED * gain, gain, f"{RETAINED:.0%} of the measured gain, the goal"))
    rails += [
        Guardrail(row.name, "watch", None, row.relative, "it got worse and has no budget")
        for row in change.rows
        if row.name in WATCHED and row.name != goal and row.name not in guards and row.better is False
    ]
    return tuple(rails)


def _certified(run: Run) -> dict[str, str]:
    """Return metric -> what the certificate says about the point that the run serves."""
    kept = run.joint_certificate()
    if kept is None:
        return {}
    by = "" if kept.part is None else f" on the {kept.part} part"
    return {it.metric: f"certified{by} to lose at most {percent(it.budget)} ({kept.sure()})" for it in kept.checks}
