"""New arrays for kernels. Numba compiles np.zeros and its kind again for each way to write a shape; these once."""

from __future__ import annotations

from typing import Any

import numpy as np

from recprism.common.compile import compiled_inside


@compiled_inside
def floats(n: int, value: float) -> Any:
    """Return ``n`` times this value, (n,) float64."""
    out = np.empty(n)
    for i in range(n):
        out[i] = value
    return out


@compiled_inside
def integers(n: int) -> Any:
    """Return zeros, (n,) int64."""
    out = np.empty(n, np.int64)
    for i in range(n):
        out[i] = 0
    return out


@compiled_inside
def flags(n: int) -> Any:
    """Return False, (n,) bool."""
    out = np.empty(n, np.bool_)
    for i in range(n):
        out[i] = False
    return out


@compiled_inside
def table(rows: int, columns: int, value: float) -> Any:
    """Return this value everywhere, (rows, columns) float64."""
    out = np.empty((rows, columns))
    for row in range(rows):
        for column in range(columns):
            out[row, column] = value
    return out
