"""Synthetic data with known probabilities that a user takes an item, and exact expected values of metrics.

Labels drawn from the probabilities serve as held-out items. The expectation of a metric, with its normaliser, is exact.
So a statement made from one draw can be compared with the truth.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from recprism.common.checks import random_generator
from recprism.data.categories import Categories
from recprism.data.interactions import Interactions
from recprism.errors import InputError

if TYPE_CHECKING:
    from recprism.data.dataset import Dataset

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BLOCK = 2000  # users at a time where an array has a cell for every user and item


@dataclass(frozen=True, eq=False)
class World:
    """Users who take items independently: P(u takes i) = sigmoid(user[u] . item[i] + appeal[i]), at most 1/2.

    Attributes:
        user: ``(n_users, d)`` tastes.
        item: ``(n_items, d)``.
        appeal: ``(n_items,)`` popularity.
        categories: One or two per item. Items of one category are close to each other, so diversity costs accuracy.
        probability: ``(n_users, n_items)`` float32.
    """

    user: FloatArray
    item: FloatArray
    appeal: FloatArray
    categories: Categories
    probability: NDArray[np.float32]
    _gains: dict[tuple[str, int], FloatArray] = field(default_factory=dict, repr=False)

    @property
    def n_users(self) -> int:
        return len(self.user)

    @property
    def n_items(self) -> int:
        return len(self.item)

    def labels(self, users: IntArray, generator: np.random.Generator) -> NDArray[np.bool_]:
        """Draw ``(n, n_items)`` labels of n users, given by row numbers that may repeat."""
        chance = generator.random((len(users), self.n_items), np.float32)
        return chance < self.probability[users]

    def model(self, noise: float = 0.3, *, seed: int = 0) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return user vectors, item vectors and item biases of a recommender: the true ones plus noise."""
        generator = random_generator(seed)
        user, item, appeal = (
            true + noise * generator.standard_normal(true.shape) for true in (self.user, self.item, self.appeal)
        )
        return user, item, appeal

    def expected(self, metric: str, lists: IntArray) -> FloatArray:
        """Return the exact expectation of a metric; a user who takes nothing counts as 0.

        The loss of one set of lists against another is one minus the ratio of the two sums. Users without labels are
        missing from both sums.

        Args:
            metric: Such as "ndcg@10".
            lists: ``(n_users, at least k)`` item numbers.

        Returns:
            ``(n_users,)`` expectations.
        """
        name, k = parsed(metric)
        shown = lists[:, :k]
        if name == "hit_rate":
            miss = 1 - np.take_along_axis(self.probability, shown, axis=1).astype(np.float64)
            hit: FloatArray = 1 - miss.prod(axis=1)
            return hit
        if (name, k) not in self._gains:
            self._gains[name, k] = expected_gains(self.probability, lambda counts: normaliser_of(name, k, counts))
        gained: FloatArray = np.take_along_axis(self._gains[name, k], shown, axis=1) @ place_weights(name, k)
        return gained

    def dataset(self, *, seed: int = 0) -> Dataset:
        """Draw labels of all users as a data set ready to be split; ids are u000000, ... and i000000, ..."""
        import polars as pl

        from recprism.data.dataset import Dataset, Preparation

        user, item = np.nonzero(self.labels(np.arange(self.n_users), random_generator(seed)))
        taken = Interactions(user, item, _ids("u", self.n_users), _ids("i", self.n_items)).compact()
        kept = np.unique(item)
        attributes = pl.DataFrame({"item_id": taken.item_ids.tolist(), "appeal": self.appeal[kept]})
        return Dataset("made", taken, self.categories.take_items(kept), attributes, Preparation())


def make_world(
    n_users: int = 2000, n_items: int = 300, n_categories: int = 12, dim: int = 8, *, takes: float = 8.0, seed: int = 0
) -> World:
    """Make a world of clustered items, users with two favourite categories, and a few items that many users take.

    Args:
        n_users: Number of users.
        n_items: Number of items.
        n_categories: Number of categories.
        dim: Length of the vectors.
        takes: Mean number of items a user takes.
        seed: Seed of the world.

    Returns:
        The world.

    Raises:
        InputError: The sizes do not fit together.

    >>> world = make_world(50, 40, 4, takes=5, seed=1)
    >>> round(float(world.probability.sum(axis=1).mean()), 3)
    5.0
    """
    if min(n_users, n_items, n_categories, dim) < 1 or not 0 < takes < n_items / 4:
        raise InputError(
            f"a world needs users, items, categories and dimensions, and users who take fewer than a quarter of the "
            f"items; got {n_users}, {n_items}, {n_categories}, {dim} and takes={takes:g}"
        )
    generator = random_generator(seed)
    centres = generator.standard_normal((n_categories, dim))
    first, second = generator.integers(0, n_categories, (2, n_items))
    second = np.where(generator.random(n_items) < 0.3, second, first)
    item = (centres[first] + centres[second]) / 2 + 0.5 * generator.standard_normal((n_items, dim))
    liked = centres[generator.integers(0, n_categories, (n_users, 2))].sum(axis=1)
    user = (0.7 * liked + 0.5 * generator.standard_normal((n_users, dim))) / np.sqrt(dim)
    popularity = -0.6 * np.log(1 + generator.permutation(n_items))
    affinity = user @ item.T + popularity
    shift = _shift_for(affinity, takes)
    names = np.array([f"s{number:02}" for number in range(n_categories)])
    both = np.concatenate([first, second])
    categories = Categories.from_pairs(np.tile(np.arange(n_items), 2), names[both], n_items)
    return World(user, item, popularity + shift, categories, _probability(affinity + shift))


def expected_gains(probability: NDArray[Any], normaliser: Callable[[IntArray], FloatArray]) -> FloatArray:
    """``(n_users, n_items)`` E[label / normaliser(number of the user's labels)].

    The distribution of the number of all labels but one follows from that of all of them, in a recursion that is stable
    up to probability 1/2.
    """
    gains = np.empty(probability.shape)
    for start in range(0, len(probability), BLOCK):
        p = probability[start : start + BLOCK].astype(np.float64)
        law = _law_of_count(p)
        share = 1 / normaliser(np.arange(1, law.shape[1] + 1))
        others = np.zeros_like(p)  # P(j labels among the other items), for j = 0, 1, ...
        total = np.zeros_like(p)
        for j in range(law.shape[1]):
            others *= -p
            others += law[:, j, None]
            others /= 1 - p
            total += share[j] * others
        gains[start : start + BLOCK] = p * total
    return gains


def _law_of_count(p: FloatArray) -> FloatArray:
    """``(n_users, m)`` P(the user takes 0, 1, ... items), up to numbers of negligible probability."""
    mean = float(p.sum(axis=1).max())
    law = np.zeros((len(p), min(p.shape[1], int(mean + 10 * np.sqrt(mean) + 10)) + 1))
    law[:, 0] = 1
    for of_item in p.T[:, :, None]:
        law[:, 1:] = law[:, 1:] * (1 - of_item) + law[:, :-1] * of_item
        law[:, :1] *= 1 - of_item
    return law


def place_weights(name: str, k: int) -> FloatArray:
    return np.asarray(1 / np.log2(np.arange(2, k + 2)) if name == "ndcg" else np.ones(k))


def normaliser_of(name: str, k: int, counts: IntArray) -> FloatArray:
    """Return what the weights of the hits are divided by, for users with that many labels (at least 1)."""
    best = np.cumsum(place_weights(name, k))[np.minimum(counts, k) - 1] if name == "ndcg" else counts
    return np.asarray(best, np.float64)


def parsed(metric: str) -> tuple[str, int]:
    name, _, k = metric.partition("@")
    if name not in ("ndcg", "recall", "hit_rate") or not k.isdecimal() or int(k) < 1:
        raise InputError(f"the truth is known of ndcg@k, recall@k and hit_rate@k, not of {metric!r}")
    return name, int(k)


def _ids(letter: str, size: int) -> NDArray[Any]:
    return np.array([f"{letter}{number:06}" for number in range(size)], object)


def _shift_for(affinity: FloatArray, takes: float) -> float:
    """Return what must be added to all logits so that users take so many items on average."""
    shift = 0.0
    for _ in range(40):  # small probabilities grow like exp(shift), so each step reduces the error
        shift += float(np.log(takes / _probability(affinity + shift).sum(axis=1, dtype=np.float64).mean()))
    return shift


def _probability(logit: FloatArray) -> NDArray[np.float32]:
    return (1 / (1 + np.exp(-np.minimum(logit, 0.0)))).astype(np.float32)
