"""How certificates come out: earned on validation, read on the test."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from recprism.budget.path import Path, lists_at, walk
from recprism.budget.problem import Problem
from recprism.rule.goal import Goal

BUDGETS = (0.01, 0.02, 0.05)
METRIC = "ndcg@10"
AT_ONCE = 8  # stops that are computed before the next test


def certificate_outcomes(
    validation: Problem, test: Problem, metrics: Iterable[str], budgets: tuple[float, ...] = BUDGETS
) -> list[dict[str, Any]]:
    """Certify every goal at every budget on validation, and measure the same stop on the test.

    The lists are those of the rule, along the path that ships (:func:`recprism.budget.path.walk`).

    Args:
        validation: The problem whose labels certify.
        test: The same model on the test part.
        metrics: The metrics of the goals.
        budgets: Shares of NDCG@10 that may be lost.

    Returns:
        One row per goal and budget: the certified trade-off (None if nothing is certified), the losses on both parts
        and the numbers of users.
    """
    rows = []
    base = test.judge(test.base_lists, (METRIC,))[METRIC]
    for metric in metrics:
        goal = Goal.parse(metric.partition("@")[0])
        path = _path_as_far_as_needed(validation, goal, max(budgets))
        for budget in budgets:
            certificate = path.certificate({METRIC: budget})
            row: dict[str, Any] = {"goal": metric, "rule": str(goal), "budget": budget, "method": certificate.method}
            row |= {"confidence": certificate.confidence, "stops": len(goal.steps), "trade_off": None}
            if certificate.last is not None:
                check = certificate.checks[0]
                trade_off = path.points[certificate.last].trade_off
                new = test.judge(lists_at(test, goal, trade_off), (METRIC,))[METRIC]
                known = ~np.isnan(base) & ~np.isnan(new)
                row |= {"stop": certificate.last + 1, "trade_off": trade_off, "loss": check.loss, "users": check.users}
                row |= {"test_loss": 1 - float(new[known].mean() / base[known].mean()), "test_users": int(known.sum())}
            rows.append(row)
    return rows


def _path_as_far_as_needed(validation: Problem, goal: Goal, budget: float) -> Path:
    """Walk a path until a stop does not keep the largest budget: no later stop is tested, whatever the budget."""
    for number in range(AT_ONCE, len(goal.steps) + AT_ONCE, AT_ONCE):
        path = walk(validation, goal, (METRIC,), goal.steps[:number])
        if path.certificate({METRIC: budget}).last != len(path.points) - 1:
            break
    return path
