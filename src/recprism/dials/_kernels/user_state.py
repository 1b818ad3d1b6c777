"""What the loops of the user side work on."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from recprism._compile import compiled

AT_ONCE = 32  # outsiders that a pass over the catalogue puts into the pool


class Problem(NamedTuple):
    """What does not change.

    user: (n_users, d) float64, item: (n_items, d) float64, bias: (n_items,) float64
    of_user: (n_users + 1,) int64: the rows of user u are rows of_user[u] .. of_user[u + 1] - 1
    lists: (n_rows, k) int64, -1 where there is none
    out_ptr, out: the items that are not on offer in each row, as in Incidence
    margin, tolerance: (n_users,) float64, in units of scores
    order: the items of a list are wanted in its order
    """

    user: Any
    item: Any
    bias: Any
    of_user: Any
    lists: Any
    out_ptr: Any
    out: Any
    margin: Any
    tolerance: Any
    order: bool


class State(NamedTuple):
    """What is known of the user at hand; the first axis of two goes over the user's rows.

    x: (d,) the vector
    wanted: (rows, k) bool: the place still counts
    linked: (rows, k) bool: the place is still wanted above the next one that counts
    pool, in_pool: (rows, n_items) int64 and (rows,) int64: outsiders that are watched
    freed: (rows, k) int64 outsiders that may pass, n_freed: (rows,) how many
    scores: (n_items,), marks: (n_items,) uint8
    found: (3,) int64: row, item above, item below
    best, best_score: (AT_ONCE,)
    """

    x: Any
    wanted: Any
    linked: Any
    pool: Any
    in_pool: Any
    freed: Any
    n_freed: Any
    scores: Any
    marks: Any
    found: Any
    best: Any
    best_score: Any


@compiled
def new_state(problem: Any, first: int, last: int) -> Any:
    rows = 1
    for user in range(first, last):
        rows = max(rows, problem.of_user[user + 1] - problem.of_user[user])
    n_items, k = problem.item.shape[0], problem.lists.shape[1]
    return State(
        np.zeros(problem.item.shape[1]),
        np.zeros((rows, k), np.bool_),
        np.zeros((rows, k), np.bool_),
        np.zeros((rows, n_items), np.int64),
        np.zeros(rows, np.int64),
        np.zeros((rows, k), np.int64),
        np.zeros(rows, np.int64),
        np.zeros(n_items),
        np.zeros(n_items, np.uint8),
        np.zeros(3, np.int64),
        np.zeros(AT_ONCE, np.int64),
        np.zeros(AT_ONCE),
    )
