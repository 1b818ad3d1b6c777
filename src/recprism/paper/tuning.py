"""Ways to diversify, made comparable: each turns the same candidates into lists, each is tuned in the same way."""

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
"""How many candidates a re-ranker may choose from."""


@dataclass(frozen=True)
class Method:
    """A way to diversify with one continuous knob, the trade-off, and a few choices beside it.

    make: (scenario, trade_off, **choice) -> lists
    choices: what is tried beside the trade-off
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
    """Tuned over the number of candidates, whether the chosen are sorted back, and what else the method has."""
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
"""Every re-ranker, tuned as ours is."""
BY_SUBTOPICS = ("xquad", "xquad_uniform", "pm2", "calibrated", "slots_coverage")
"""Re-rankers that cannot work without subtopics."""


def possible_rivals(subtopics: Subtopics) -> tuple[str, ...]:
    """Without subtopics, those that need none."""
    return tuple(name for name in RIVALS if len(subtopics) or name not in BY_SUBTOPICS)


def possible_choices(method: Method, subtopics: Subtopics) -> Method:
    """The method with the choices that work; without subtopics, those that look at none."""
    if len(subtopics):
        return method
    if method.name in BY_SUBTOPICS:
        raise InputError(f"{method.name} needs categories of the items and there are none; leave it out of the rivals")
    usable = (it for it in method.choices if it.get("similarity") != "subtopics" and not it.get("history_weight"))
    return replace(method, choices=tuple(usable))


def _planned(
    scenario: Scenario, trade_off: float, *, goal: str, depth: int, sharpness: float, history_weight: float
) -> Lists:
    """Optimal lists; more ``sharpness`` lets the best scores stand out, so that the last of a list go more easily."""
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
"""How many candidates are looked at for a goal, where it is not the usual 200."""
SHARPNESS = (1.0, 1.5)
HISTORY_WEIGHTS = (0.0, 0.1, 0.25)


def planned(goal: str) -> Method:
    """Ours: lists that are optimal for the goal (several joined by +), to be put into the vectors afterwards.

    Six choices, as every re-ranker has at least.
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
    """One trial of a method: what it cost and what it brought, as shares of the base's values.

    loss: relative loss of the metric that the budget is about; gains: metric -> relative gain
    """

    method: str
    trade_off: float
    choice: Mapping[str, Any]
    loss: float
    gains: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class TuningObjective:
    """What trials are measured by.

    cost: the metric that may only lose its budget; goals: the metrics that should rise
    """

    cost: str = "ndcg@10"
    goals: tuple[str, ...] = ("subtopic_coverage@10", "alpha_ndcg@10", "ilad_subtopics@10", "catalogue_coverage@10")

    @property
    def names(self) -> tuple[str, ...]:
        return (self.cost, *self.goals)

    def means(self, scenario: Scenario, lists: NDArray[Any]) -> dict[str, float]:
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
    """Try every choice at eight trade-offs, and four more where a budget is used up.

    A trade-off that loses twice the largest budget ends the row: larger ones lose more.
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
            for trade_off in _between(found, budget):  # looks at what was found meanwhile
                found += [_try(method, scenario, trade_off, choice, objective, base)]
        tried += found
    return tried


def _between(found: list[Trial], budget: float) -> Iterator[float]:
    """Trade-offs nearer and nearer to where the budget is used up; sees what was found with those it gave before."""
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
    """The trial with the largest gain that keeps the budget; None if none does."""
    allowed = [it for it in tried if it.loss <= budget]
    return max(allowed, key=lambda it: it.gains[goal], default=None)
