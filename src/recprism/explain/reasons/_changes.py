"""What the rule looks at for one user, with boosts, or after a change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from recprism.budget.problem import Problem
from recprism.rule import Features, Rule, category_probabilities
from recprism.rule.boosts import first_in_own_order
from recprism.rule.constraints.constrained import Constrained
from recprism.rule.kernels.prices import TIED_TOGETHER
from recprism.rule.list_search import goal_units

Ints = NDArray[np.int64]


def candidates_of(problem: Problem, rule: Rule, users: Ints | None, pages: Sequence[Ints]) -> tuple[Ints, Any]:
    """Return candidates and scores with boosts; those that boosts alone choose are in the order of their own scores."""
    items, scores = problem.candidates_after(pages, rule.candidates, users, rule.boosts)
    if rule.boosts is not None and rule.for_exposure_alone:
        items = first_in_own_order(items, scores, rule.boosts, rule.k)
    return items, scores


def with_unit(problem: Problem, rule: Rule) -> Rule:
    """Return the rule with the unit of the goal that depends on the number of users."""
    if TIED_TOGETHER not in rule.goals or TIED_TOGETHER in rule.units:
        return rule
    sizes = (rule.k, problem.seen.n_rows, problem.seen.n_cols)
    return replace(rule, units={**rule.units, **goal_units({TIED_TOGETHER: 1.0}, problem.features, *sizes)})


def without_pins(method: Constrained, gone: Ints, row: int) -> Constrained:
    pinned = method.constraints.pinned
    if not isinstance(pinned, np.ndarray):
        return method
    pinned = pinned.copy()
    pinned[row, np.isin(pinned[row], gone)] = -1
    return replace(method, constraints=replace(method.constraints, pinned=pinned))


def with_history(
    problem: Problem, features: Features, row: int, user: int, seen: int | None, forgotten: int | None
) -> Features:
    """Return the features with one more item in the user's history, or with one that no longer counts."""
    if not len(problem.categories):
        return features
    history = np.zeros((1, problem.seen.n_cols), np.float32)
    others = [item for item in problem.seen_in_time(user).tolist() if item not in (seen, forgotten)]
    items = others if seen is None else [*others, seen]  # what is consumed now is the latest
    history[0, items if problem.history_window is None else items[-problem.history_window :]] = 1.0
    intents = category_probabilities(history, problem.categories)
    return features.with_user_categories(row, torch.from_numpy(intents[0]))
