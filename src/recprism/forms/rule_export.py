"""What an exported rule holds, for :mod:`recprism.serving`."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recprism.budget.problem import Problem
from recprism.common.version import __version__
from recprism.errors import InputError
from recprism.forms._own_items import stored_fields
from recprism.forms.rule_file import RuleFile
from recprism.models import Factors
from recprism.rule.constraints.constraints import NOT_ONE_LIST
from recprism.rule.kernels.prices import TIED_TOGETHER
from recprism.rule.list_search import category_rows, directions_of, goal_units
from recprism.rule.rule import Rule


def collect_rule(problem: Problem, rule: Rule, *, vectors: bool = False, histories: bool = False) -> RuleFile:
    """Collect what makes the lists of a rule at request time.

    Args:
        problem: What is served; its constraints have item numbers.
        rule: What makes the lists.
        vectors: Whether the item vectors of the base model are included, to rank by a user vector.
        histories: Whether the histories of the users are included, so that a request may name the user instead.

    Raises:
        InputError: If the list of one user depends on the lists of others, or the model has no vectors to include.
    """
    if rule.goal.ties_users:
        raise InputError(NOT_ONE_LIST.format(TIED_TOGETHER))
    problem.constraints.require_one_list()
    function = rule.goal.function
    if function is not None and function.hindrance is not None:
        raise InputError(
            f"a request waits for the rule, so the goal {function.name} must be compiled, and numba does not compile "
            f"it ({function.hindrance}); export another form, or write live lists with `recprism recommend`"
        )
    goals = rule.goal.searched
    features, n_items = problem.features, len(problem.split.item_ids)
    missing = {name: weight for name, weight in goals.items() if name not in rule.units}
    units = {**goal_units(missing, features, rule.k, problem.seen.n_rows, n_items), **rule.units}
    unit, known = directions_of(goals, features)
    rows = (np.zeros(n_items + 1, np.int64), np.zeros(0, np.int32), 0)
    has_categories = bool(len(problem.categories))
    indptr, indices, _ = category_rows(features) if has_categories else rows
    return RuleFile(
        goals=goals,
        units=units,
        trade_off=float(rule.trade_off),
        history_weight=float(rule.history_weight) if goals else 0.0,
        history_window=rule.history_window,
        k=rule.k,
        candidates=rule.candidates,
        limits=dict(rule.limits),
        constraints=problem.constraints.to_dict(),
        item_ids=problem.split.item_ids,
        names=tuple(problem.categories.names) if has_categories else (),
        indptr=np.asarray(indptr, np.int64),
        indices=np.asarray(indices, np.int32),
        shares=features.categories.shares.cpu().numpy() if has_categories else np.zeros(0),
        unit=unit,
        known=known,
        boosts=rule.boosts,
        item_vectors=_vectors(problem) if vectors else None,
        **(_histories(problem) if histories else {}),
        **stored_fields(problem.fields),
        about={"recprism": __version__, **({} if function is None else {"function": function.fingerprint})},
    )


def _vectors(problem: Problem) -> NDArray[np.float32]:
    if not isinstance(problem.base, Factors):
        raise InputError("this model has no item vectors; export the rule without them (--no-vectors)")
    return np.ascontiguousarray(problem.base.search_vectors[1], np.float32)


def _histories(problem: Problem) -> dict[str, Any]:
    """Return what the users of a context have seen, by item number, and when this was collected."""
    seen, items = problem.seen, problem.seen.indices
    if problem.history_window is not None:
        items = items[problem.split.require_order().by_time(seen)]
    return {
        "history_users": problem.split.user_ids,
        "history_indptr": np.asarray(seen.indptr, np.int64),
        "history_items": np.asarray(items, np.int32),
        "histories_of": time.time(),
    }
