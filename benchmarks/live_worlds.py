"""Worlds of benchmarks/live_certificate.py: lists of the rule at four prices on real data, and who clicks on them.

What users like is the best approximation of rank 32 of the interactions; the scores that the rule gets are noisy. Users
look at the places of a list, each with the chance 1 / log2(1 + place), and like an item with a chance that falls with
its rank among all items. With fatigue, the chance falls further with each earlier item of the list, by the share
of their categories that both have. The outcome is whether there is at least one click.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from scipy.sparse.linalg import svds

from recprism.data import load_dataset
from recprism.forms.rule_file import RuleFile
from recprism.serving import ServedRule

Array = NDArray[np.float64]
USERS, CANDIDATES, K, RANK = 300, 100, 10, 32
LOSSES = (0.0, 0.015, 0.04, 0.1)
"""Shares of the clicks that the four prices lose without fatigue, about: none, half, full, double."""


@dataclass(eq=False)
class Planted:
    """Lists of some users of a data set.

    Attributes:
        data: Its name.
        base_rate: Share of base lists with a click, without fatigue.
    """

    data: str
    base_rate: float = 0.3

    def __post_init__(self) -> None:
        dataset = load_dataset(self.data)
        self.categories = dataset.categories.dense() > 0
        taken = dataset.interactions
        generator = np.random.default_rng(7)
        shape = taken.n_users, taken.n_items
        seen = csr_matrix((np.ones(len(taken.user)), (taken.user, taken.item)), shape=shape)
        left, length, right = svds(seen, RANK, v0=np.ones(min(shape)))
        users = generator.choice(shape[0], USERS, replace=False)
        liking = (left[users] * length) @ right
        liking[seen[users].toarray() > 0] = -np.inf
        self.rank = liking.argsort(1)[:, ::-1].argsort(1)
        liking[~np.isfinite(liking)] = -9.0
        self.scores = liking + 0.5 * liking[liking > -9].std() * generator.standard_normal(liking.shape)
        self.scores[liking == -9.0] = -np.inf
        self.candidates = self.scores.argsort(1)[:, : -CANDIDATES - 1 : -1]
        self.rule = ServedRule(RuleFile.of(np.arange(shape[1]), categories=self.categories, k=K, trade_off=0.2))

    def lists(self, price: float) -> NDArray[np.int64]:
        """Return the list of each user at a price, (users, K)."""
        found = [
            self.rule.rerank(some, self.scores[user, some], price=price, reasons=False).ids
            for user, some in enumerate(self.candidates)
        ]
        return np.array(found, np.int64)

    def clicks(self, lists: NDArray[np.int64], fatigue: float, appeal: float) -> Array:
        """Return the chance of at least one click on each list, (users,)."""
        look = 1 / np.log2(np.arange(2, K + 2))
        liked = appeal / (1 + np.take_along_axis(self.rank, lists, 1) / 30)
        has = self.categories[lists].astype(float)
        common = has @ has.swapaxes(1, 2)
        either = has.sum(2)[:, :, None] + has.sum(2)[:, None, :] - common
        repeats = np.tril(common / np.maximum(either, 1.0), -1).sum(2)
        found: Array = 1 - (1 - np.minimum(look * liked, 0.95) * (1 - fatigue) ** repeats).prod(1)
        return found

    @cached_property
    def appeal(self) -> float:
        """The scale of the chances with which base lists have their rate."""
        return root(lambda it: self.clicks(self.lists(0.0), 0.0, it).mean() - self.base_rate, 0.0, 2.0)

    @cached_property
    def prices(self) -> list[float]:
        """The four prices."""
        return [0.0, *(root(lambda it, lost=lost: self.loss(self.lists(it)) - lost, 0.0, 1.0) for lost in LOSSES[1:])]

    def loss(self, lists: NDArray[np.int64]) -> float:
        """Return the share of the clicks on base lists that other lists lose, without fatigue."""
        before, after = (self.clicks(it, 0.0, self.appeal).mean() for it in (self.lists(0.0), lists))
        return float(1 - after / before)

    @cached_property
    def at_prices(self) -> list[NDArray[np.int64]]:
        return [self.lists(price) for price in self.prices]

    def chances(self, fatigue: float) -> Array:
        """Return the chance of a click of each user at each price, (4, users)."""
        return np.array([self.clicks(it, fatigue, self.appeal) for it in self.at_prices])

    @cached_property
    def values(self) -> Array:
        """The diversity of each price: its gain in categories of a list, in gains of the full price, (4,)."""
        covered = np.array([self.categories[it].any(1).sum(1).mean() for it in self.at_prices])
        found: Array = (covered - covered[0]) / (covered[2] - covered[0])
        return found


def root(function, low: float, high: float, steps: int = 12) -> float:  # type: ignore[no-untyped-def]
    """Return where a rising function is 0, by bisection."""
    for _ in range(steps):
        middle = (low + high) / 2
        low, high = (middle, high) if function(middle) < 0 else (low, middle)
    return (low + high) / 2
