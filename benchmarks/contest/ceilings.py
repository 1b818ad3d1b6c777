"""How close the search comes to the best possible lists, by linear and whole programs (HiGHS).

For coverage, flat relevance plus a price for every covered category is a linear program for each user. Where its
solution is whole, it is the optimum; elsewhere a whole program decides. For distances (ILAD) the whole program has one
variable per pair. It ends after a time limit with a bound. Goals that depend on the order have no such program.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, linprog, milp

from recprism.budget.problem import Problem
from recprism.common.checks import random_generator
from recprism.contest.methods import scaled
from recprism.rule.list_search import ListSearch, search, terms_of
from recprism.rule.pool import Pool
from recprism.rule.terms import Terms

TRADE_OFFS = (0.1, 0.3)
WHOLE = 1e-6  # a variable closer than this to 0 or 1 is whole
MILP_USERS = 200
DISTANCE_USERS = 20
SECONDS = 10.0  # for one whole program of distances
COVERAGE_DEPTH, DISTANCE_DEPTH = 200, 50

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Solved:
    """The best list of one user.

    Attributes:
        value: Value of the list that was found.
        bound: No list has more; equal to ``value`` if the program was solved.
        whole: Whether the relaxation of the program was whole; for distances, whether the program was solved in time.
    """

    value: float
    bound: float
    whole: bool


def best_coverage(relevance: Array, has: Array, k: int, weight: float, price: float, *, decide: bool = True) -> Solved:
    """Find the list with the largest weight * sum of relevance + price * covered categories.

    Args:
        relevance: Relevance of the candidates, (n,).
        has: Which categories they have, (n, n_categories), of 0 and 1.
        k: Length of the list.
        weight: Value of one unit of relevance.
        price: Value of a covered category.
        decide: Solve the whole program where the relaxation is not whole; otherwise its value is only a bound.
    """
    n, n_categories = has.shape
    # A category counts as covered as far as chosen items have it.
    covers = sparse.hstack([-sparse.csr_matrix(has.T), sparse.identity(n_categories)], format="csr")
    exactly_k = sparse.csr_matrix(np.concatenate([np.ones(n), np.zeros(n_categories)])[None])
    cost = -np.concatenate([weight * relevance, np.full(n_categories, price)])
    program: Callable[..., Any] = partial(
        linprog, cost, covers, np.zeros(n_categories), exactly_k, [min(k, n)], bounds=(0, 1), method="highs"
    )
    found = program()
    whole = bool((np.minimum(found.x[:n], 1 - found.x[:n]) < WHOLE).all())
    if whole or not decide:
        return Solved(-found.fun if whole else -np.inf, -found.fun, whole)
    decided = program(integrality=np.concatenate([np.ones(n), np.zeros(n_categories)]))
    return Solved(-decided.fun, -decided.fun, whole)


def best_distances(
    relevance: Array, distance: Array, k: int, weight: float, price: float, seconds: float = SECONDS
) -> Solved:
    """Find the list with the largest weight * sum of relevance + price * sum of the distances of its pairs.

    A variable per pair is 1 if both items are chosen. Each chosen item has k - 1 such pairs, which makes the
    relaxation tight.

    Args:
        relevance: Relevance of the candidates, (n,).
        distance: Distances of the candidates, (n, n).
        k: Length of the list.
        weight: Value of one unit of relevance.
        price: Value of one unit of distance.
        seconds: Time limit.
    """
    n, k = len(relevance), min(k, len(relevance))
    one, two = np.triu_indices(n, 1)
    pair, m = np.arange(len(one)), len(one)
    incident = sparse.csr_matrix((np.ones(2 * m), (np.r_[one, two], np.r_[pair, pair])), shape=(n, m))
    chosen = [sparse.csr_matrix((np.ones(m), (pair, end)), shape=(m, n)) for end in (one, two)]
    both = [sparse.hstack([-ends, sparse.identity(m)]) for ends in chosen]
    rules = [
        LinearConstraint(sparse.csr_matrix(np.r_[np.ones(n), np.zeros(m)][None]), k, k),
        LinearConstraint(sparse.hstack([-(k - 1) * sparse.identity(n), incident], format="csr"), 0, 0),
        LinearConstraint(sparse.vstack(both, format="csr"), -np.inf, 0),
    ]
    found = milp(
        -np.r_[weight * relevance, price * distance[one, two]],
        constraints=rules,
        bounds=Bounds(0, 1),
        integrality=np.r_[np.ones(n), np.zeros(m)],
        options={"time_limit": seconds},
    )
    value = -np.inf if found.x is None else -float(found.fun)
    bound = np.inf if found.mip_dual_bound is None else -float(found.mip_dual_bound)
    return Solved(value, max(bound, value), found.status == 0)


def coverage_ceiling(problem: Problem, trade_off: float) -> dict[str, Any]:
    """Compare the search for covered categories with the linear program of every sampled user.

    Args:
        problem: Candidates, scores and categories.
        trade_off: Of the rule; relevance is flat, so that the order of a list does not count.
    """
    programs = _Programs.of(problem, "subtopic_coverage", trade_off, COVERAGE_DEPTH, users=2000)
    has = (problem.features.categories.weight_matrix != 0).to(torch.float64).numpy()
    weight, price = programs.terms.prices[0], programs.terms.prices[1]
    solved, left = [], MILP_USERS
    for user in range(len(programs.items)):
        real = programs.items[user] >= 0
        program = partial(best_coverage, programs.relevance[user, real], has[programs.items[user, real]], programs.k)
        first = program(weight, price, decide=left > 0)
        left -= not first.whole
        solved.append(first)
    mine = programs.values(lambda chosen: weight * _sums(programs, chosen) + price * _covered(programs, chosen, has))
    return {
        "goal": "subtopic_coverage@10",
        "trade_off": trade_off,
        "candidates": COVERAGE_DEPTH,
        **_shares(mine, solved),
    }


def distance_ceiling(problem: Problem, trade_off: float, *, users: int = DISTANCE_USERS) -> dict[str, Any]:
    """Compare the search for distances with the whole program of a few users, with what is left of its gap.

    Args:
        problem: Candidates, scores and categories.
        trade_off: Of the rule; relevance is flat.
        users: Number of users.
    """
    programs = _Programs.of(problem, "ilad_subtopics", trade_off, DISTANCE_DEPTH, users=users)
    unit, known = programs.terms.directions
    weight, price = programs.terms.prices[0], programs.terms.prices[3]
    solved, distances = [], []
    for items, relevance in zip(programs.items, programs.relevance, strict=True):
        real = items >= 0
        use = known[items[real]]
        apart = (1 - unit[items[real]] @ unit[items[real]].T) * (use[:, None] & use[None, :])
        np.fill_diagonal(apart, 0.0)
        distances.append(apart)
        solved.append(best_distances(relevance[real], apart, programs.k, weight, price))

    def value(chosen: NDArray[np.int64]) -> Array:
        pairs = [apart[np.ix_(own, own)].sum() / 2 for apart, own in zip(distances, chosen, strict=True)]
        return np.asarray(weight * _sums(programs, chosen) + price * np.array(pairs))

    mine = programs.values(value)
    return {"goal": "ilad_subtopics@10", "trade_off": trade_off, "candidates": DISTANCE_DEPTH, **_shares(mine, solved)}


@dataclass(frozen=True, eq=False)
class _Programs:
    """The candidates of sampled users, and the objective of the rule with flat relevance.

    Attributes:
        pool: Candidates of the users, ranked.
        terms: Data and prices of the goals; every place has the same discount.
        k: Length of the lists.
    """

    pool: Pool
    terms: Terms
    k: int

    @classmethod
    def of(cls, problem: Problem, goal: str, trade_off: float, depth: int, users: int) -> _Programs:
        items, scores = (array[:, :depth] for array in problem.candidates)
        enough = np.flatnonzero((items >= 0).sum(1) >= problem.k)
        rows = enough
        if len(enough) > users:
            rows = np.sort(random_generator(0).choice(enough, users, replace=False))
        pool = Pool.of(items[rows], scaled(items[rows], scores[rows]), torch.device("cpu"), problem.base.n_items)
        k, features = problem.k, problem.features.of_users(rows)
        terms = terms_of(ListSearch(trade_off=trade_off, goals={goal: 1.0}), pool, k, features)
        prices = terms.prices.copy()
        prices[0] = (1 - trade_off) / k
        return cls(pool, replace(terms, discount=np.ones(k), prices=prices), k)

    @property
    def items(self) -> NDArray[np.int64]:
        return np.asarray(self.pool.items.numpy())

    @property
    def relevance(self) -> Array:
        return np.asarray(self.pool.relevance.numpy())

    def values(self, value: Callable[[NDArray[np.int64]], Array]) -> Array:
        """Return the value of the lists that the search finds, (n_users,)."""
        return value(search(self.pool, self.k, self.terms).numpy())


def _sums(programs: _Programs, chosen: NDArray[np.int64]) -> Array:
    return np.asarray(np.take_along_axis(programs.relevance, chosen, 1).sum(1))


def _covered(programs: _Programs, chosen: NDArray[np.int64], has: Array) -> Array:
    return np.asarray(has[np.take_along_axis(programs.items, chosen, 1)].max(1).sum(1))


def _shares(mine: Array, solved: list[Solved]) -> dict[str, Any]:
    """Return the share of the best objective that the search reaches, over users whose optimum or bound is known."""
    bound, value = (np.array([getattr(it, name) for it in solved]) for name in ("bound", "value"))
    known = np.isfinite(value)
    return {
        "users": len(solved),
        "whole": float(np.mean([it.whole for it in solved])),
        "decided": int(known.sum()),
        "share_of_bound": float(mine.sum() / bound.sum()),
        "share_of_best": float(mine[known].sum() / value[known].sum()) if known.any() else None,
        "optimal_lists": float((mine[known] >= value[known] - 1e-9).mean()) if known.any() else None,
        "gap_left": float(1 - value[known].sum() / bound[known].sum()) if known.any() else None,
    }


def ceilings(problem: Problem) -> list[dict[str, Any]]:
    """Return the ceilings of coverage and of distances at each trade-off."""
    return [find(problem, trade_off) for find in (coverage_ceiling, distance_ceiling) for trade_off in TRADE_OFFS]
