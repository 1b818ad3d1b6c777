"""Synthetic vectors in which it is known which factors diversity depends on, to test explanations.

Every factor has mean 0 and variance 1 over users and over items, up to a small random scale that is independent of what
is planted. So neither norm nor variance identifies a planted factor; only the distributions differ. A user or an item
has its home at one end of one planted factor, and is close to 0 on the other planted ones. On all other factors it is
normally distributed. An item's category is its home. So the planted factors alone fill a user's list with the category
of the user's home. The other factors carry most of the relevance and no category. The columns are then shuffled.

With nothing planted, all factors are normally distributed and the categories are independent of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from recprism.common.checks import random_generator
from recprism.data.categories import Categories
from recprism.data.sparse_rows import SparseRows
from recprism.data.split import Split
from recprism.errors import InputError

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Unrelated = Literal["half", "one"]

AWAY_FROM_HOME = 0.3  # standard deviation of a planted factor around its home, or around 0
STRETCH = 0.05  # standard deviation of the logarithm of a factor's scale
SHARES = (0.8, 0.1, 0.1)  # of the labels: train, validation, test


@dataclass(frozen=True, eq=False)
class Planted:
    """The true vectors of a synthetic recommender, labels drawn from them, and the planted factors.

    Attributes:
        user: ``(n_users, d)`` float32.
        item: ``(n_items, d)`` float32; the dot products are the scores.
        categories: Categories of the items.
        split: Labels drawn from the scores.
        planted: The factors that categories depend on, rising; empty if nothing is planted.
    """

    user: NDArray[np.float32]
    item: NDArray[np.float32]
    categories: Categories
    split: Split
    planted: IntArray

    def precision(self, sizes: NDArray[np.floating]) -> float:
        """Return the share of planted factors among the largest of ``sizes`` ``(d,)``, as many as are planted."""
        if not len(self.planted):
            raise InputError("nothing is planted in this world; there is no precision to measure")
        top = np.argsort(-sizes, kind="stable")[: len(self.planted)]
        return float(np.isin(top, self.planted).mean())


def make_planted(
    n_users: int = 1000,
    n_items: int = 400,
    dim: int = 20,
    n_planted: int = 4,
    *,
    takes: float = 15.0,
    unrelated: Unrelated = "half",
    seed: int = 0,
) -> Planted:
    """Make vectors and labels with planted factors.

    Args:
        n_users: Number of users.
        n_items: Number of items.
        dim: Number of factors.
        n_planted: Number of planted factors, with two categories each; 0 plants nothing.
        takes: About how many items a user takes, in training, validation and test together.
        unrelated: The categories if nothing is planted. "half": each item has a random half of eight categories, so
            that nearly every list has them all and nothing can be gained. "one": each item has one of eight at random;
            a learner gains on the lists that it sees, and hardly at all on those of other users.
        seed: Seed of the world.

    Returns:
        The vectors, the labels and the planted factors.

    Raises:
        InputError: The sizes do not fit together.

    >>> world = make_planted(50, 40, takes=5, seed=1)
    >>> len(world.planted), world.user.shape, len(world.categories)
    (4, (50, 20), 8)
    """
    if min(n_users, n_items, dim) < 1 or not 0 <= n_planted <= dim or not 0 < takes < n_items / 4:
        raise InputError(
            f"a planted world needs users, items, no more planted factors than factors, and users who take fewer than "
            f"a quarter of the items; got {n_users}, {n_items}, {n_planted} of {dim} and takes={takes:g}"
        )
    generator = random_generator(seed)
    user, _ = _with_homes(n_users, dim, n_planted, generator)
    item, home = _with_homes(n_items, dim, n_planted, generator)
    stretch = np.exp(STRETCH * generator.standard_normal((2, dim)))
    place = generator.permutation(dim)
    user, item = (user * stretch[0])[:, place], (item * stretch[1])[:, place]
    categories = _of_homes(home) if n_planted else _unrelated(n_items, unrelated, generator)
    split = _labels(user @ item.T, takes, generator)
    planted = np.flatnonzero(place < n_planted)
    return Planted((user / np.sqrt(dim)).astype(np.float32), item.astype(np.float32), categories, split, planted)


def _with_homes(n: int, dim: int, n_planted: int, generator: np.random.Generator) -> tuple[FloatArray, IntArray]:
    """Return ``(n, dim)`` vectors of variance 1 per column, planted ones first, and ``(n,)`` homes."""
    vectors = generator.standard_normal((n, dim))
    if not n_planted:
        return vectors, np.zeros(n, np.int64)
    home = generator.integers(0, 2 * n_planted, n)
    # One column in n_planted is a home: this distance gives each planted column the variance 1.
    distance = np.sqrt(n_planted * (1 - AWAY_FROM_HOME**2))
    vectors[:, :n_planted] *= AWAY_FROM_HOME
    vectors[np.arange(n), home // 2] += np.where(home % 2, distance, -distance)
    return vectors, home


def _of_homes(home: IntArray) -> Categories:
    return Categories.from_pairs(np.arange(len(home)), _names(home), len(home))


def _unrelated(n_items: int, kind: Unrelated, generator: np.random.Generator, n_categories: int = 8) -> Categories:
    if kind not in ("half", "one"):
        raise InputError(f"unrelated categories are half or one, not {kind!r}")
    each = n_categories // 2 if kind == "half" else 1
    chosen = np.argsort(generator.random((n_items, n_categories)), axis=1)[:, :each]
    return Categories.from_pairs(np.repeat(np.arange(n_items), each), _names(chosen.ravel()), n_items)


def _names(numbers: IntArray) -> NDArray[np.str_]:
    return np.array([f"s{number:02}" for number in numbers])


def _labels(scores: FloatArray, takes: float, generator: np.random.Generator) -> Split:
    """Draw labels, more likely for higher scores, and divide them at random into three parts."""
    n_users, n_items = scores.shape
    threshold = np.quantile(scores, 1 - takes / n_items)
    user, item = np.nonzero(generator.random(scores.shape) < 1 / (1 + np.exp(threshold - scores)))
    part = generator.choice(3, len(user), p=SHARES)
    train, validation, test = (
        SparseRows.from_pairs(user[part == number], item[part == number], scores.shape) for number in range(3)
    )
    return Split(train, validation, test, np.arange(n_users), np.arange(n_items), {"method": "planted"})
