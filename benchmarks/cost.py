"""A model of what exact ranking costs, fitted to measurements, and what it says of a billion users.

    python benchmarks/cost.py [--json]

Processor seconds of the lists of 20 for several shapes are fitted by a * FLOP + b * scores + c * users, none below 0:
the products (2 d a score), the work on each score, and that on each list. "Off" is the largest relative difference
between model and measurement, on the shapes that were fitted and on two that were not. What follows for a billion users
and ten million items is the model times those numbers: nobody ran it.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from scipy.optimize import nnls

from harness import Claim, parser, report
from large_worlds import Catalogue
from recprism.ranking import topk

K, REPEATS = 20, 3
Shape = tuple[int, int, int]
FITTED: tuple[Shape, ...] = (
    (20_000, 5_000, 16),
    (20_000, 5_000, 64),
    (20_000, 5_000, 128),
    (100_000, 1_000, 32),
    (5_000, 50_000, 64),
    (2_000, 200_000, 32),
)
HELD_OUT: tuple[Shape, ...] = ((51_692, 7_135, 50), (2_000, 500_000, 64))
BILLION = (1_000_000_000, 10_000_000, 64)
LEARNER = (40, 20_000)  # iterations, users in each


def main() -> None:
    chosen = parser(__doc__).parse_args()
    seconds = {shape: measured(shape) for shape in (*FITTED, *HELD_OUT)}
    weights = np.array([seconds[shape] for shape in FITTED])
    design = np.array([parts(shape) for shape in FITTED])
    cost = nnls(design / weights[:, None], np.ones(len(weights)))[0]  # relative errors count alike for all shapes
    report(claims(cost, seconds), as_json=chosen.json, details={str(shape): value for shape, value in seconds.items()})


def parts(shape: Shape) -> tuple[float, float, float]:
    """FLOP, scores and users."""
    n_users, n_items, dim = shape
    return 2.0 * n_users * n_items * dim, float(n_users) * n_items, float(n_users)


def measured(shape: Shape) -> float:
    """Processor seconds of both cores together, the least of a few calls."""
    n_users, n_items, dim = shape
    catalogue = Catalogue(n_users, n_items, dim)
    user, item = catalogue.users(), catalogue.items()
    found = []
    for _ in range(REPEATS):
        start = time.process_time()
        topk(user, item, K)
        found.append(time.process_time() - start)
    return min(found)


def claims(cost: Any, seconds: dict[Shape, float]) -> list[Claim]:
    def off(shapes: tuple[Shape, ...]) -> float:
        return max(abs(float(cost @ parts(shape)) / seconds[shape] - 1) for shape in shapes)

    iterations, sampled = LEARNER
    n_users, n_items, dim = BILLION
    whole, learned = (float(cost @ parts((users, n_items, dim))) / 3600 for users in (n_users, iterations * sampled))
    return [
        Claim("a: processor nanoseconds per 1,000 FLOP of products", float(cost[0] * 1e12), None),
        Claim("b: processor nanoseconds per score", float(cost[1] * 1e9), None),
        Claim("c: processor microseconds per list", float(cost[2] * 1e6), None),
        Claim("off at most, shapes that were fitted", round(off(FITTED), 3), None),
        Claim("off at most, ML-10M's shape and half a million items, not fitted", round(off(HELD_OUT), 3), None),
        Claim(f"{n_users:,} x {n_items:,}, d = {dim}: core hours to rank all users", round(whole), None),
        Claim(f"the learner there, {iterations} iterations of {sampled:,} users: core hours", round(learned, 1), None),
    ]


if __name__ == "__main__":
    main()
