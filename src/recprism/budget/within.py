"""The rule that makes the most diverse lists within a certified budget."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol, runtime_checkable

import numpy as np

from recprism.budget.certificate import Certificate
from recprism.budget.certifying import certify_until_refused
from recprism.budget.path import Values, rule_at, served_base, served_point, weighs_history
from recprism.budget.problem import PathStore, Problem
from recprism.budget.question import BudgetQuestion
from recprism.common.log import phase
from recprism.common.progress import ProgressCallback, count_steps
from recprism.errors import InputError
from recprism.rule.constraints.violations import Violations
from recprism.rule.rule import Rule


@dataclass(frozen=True, eq=False)
class CertifiedRule:
    """A rule and what was tested about it.

    Attributes:
        question: The goal and its budgets, with the part whose labels decided.
        rule: What makes the lists; None if nothing was certified.
        certificate: What the lists cost at most, as the mean over the users of the part that certifies.
        violations: Of the constraints, in the lists of the problem; None without constraints or without a rule.
        constraint_costs: Metric -> the share of it that the constraints take from the base lists by themselves. It is
            not part of the certified loss.
    """

    question: BudgetQuestion
    rule: Rule | None
    certificate: Certificate
    violations: Violations | None = None
    constraint_costs: Mapping[str, float] = field(default_factory=dict)


@runtime_checkable
class Ledger(PathStore, Protocol):
    """A store that notes what labels were asked, such as that of a run."""

    def ask(
        self, problem: Problem, question: BudgetQuestion, on_step: ProgressCallback | None = None
    ) -> tuple[CertifiedRule, str | None]:
        """Find the rule within a budget, and say what else the labels answered."""


def ask(
    problem: Problem, question: BudgetQuestion, on_step: ProgressCallback | None = None
) -> tuple[CertifiedRule, str | None]:
    """Find the rule within a budget, and note the question where the problem was read from.

    Returns:
        The rule, and a sentence about other questions to the same labels; None without any, and without a ledger.
    """
    question = replace(question, part=question.part_in(problem))
    if isinstance(problem.store, Ledger):
        return problem.store.ask(problem, question, on_step)
    return within_budget(problem, question, on_step=on_step), None


@phase("walking the path and certifying", __name__)
def within_budget(
    problem: Problem,
    question: BudgetQuestion,
    *,
    certificate: Certificate | None = None,
    on_step: ProgressCallback | None = None,
) -> CertifiedRule:
    """Find the rule with the most diverse lists whose loss is certified to stay within all budgets.

    The points of the path are tested in order, and the first that fails ends the walk. Losses count from the base lists
    under the same constraints; what the constraints cost by themselves is reported apart.

    Args:
        problem: What is served, and the constraints that all lists keep.
        question: The goal and its budgets.
        certificate: What an audit answered to the same question. Nothing is tested then.
        on_step: Receives the number of points that are done, and how many there are at most.

    Returns:
        The rule and its certificate. There is no rule if not even the first point is certified.
    """
    goal, budgets, through, part = question.goal, question.budgets, question.through, question.part_in(problem)
    problem.split.require_labels(part, "a certified budget")
    if problem.history_window is not None and not weighs_history(problem, goal):
        raise InputError(f"lists for {goal} do not look at the user's history here, so a history window has no effect")
    judge, names = problem.on(part), tuple(budgets)
    base, steps = served_base(judge, names), question.steps
    step = count_steps(on_step, "walking the path", len(steps) + 1)

    def points() -> Iterator[tuple[Values, Values | None]]:
        for trade_off in steps:
            point = served_point(judge, goal, trade_off, names, through)
            step()
            yield point.values, {name: point.possible_loss(base, name) for name in names} if through is None else None

    if certificate is None:
        certificate = certify_until_refused(
            base.values,
            points(),
            budgets,
            clusters=judge.clusters,
            confidence=question.confidence,
            method=question.method,
            part=part,
        )
    rule = violations = None
    if certificate.last is not None:
        rule = replace(rule_at(problem, goal, steps[certificate.last]), limits=certificate.limits)
        violations = problem.violations(problem.rank(rule)[0])
    step()
    return CertifiedRule(replace(question, part=part), rule, certificate, violations, _costs(judge, base.values))


def _costs(judge: Problem, base: Values) -> dict[str, float]:
    """Return metric -> the share of it that the constraints take from the base lists; empty without constraints."""
    if not judge.constraints:
        return {}
    without = served_base(judge.under(None), tuple(base)).values
    before, after = ({name: float(np.nanmean(it)) for name, it in of.items()} for of in (without, base))
    return {name: 1 - after[name] / before[name] for name in base if before[name]}
