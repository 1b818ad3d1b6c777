"""The dual simplex method for min cost . x, x >= 0, under rows a . x >= b that arrive one at a time.

All costs are above 0, so x = 0 is optimal before any row has arrived. Each of the ``size`` columns is a variable that
is 0: an entry of x, or the slack a . x - b of a row. The other entries of x, the basic ones, depend on the columns:
x = point + table . columns. A violated row is expressed in the columns and exchanged for the column that keeps the
point optimal. Where no column can repair a row, no x meets all rows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from recprism.common.compile import compiled_inside, compiled_loosely

SMALLEST_PIVOT = 1e-9
ZERO_PRICE = 1e-11


class Tableau(NamedTuple):
    """The state of the method; ``most`` variables at most.

    Attributes:
        size: Number of variables, and of basic variables, (2,) int64.
        x: The point, (most,).
        price: What one unit of a column adds to the objective, (most,), never negative.
        table: Row i belongs to variable i where it is basic, (most, most).
        row: The row that is being added, in terms of the columns, (most,).
        variable: The variable of a column, (most,) int64; -1 where the column is the slack of a pair.
        column: The column of a variable, (most,) int64; -1 where it is basic.
        basic: The basic variables, (most,) int64.
    """

    size: Any
    x: Any
    price: Any
    table: Any
    row: Any
    variable: Any
    column: Any
    basic: Any


@compiled_inside
def new_tableau(most: int) -> Any:
    return Tableau(
        np.zeros(2, np.int64),
        np.zeros(most),
        np.zeros(most),
        np.zeros((most, most)),
        np.zeros(most),
        np.zeros(most, np.int64),
        np.zeros(most, np.int64),
        np.zeros(most, np.int64),
    )


@compiled_inside
def clear(tableau: Any) -> None:
    tableau.size[:] = 0


@compiled_inside
def add_variable(tableau: Any, cost: float) -> int:
    """Add a variable that is 0 and occurs in no row so far; return its number."""
    new: int = tableau.size[0]
    tableau.size[0] += 1
    tableau.x[new], tableau.price[new] = 0.0, cost
    tableau.variable[new], tableau.column[new] = new, new
    for at in range(tableau.size[1]):
        tableau.table[tableau.basic[at], new] = 0.0
    return new


@compiled_inside
def clear_row(tableau: Any) -> None:
    tableau.row[: tableau.size[0]] = 0.0


@compiled_inside
def add_to_row(tableau: Any, variable: int, factor: float) -> None:
    """Add factor * x[variable] to the row."""
    column = tableau.column[variable]
    if column >= 0:
        tableau.row[column] += factor
    else:
        _add(tableau.row, tableau.table[variable], factor, tableau.size[0])


@compiled_loosely
def _add(to: Any, what: Any, factor: float, n: int) -> None:
    for i in range(n):
        to[i] += factor * what[i]


@compiled_inside
def most_negative(tableau: Any, tolerance: float) -> int:
    """Return the variable that is furthest below 0, or -1."""
    found, least = -1, -tolerance
    for at in range(tableau.size[1]):
        variable = tableau.basic[at]
        if tableau.x[variable] < least:
            found, least = variable, tableau.x[variable]
    return found


@compiled_inside
def entering(tableau: Any, careful: bool) -> int:
    """Return the column to exchange for the row, or -1 where no column can repair it.

    Of equally cheap columns it is the one with the largest entry. A careful choice is the first one, which cannot
    return to the same columns again.
    """
    found, cheapest = -1, np.inf
    for column in range(tableau.size[0]):
        entry = tableau.row[column]
        if entry <= SMALLEST_PIVOT:
            continue
        ratio = tableau.price[column] / entry
        if ratio < cheapest - ZERO_PRICE or (
            not careful and ratio <= cheapest + ZERO_PRICE and entry > tableau.row[found]
        ):
            found, cheapest = column, min(ratio, cheapest)
    return found


@compiled_inside
def exchange(tableau: Any, column: int, variable: int, value: float) -> None:
    """Exchange a column for the row, so that the row's slack is 0.

    Args:
        tableau: Changed in place; ``tableau.row`` is the row.
        column: The column that leaves.
        variable: The variable that must not be negative; -1 if the row belongs to a pair.
        value: The slack of the row at the current point, below 0.
    """
    n, pivot = tableau.size[0], tableau.row[column]
    entered = tableau.variable[column]
    if entered >= 0:
        tableau.column[entered] = -1
        tableau.table[entered, :n] = 0.0
        tableau.table[entered, column] = 1.0
        tableau.basic[tableau.size[1]] = entered
        tableau.size[1] += 1
    for at in range(tableau.size[1]):
        i = tableau.basic[at]
        entry = tableau.table[i, column]
        if entry != 0.0:
            tableau.x[i] -= entry * value / pivot
            _add(tableau.table[i], tableau.row, -entry / pivot, n)
            tableau.table[i, column] = entry / pivot
    price = tableau.price[column] / pivot
    _add(tableau.price, tableau.row, -price, n)
    tableau.price[column] = price
    for other in range(n):
        if tableau.price[other] < ZERO_PRICE:
            tableau.price[other] = 0.0
    tableau.variable[column] = variable
    if variable >= 0:
        _make_column(tableau, variable, column)


@compiled_inside
def _make_column(tableau: Any, variable: int, column: int) -> None:
    tableau.column[variable], tableau.x[variable] = column, 0.0
    last = tableau.size[1] - 1
    for at in range(last + 1):
        if tableau.basic[at] == variable:
            tableau.basic[at] = tableau.basic[last]
            break
    tableau.size[1] = last
