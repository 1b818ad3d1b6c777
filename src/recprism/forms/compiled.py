"""A rule compiled for one context: its dials, how many lists come out equal, and what they lose."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recprism.budget.path import Compile, deciding_part
from recprism.budget.problem import Lists, Problem
from recprism.budget.sticky import StickyProblem
from recprism.errors import InputError
from recprism.forms.dials import Dials, lists_to_dials
from recprism.models import Factors
from recprism.rule.boosts import boosted
from recprism.rule.kernels.prices import looks_at_order
from recprism.rule.rule import Rule


@dataclass(frozen=True)
class Agreement:
    """How many lists of a compiled form equal those of the rule.

    Attributes:
        users: Number of lists.
        same_items: Lists with the same items.
        same_order: Lists with the same items in the same order.
    """

    users: int
    same_items: int
    same_order: int

    @classmethod
    def of(cls, lists: Lists, others: Lists) -> Agreement:
        """Compare ``(n_users, k)`` lists."""
        items = (np.sort(lists, 1) == np.sort(others, 1)).all(1)
        return cls(len(lists), int(items.sum()), int((lists == others).all(1).sum()))

    def sentence(self) -> str:
        """Return the comparison in words."""
        return (
            f"Of {self.users:,} lists, {self.same_items:,} have the items of the rule's list "
            f"({self.same_items / max(self.users, 1):.1%}), {self.same_order:,} in its order."
        )


def agreement_of(problem: Problem, rule: Rule, factors: Factors) -> Agreement:
    """Compare the lists of vectors with those of the rule, both under the constraints."""
    return Agreement.of(problem.rank(rule)[0], problem.rank(factors)[0])


def compile_dials(problem: Problem, rule: Rule, *, users: NDArray[Any] | None = None) -> Dials:
    """Compile the lists of a rule into named weights. Goals that look at the order of a list keep it.

    Args:
        problem: The context.
        rule: What makes the lists.
        users: ``(n,)`` row numbers; all users by default.

    Raises:
        InputError: If there are no categories, or the model has no vectors or ranks by cosine.
    """
    if not len(problem.categories):
        raise InputError("dials need categories of the items and there are none; choose --form rule or user-vectors")
    base = with_boosts(problem.factors, rule)
    return lists_to_dials(
        base,
        problem.rank(rule, users=users)[0],
        problem.categories,
        # What is served without weights: the base lists of a problem may have other candidates, and no boosts.
        base_lists=problem.rank(base, users=users)[0],
        exclude=problem.hidden if users is None else problem.hidden.take_rows(users),
        users=users,
        ordered=looks_at_order(rule.goal.searched),
        demote=True,  # a list that needs less of a category is better served by a negative weight than not at all
    )


def with_boosts(base: Factors, rule: Rule) -> Factors:
    """Return the model with the boosts of a rule in its item bias."""
    return base if rule.boosts is None else boosted(base, rule.boosts)


def rule_at_share(rule: Rule, alpha: float, problem: Problem) -> Rule:
    """Return the rule at a share of its trade-off."""
    if alpha == 1:
        return rule
    if rule.boosts is not None or isinstance(problem, StickyProblem):
        why = "boosts are fixed when they are certified" if rule.boosts is not None else "it keeps older lists"
        raise InputError(f"{why}, so --alpha is 0 or 1 here")
    return rule.at(alpha * rule.trade_off)


def measured_loss(problem: Problem, rule: Rule, through: Compile) -> dict[str, Any] | None:
    """Return the loss of lists of a form on the part that certifies; None without labels."""
    judge = problem.on(deciding_part(problem.split, problem.part))
    if not len(judge.split.part(judge.part)):
        return None
    metric = f"ndcg@{judge.k}"
    before, after = (
        judge.evaluate(it, (metric,), bootstrap=0).values[metric] for it in (judge.base, through.compile(judge, rule))
    )
    judged = ~np.isnan(before - after)
    loss = float(1 - after[judged].mean() / before[judged].mean())
    return {"metric": metric, "loss": loss, "users": int(judged.sum()), "part": judge.part}
