"""Null erasures: what erasing something without a meaning takes back. The figure of a factor is read next to them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from recprism.cmb.factors.change import Change
from recprism.cmb.factors.erasure import erased
from recprism.cmb.factors.evaluator import Evaluator
from recprism.common.checks import random_generator

SMALLEST = 5  # factors
SCALE = 0.99
DRAWS = 10
Changes = dict[str, list[Change]]


@dataclass(frozen=True)
class Null:
    """One null erasure.

    Attributes:
        name: What is erased, in words.
        values: Metric -> value after the erasure, as a mean over the draws.
        draws: Number of draws; 1 if nothing is random.
    """

    name: str
    values: Mapping[str, float]
    draws: int = 1


def null_erasures(change: Change, evaluator: Evaluator, *, draws: int = DRAWS, seed: int = 0) -> tuple[Null, ...]:
    """Erase a random direction, then the smallest factors, and last one percent of the whole change.

    Args:
        change: The change of the vectors.
        evaluator: Ranks and evaluates.
        draws: Draws of the random direction.
        seed: Seed of the draws.
    """
    smallest = min(SMALLEST, change.base.dim)
    nulls: Changes = {
        f"a random direction (mean of {draws})": list(_without_random_directions(change, draws, seed)),
        "the smallest factor" if smallest == 1 else f"the {smallest} smallest factors": [
            erased(change, "least", "shared", smallest)
        ],
        f"the change scaled by {SCALE}": [change.replaced(**{it: side * SCALE for it, side in change.sides.items()})],
    }
    found = []
    for name, changes in nulls.items():
        values = [evaluator.means(it.after) for it in changes]
        means = {metric: float(np.mean([it[metric] for it in values])) for metric in values[0]}
        found.append(Null(name, means, len(changes)))
    return tuple(found)


def _without_random_directions(change: Change, draws: int, seed: int) -> Iterator[Change]:
    """Yield the change without its part along a random direction of the factors, as without one factor."""
    generator = random_generator(seed, change.base.dim)
    for _ in range(draws):
        axis = generator.normal(size=change.base.dim)
        axis /= np.linalg.norm(axis)
        rest = np.eye(len(axis)) - np.outer(axis, axis)
        yield change.replaced(**{name: (side @ rest).astype(np.float32) for name, side in change.sides.items()})
