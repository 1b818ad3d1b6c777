"""Goldfarb and Idnani's dual active-set method for min 1/2 |x - p|^2 under a . x >= b, one constraint at a time.

x is always the nearest point to p under the active constraints, and each of these has a multiplier. To add a violated
constraint, x moves along the part of its normal that does not affect the active constraints. If a multiplier reaches 0
on the way, its constraint is dropped. Each step increases the distance, so no set of constraints occurs twice. At most
d constraints are active. Their normals are kept as a QR factorisation, so a step costs about d^2 operations.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from recprism.common.compile import compiled_inside, compiled_loosely

ADDED, IMPOSSIBLE = 0, 1
# A normal lies in the span of the active ones if the part outside is below this share of its length. The rounding error
# of sums in float64 is about 1e-15; the rounding of float32 item vectors is far larger.
IN_THE_SPAN = 1e-9


class Active(NamedTuple):
    """The active constraints; the first ``count[0]`` places are filled.

    Attributes:
        count: Number of active constraints, (1,) int64.
        row: Row of the lists, (d + 1,) int64.
        above: The item that must score higher, (d + 1,) int64.
        below: The item that must score lower, (d + 1,) int64.
        weight: Multipliers, (d + 1,) float64, never negative.
        basis: Orthonormal rows that span the normals, (d + 1, d).
        upper: (d + 1, d + 1); normal j is the sum over i of upper[i, j] * basis[i].
        normal: Normal of the constraint being added, (d,).
        outside: Part of ``normal`` outside the span, (d,).
        inside: Part of ``normal`` in the span, in terms of ``basis``, (d + 1,).
        share: The same in terms of the active normals, (d + 1,).
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


@compiled_inside
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


@compiled_inside
def add_scaled(to: Any, what: Any, factor: float) -> None:
    """Add factor * what. An expression of arrays would also compile the error for different shapes, in seconds."""
    for i in range(len(to)):
        to[i] += factor * what[i]


@compiled_inside
def take_in(active: Any, x: Any, item: Any, row: int, above: int, below: int, violation: float) -> int:
    """Move x to the nearest point that also meets one more constraint.

    Args:
        active: The active constraints; changed in place.
        x: The current point, (d,); changed in place.
        item: Item vectors, (n_items, d).
        row: Row of the lists that the constraint belongs to.
        above: The item that must score higher.
        below: The item that must score lower.
        violation: By how much x misses the constraint, above 0.

    Returns:
        ADDED, or IMPOSSIBLE: then ``active.weight`` and one more place of the active set hold a proof (see ``_prove``).
    """
    active.normal[:] = item[above] - item[below]
    outcome: int = meet(active, x, row, above, below, violation)
    return outcome


@compiled_inside
def meet(active: Any, x: Any, row: int, above: int, below: int, violation: float) -> int:
    """Do what ``take_in`` does for a constraint whose normal is in ``active.normal``."""
    n = active.count
    length = dot(active.normal, active.normal)
    own = 0.0  # the multiplier of the new constraint
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
            add_scaled(x, active.outside, step)
            violation -= step * room
        if whole <= most:
            _grow(active, np.sqrt(room))
            _remember(active, row, above, below, own)
            n[0] += 1
            return ADDED
        _let_go(active, place)


@compiled_inside
def _remember(active: Any, row: int, above: int, below: int, weight: float) -> None:
    last = active.count[0]
    active.row[last], active.above[last], active.below[last], active.weight[last] = row, above, below, weight


@compiled_inside
def _prove(active: Any) -> None:
    """Turn the weights into a proof of infeasibility.

    The new normal is a combination of active normals with coefficients of at most 0. With all of them on one side, the
    weights are at least 0, the weighted normals add up to 0, and the weighted requirements add up to more than 0.
    """
    for i in range(active.count[0]):
        active.weight[i] = max(0.0, -active.share[i])


@compiled_inside
def _split(active: Any) -> None:
    """Split ``normal`` into its parts inside and outside the span; done twice for numerical accuracy."""
    n = active.count[0]
    for j in range(len(active.normal)):
        active.outside[j] = active.normal[j]
    active.inside[:n] = 0.0
    for _ in range(2):
        for i in range(n):
            part = dot(active.basis[i], active.outside)
            active.inside[i] += part
            add_scaled(active.outside, active.basis[i], -part)
    for i in range(n - 1, -1, -1):
        rest = active.inside[i]
        for j in range(i + 1, n):
            rest -= active.upper[i, j] * active.share[j]
        active.share[i] = rest / active.upper[i, i]


@compiled_inside
def _first_to_go(active: Any) -> Any:
    """Find the active constraint whose multiplier reaches 0 first, and the step at which it does."""
    place, most = -1, np.inf
    for i in range(active.count[0]):
        if active.share[i] > 1e-10:
            step = max(0.0, active.weight[i]) / active.share[i]
            if step < most:
                place, most = i, step
    return place, most


@compiled_inside
def _grow(active: Any, length: float) -> None:
    n = active.count[0]
    for j in range(len(active.outside)):
        active.basis[n, j] = active.outside[j] / length
    for i in range(n):
        active.upper[i, n] = active.inside[i]
    active.upper[n, : n + 1] = 0.0
    active.upper[n, n] = length


@compiled_inside
def _let_go(active: Any, place: int) -> None:
    """Drop a constraint, and make ``upper`` triangular again by Givens rotations."""
    last = active.count[0] - 1
    for j in range(place, last):
        active.row[j], active.above[j], active.below[j] = active.row[j + 1], active.above[j + 1], active.below[j + 1]
        active.weight[j] = active.weight[j + 1]
        for i in range(len(active.upper)):
            active.upper[i, j] = active.upper[i, j + 1]
    for j in range(place, last):
        long = np.hypot(active.upper[j, j], active.upper[j + 1, j])
        cosine, sine = active.upper[j, j] / long, active.upper[j + 1, j] / long
        _turn(active.upper[j, :last], active.upper[j + 1, :last], cosine, sine)
        _turn(active.basis[j], active.basis[j + 1], cosine, sine)
    active.count[0] = last


@compiled_inside
def _turn(a: Any, b: Any, cosine: float, sine: float) -> None:
    for i in range(len(a)):
        a[i], b[i] = cosine * a[i] + sine * b[i], cosine * b[i] - sine * a[i]
