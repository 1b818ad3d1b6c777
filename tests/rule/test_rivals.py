"""MSD, SSD, windowed DPP, PM-2, calibration and P-MMF against naive implementations of their formulas."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from recprism.errors import InputError
from recprism.metrics import Context, Lists, evaluate
from recprism.rivals import DPP, MSD, PM2, PMMF, SSD, Calibrated, SlidingDPP
from recprism.rivals._kernels.providers import _allow
from recprism.rivals.pmmf import ENOUGH
from recprism.rule import Features

TRADE_OFFS = [0.05, 0.5, 1.0]
WINDOWS = [1, 3, None]
K = 8
Value = Callable[[int, list[int]], float]


def greedy(n: int, k: int, value: Value) -> list[int]:
    """Choose greedily by ``value(candidate, chosen)``; of equal candidates the first."""
    chosen: list[int] = []
    while len(chosen) < min(k, n):
        rest = [c for c in range(n) if c not in chosen]
        values = [value(c, chosen) for c in rest]
        chosen.append(next(c for c, worth in zip(rest, values, strict=True) if worth >= max(values) - 1e-9))
    return chosen


def assert_greedy(rerank: Any, world: Any, value_of: Callable[[int], Value]) -> None:
    """The re-ranker's lists are those of the greedy choice by ``value_of(user)``."""
    picks = rerank(world.candidates, world.scores, K, features=world.features)
    expected = [greedy(len(items), K, value_of(user)) for user, items in enumerate(world.candidates)]
    np.testing.assert_array_equal(picks, np.take_along_axis(world.candidates, np.array(expected), 1))


def unit_vectors(world: Any, user: int) -> Any:
    vectors = world.vectors[world.candidates[user]]
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.mark.parametrize("trade_off", TRADE_OFFS)
def test_msd_adds_up_distances(make_world: Any, trade_off: float) -> None:
    world = make_world(21)

    def value_of(user: int) -> Value:
        distance = 1 - unit_vectors(world, user) @ unit_vectors(world, user).T
        return lambda c, chosen: (1 - trade_off) * world.relevance[user, c] + trade_off * distance[c, chosen].sum()

    assert_greedy(MSD(trade_off=trade_off), world, value_of)


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("trade_off", TRADE_OFFS)
@pytest.mark.parametrize("bias", [False, True])
def test_ssd_is_gram_schmidt_in_a_window(make_world: Any, trade_off: float, window: int | None, bias: bool) -> None:
    world = make_world(22)
    earlier = (K if window is None else window) - 1

    def value_of(user: int) -> Value:
        unit = unit_vectors(world, user)
        if bias:
            unit = np.hstack([unit, np.ones((len(unit), 1))]) / np.sqrt(2)

        def rest_of(vector: Any, bases: list[Any]) -> Any:
            for basis in bases[-earlier:] if earlier else []:
                vector = vector - (vector @ basis) / (basis @ basis) * basis
            return vector

        def value(c: int, chosen: list[int]) -> float:
            bases: list[Any] = []
            for item in chosen:
                bases.append(rest_of(unit[item], bases))
            return float(
                (1 - trade_off) * world.relevance[user, c] + trade_off * np.linalg.norm(rest_of(unit[c], bases))
            )

        return value

    assert_greedy(SSD(trade_off=trade_off, window=window, bias=bias), world, value_of)


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("trade_off", TRADE_OFFS)
def test_a_windowed_dpp_takes_determinants_of_neighbours(make_world: Any, trade_off: float, window: int | None) -> None:
    world = make_world(23)

    def value_of(user: int) -> Value:
        similarity = unit_vectors(world, user) @ unit_vectors(world, user).T

        def log_det(some: list[int]) -> float:
            return float(np.linalg.slogdet(similarity[np.ix_(some, some)])[1]) if some else 0.0

        def value(c: int, chosen: list[int]) -> float:
            last = chosen if window is None else chosen[len(chosen) - min(window - 1, len(chosen)) :]
            return (1 - trade_off) * world.relevance[user, c] + trade_off * (log_det([*last, c]) - log_det(last))

        return value

    assert_greedy(SlidingDPP(trade_off=trade_off, window=window), world, value_of)


def test_a_window_over_everything_is_the_plain_dpp(make_world: Any) -> None:
    world = make_world(24, coarse=True, padded=True)
    for trade_off in TRADE_OFFS:
        plain, whole = (
            method(world.candidates, world.scores, K, features=world.features)
            for method in (DPP(trade_off=trade_off), SlidingDPP(trade_off=trade_off, window=None))
        )
        np.testing.assert_array_equal(whole, plain)


@pytest.mark.parametrize("trade_off", TRADE_OFFS)
@pytest.mark.parametrize("focus", [0.0, 0.5, 0.8, 1.0])
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_pm2_is_its_formula(make_world: Any, trade_off: float, focus: float, weighted: bool) -> None:
    world = make_world(25)
    if weighted:
        world.categories = world.categories * np.random.default_rng(0).uniform(0.1, 1.0, world.categories.shape)
    votes = world.user_categories / world.user_categories.sum(1, keepdims=True)

    def value_of(user: int) -> Value:
        chances = world.categories.astype(np.float32).astype(float)[world.candidates[user]]

        def value(c: int, chosen: list[int]) -> float:
            seats = sum((chances[i] / chances[i].sum() for i in chosen if chances[i].any()), np.zeros(6))
            quotients = votes[user] / (2 * seats + 1)
            quotients = quotients / quotients.sum()
            turn = int(np.argmax(quotients))
            others = sum(quotients[s] * chances[c, s] for s in range(6) if s != turn)
            gain = focus * quotients[turn] * chances[c, turn] + (1 - focus) * others
            return float((1 - trade_off) * world.relevance[user, c] + trade_off * gain)

        return value

    assert_greedy(PM2(trade_off=trade_off, focus=focus), world, value_of)


def test_pm2_allocates_places_like_seats() -> None:
    """With votes of 6 : 3 : 1 and one category per item, ten places are divided into six, three and one."""
    categories = np.repeat(np.eye(3), 10, axis=0)
    features = Features(categories=categories, user_categories=[[6, 3, 1]])
    picks = PM2(trade_off=1, focus=1)([np.arange(30)], [np.zeros(30)], 10, features=features)
    assert categories[picks[0]].sum(0).tolist() == [6, 3, 1]


@pytest.mark.parametrize("trade_off", TRADE_OFFS)
@pytest.mark.parametrize("alpha", [0.01, 0.4])
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_calibrated_is_its_formula(make_world: Any, trade_off: float, alpha: float, weighted: bool) -> None:
    world = make_world(26, coarse=weighted)  # in a coarse world some user weights are 0
    world.scores = -np.sort(-np.random.default_rng(1).normal(size=world.scores.shape), axis=1)
    if weighted:
        world.categories = world.categories * np.random.default_rng(0).uniform(0.1, 1.0, world.categories.shape)
    wanted = world.user_categories / world.user_categories.sum(1, keepdims=True)

    def value_of(user: int) -> Value:
        weights = world.categories.astype(np.float32).astype(float)[world.candidates[user]]
        p = wanted[user]

        def value(c: int, chosen: list[int]) -> float:
            shares = [weights[i] / weights[i].sum() for i in (*chosen, c) if weights[i].any()]
            q = np.mean(shares, axis=0) if shares else np.zeros(6)
            mixed = (1 - alpha) * q + alpha * p
            divergence = sum(a * np.log(a / b) for a, b in zip(p, mixed, strict=True) if a > 0)
            return float((1 - trade_off) * world.relevance[user, c] - trade_off * divergence)

        return value

    assert_greedy(Calibrated(trade_off=trade_off, alpha=alpha), world, value_of)


def test_calibrated_lists_score_better_by_the_metric(make_world: Any) -> None:
    world = make_world(27, n_users=40)
    train = np.random.default_rng(0).random((40, 40)) < 0.2
    context = Context(train=train, categories=world.categories)
    features = Features(categories=world.categories, user_categories=context.history)
    scores = [
        evaluate(
            Lists(Calibrated(trade_off=t)(world.candidates, world.scores, K, features=features), context),
            metrics=["calibration"],
        ).scores[0]
        for t in (0.0, 0.5, 1.0)
    ]
    assert scores[0].mean > scores[1].mean >= scores[2].mean


def pmmf_lists(world: Any, providers: Any, order: Any, *, trade_off: float, capacity: float | None) -> Any:
    """The paper's algorithm at its defaults, in terms of prices, with a projection by bisection."""
    offered = np.unique(world.candidates)
    names, sizes = np.unique(providers[offered], return_counts=True)
    share, n_places = sizes / sizes.sum(), K * len(world.candidates)
    left = (len(names) if capacity is None else capacity) * n_places * share
    price, momentum = np.zeros(len(names)), np.zeros(len(names))
    eta = K / len(names) ** 2 / np.sqrt(n_places / len(names))
    expected = np.empty((len(world.candidates), K), np.int64)
    for user in order:
        items = world.candidates[user]
        provider = np.searchsorted(names, providers[items])
        value = (1 - trade_off) * world.relevance[user] - trade_off * price[provider]
        best = greedy(len(items), K, lambda c, _, value=value: float(value[c]))
        expected[user] = items[best]
        exposure = np.bincount(provider[best], minlength=len(names))
        left = left - exposure
        momentum = 0.1 * (left / n_places - exposure / K) + 0.9 * momentum
        price = nearest_allowed(price - eta * momentum / share**2, share)
    return expected


def nearest_allowed(price: Any, share: Any) -> Any:
    """Project by sum((share * change) ** 2) onto prices whose premiums (negative share * price) sum to at least -1."""
    low, high = 0.0, float(np.abs(share * price).max())
    if np.minimum(share * price, 0).sum() >= -1:
        return price
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if np.minimum(share * price + middle, 0).sum() < -1 else (low, middle)
    return np.where(price < 0, np.minimum(share * price + high, 0) / share, price)


@pytest.mark.parametrize("trade_off", TRADE_OFFS)
@pytest.mark.parametrize("capacity", [None, 1.2])
@pytest.mark.parametrize("grouped", [False, True], ids=["items", "groups"])
@pytest.mark.parametrize("seed", [None, 3])
def test_pmmf_is_mirror_descent_on_prices(
    make_world: Any, trade_off: float, capacity: float | None, grouped: bool, seed: int | None
) -> None:
    world = make_world(28, n_users=30)
    providers = np.arange(40) ** 2 // 300 + 2 if grouped else np.arange(40)
    features = Features(providers=providers) if grouped else None
    rerank = PMMF(trade_off=trade_off, capacity=capacity, seed=seed)
    order = np.arange(30) if seed is None else np.random.default_rng(seed).permutation(30)
    np.testing.assert_array_equal(
        rerank(world.candidates, world.scores, K, features=features),
        pmmf_lists(world, providers, order, trade_off=trade_off, capacity=capacity),
    )


def test_the_projection_of_prices_is_exact() -> None:
    """A random search finds no allowed point that is nearer than the projection."""
    generator = np.random.default_rng(0)
    for _ in range(50):
        point = generator.normal(size=6)
        found = point.copy()
        _allow(found, np.minimum(point, 0).sum(), ENOUGH)
        assert np.minimum(found, 0).sum() >= -1 - 1e-9
        tries = found + generator.normal(size=(2000, 6)) * generator.uniform(0.001, 0.5, (2000, 1))
        allowed = tries[np.minimum(tries, 0).sum(1) >= -1]
        assert (np.linalg.norm(allowed - point, axis=1) >= np.linalg.norm(found - point) - 1e-9).all()


def test_pmmf_shows_items_without_exposure() -> None:
    """All users prefer the same ten of forty items: a little fairness shows all items, at a cost in relevance."""
    candidates, scores = np.tile(np.arange(40), (200, 1)), np.tile(np.linspace(1, 0, 40), (200, 1))
    covered = [len(np.unique(PMMF(trade_off=t)(candidates, scores, 10))) for t in (0, 0.5, 1)]
    assert covered == [10, 40, 40]
    strict = PMMF(trade_off=0.9, capacity=1.0)(candidates, scores, 10)
    exposure = np.bincount(strict.ravel(), minlength=40)
    assert exposure.max() <= 1.2 * exposure.mean(), "just enough capacity makes exposure equal"


# Items 0 and 1 are duplicates, 2 is orthogonal to them, 3 is opposite to 0, 4 has an all-zero vector.
LITTLE = Features(vectors=[[1, 0, 0], [2, 0, 0], [0, 1, 0], [-1, 0, 0], [0, 0, 0]])


def lists(method: Any, candidates: list[int], k: int) -> list[int]:
    scores = np.linspace(1, 0, len(candidates))
    return method([candidates], [scores], k, features=LITTLE)[0].tolist()


def test_all_zero_vectors_add_no_diversity() -> None:
    assert lists(MSD(trade_off=0.9), [0, 4, 1, 2, 3], 3) == [0, 3, 1]  # 1 is as far from both together as 2
    assert lists(SSD(trade_off=0.9), [4, 0, 1, 2, 3], 3) == [0, 3, 2]
    assert lists(SlidingDPP(trade_off=0.9), [4, 0, 1, 2], 2) == [0, 2]


def test_opposite_vectors_are_duplicates_only_without_bias() -> None:
    assert lists(SSD(trade_off=0.9, bias=True), [0, 3, 2], 2) == [0, 3]
    assert lists(SSD(trade_off=0.9, bias=False), [0, 3, 2], 2) == [0, 2]


def test_items_outside_the_window_do_not_count() -> None:
    """With a window of two only the neighbour counts, so a duplicate of the first item can take the third place."""
    for method in (SlidingDPP, SSD):
        assert lists(method(trade_off=0.9, window=2), [0, 1, 2], 3) == [0, 2, 1]
    assert lists(SlidingDPP(trade_off=0.5, window=2), [0, 2, 1, 3], 4) == [0, 2, 1, 3]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SSD(window=0), "window is 0; pass a whole number of at least 1, or None for the whole list"),
        (lambda: SlidingDPP(window=2.5), "window is .+; pass a whole number"),
        (lambda: PM2(focus=2), "focus is 2; pass a number from 0 to 1"),
        (lambda: PM2(intents="mine"), "intents is 'mine'; choose one of user, uniform"),
        (lambda: Calibrated(alpha=0), "alpha is 0; pass a number above 0 and below 1"),
        (lambda: PMMF(step=0), "step is .+; pass a number above 0"),
        (lambda: PMMF(capacity="much"), "capacity is .+; pass a number above 0"),
        (lambda: PMMF(momentum=1.5), "momentum is .+; pass a number from 0 to 1"),
        (lambda: PMMF(seed=-1), "seed is -1; pass a whole number from 0"),
        (lambda: Features(providers=[0, 0.5]), "providers holds values that are not whole"),
        (lambda: Features(providers=[0, -1]), "providers holds negative values"),
        (lambda: Features(providers=[0, 1], shown=[1]), r"disagree on the number of items \(shown: 1, providers: 2\)"),
    ],
)
def test_invalid_settings_raise_an_error(make: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()
