"""The methods of the contest: ours, greedy on the same objective, and every rival, with what may be tuned.

All methods choose from the same pools: the 50, 100, 200 or 500 best items of the base model. All may use the user's
history with the same weights. A trade-off and a choice of settings make the lists.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recprism.budget.problem import DEPTH, Lists, Problem
from recprism.contest.flow import exposure_flow
from recprism.data.categories import Categories
from recprism.errors import InputError
from recprism.metrics.operations import discounts
from recprism.models import Factors
from recprism.rivals import reranker
from recprism.rivals.greedy import Greedy
from recprism.rule.boosts import BoostSearch, first_in_own_order, ranked_with_boosts
from recprism.rule.goal import Goal, Words
from recprism.rule.list_search import goal_units
from recprism.rule.rule import Rule

DEPTHS = (50, 100, 200, 500)
"""Numbers of candidates that every method may choose from."""
HISTORY_WEIGHTS = (0.0, 0.2, 0.4)
"""Weights of the user's history that every method may use; 0.2 is what a path uses untuned."""
SHOWINGS = (1, 5, 20)
"""Showings of an item that earn a bonus in the flow of exposure."""
OURS, GREEDY = "ours", "greedy"
BLOCK = 1 << 22  # float64 values of a temporary array

Choice = Mapping[str, Any]


@dataclass(frozen=True)
class Method:
    """A method to diversify, with one continuous parameter, the trade-off, and some discrete choices.

    Attributes:
        name: Name of the method.
        make: ``(problem, trade_off, **choice)`` -> lists.
        space: All discrete choices; tuning draws some of them.
        together: Whether a user's list depends on those of others, so that lists must be made for all users.
    """

    name: str
    make: Callable[..., Lists]
    space: tuple[Choice, ...]
    together: bool = False

    def __call__(self, problem: Problem, trade_off: float, choice: Choice) -> Lists:
        return self.make(problem, trade_off, **choice)


def _space(**settings: tuple[Any, ...]) -> tuple[Choice, ...]:
    """Return every combination of the settings."""
    return tuple(dict(zip(settings, values, strict=True)) for values in product(*settings.values()))


def scaled(items: Lists, scores: NDArray[Any]) -> NDArray[np.float64]:
    """Scale each user's scores to 0 .. 1, as every re-ranker does; -inf in empty places."""
    real = items >= 0
    low = np.where(real, scores, np.inf).min(1, keepdims=True)
    span = np.where(real, scores, -np.inf).max(1, keepdims=True) - low
    with np.errstate(invalid="ignore"):
        found = (scores - low) / np.where(span > 0, span, 1.0)
    return np.asarray(np.where(real, found, -np.inf))


def pool(problem: Problem, depth: int, history_weight: float) -> tuple[Lists, NDArray[np.float64]]:
    """Return candidates and scores, ``(n_users, depth)`` each; the history is part of the scores if it has a weight.

    What is added to a relevance of 0 .. 1 is what the first item of a list adds to the objective of
    :class:`recprism.rule.ListSearch` with the same ``history_weight``, in units of the relevance of the first place.
    """
    items, scores = (array[:, :depth] for array in problem.candidates)
    if not history_weight:
        return items, scores
    first = float(discounts(problem.k).sum()) * np.log1p(1) / np.log1p(problem.k)
    fit = problem.once("history fit", lambda: history_fit(problem))[:, :depth]
    return items, scaled(items, scores) + history_weight * first * fit


def history_fit(problem: Problem) -> NDArray[np.float64]:
    """Return the share of a user's history that goes to the categories of each candidate, ``(n_users, n)``."""
    categories, items = problem.features.categories, problem.candidates[0]
    has = (categories.weight_matrix != 0).to(categories.weight_matrix.dtype).cpu().numpy()
    shares = problem.features.intents(len(items)).cpu().numpy()
    found = np.empty(items.shape)
    step = max(1, BLOCK // max(1, items.shape[1] * has.shape[1]))
    for first in range(0, len(items), step):
        rows = slice(first, first + step)
        found[rows] = np.einsum("ncs,ns->nc", has[items[rows]], shares[rows])
    return found


def _reranked(
    problem: Problem, trade_off: float, *, name: str, depth: int, history_weight: float, **settings: Any
) -> Lists:
    method = reranker(name, trade_off=trade_off, **settings)
    items, scores = pool(problem, depth, history_weight)
    return np.asarray(method(items, scores, problem.k, features=problem.features), np.int64)


def _flow(problem: Problem, trade_off: float, *, depth: int, history_weight: float, times: int) -> Lists:
    items, scores = pool(problem, depth, history_weight)
    relevance = scaled(items, scores)
    order = np.argsort(-relevance, axis=1, kind="stable")
    items, relevance = np.take_along_axis(items, order, 1), np.take_along_axis(relevance, order, 1)
    n_items = problem.base.n_items
    return exposure_flow(items, relevance, problem.k, n_items=n_items, trade_off=trade_off, times=times)


SHARED = {"depth": DEPTHS, "history_weight": HISTORY_WEIGHTS}
BY_DISTANCE = {"similarity": ("categories", "vectors")}
TOGETHER = ("exposure", "pmmf", "slots_exposure", "flow")
BY_CATEGORIES = ("xquad", "xquad_uniform", "pm2", "calibrated", "calibrated_flow", "slots_coverage")
"""Re-rankers that need categories."""


def _rival(name: str, **more: tuple[Any, ...]) -> Method:
    """Return a re-ranker that is tuned over the pool, the history and its own settings."""
    return Method(name, _reranked, _space(name=(name,), **SHARED, **more), name in TOGETHER)


BACK = {"sort_back": (False, True)}
RIVALS: dict[str, Method] = {
    method.name: method
    for method in (
        _rival("mmr", **BACK, **BY_DISTANCE),
        _rival("dpp", **BACK, **BY_DISTANCE),
        _rival("dpp_window", **BACK, **BY_DISTANCE),
        _rival("msd", **BACK, **BY_DISTANCE),
        _rival("ssd", **BACK, **BY_DISTANCE),
        _rival("xquad", **BACK),
        _rival("xquad_uniform", **BACK),
        _rival("pm2", **BACK, intents=("user", "uniform")),
        _rival("calibrated", **BACK),
        _rival("calibrated_flow"),
        _rival("exposure", **BACK),
        _rival("pmmf", **BACK, capacity=(None, 300)),
        _rival("slots_coverage", **BACK),
        _rival("slots_exposure", **BACK),
        Method("flow", _flow, _space(**SHARED, times=SHOWINGS), together=True),
    )
}
"""Every rival with lists of its own; greedy on our objective has one method per goal."""


def ours(goal: Words) -> Method:
    """Return our method for a goal: the lists of the rule; for a goal of exposure, those of the boosts."""
    return _own(OURS, Goal.parse(goal), _boosted, _ruled)


def greedy(goal: Words) -> Method:
    """Return greedy lists for the objective of ours: the same goals, units, prices, pools and history."""
    return _own(GREEDY, Goal.parse(goal), _served_in_turn, _greedy)


def _own(label: str, goal: Goal, by_boosts: Callable[..., Lists], by_rule: Callable[..., Lists]) -> Method:
    name, words = f"{label}:{goal}", (str(goal),)
    if goal.exposure is None:
        return Method(name, by_rule, _space(goal=words, **SHARED), goal.ties_users)
    if goal.searched:
        raise InputError(f"a front of {goal.exposure.name} is of this goal alone; leave out {', '.join(goal.searched)}")
    return Method(name, by_boosts, _space(goal=words, depth=DEPTHS), together=True)


def rule_of(problem: Problem, trade_off: float, *, goal: str, depth: int, history_weight: float = 0.0) -> Rule:
    """Return the rule of a trial, as it would be served."""
    sizes = (problem.k, problem.base.n_users, problem.base.n_items)
    asked = Goal.parse(goal)
    if asked.exposure is not None:
        boosts = boost_search(problem, goal, depth).at(trade_off).boost
        return Rule(goals=asked.weights, trade_off=trade_off, k=problem.k, candidates=depth, boosts=boosts)
    return Rule(
        goals=asked.weights,
        trade_off=trade_off,
        history_weight=history_weight,
        units=problem.once(("units", goal), lambda: goal_units(asked.weights, problem.features, *sizes)),
        k=problem.k,
        candidates=depth,
    )


def boost_search(problem: Problem, goal: str, depth: int) -> BoostSearch:
    """Return the search for boosts on a pool; the problem remembers it, because trade-offs share work."""
    items, scores = pool(problem, depth, 0.0)
    ((name, weight),) = Goal.parse(goal).pairs
    more: dict[str, Any] = {"n_items": problem.base.n_items, "weight": weight, "range_depth": min(depth, DEPTH)}
    return problem.once(("boost search", goal, depth), lambda: BoostSearch(items, scores, problem.k, goal=name, **more))


def _ruled(problem: Problem, trade_off: float, *, depth: int, **choice: Any) -> Lists:
    method = rule_of(problem, trade_off, depth=depth, **choice).reranker()
    return np.asarray(method(*pool(problem, depth, 0.0), problem.k, features=problem.features), np.int64)


def _greedy(problem: Problem, trade_off: float, *, depth: int, **choice: Any) -> Lists:
    rule = rule_of(problem, trade_off, depth=depth, **choice)
    method = Greedy(trade_off=trade_off, goals=rule.goals, history_weight=rule.history_weight, units=rule.units)
    return np.asarray(method(*pool(problem, depth, 0.0), problem.k, features=problem.features), np.int64)


def _boosted(problem: Problem, trade_off: float, *, goal: str, depth: int) -> Lists:
    boost = boost_search(problem, goal, depth).at(trade_off).boost
    items, raised = ranked_with_boosts(*pool(problem, depth, 0.0), boost)
    return first_in_own_order(items, raised, boost, problem.k)[:, : problem.k]


def _served_in_turn(problem: Problem, trade_off: float, *, goal: str, depth: int) -> Lists:
    lists = boost_search(problem, goal, depth).greedy_lists(trade_off)
    # By score, as ours: goals of exposure do not depend on the order.
    ranks = (lists[:, :, None] == pool(problem, depth, 0.0)[0][:, None, :]).argmax(2)
    order = np.argsort(np.where(lists >= 0, ranks, depth), axis=1, kind="stable")
    return np.take_along_axis(lists, order, 1)


def possible_rivals(categories: Categories) -> tuple[str, ...]:
    """Return the names of the rivals that work with these categories; the flow of exposure only with OR-tools."""
    names = (GREEDY, *(name for name in RIVALS if len(categories) or name not in BY_CATEGORIES))
    return tuple(name for name in names if name != "flow" or find_spec("ortools") is not None)


def possible(method: Method, problem: Problem) -> Method:
    """Return the method with the choices that work for a problem: with its categories, vectors and items.

    Raises:
        InputError: If the method needs categories and there are none.
    """
    has_categories, has_vectors = len(problem.categories) > 0, isinstance(problem.base, Factors)
    if not has_categories and method.name in BY_CATEGORIES:
        raise InputError(f"{method.name} needs categories of the items and there are none; leave it out of the rivals")
    barred = {kind for kind, there in (("vectors", has_vectors), ("categories", has_categories)) if not there}

    def works(choice: Choice) -> bool:
        history = has_categories and len(problem.seen) > 0
        return choice.get("similarity") not in barred and (history or not choice.get("history_weight"))

    return replace(method, space=tuple(filter(works, method.space)))
