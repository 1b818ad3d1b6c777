"""Goldfarb and Idnani's dual active-set method for min 1/2 |x - p|^2 under a . x >= b, one constraint at a time.

x is at all times the nearest point to p under the active constraints, with a multiplier for each. To take in a violated
constraint, x walks along the part of its normal that leaves the active ones as they are; where a multiplier reaches 0
on the way, its constraint is let go. Each step makes the distance larger, so no set of constraints comes twice. With at
most d constraints active and their normals kept as a QR factorisation, a step costs about d^2 operations.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from recprism._compile import compiled, compiled_loosely

ADDED, IMPOSSIBLE = 0, 1
# A normal whose part outside the span of the active ones is below this share of it lies in that span. Sums in float64
# leave about 1e-15; item vectors are float32 numbers, whose accidents are far larger.
IN_THE_SPAN = 1e-9


class Active(NamedTuple):
    """The active constraints; the first ``count[0]`` places are filled.

    count: (1,) int64
    row, above, below: (d + 1,) int64: a row of the lists, the item wanted above, the item wanted below
    weight: (d + 1,) float64 multipliers, never negative
    basis: (d + 1, d) orthonormal rows that span the normals
    upper: (d + 1, d + 1); normal j is the sum over i of upper[i, j] * basis[i]
    normal, outside: (d,) the constraint at hand and its part outside the span
    inside: (d + 1,) its part in the span, in terms of ``basis``
    share: (d + 1,) the same in terms of the active normals
    """

    count: Any
    row: Any
    above: Any
    below: Any
    weight: Any
    basis: Any
    upper: Any
    normal: Any
    outside: Any
    inside: Any
    share: Any


@compiled
def no_constraints(dim: int) -> Any:
    return Active(
        np.zeros(1, np.int64),
        np.zeros(dim + 1, np.int64),
        np.zeros(dim + 1, np.int64),
        np.zeros(dim + 1, np.int64),
        np.zeros(dim + 1),
        np.zeros((dim + 1, dim)),
        np.zeros((dim + 1, dim + 1)),
        np.zeros(dim),
        np.zeros(dim),
        np.zeros(dim + 1),
        np.zeros(dim + 1),
    )


@compiled_loosely
def dot(a: Any, b: Any) -> Any:
    total = 0.0
    for i in range(len(a)):
        total += a[i] * b[i]
    return total


@compiled
def take_in(active: Any, x: Any, item: Any, row: int, above: int, below: int, violation: float) -> int:
    """Move x to the nearest point that also meets item[above] . x >= item[below] . x + (what is missing).

    violation: how much is missing, above 0

    ADDED, or IMPOSSIBLE: then ``active.weight`` and one last place of the active set hold a proof (see ``_prove``).
    """
    n = active.count
    active.normal[:] = item[above] - item[below]
    length = dot(active.normal, active.normal)
    own = 0.0  # the multiplier of the constraint that comes in
    while True:
        _split(active)
        room = dot(active.outside, active.outside)
        independent = room > IN_THE_SPAN**2 * length
        place, most = _first_to_go(active)
        if place < 0 and not independent:
            _remember(active, row, above, below, 1.0)
            _prove(active)
            return IMPOSSIBLE
        whole = violation / room if independent else np.inf
        step = min(whole, most)
        for i in range(n[0]):
            active.weight[i] -= step * active.share[i]
        own += step
        if independent:
            x += step * active.outside
            violation -= step * room
        if whole <= most:
            _grow(active, np.sqrt(room))
            _remember(active, row, above, below, own)
            n[0] += 1
            return ADDED
        _let_go(active, place)


@compiled
def _remember(active: Any, row: int, above: int, below: int, weight: float) -> None:
    last = active.count[0]
    active.row[last], active.above[last], active.below[last], active.weight[last] = row, above, below, weight


@compiled
def _prove(active: Any) -> None:
    """The normal at hand is a sum of active ones with factors that are not positive: move all to one side.

    The weights, all at least 0, then add the normals up to 0, while what they demand adds up to more than 0.
    """
    for i in range(active.count[0]):
        active.weight[i] = max(0.0, -active.share[i])


@compiled
def _split(active: Any) -> None:
    """``normal`` into its parts inside and outside the span; twice, because once loses digits."""
    n = active.count[0]
    active.outside[:] = active.normal
    active.inside[:n] = 0.0
    for _ in range(2):
        for i in range(n):
            part = dot(active.basis[i], active.outside)
            active.inside[i] += part
            active.outside[:] -= part * active.basis[i]
    for i in range(n - 1, -1, -1):
        rest = active.inside[i]
        for j in range(i + 1, n):
            rest -= active.upper[i, j] * active.share[j]
        active.share[i] = rest / active.upper[i, i]


@compiled
def _first_to_go(active: Any) -> Any:
    """The active constraint whose multiplier is the first to reach 0, and the step at which it does."""
    place, most = -1, np.inf
    for i in range(active.count[0]):
        if active.share[i] > 1e-10:
            step = max(0.0, active.weight[i]) / active.share[i]
            if step < most:
                place, most = i, step
    return place, most


@compiled
def _grow(active: Any, length: float) -> None:
    n = active.count[0]
    active.basis[n] = active.outside / length
    active.upper[:n, n] = active.inside[:n]
    active.upper[n, : n + 1] = 0.0
    active.upper[n, n] = length


@compiled
def _let_go(active: Any, place: int) -> None:
    """Take a constraint out, and turn the basis so that ``upper`` is triangular again (Givens rotations)."""
    last = active.count[0] - 1
    for j in range(place, last):
        active.row[j], active.above[j], active.below[j] = active.row[j + 1], active.above[j + 1], active.below[j + 1]
        active.weight[j] = active.weight[j + 1]
        active.upper[:, j] = active.upper[:, j + 1]
    for j in range(place, last):
        long = np.hypot(active.upper[j, j], active.upper[j + 1, j])
        cosine, sine = active.upper[j, j] / long, active.upper[j + 1, j] / long
        _turn(active.upper[j, :last], active.upper[j + 1, :last], cosine, sine)
        _turn(active.basis[j], active.basis[j + 1], cosine, sine)
    active.count[0] = last


@compiled
def _turn(a: Any, b: Any, cosine: float, sine: float) -> None:
    for i in range(len(a)):
        a[i], b[i] = cosine * a[i] + sine * b[i], cosine * b[i] - sine * a[i]
