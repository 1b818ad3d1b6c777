"""What held-out labels are asked: how far lists can move towards a goal within budgets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from recprism.budget.path import Compile, deciding_part, require_certifiable
from recprism.budget.problem import Problem
from recprism.common.shares import CONFIDENCE, Share, share, shares
from recprism.data.split import Part
from recprism.errors import InputError
from recprism.metrics.registry import metric_name
from recprism.rule.goal import Goal, Words


@dataclass(frozen=True)
class BudgetQuestion:
    """One goal and the budgets that its path is tested against. Constraints and clusters are those of the problem.

    Attributes:
        goal: What to raise.
        budgets: Metric with cut -> the share of it that may be lost.
        confidence: Of the answer, and of all answers to questions that are asked together.
        method: The test of a step; see :func:`recprism.budget.certifying.certify`.
        part: The part whose labels decide. By default validation, if the split has such labels; the test part then
            stays unread.
        weight: Its share of the error that questions asked together may make, relative to the others.
        trade_offs: The steps of the path; None for those of the goal.
        through: Compiles the rule of each step; its lists are tested instead of the rule's, and have no limit.
    """

    goal: Goal
    budgets: Mapping[str, float]
    confidence: float = 0.95
    method: Literal["betting", "t"] = "betting"
    part: Part | None = None
    weight: float = 1.0
    trade_offs: tuple[float, ...] | None = None
    through: Compile | None = None

    @classmethod
    def of(
        cls, goal: Words, budgets: Mapping[str, Share], *, k: int = 10, confidence: Share = 0.95, **others: Any
    ) -> BudgetQuestion:
        """Read a question as a user writes it.

        Args:
            goal: As in :meth:`recprism.rule.Goal.parse`.
            budgets: Name of a metric, an alias for instance, -> share; a name without a cut is cut at ``k``.
            k: Length of the lists.
            confidence: A share.
            **others: Further attributes.

        Raises:
            InputError: A goal or metric is unknown, no test on users can certify a metric, or a share is out of range.
        """
        sure = share(confidence, "confidence", *CONFIDENCE)
        return cls(Goal.parse(goal), _by_metric(budgets, "budget", k), sure, **others)

    @classmethod
    def each(
        cls,
        goals: Iterable[Words],
        budgets: Sequence[Share] | Mapping[Share, float],
        guards: Mapping[str, Share] | None = None,
        *,
        k: int = 10,
        **others: Any,
    ) -> tuple[BudgetQuestion, ...]:
        """Return a question for each goal and each budget of NDCG, the smallest budget of a goal first.

        Args:
            goals: As in :meth:`recprism.rule.Goal.parse`.
            budgets: Shares of NDCG@k that may be lost, or each of them with its weight.
            guards: Further metrics, and the share of each that may be lost at any budget.
            k: Length of the lists.
            **others: As in :meth:`of`.

        Raises:
            InputError: As for :meth:`of`; or there is no budget, or a weight is not above 0.
        """
        given = budgets if isinstance(budgets, Mapping) else dict.fromkeys(budgets, 1.0)
        if not given:
            raise InputError("name at least one budget, such as 0.01")
        if any(not weight > 0 for weight in given.values()):
            raise InputError("a budget has a weight that is not above 0; leave out budgets that are not asked for")
        weights = {share(budget, "budget", ends=False): weight for budget, weight in given.items()}
        kept, cost = _by_metric(guards or {}, "guard", k), f"ndcg@{k}"
        if cost in kept:
            raise InputError(f"{cost} has the budget already; leave it out of the guards")
        return tuple(
            cls.of(goal, {cost: budget, **kept}, k=k, weight=weights[budget], **others)
            for goal in dict.fromkeys(map(Goal.parse, goals))
            for budget in sorted(weights)
        )

    @property
    def steps(self) -> tuple[float, ...]:
        """The trade-offs that are tested."""
        return self.goal.steps if self.trade_offs is None else self.trade_offs

    def part_in(self, problem: Problem) -> Part:
        """Return the part whose labels decide."""
        return self.part or deciding_part(problem.split, problem.part)

    def to_dict(self) -> dict[str, Any]:
        """Return what distinguishes it from other questions to the same labels, in plain values."""
        compiled = None if self.through is None else self.through.to_dict()
        return {"goal": str(self.goal), "budgets": dict(self.budgets), "compiled": compiled}


def _by_metric(given: Mapping[str, Share], what: str, k: int) -> dict[str, float]:
    """Return full name of each metric -> share."""
    named = {require_certifiable(metric_name(name, k)): it for name, it in given.items()}
    return shares(named, what, ends=False)
