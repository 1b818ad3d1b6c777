"""What a rule does over all users: which categories its lists show, and which of them account for the gain.

The objective of the rule is a sum, so every category has its own share of the gain, and the shares add up to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from recprism.budget.path import lists_at, rule_at
from recprism.budget.problem import Lists, Problem
from recprism.budget.segments import (
    EVERYONE,
    SegmentTable,
    by_segment,
    exposure_by_segment,
    item_segments,
    user_segments,
)
from recprism.common.display import Displayed
from recprism.common.log import phase
from recprism.errors import InputError
from recprism.explain.reasons.reason import SCHEMA
from recprism.metrics.catalogue import gini
from recprism.rule import ListSearch, Rule
from recprism.rule.kernels.prices import TIED_TOGETHER, search_terms
from recprism.rule.kernels.worth import ALPHA_DCG, CATEGORY, DISTANCE, SHOWN
from recprism.rule.list_search import goal_units
from recprism.rule.objective import Objective, Parts
from recprism.rule.pool import Pool

NO_CATEGORY = "(no category)"
"""The row of what has no category: items without one, and distances between vectors."""

Array = NDArray[np.float64]


@dataclass(frozen=True)
class CategoryRow:
    """One category in the candidates, in the base lists and in the lists of the rule.

    Attributes:
        category: Its name, or ``NO_CATEGORY``.
        candidates: Share of the candidates that have it.
        base_items: Items with it in a base list, on average.
        base_lists: Share of the base lists that show it.
        items: The same as ``base_items`` at each price.
        lists: The same as ``base_lists`` at each price.
        gain: Goal -> its share of the gain at each price; over all categories they add up to the gain.
    """

    category: str
    candidates: float
    base_items: float
    base_lists: float
    items: tuple[float, ...]
    lists: tuple[float, ...]
    gain: Mapping[str, tuple[float, ...]]


@dataclass(frozen=True)
class PriceRow:
    """The lists at one price.

    Attributes:
        trade_off: The price.
        goals: Goal -> its value.
        gains: Goal -> its value minus that of the base lists.
        relevance: Discounted relevance, 1 for a list of items as relevant as the best candidate.
        relevance_change: Its difference from the base lists.
        users_changed: Share of users with another set of items.
        swaps: Newcomers per list.
        items_shown: Number of items in any list.
        gini: Gini index of how often the items of the catalogue are shown.
    """

    trade_off: float
    goals: Mapping[str, float]
    gains: Mapping[str, float]
    relevance: float
    relevance_change: float
    users_changed: float
    swaps: float
    items_shown: int
    gini: float


@dataclass(frozen=True)
class SwapRow:
    """Who is shown other items, in one segment of users.

    Attributes:
        segment: Its name.
        users: Number of users.
        changed: Share of them with another set of items.
        swaps: Newcomers per list.
    """

    segment: str
    users: int
    changed: float
    swaps: float


@dataclass(frozen=True, repr=False)
class RuleSummary(Displayed):
    """What a rule does over all users.

    Attributes:
        rule: What makes the lists.
        base_goals: Goal -> its value in the base lists.
        prices: One row per price, the last at the rule's own.
        categories: One row per category; those with the largest part of the gain at the rule's price first.
        segments: Goal -> the change by segments of users at the rule's price; goals of all lists together are left out.
        swaps: Changed lists by segments of users at the rule's price.
        exposure: Shares of places by segments of items, base lists against those of the rule.
    """

    rule: Rule
    base_goals: Mapping[str, float]
    prices: tuple[PriceRow, ...]
    categories: tuple[CategoryRow, ...]
    segments: Mapping[str, SegmentTable] = field(repr=False)
    swaps: tuple[SwapRow, ...]
    exposure: SegmentTable

    def to_dict(self) -> dict[str, Any]:
        """Return plain values only, ready for JSON."""
        return {
            "schema": SCHEMA,
            "kind": "RuleSummary",
            "rule": self.rule.to_dict(),
            "base_goals": dict(self.base_goals),
            "prices": [asdict(row) for row in self.prices],
            "categories": [asdict(row) for row in self.categories],
            "segments": {goal: table.to_dict() for goal, table in self.segments.items()},
            "swaps": [asdict(row) for row in self.swaps],
            "exposure": self.exposure.to_dict(),
        }

    def table(self) -> list[dict[str, Any]]:
        """Return rows to print: one per category, with figures at the rule's own price."""
        goals = tuple(self.rule.goals)
        return [
            {
                "category": row.category,
                "candidates": row.candidates,
                "base lists": row.base_lists,
                "lists": row.lists[-1],
                **{f"gain of {goal}": row.gain[goal][-1] for goal in goals},
            }
            for row in self.categories
        ]

    def sentence(self) -> str:
        """Describe which categories account for most of the gain, and who is shown other items."""
        last = self.prices[-1]
        lines = []
        for goal, gain in last.gains.items():
            shares = {row.category: row.gain[goal][-1] for row in self.categories if row.gain[goal][-1] > 0}
            largest = sorted(shares, key=lambda name: -shares[name])[:3]
            parts = (
                f", the largest parts by {', '.join(f'{name} {shares[name]:+.4f}' for name in largest)}"
                if largest
                else ""
            )
            lines.append(f"{goal} changes by {gain:+.4f}{parts}.")
        lines.append(f"{last.users_changed:.0%} of the users see other items, {last.swaps:.2f} per list on average.")
        return " ".join(lines)

    def _facts(self) -> dict[str, Any]:
        last = self.prices[-1]
        return {"trade_off": last.trade_off, **last.gains, "users_changed": last.users_changed, "swaps": last.swaps}


@phase("accounting for the gain", __name__)
def summarise_rule(problem: Problem, rule: Rule, *, trade_offs: Sequence[float] | None = None) -> RuleSummary:
    """Account for what a rule does over all users.

    Args:
        problem: What is served.
        rule: What makes the lists.
        trade_offs: Other prices to show; by default two points of the path below the rule's own.

    Raises:
        InputError: If the rule makes lists of another length than the problem.
    """
    if rule.k != problem.k:
        raise InputError(
            f"the rule makes lists of {rule.k} items and the problem serves {problem.k}; give both the same k"
        )
    below = [t for t in rule.goal.steps if t < rule.trade_off]
    steps = {below[len(below) // 3], below[2 * len(below) // 3]} if below else set()
    others = steps if trade_offs is None else {float(it) for it in trade_offs} - {rule.trade_off}
    prices = (*sorted(others), rule.trade_off)
    measure = _Measure.of(problem, rule)
    base, *found = (measure.lists(it) for it in (problem.base_lists, *(_lists(problem, rule.at(t)) for t in prices)))
    new = [_newcomers(it.lists, base.lists) for it in found]
    rows = tuple(_price_row(t, it, base, own) for t, it, own in zip(prices, found, new, strict=True))
    per_user = {goal: (base.by_user[goal], found[-1].by_user[goal]) for goal in rule.goals if goal != TIED_TOGETHER}
    segments = user_segments(problem.split.train, problem.categories if len(problem.categories) else None)
    return RuleSummary(
        rule=rule,
        base_goals=base.goals,
        prices=rows,
        categories=_category_rows(measure, base, found),
        segments={goal: by_segment(*values, segments) for goal, values in per_user.items()},
        swaps=_swap_rows(new[-1], segments),
        exposure=exposure_by_segment(base.lists, found[-1].lists, item_segments(problem.split.train)),
    )


@dataclass(frozen=True, eq=False)
class _Measured:
    """Lists and what they are worth.

    Attributes:
        lists: (n_users, k) item numbers.
        shown: How many lists show each item, (n_items,).
        by_user: Goal -> value of each list, (n_users,).
        by_category: Goal -> part of each category in the mean, (n_categories + 1,).
        items: Items per list, by category, (n_categories + 1,).
        showing: Share of lists with the category, (n_categories + 1,).
        relevance: Mean discounted relevance.
    """

    lists: Lists
    shown: NDArray[np.int64]
    by_user: Mapping[str, Array]
    by_category: Mapping[str, Array]
    items: Array
    showing: Array
    relevance: float

    @property
    def goals(self) -> dict[str, float]:
        return {goal: float(parts.sum()) for goal, parts in self.by_category.items()}


@dataclass(frozen=True, eq=False)
class _Measure:
    """Measures lists with the objective of each goal alone.

    Attributes:
        names: Categories, and ``NO_CATEGORY``.
        member: Whether an item has the category, (n_items, n_categories + 1); the last column is for items without any.
        goals: Goal -> its objective in terms of its metric.
        units: Goal -> value of a unit.
        accuracy: The objective of relevance alone.
        coverage: Counts categories in lists.
        candidates: Candidates, (n_users, n), sorted by row, and their relevance.
    """

    names: tuple[str, ...]
    member: Array
    goals: Mapping[str, Objective]
    units: Mapping[str, float]
    accuracy: Objective
    coverage: Objective | None
    candidates: Pool

    @classmethod
    def of(cls, problem: Problem, rule: Rule) -> _Measure:
        features, k = problem.features, rule.k
        pool = Pool.of(
            *problem.candidates_after([], rule.candidates, None, rule.boosts), features.device, features.n_items
        )
        units = {**goal_units(rule.goals, features, k, pool.n_users, pool.n_items), **rule.units}

        def alone(goal: str, unit: float, trade_off: float = 1.0) -> Objective:
            return Objective.of(
                ListSearch(trade_off=trade_off, goals={goal: 1.0}, units={goal: unit}), pool, k, features
            )

        has = problem.categories.dense() > 0 if len(problem.categories) else np.zeros((pool.n_items, 0), np.bool_)
        return cls(
            names=(*problem.categories.names, NO_CATEGORY),
            member=np.column_stack([has, ~has.any(1)]).astype(np.float64),
            goals={goal: alone(goal, units[goal]) for goal in rule.goals},
            units=units,
            accuracy=alone(TIED_TOGETHER, 0.0, trade_off=0.0),
            coverage=alone("subtopic_coverage", 1.0) if len(problem.categories) else None,
            candidates=pool,
        )

    def lists(self, lists: Lists) -> _Measured:
        """Measure lists, (n_users, k)."""
        relevance = self._relevance(lists)
        parts = {goal: objective.parts(lists, relevance) for goal, objective in self.goals.items()}
        shown = np.bincount(lists[lists >= 0], minlength=len(self.member))
        showing = np.zeros(len(self.names))
        if self.coverage is not None:
            showing[:-1] = self.coverage.parts(lists, relevance).by_category["coverage"] / len(lists)
        showing[-1] = np.append(self.member[:, -1] > 0, False)[lists].any(1).mean()
        accuracy = self.accuracy.parts(lists, relevance).of("relevance").mean()
        return _Measured(
            lists,
            shown,
            {goal: it.total for goal, it in parts.items()},
            {goal: self._by_category(goal, it, lists, shown) for goal, it in parts.items()},
            shown @ self.member / len(lists),
            showing,
            float(accuracy),
        )

    def candidate_shares(self) -> Array:
        """Return the share of all candidates that has each category, (n_categories + 1,)."""
        items = self.candidates.items.numpy()
        held = np.bincount(items[items >= 0], minlength=len(self.member))
        return np.asarray(held @ self.member / max(int(held.sum()), 1))

    def _by_category(self, goal: str, parts: Parts, lists: Lists, shown: NDArray[np.int64]) -> Array:
        """Split the mean of a goal over all lists by category, (n_categories + 1,)."""
        found, n = np.zeros(len(self.names)), len(lists)
        (term,) = search_terms([goal])
        if term.price == CATEGORY:
            found[:-1] = parts.by_category["coverage"] / n
        elif term.price == ALPHA_DCG:
            found[:-1] = parts.by_category["alpha_dcg"] / n
        elif term.price == DISTANCE and not term.by_vectors:
            found[:-1] = self.goals[goal].distance_by_category(lists).sum(0) / n
        elif term.price == SHOWN:  # an item counts once, in equal parts for its categories
            shared = self.member / self.member.sum(1, keepdims=True)
            found = self.units[goal] * ((shown > 0) @ shared) / n
        else:
            found[-1] = parts.total.mean()
        return found

    def _relevance(self, lists: Lists) -> Array:
        """Return the relevance of listed items, (n_users, k); 0 for those that are no candidates, such as pins."""
        items, n_items = self.candidates.items.numpy(), len(self.member)
        user, place = np.nonzero(items >= 0)
        keys = user * n_items + items[user, place]
        order = np.argsort(keys)
        wanted = (np.arange(len(lists))[:, None] * n_items + lists).ravel()
        at = order[np.searchsorted(keys, wanted, sorter=order).clip(max=len(keys) - 1)]
        value = np.where(keys[at] == wanted, self.candidates.relevance.numpy()[user, place][at], 0.0)
        return np.where(lists >= 0, value.reshape(lists.shape), 0.0)


def _lists(problem: Problem, rule: Rule) -> Lists:
    """Return the lists of a rule; a point of the path may be known already."""
    goal = rule.goal
    if replace(rule, limits={}).to_dict() == rule_at(problem, goal, rule.trade_off).to_dict():
        return problem.within_limits(rule.limits, lists_at(problem, goal, rule.trade_off))
    return problem.rank(rule)[0]


def _newcomers(lists: Lists, base: Lists) -> NDArray[np.int64]:
    """``(n_users,)`` items of each list that the base list lacks."""
    return np.asarray(((lists >= 0) & ~(lists[:, :, None] == base[:, None, :]).any(2)).sum(1))


def _price_row(trade_off: float, found: _Measured, base: _Measured, new: NDArray[np.int64]) -> PriceRow:
    before = base.goals
    return PriceRow(
        trade_off=float(trade_off),
        goals=found.goals,
        gains={goal: value - before[goal] for goal, value in found.goals.items()},
        relevance=found.relevance,
        relevance_change=found.relevance - base.relevance,
        users_changed=float((new > 0).mean()),
        swaps=float(new.mean()),
        items_shown=int((found.shown > 0).sum()),
        gini=float(gini(torch.from_numpy(found.shown))),
    )


def _category_rows(measure: _Measure, base: _Measured, found: Sequence[_Measured]) -> tuple[CategoryRow, ...]:
    held, goals = measure.candidate_shares(), tuple(measure.goals)
    rows = [
        CategoryRow(
            category=name,
            candidates=float(held[at]),
            base_items=float(base.items[at]),
            base_lists=float(base.showing[at]),
            items=tuple(float(it.items[at]) for it in found),
            lists=tuple(float(it.showing[at]) for it in found),
            gain={g: tuple(float(it.by_category[g][at] - base.by_category[g][at]) for it in found) for g in goals},
        )
        for at, name in enumerate(measure.names)
    ]
    return tuple(sorted(rows, key=lambda row: -sum(row.gain[goal][-1] for goal in goals)))


def _swap_rows(new: NDArray[np.int64], segments: Mapping[str, NDArray[np.bool_]]) -> tuple[SwapRow, ...]:
    masks = {EVERYONE: np.ones(len(new), np.bool_), **segments}
    return tuple(
        SwapRow(name, int(mask.sum()), float((new[mask] > 0).mean()), float(new[mask].mean()))
        for name, mask in masks.items()
        if mask.any()
    )
