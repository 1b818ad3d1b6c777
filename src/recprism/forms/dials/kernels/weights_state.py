"""Data and working memory of the kernels that find named weights."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from recprism.common.compile import compiled_inside
from recprism.forms.dials.kernels.active_set import no_constraints
from recprism.forms.dials.kernels.tableau import new_tableau

EXCUSES = 256  # pairs of one user whose violation has a variable of its own


class Rows(NamedTuple):
    """What is the same for all users. Items with equal properties form a group.

    Attributes:
        properties: Properties of the groups, (m, n_groups) float64.
        of_group: The same transposed, (n_groups, m) float64.
        group: The group of each item, (n_items,) int64.
        distance: L1 distance of the properties of two groups, (n_groups, n_groups); (0, 0) if it is computed on demand.
        reach: The largest L1 distance of two groups, or an upper bound.
        margin: How far a wanted item must score above other items, in units of the user's spread.
        rounding: The same for each unit of L1 distance of the properties.
        scales: The smallest and the largest factor of the weights at which the list must hold, (2,).
        ordered: Whether the order of the lists must be kept.
    """

    properties: Any
    of_group: Any
    group: Any
    distance: Any
    reach: float
    margin: float
    rounding: float
    scales: Any
    ordered: bool


class Users(NamedTuple):
    """The users of one call.

    Attributes:
        scores: Base scores of all items, (n, n_items) float32; -inf for items that cannot be recommended.
        lists: The wanted items, (n, k) int64; -1 in empty places.
        spread: The unit of the scores of each user, (n,) float64.
        cost: Cost of each weight, (n, m) float64, above 0.
    """

    scores: Any
    lists: Any
    spread: Any
    cost: Any


class Found(NamedTuple):
    """What the kernels write.

    Attributes:
        weights: (n, m) float64, in units of scores.
        status: SOLVED, IMPOSSIBLE or LOST, (n,) int8.
        same: Pairs with equal properties whose base scores are too close or in the wrong order, (n,) int64.
    """

    weights: Any
    status: Any
    same: Any


class State(NamedTuple):
    """Working memory for the current user. A rival is the best other item of a group, or a wanted item.

    Attributes:
        best: Score of the best other item of each group, -inf if there is none, (n_groups,).
        added: What the weights add to the score of each group, (n_groups,).
        score: Scores of the wanted items, (k,).
        own: The same with what the weights add, (k,).
        group: The groups of the wanted items, (k,) int64.
        found: Place of the wanted item and rival of the most violated pair, (2,) int64.
        tableau: The program with rows that must hold.
        excusing: The program with rows whose violation has a price.
        excuse: The variable of the violation of a place and a rival, (k, n_groups + k) int64; -1 if there is none.
        active: Rows that determine the least-L2 point.
        face: Orthonormal directions in which the cheapest weights may move, (m, m).
    """

    best: Any
    added: Any
    score: Any
    own: Any
    group: Any
    found: Any
    tableau: Any
    excusing: Any
    excuse: Any
    active: Any
    face: Any


@compiled_inside
def new_state(rows: Any, k: int) -> Any:
    m, n_groups = rows.properties.shape
    return State(
        np.zeros(n_groups),
        np.zeros(n_groups),
        np.zeros(k),
        np.zeros(k),
        np.zeros(k, np.int64),
        np.zeros(2, np.int64),
        new_tableau(m),
        new_tableau(m + EXCUSES),
        np.full((k, n_groups + k), -1, np.int64),
        no_constraints(m),
        np.zeros((m, m)),
    )
