"""The cheapest match of rows and columns of a small table."""

from __future__ import annotations

from typing import Any

import numpy as np

from recprism.common.compile import compiled_inside
from recprism.rule.kernels.arrays import flags, floats, integers, table


@compiled_inside
def cheapest_match(cost: Any, match: Any) -> None:
    """Match each row with a column of its own, or each column with a row, so that the sum of costs is smallest.

    Shortest augmenting paths with potentials (Jonker and Volgenant, 1987).

    Args:
        cost: (n, m) float64.
        match: Receives the column of each row, (n,) int64; -1 for a row without one.
    """
    match[:] = -1
    if cost.shape[0] <= cost.shape[1]:
        _match_rows(cost, match)
        return
    rows, turned = integers(cost.shape[1]), table(cost.shape[1], cost.shape[0], 0.0)
    for row in range(cost.shape[0]):
        for column in range(cost.shape[1]):
            turned[column, row] = cost[row, column]
    _match_rows(turned, rows)
    for column in range(len(rows)):
        match[rows[column]] = column


@compiled_inside
def _match_rows(cost: Any, match: Any) -> None:
    """Match every row; there are at least as many columns as rows."""
    n, m = cost.shape
    # Potentials; entry 0 is a row or column outside the table.
    of_row, of_column = floats(n + 1, 0.0), floats(m + 1, 0.0)
    owner, way = integers(m + 1), integers(m + 1)
    for row in range(1, n + 1):
        owner[0] = row
        at = _free_column(cost, owner, way, of_row, of_column)
        while at:
            owner[at] = owner[way[at]]
            at = way[at]
    for column in range(1, m + 1):
        if owner[column]:
            match[owner[column] - 1] = column - 1


@compiled_inside
def _free_column(cost: Any, owner: Any, way: Any, of_row: Any, of_column: Any) -> int:
    """Find the cheapest way from the new row to a column without an owner, and update the potentials.

    Returns:
        The column; 0 if the costs are no numbers, so that no way is the cheapest.
    """
    m = cost.shape[1]
    shortest, visited = floats(m + 1, np.inf), flags(m + 1)
    at = 0
    while owner[at]:
        visited[at] = True
        current, step, following = owner[at], np.inf, 0
        for column in range(1, m + 1):
            if visited[column]:
                continue
            reduced = cost[current - 1, column - 1] - of_row[current] - of_column[column]
            if reduced < shortest[column]:
                shortest[column], way[column] = reduced, at
            if shortest[column] < step:
                step, following = shortest[column], column
        if not step < np.inf:
            return 0
        for column in range(m + 1):
            if visited[column]:
                of_row[owner[column]] += step
                of_column[column] -= step
            else:
                shortest[column] -= step
        at = following
    return at
