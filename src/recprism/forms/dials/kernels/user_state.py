"""Data and working memory of the kernels of user vectors."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from recprism.common.compile import compiled

AT_ONCE = 32  # outsiders that one pass over the catalogue adds to the pool


class MarginPrograms(NamedTuple):
    """The data of all users.

    Attributes:
        user: User vectors, (n_users, d) float64.
        item: Item vectors, (n_items, d) float64.
        bias: Item biases, (n_items,) float64.
        of_user: The rows of user u are of_user[u] to of_user[u + 1] - 1, (n_users + 1,) int64.
        lists: Item numbers, (n_rows, k) int64; -1 in empty places.
        out_ptr: Where the excluded items of each row begin in ``out``, as in ``SparseRows``.
        out: The excluded items of all rows.
        margin: (n_users,) float64, in units of scores.
        tolerance: Violations up to this count as met, (n_users,) float64, in units of scores.
        order: Whether the order of the lists must be kept.
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
    """Working memory for the current user.

    Attributes:
        x: The vector, (d,).
        wanted: Whether the item at a place is still required, (rows, k) bool.
        linked: Whether it must still score above the next required item, (rows, k) bool.
        pool: Outsiders in the pool, (rows, n_items) int64.
        in_pool: How many they are, (rows,) int64.
        freed: Outsiders that may score above the list, (rows, k) int64.
        n_freed: How many they are, (rows,).
        scores: Scores of all items, (n_items,).
        marks: Items that a search for outsiders skips, (n_items,) uint8.
        found: The most violated constraint: row, item above, item below, (3,) int64.
        best: The best outsiders of the last search, (AT_ONCE,).
        best_score: Their scores, (AT_ONCE,).
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
