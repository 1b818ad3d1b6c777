"""Methods of the contest: all use the same candidates and are tuned in the same way."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recprism.budget.scenario import Lists, Scenario
from recprism.data.subtopics import Subtopics
from recprism.errors import InputError
from recprism.rerank import reranker
from recprism.rerank.optimal import Optimal

DEPTHS = (50, 100, 200)
"""Numbers of candidates that a re-ranker may choose from."""


@dataclass(frozen=True)
class Method:
    """A method to diversify, with one continuous parameter, the trade-off, and some discrete choices.

    Attributes:
        name: Name of the method.
        make: ``(scenario, trade_off, **choice)`` -> lists.
        choices: The discrete choices that tuning tries.

    Stability: experimental.
    """

    name: str
    make: Callable[..., Lists]
    choices: tuple[Mapping[str, Any], ...]

    def __call__(self, scenario: Scenario, trade_off: float, choice: Mapping[str, Any]) -> Lists:
        return self.make(scenario, trade_off, **choice)


def _reranked(scenario: Scenario, trade_off: float, *, name: str, depth: int, **settings: Any) -> Lists:
    items, scores = (array[:, :depth] for array in scenario.candidates)
    method = reranker(name, trade_off=trade_off, **settings)
    return np.asarray(method(items, scores, scenario.k, features=scenario.features), np.int64)


def _rival(name: str, **more: tuple[Any, ...]) -> Method:
    """Return a re-ranker that is tuned over the number of candidates, ``sort_back`` and its own settings."""
    choices: list[dict[str, Any]] = [
        {"name": name, "depth": depth, "sort_back": back} for depth in DEPTHS for back in (False, True)
    ]
    for setting, values in more.items():
        choices = [{**choice, setting: value} for choice in choices for value in values]
    return Method(name, _reranked, tuple(choices))


BY_DISTANCE = {"similarity": ("subtopics", "vectors")}
RIVALS: dict[str, Method] = {
    method.name: method
    for method in (
        _rival("mmr", **BY_DISTANCE),
        _rival("dpp", **BY_DISTANCE),
        _rival("dpp_window", **BY_DISTANCE),
        _rival("msd", **BY_DISTANCE),
        _rival("ssd", **BY_DISTANCE),
        _rival("xquad"),
        _rival("xquad_uniform"),
        _rival("pm2", intents=("user", "uniform")),
        _rival("calibrated"),
        _rival("exposure"),
        _rival("pmmf", capacity=(None, 300)),
        _rival("slots_coverage"),
        _rival("slots_exposure"),
    )
}
"""Every re-ranker, tuned in the same way as ours."""
BY_SUBTOPICS = ("xquad", "xquad_uniform", "pm2", "calibrated", "slots_coverage")
"""Re-rankers that need subtopics."""


def possible_rivals(subtopics: Subtopics) -> tuple[str, ...]:
    """Return the names of the rivals that work with these subtopics."""
    return tuple(name for name in RIVALS if len(subtopics) or name not in BY_SUBTOPICS)


def possible_choices(method: Method, subtopics: Subtopics) -> Method:
    """Return the method with the choices that work with these subtopics.

    Raises:
        InputError: If the method needs subtopics and there are none.
    """
    if len(subtopics):
        return method
    if method.name in BY_SUBTOPICS:
        raise InputError(f"{method.name} needs categories of the items and there are none; leave it out of the rivals")
    usable = (it for it in method.choices if it.get("similarity") != "subtopics" and not it.get("history_weight"))
    return replace(method, choices=tuple(usable))


def _planned(
    scenario: Scenario, trade_off: float, *, goal: str, depth: int, sharpness: float, history_weight: float
) -> Lists:
    """Make optimal lists; more ``sharpness`` spreads the best scores, so that the last items are exchanged first."""
    items, scores = (array[:, :depth] for array in scenario.candidates)
    low = np.where(items >= 0, scores, np.inf).min(1, keepdims=True)
    with np.errstate(invalid="ignore"):
        spread = np.maximum(scores[:, :1] - low, 1e-12)
        scores = np.where(items >= 0, ((scores - low) / spread) ** sharpness, -np.inf)
    method = Optimal(trade_off=trade_off, goals=dict.fromkeys(goal.split("+"), 1.0), history_weight=history_weight)
    return np.asarray(method(items, scores, scenario.k, features=scenario.features), np.int64)


DEPTH_TOWARDS = {
    "alpha_ndcg": 100,
    "catalogue_coverage": 500,
    "subtopic_coverage+ilad_subtopics+catalogue_coverage": 100,
}
"""Goal -> number of candidates, if it is not the default of 200."""
SHARPNESS = (1.0, 1.5)
HISTORY_WEIGHTS = (0.0, 0.1, 0.25)


def planned(goal: str) -> Method:
    """Return our method: lists that are optimal for a goal (several joined by +).

    It has six choices; every re-ranker has at least as many.
    """
    depth = DEPTH_TOWARDS.get(goal, 200)
    choices = tuple(
        {"goal": goal, "depth": depth, "sharpness": sharpness, "history_weight": history_weight}
        for sharpness in SHARPNESS
        for history_weight in HISTORY_WEIGHTS
    )
    return Method(f"optimal_{goal}", _planned, choices)


@dataclass(frozen=True)
class Trial:
    """One trial of a method, with loss and gains as shares of the base's values.

    Attributes:
        method: Name of the method.
        trade_off: The trade-off.
        choice: The discrete choice.
        loss: Relative loss of the metric of the budget.
        gains: Metric -> relative gain.
    """

    method: str
    trade_off: float
    choice: Mapping[str, Any]
    loss: float
    gains: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class TuningObjective:
    """The metrics of the trials.

    Attributes:
        cost: The metric of the budget.
        goals: The metrics that should rise.
    """

    cost: str = "ndcg@10"
    goals: tuple[str, ...] = ("subtopic_coverage@10", "alpha_ndcg@10", "ilad_subtopics@10", "catalogue_coverage@10")

    @property
    def names(self) -> tuple[str, ...]:
        """All metrics."""
        return (self.cost, *self.goals)

    def means(self, scenario: Scenario, lists: NDArray[Any]) -> dict[str, float]:
        """Return metric -> mean over the users."""
        return {name: float(np.nanmean(values)) for name, values in scenario.judge(lists, self.names).items()}


TRADE_OFFS = (0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9)
REFINEMENTS = 4


def tune(
    method: Method,
    scenario: Scenario,
    budgets: tuple[float, ...],
    objective: TuningObjective | None = None,
    base: Mapping[str, float] | None = None,
) -> list[Trial]:
    """Try every choice at eight trade-offs, and at four more near each budget.

    A trade-off that loses more than twice the largest budget ends the row, because larger ones lose more.

    Args:
        method: The method to tune.
        scenario: The scenario of the validation part.
        budgets: Shares of the cost metric that may be lost.
        objective: The metrics.
        base: Metric -> mean of the base lists; computed if None.

    Raises:
        InputError: If the base lists have no accuracy.

    Stability: experimental.
    """
    objective = objective or TuningObjective()
    base = base or objective.means(scenario, scenario.base_lists)
    if not base[objective.cost] > 0:
        raise InputError(f"the base lists have {objective.cost} = 0; there is no accuracy to keep a budget of")
    tried = []
    for choice in method.choices:
        found: list[Trial] = []
        for trade_off in TRADE_OFFS:
            found.append(_try(method, scenario, trade_off, choice, objective, base))
            if found[-1].loss > 2 * max(budgets):
                break
        for budget in budgets:
            for trade_off in _between(found, budget):  # the generator sees the trials added here
                found += [_try(method, scenario, trade_off, choice, objective, base)]
        tried += found
    return tried


def _between(found: list[Trial], budget: float) -> Iterator[float]:
    """Bisect towards the trade-off that uses up the budget; ``found`` grows between two steps."""
    for _ in range(REFINEMENTS):
        within = max((it.trade_off for it in found if it.loss <= budget), default=0.0)
        beyond = min((it.trade_off for it in found if it.trade_off > within and it.loss > budget), default=None)
        if beyond is None:
            return
        yield (within + beyond) / 2


def _try(
    method: Method,
    scenario: Scenario,
    trade_off: float,
    choice: Mapping[str, Any],
    objective: TuningObjective,
    base: Mapping[str, float],
) -> Trial:
    means = objective.means(scenario, method(scenario, trade_off, choice))
    gains = {name: means[name] / base[name] - 1 if base[name] else 0.0 for name in objective.goals}
    return Trial(method.name, trade_off, choice, 1 - means[objective.cost] / base[objective.cost], gains)


def best_within(tried: list[Trial], budget: float, goal: str) -> Trial | None:
    """Return the trial with the largest gain that keeps the budget; None if there is none."""
    allowed = [it for it in tried if it.loss <= budget]
    return max(allowed, key=lambda it: it.gains[goal], default=None)
