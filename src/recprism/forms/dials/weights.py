"""Named weights of all users: scores in blocks, and the kernels on all threads."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from recprism.common.threads import share_work
from recprism.forms.dials.kernels import weights as loops
from recprism.forms.dials.kernels.weights_state import Found, Rows, Users
from recprism.forms.dials.wanted import Wanted
from recprism.models import Factors

USERS_AT_ONCE = 32
SCORES_AT_ONCE = 2**24
GROUPS_IN_TABLE = 3_000  # of more groups, distances are computed on demand


@dataclass(frozen=True, eq=False)
class WeightsAnswer:
    """The weights of the rows of ``Wanted``.

    Attributes:
        weights: (n_rows, m) float64, in units of scores.
        feasible: Whether all constraints can be met, (n_rows,) bool.
        score_range: Largest minus smallest base score, (n_rows,) float64; 0 for rows that were not solved.
        same: Wanted items that are too close to, or below, an item with equal properties, (n_rows,) int64.
    """

    weights: NDArray[np.float64]
    feasible: NDArray[np.bool_]
    score_range: NDArray[np.float64]
    same: NDArray[np.int64]


def rows_of(
    properties: NDArray[np.float64], *, margin: float, rounding: float, scales: tuple[float, float], ordered: bool
) -> Rows:
    """Group the items by their properties, (n_items, m)."""
    groups, group = _distinct_rows(properties)
    if len(groups) <= GROUPS_IN_TABLE:
        distance = torch.cdist(torch.from_numpy(groups), torch.from_numpy(groups), p=1).numpy()
        reach = float(distance.max())
    else:
        distance, reach = np.zeros((0, 0)), float((groups.max(0) - groups.min(0)).sum())
    return Rows(
        np.ascontiguousarray(groups.T), groups, group, distance, reach, margin, rounding, np.array(scales), ordered
    )


def _distinct_rows(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the distinct rows in ascending order, and the number of each row among them, as ``np.unique`` does.

    ``np.unique`` compares whole rows, which takes ten times as long.
    """
    order = np.lexsort(values.T[::-1])
    ranked = values[order]
    is_new = np.append(True, (ranked[1:] != ranked[:-1]).any(1))[: len(ranked)]
    number = np.empty(len(values), np.int64)
    number[order] = np.cumsum(is_new) - 1
    return np.ascontiguousarray(ranked[is_new]), number


def both_ways(rows: Rows) -> Rows:
    """Return rows with each property twice, the second time negated; the requirements stay the same."""
    return rows._replace(
        properties=np.vstack([rows.properties, -rows.properties]),
        of_group=np.hstack([rows.of_group, -rows.of_group]),
        distance=2 * rows.distance,  # what the kernels compute from the doubled properties
        reach=2 * rows.reach,
        rounding=rows.rounding / 2,
    )


def solve_with_demotion(
    base: Factors, wanted: Wanted, rows: Rows, cost: NDArray[np.float64], chosen: NDArray[np.int64], demotion: float
) -> WeightsAnswer:
    """Find the weights of some rows; those that no weights of at least 0 hold may have weights below 0.

    Args:
        base: The recommender.
        wanted: The lists.
        rows: Properties and requirements.
        cost: Cost of each weight above 0, (n_rows, m).
        chosen: The rows to solve, (n,).
        demotion: Cost of a weight below 0.
    """
    first = solve(base, wanted, rows, cost, chosen)
    signed = np.hstack([cost, np.full(cost.shape, demotion)])
    second = solve(base, wanted, both_ways(rows), signed, chosen[~first.feasible[chosen]])
    m = cost.shape[1]
    return replace(
        first,
        weights=np.where(first.feasible[:, None], first.weights, second.weights[:, :m] - second.weights[:, m:]),
        feasible=second.feasible,
    )


def solve(
    base: Factors, wanted: Wanted, rows: Rows, cost: NDArray[np.float64], chosen: NDArray[np.int64]
) -> WeightsAnswer:
    """Find the weights of some rows of ``wanted``; the result does not depend on the number of threads.

    Args:
        base: The recommender.
        wanted: The lists.
        rows: Properties and requirements.
        cost: Cost of each weight, (n_rows, m).
        chosen: The rows to solve, (n,); the others get weights of 0.
    """
    n, m = cost.shape
    answer = WeightsAnswer(np.zeros((n, m)), np.ones(n, np.bool_), np.zeros(n), np.zeros(n, np.int64))
    user, item = (torch.from_numpy(np.ascontiguousarray(vectors)) for vectors in base.search_vectors)
    step = max(USERS_AT_ONCE, SCORES_AT_ONCE // max(base.n_items, 1))
    for start in range(0, len(chosen), step):
        some = chosen[start : start + step]
        scores = (user[torch.from_numpy(wanted.users[some])] @ item.T).numpy()
        answer.score_range[some] = scores.max(1) - scores.min(1)
        out = wanted.exclude.take_rows(some)
        scores[out.row_of_entry, out.indices] = -np.inf
        users = Users(scores, wanted.lists[some], wanted.spread[wanted.users[some]], cost[some])
        found = solve_block(rows, users)
        answer.weights[some] = found.weights
        answer.feasible[some] = found.status == loops.SOLVED
        answer.same[some] = found.same
    return answer


def solve_block(rows: Rows, users: Users, *, least: bool = True) -> Found:
    """Solve the programs of a block of users on all threads."""
    n, m = users.cost.shape
    found = Found(np.zeros((n, m)), np.zeros(n, np.int8), np.zeros(n, np.int64))
    share_work(lambda first, last: loops.find_weights(first, last, rows, users, least, found), n, USERS_AT_ONCE)
    return found
