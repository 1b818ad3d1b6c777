"""The conformance suite of metrics."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recprism.common.checks import random_generator
from recprism.metrics import Context, Lists, Metric

DEPTH = 20


@dataclass(frozen=True, eq=False)
class _World:
    """Lists and everything a metric can ask for, as arrays that can be re-ordered."""

    items: NDArray[np.int64]
    relevant: NDArray[np.bool_]
    train: NDArray[np.bool_]
    categories: NDArray[np.float64]
    vectors: NDArray[np.float64]

    @cached_property
    def context(self) -> Context:
        return Context(
            relevant=self.relevant,
            train=self.train,
            categories=self.categories,
            vectors=self.vectors,
            attributes=self.categories,
        )

    @cached_property
    def lists(self) -> Lists:
        return Lists(self.items, self.context)

    def with_items(self, items: NDArray[np.int64]) -> Lists:
        return Lists(items, self.context)

    def renumbered(self, order: NDArray[np.int64]) -> _World:
        """The same world with the items in another order."""
        number = np.append(np.argsort(order), -1)  # the last is for empty places
        by_item = (self.relevant[:, order], self.train[:, order], self.categories[order], self.vectors[order])
        return _World(number[self.items], *by_item)

    def with_users(self, order: NDArray[np.int64]) -> _World:
        """The same world with the users in another order."""
        return _World(self.items[order], self.relevant[order], self.train[order], self.categories, self.vectors)


@dataclass(frozen=True, eq=False)
class _Variants:
    """A world, and what must not make a difference: numbers of items, the order of users, of places, empty places."""

    world: _World
    cut: int
    renumbered: _World
    users: NDArray[np.int64]
    moved: _World
    shuffled: Lists
    padded: Lists
    short: Lists


def check_metric(
    metric: Metric, *, order_matters: bool = True, numbering_matters: bool = False, seeds: Iterable[int] = range(25)
) -> None:
    """Check that a metric is what it declares to be, in small random worlds.

    Every metric must declare a summary, what happens to empty lists, and its bounds. Its values must lie within the
    bounds. They must not depend on the numbers of items, the order of users, or empty places after the cut. A metric at
    a cut must equal the same metric of lists of that length.

    Args:
        metric: The metric; it need not be registered.
        order_matters: Whether the order inside a list may change the value. Pass False for metrics of sets.
        numbering_matters: Whether ties are broken by item number, so that numbering items differently may change the
            value.
        seeds: One random world each.

    Raises:
        AssertionError: The metric does not conform; the message names the metric and the property.

    >>> from recprism.metrics import METRICS
    >>> check_metric(METRICS["recall"], order_matters=False)
    """
    _require(metric.summary.endswith("."), metric, "has no summary that ends with a full stop")
    _require(metric.empties.endswith("."), metric, "does not say in `empties` what happens to empty lists")
    _require(metric.bounds[0] < metric.bounds[1], metric, "has bounds that are not in order")
    for seed in seeds:
        _check_in(_variants(seed, max(DEPTH, metric.min_places)), metric, order_matters, numbering_matters)


def _check_in(these: _Variants, metric: Metric, order_matters: bool, numbering_matters: bool) -> None:
    value = _value(metric, these.world.lists)
    _check_bounds(metric, these.world.lists)
    _check_bounds(metric, these.world.lists.at(these.cut))
    if not numbering_matters:
        _require_same(_value(metric, these.renumbered.lists), value, metric, "depends on the numbers of items")
    expected = value[these.users] if value.ndim else value
    _require_same(_value(metric, these.moved.lists), expected, metric, "depends on the order of users")
    if not order_matters:
        _require_same(_value(metric, these.shuffled), value, metric, "depends on the order inside a list")
    padded = these.padded.at(these.world.lists.k)
    _require_same(_value(metric, padded), value, metric, "depends on empty places after the cut")
    if metric.min_places == 1:
        at_cut = _value(metric, these.world.lists.at(these.cut))
        _require_same(_value(metric, these.short), at_cut, metric, "at a cut differs from lists of that length")


def _check_bounds(metric: Metric, lists: Lists) -> None:
    values = _value(metric, lists)
    expected = (lists.n_users,) if metric.per_user else ()
    _require(values.shape == expected, metric, f"has values of shape {values.shape}, not {expected}")
    low, high = metric.bounds
    known = values[~np.isnan(values)]
    inside = (known >= low - 1e-9) & (known <= high + 1e-6)
    _require(bool(inside.all()), metric, f"leaves its bounds {metric.bounds}: {known[~inside][:3]}")


@lru_cache(maxsize=64)
def _variants(seed: int, depth: int) -> _Variants:
    generator = random_generator(seed)
    world = _random_world(generator, depth)
    n_users, n_items = world.relevant.shape
    users, cut = generator.permutation(n_users), int(generator.integers(1, depth + 1))
    return _Variants(
        world,
        cut,
        world.renumbered(generator.permutation(n_items)),
        users,
        world.with_users(users),
        world.with_items(generator.permuted(world.items, axis=1)),
        world.with_items(np.pad(world.items, ((0, 0), (0, 3)), constant_values=-1)),
        world.with_items(world.items[:, :cut]),
    )


def _random_world(generator: np.random.Generator, depth: int) -> _World:
    """Items have at most one category: then greedy ideals have one value, however equal gains are ordered."""
    n_users, n_items = generator.integers(2, 9), generator.integers(depth, 2 * depth + 1)
    items = np.argsort(generator.random((n_users, n_items)), axis=1)[:, :depth]
    items[generator.random(items.shape) < generator.choice([0.0, 0.3])] = -1
    n_categories = int(generator.integers(1, 7))
    categories = np.eye(n_categories + 1)[generator.integers(0, n_categories + 1, n_items)][:, 1:]
    relevant, train = (generator.random((n_users, n_items)) < generator.choice([0.02, 0.3]) for _ in range(2))
    vectors = generator.standard_normal((n_items, 4)) * (generator.random((n_items, 1)) < 0.9)
    return _World(items, relevant, train, categories, vectors)


def _value(metric: Metric, lists: Lists) -> NDArray[Any]:
    return metric(lists).cpu().numpy()


def _require_same(found: NDArray[Any], expected: NDArray[Any], metric: Metric, problem: str) -> None:
    _require(np.allclose(found, expected, rtol=1e-5, atol=2e-6, equal_nan=True), metric, problem)


def _require(holds: bool, metric: Metric, problem: str) -> None:
    if not holds:
        raise AssertionError(f"metric {metric.name!r} {problem}")
