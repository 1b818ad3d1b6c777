"""One user's list under a rule: run it again at other trade-offs or with other candidates, and value any other list."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recprism.budget.problem import Problem
from recprism.errors import InputError
from recprism.explain.reasons._changes import candidates_of, with_history, with_unit, without_pins
from recprism.explain.reasons.codes import GRID, NO_REASONS, PRECISION
from recprism.explain.reasons.compared import Groups
from recprism.explain.reasons.reruns import Boosts
from recprism.rule import Features, ListSearch, Rule
from recprism.rule.constraints.constrained import Constrained
from recprism.rule.constraints.constraints import Constraints
from recprism.rule.constraints.resolved import ShareLimits
from recprism.rule.kernels.parts import PARTS
from recprism.rule.kernels.prices import TIED_TOGETHER, looks_at_order
from recprism.rule.limits import beyond_limits
from recprism.rule.objective import Objective, Parts
from recprism.rule.pool import Pool

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Page:
    """The list of one user, and everything that the rule looked at to make it.

    Attributes:
        problem: What is served.
        rule: What makes the list.
        user: Row number of the user.
        row: The user's row in ``pool``: 0, or ``user`` if the rule needs the lists of all users.
        pool: The candidates without pinned items.
        pins: Pinned items, (n_rows, k); -1 where nothing is pinned.
        features: Data on items and on the users of the pool.
        method: The search under the constraints.
        known: Lists by trade-off that were computed before.
        limited: Whether the rule's own list could lose more than its limit, so that this is the base list.
    """

    problem: Problem
    rule: Rule
    user: int
    row: int
    pool: Pool
    pins: Ints
    features: Features
    method: Constrained
    known: dict[float, Ints] = field(default_factory=dict)
    limited: bool = False

    @classmethod
    def of(
        cls,
        problem: Problem,
        rule: Rule,
        user: int,
        *,
        removed: Sequence[int] = (),
        seen: int | None = None,
        forgotten: int | None = None,
    ) -> Page:
        """Collect what the rule needs for one user.

        Args:
            problem: What is served.
            rule: What makes the list.
            user: Row number of the user.
            removed: Items that no user can be shown.
            seen: An item that the user has consumed in addition.
            forgotten: An item of the user's history that no longer counts; it is not shown either.
        """
        if rule.k != problem.k:
            raise InputError(
                f"the rule makes lists of {rule.k} items and the problem serves {problem.k}; give both the same k"
            )
        tied = rule.goal.ties_users or problem.constraints.tail_floor > 0
        if tied and len(removed):
            bans = Constraints(banned=problem.base.item_ids[np.asarray(removed)])
            other = problem.under(problem.constraints.with_those_of(bans))
            return cls.of(other, rule, user, seen=seen, forgotten=forgotten)
        rule = with_unit(problem, rule)
        rows, row = (None, user) if tied else (np.array([user]), 0)
        if rule.goal.function is not None:
            raise InputError(NO_REASONS.format(rule.goal.function.name))
        items, scores = candidates_of(problem, rule, rows, [])
        features = problem.features if rows is None else problem.features.of_users(rows)
        method = problem.constrained(rule.reranker(), users=rows, k=rule.k)
        gone = np.array([*removed, *(() if seen is None else (seen,))], np.int64)
        if len(gone):
            own = candidates_of(problem, rule, np.array([user]), [gone[None]])
            items, scores = items.copy(), np.array(scores, np.float64)
            items[row], scores[row] = own[0][0], own[1][0]
            method = without_pins(method, gone, row)
        own_history = seen is None and forgotten is None
        if not own_history:
            features = with_history(problem, features, row, user, seen, forgotten)
        pool, pins = method.pool_and_pins(items, scores, rule.k, features)
        # A run for all users takes seconds: the problem remembers the lists for the next question.
        known: dict[float, Ints] = (
            problem.once(("reasons", str(rule.at(0.0).to_dict())), dict) if tied and own_history else {}
        )
        page = cls(problem, rule, user, row, pool, pins, features, method, known)
        if not rule.limits or problem.constraints.tail_floor > 0:
            return page
        plain = cls.of(problem, rule.by_relevance(), user, removed=removed, seen=seen, forgotten=forgotten)
        is_limited = beyond_limits(plain.items[None], page.items[None], rule.limits)[0]
        return replace(plain, limited=True) if is_limited else page

    @property
    def tied(self) -> bool:
        """Whether the list depends on the lists of other users."""
        return self.pool.n_users > 1

    def lists_at(self, trade_off: float) -> Ints:
        """Run the rule again at a trade-off, ``(n_rows, k)`` item numbers."""
        if trade_off not in self.known:
            method = replace(self.method, inner=self.rule.at(trade_off).reranker())
            self.known[trade_off] = method.lists(self.pool, self.pins, self.features)
        return self.known[trade_off]

    @property
    def lists(self) -> Ints:
        """``(n_rows, k)`` the lists of the rule."""
        return self.lists_at(self.rule.trade_off)

    @cached_property
    def items(self) -> Ints:
        """``(k,)`` the user's list, -1 in empty places."""
        return np.asarray(self.lists[self.row])

    @cached_property
    def unrepaired(self) -> Ints:
        """``(k,)`` the user's list before exchanges for shares, for the tail and for fields."""
        kept = self.method.constraints
        if not kept.shares and not kept.tail_floor and kept.fields is None:
            return self.items
        return self._list_by(shares=ShareLimits(), tail_floor=0.0, fields=None)

    @cached_property
    def without_fields(self) -> Ints:
        """``(k,)`` the user's list before exchanges for fields."""
        return self.items if self.method.constraints.fields is None else self._list_by(fields=None)

    @cached_property
    def with_shares(self) -> Ints:
        """``(k,)`` the user's list after exchanges for shares and before those for the tail."""
        return self._list_by(tail_floor=0.0, fields=None)

    def _list_by(self, **other: Any) -> Ints:
        """``(k,)`` the user's list under other constraints."""
        method = replace(self.method, constraints=replace(self.method.constraints, **other))
        return np.asarray(method.lists(self.pool, self.pins, self.features)[self.row])

    @cached_property
    def candidates(self) -> Ints:
        """``(n,)`` the candidates that the search chooses from, best first."""
        return self.pool.items[self.row, : int(self.pool.lengths[self.row])].numpy()

    @cached_property
    def relevance(self) -> NDArray[np.float64]:
        """``(n,)`` their relevance from 0 to 1, with boosts."""
        found: NDArray[np.float64] = self.pool.relevance[self.row, : len(self.candidates)].numpy()
        if self.rule.boosts is None or not self.rule.for_exposure_alone:
            return found
        relevance = np.empty(len(found))  # the candidates of a list are in the order of their own scores
        relevance[np.argsort(-self._scores(self.candidates), kind="stable")] = found
        return relevance

    def _scores(self, items: Ints) -> NDArray[np.float64]:
        """Return the scores of items, (n,), with boosts; NaN without a score."""
        scores = np.array([self.ranked[number][1] for number in items.tolist()], np.float64)
        return scores if self.rule.boosts is None else scores + self.rule.boosts[items]

    @cached_property
    def _span(self) -> tuple[float, float]:
        """The lowest score of the candidates, with boosts, and the range from there; 1 if they are equal."""
        scores = self._scores(self.candidates)
        return float(scores.min()), float(scores.max() - scores.min()) or 1.0

    @cached_property
    def boosts(self) -> Boosts | None:
        """What boosts are worth in lists; None without them."""
        if self.rule.boosts is None:
            return None
        return Boosts.of(self._boosts_of(self.candidates), self.objective.arrays(), by_rank=self.by_rank)

    def _boosts_of(self, items: Ints) -> NDArray[np.float64]:
        """Return what boosts add to the relevance of items, (n,)."""
        return np.zeros(len(items)) if self.rule.boosts is None else self.rule.boosts[items] / self._span[1]

    @property
    def own_boost(self) -> float:
        """What boosts add to the value of the list."""
        if self.boosts is None:
            return 0.0
        return float((self.boosts.weights[: len(self.chosen)] * self.boosts.relevance[self.chosen]).sum())

    def named_parts(self, parts: Sequence[float], boost: float) -> dict[str, float]:
        """Name the parts of a value; ``boost`` is what boosts add to relevance."""
        found = dict(zip(PARTS, parts, strict=True))
        return found if self.rule.boosts is None else {**found, "relevance": found["relevance"] - boost, "boost": boost}

    def stays_without_boost(self, at: int) -> bool:
        """Return whether the candidate at a position is in the list without its boost; True if it has none."""
        item = self.candidates[at]
        if self.rule.boosts is None or self.rule.boosts[item] == 0:
            return True
        boosts = self.rule.boosts.copy()
        boosts[item] = 0.0
        other = Page.of(self.problem, replace(self.rule, boosts=boosts, limits={}), self.user)
        return bool((other.items == item).any())

    @cached_property
    def position(self) -> dict[int, int]:
        """Item number -> position among the candidates."""
        return {item: at for at, item in enumerate(self.candidates.tolist())}

    @cached_property
    def chosen(self) -> Ints:
        """``(m,)`` positions of the items that the search placed, in the order of the list; pins are left out."""
        return self.positions(self.items)

    def positions(self, items: Ints) -> Ints:
        """Return the positions of those items of a list, (k,), that are candidates; pinned ones are not."""
        return np.array([self.position[item] for item in items.tolist() if item in self.position], np.int64)

    @cached_property
    def trade_off(self) -> float:
        """The trade-off of this user; the rule's own, unless diversity differs by user."""
        if self.rule.for_exposure_alone:
            return float(self.rule.trade_off)
        return float(self.method.trade_offs(self.pool.n_users, self.features)[self.row])

    @cached_property
    def objective(self) -> Objective:
        """The objective of this user's lists."""
        return self.objective_at(self.trade_off)

    def objective_at(self, trade_off: float) -> Objective:
        """Return the objective of this user's lists at a trade-off."""
        if self.rule.for_exposure_alone:
            return self._objective(ListSearch(trade_off=0.0, goals={TIED_TOGETHER: 1.0}, units={TIED_TOGETHER: 0.0}))
        return self._objective(self.rule.at(trade_off).reranker())

    @property
    def free(self) -> int:
        """Places that the search fills; pins have the others."""
        return int((self.pins[self.row] < 0).sum())

    def repaired(self, chosen: Ints) -> Ints:
        """Return the positions of a list, (m,), after exchanges for shares and fields."""
        if not self.method.constraints.shares and self.method.constraints.fields is None:
            return chosen
        only = np.array([self.row])
        found = self.method.repaired(self._own_pool, chosen[None], self.pins[only], self.features.of_users(only))[0]
        return np.asarray(found[found >= 0])

    def goal_values(self) -> dict[str, float]:
        """Return what the list reaches of each goal, as its metric counts it; pins are left out."""
        items, found = self.candidates[self.chosen][None], {}
        for goal in self.rule.goal.searched:
            alone = ListSearch(trade_off=1.0, goals={goal: 1.0}, units=self.rule.units)
            parts = self._objective(alone).parts(items, np.zeros(items.shape), shown=self.shown_elsewhere)
            found[goal] = float(parts.total[0])
        if TIED_TOGETHER in found:  # one value for all lists together
            shown = np.unique(self.lists[(self.pins < 0) & (self.lists >= 0)])
            found[TIED_TOGETHER] = self.rule.units[TIED_TOGETHER] * len(shown) / len(self.lists)
        return found

    def _objective(self, method: ListSearch) -> Objective:
        features = self.features.of_users(np.array([self.row]))
        return Objective.of(method, self._own_pool, max(1, self.free), features)

    @cached_property
    def _own_pool(self) -> Pool:
        only = np.array([self.row])
        return Pool(self.pool.items[only], self.pool.relevance[only], self.pool.lengths[only], self.pool.n_items)

    @cached_property
    def shown_elsewhere(self) -> Ints | None:
        """``(n_items,)`` how many other lists show an item; None if it does not matter."""
        if TIED_TOGETHER not in self.rule.goals:
            return None
        others = np.delete(np.where(self.pins < 0, self.lists, -1), self.row, 0)
        return np.bincount(others[others >= 0], minlength=self.pool.n_items)

    def parts(self, lists: Ints) -> Parts:
        """Value lists of this user.

        Args:
            lists: ``(n, m)`` positions among the candidates; -1 leaves a place empty.
        """
        items = np.where(lists >= 0, self.candidates[lists], -1)
        user = np.zeros(len(lists), np.int64)
        return self.objective.parts(items, self.relevance[lists], users=user, shown=self.shown_elsewhere)

    def change_to(self, other: Page) -> dict[str, float] | None:
        """Value the list of another page by this one: its rule, its user, and the scale of its scores.

        Returns:
            Part -> value of the other list minus that of this page's own list; None if the other list fills places that
            are pinned here, or has an item without a score.
        """
        items = other.candidates[other.chosen]
        scores = self._scores(items)
        if len(items) > self.free or not len(self.candidates) or np.isnan(scores).any():
            return None
        relevance = (scores - self._span[0]) / self._span[1]
        one = np.zeros(1, np.int64)
        found = self.objective.parts(items[None], relevance[None], users=one, shown=self.shown_elsewhere).values[0]
        boost = 0.0
        if self.boosts is not None:
            boost = float((self.boosts.weights[: len(items)] * self._boosts_of(items)).sum()) - self.own_boost
        return self.named_parts((found - self.own_parts).tolist(), boost)

    @cached_property
    def own_parts(self) -> NDArray[np.float64]:
        """``(6,)`` the parts of the list of the rule."""
        return np.asarray(self.parts(self.chosen[None]).values[0])

    @cached_property
    def groups(self) -> Groups | None:
        """Which candidates may replace which items of the list, so that it misses no more of its limits."""
        pins, fields = self.pins[self.row], self.method.constraints.fields
        shares = self.method.shares_of(self.features).groups_within(self.candidates, pins, self.chosen)
        return shares if fields is None else fields.of_list(self.candidates, pins).groups(self.chosen, shares)

    @cached_property
    def by_rank(self) -> bool:
        """Whether a list is in the order of rank: no goal looks at the order, and no items are kept apart."""
        fields = self.method.constraints.fields
        in_order = not self.rule.for_exposure_alone and not looks_at_order(self.rule.goal.searched)
        return in_order and (fields is None or not fields.apart)

    @cached_property
    def ranked(self) -> defaultdict[int, tuple[int, float]]:
        """Item number -> rank by relevance alone, from 1, and score; 0 and NaN if it is not among the candidates."""
        items, scores = (array[self.user].tolist() for array in self.problem.candidates)
        return defaultdict(lambda: (0, math.nan), zip(items, enumerate(scores, 1), strict=True))

    def is_in(self, item: int, trade_off: float) -> bool:
        """Whether the rule shows an item at a trade-off."""
        return bool(item in self.lists_at(trade_off)[self.row])

    @property
    def grid(self) -> tuple[float, ...]:
        """Trade-offs at which an item is looked for; fewer if every run has to serve all users."""
        return (0.0, *self.rule.goal.steps[::4]) if self.tied else GRID

    @property
    def precision(self) -> float:
        """How near two trade-offs are bisected. Rules that need all users are not bisected: a run takes seconds."""
        return math.inf if self.tied else PRECISION
