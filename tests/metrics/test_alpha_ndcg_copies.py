"""Every implementation of alpha-DCG agrees with one plain definition.

The arithmetic is repeated where a shared function would cost speed or change bits: compiled loops and torch operations
of the metrics, the greedy ideal, the search for optimal lists, and the marginal worth of items. A change in one of them
alone fails here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from recprism.cmb.credit.worth import MARGINAL_GAINS
from recprism.metrics import METRICS, Context, Lists
from recprism.metrics.compiled import COMPILED
from recprism.metrics.ideal import catalogue_alpha_dcg
from recprism.metrics.lists import kernels_for
from recprism.metrics.operations import PLAIN, Kernels, discounts, worth_of_repeats
from recprism.rule import Features, ListSearch
from recprism.rule import list_search as optimal_module
from recprism.rule.kernels import exchange, prices, worth
from recprism.rule.pool import Pool

Floats = NDArray[np.float64]
KERNELS = {"torch": PLAIN, "numba": COMPILED}
TIE = 1e-9
ORDERED_WORTH, FRESHNESS = (numba.njit(it.py_func) for it in (worth.ordered_worth, worth.freshness))


@dataclass(frozen=True)
class World:
    """Lists over a catalogue of items with categories.

    Attributes:
        items: ``(n_users, k)`` item numbers, -1 in empty places.
        member: ``(n_items, n_categories)`` bool.
        open_to: ``(n_users, n_categories)`` bool, the categories that count for a user.
        alpha: The loss of worth of a repeated category. Powers of 1 - alpha are exact, so that equal gains are equal in
            every order of summation.
    """

    items: NDArray[np.int64]
    member: NDArray[np.bool_]
    open_to: NDArray[np.bool_]
    alpha: float


@st.composite
def worlds(draw: st.DrawFn) -> World:
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))
    n_users, n_items, k = draw(st.integers(1, 6)), draw(st.integers(4, 25)), draw(st.integers(1, 12))
    items = np.argsort(generator.random((n_users, max(n_items, k))), axis=1)[:, :k]
    items[(items >= n_items) | (generator.random(items.shape) < draw(st.sampled_from([0.0, 0.2])))] = -1
    n_categories = draw(st.integers(1, 7))
    member = generator.random((n_items, n_categories)) < 0.35
    open_to = generator.random((n_users, n_categories)) < 0.7
    return World(items, member, open_to, draw(st.sampled_from([0.5, 0.25, 0.75, 0.0, 1.0])))


def gain(item: int, seen: NDArray[np.int64], member: NDArray[np.bool_], alpha: float) -> float:
    """What an item adds after categories that came ``seen`` times before, without the discount of its place."""
    return float(((1 - alpha) ** seen)[member[item]].sum()) if item >= 0 else 0.0


def gains(items: list[int], member: NDArray[np.bool_], alpha: float) -> Floats:
    """(k,) what each item adds after those before it: the definition of Clarke et al. (2008)."""
    seen, found = np.zeros(member.shape[1], np.int64), []
    for item in items:
        found.append(gain(item, seen, member, alpha))
        seen += member[item] if item >= 0 else 0
    return np.array(found)


def dcg(gains_in_order: Floats) -> Floats:
    """(k,) alpha-DCG of the first 1, 2, ... k places."""
    return np.cumsum(gains_in_order / np.log2(np.arange(2, len(gains_in_order) + 2)))


def greedy(items: list[int], depth: int, member: NDArray[np.bool_], alpha: float) -> list[int]:
    """The next item adds most; of equals the earliest. -1 when there are no more."""
    left, chosen, seen = list(items), [], np.zeros(member.shape[1], np.int64)
    for _ in range(depth):
        offers = [gain(item, seen, member, alpha) for item in left]
        if not left:
            chosen.append(-1)
            continue
        item = left.pop(next(at for at, offer in enumerate(offers) if offer >= max(offers) - TIE))
        chosen.append(item)
        seen += member[item] if item >= 0 else 0
    return chosen


def categories_of(world: World) -> Any:
    return Context(categories=world.member.astype(np.float32)).categories


def test_tables_of_discounts_and_worth() -> None:
    np.testing.assert_array_equal(discounts(30).numpy(), 1 / np.log2(np.arange(2, 32)))
    np.testing.assert_array_equal(worth_of_repeats(0.5, 500).numpy(), np.ldexp(1.0, -np.arange(501)))
    np.testing.assert_allclose(worth_of_repeats(0.25, 12).numpy(), 0.75 ** np.arange(13.0), rtol=1e-15)


@pytest.mark.parametrize("kernels", KERNELS.values(), ids=KERNELS)
@settings(max_examples=40)
@given(worlds(), st.booleans())
def test_the_kernels_of_the_metrics(kernels: Kernels, world: World, gated: bool) -> None:
    open_to = torch.from_numpy(world.open_to) if gated else None
    settings = (torch.from_numpy(world.items), categories_of(world), world.alpha, open_to)
    found, best = kernels.alpha_dcg(*settings).T, kernels.best_alpha_dcg(*settings).T
    for user, items in enumerate(world.items.tolist()):
        member = world.member & world.open_to[user] if gated else world.member
        np.testing.assert_allclose(found[user], dcg(gains(items, member, world.alpha)), rtol=1e-9, atol=1e-12)
        ideal = greedy(items, len(items), member, world.alpha)
        np.testing.assert_allclose(best[user], dcg(gains(ideal, member, world.alpha)), rtol=1e-9, atol=1e-12)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_the_kernels_of_a_gpu() -> None:
    generator = np.random.default_rng(0)
    items = np.argsort(generator.random((20, 25)), axis=1)[:, :10]
    context = Context(categories=(generator.random((25, 7)) < 0.35).astype(np.float32), device="cuda")
    kernels = kernels_for(torch.device("cuda"))
    found = kernels.alpha_dcg(torch.from_numpy(items).cuda(), context.categories, 0.5, None).T.cpu()
    member = context.categories.member[:-1].cpu().numpy()
    for user, row in enumerate(items.tolist()):
        np.testing.assert_allclose(found[user], dcg(gains(row, member, 0.5)), rtol=1e-9)


@settings(max_examples=40)
@given(worlds(), st.booleans())
def test_the_ideal_of_the_catalogue(world: World, gated: bool) -> None:
    k = world.items.shape[1]
    found = catalogue_alpha_dcg(
        categories_of(world), world.alpha, k, torch.from_numpy(world.open_to) if gated else None
    )
    for user in range(len(world.open_to) if gated else 1):
        member = world.member & world.open_to[user] if gated else world.member
        ideal = greedy(list(range(len(member))), k, member, world.alpha)
        np.testing.assert_allclose(found[user], dcg(gains(ideal, member, world.alpha)), rtol=1e-9, atol=1e-12)


@settings(max_examples=40)
@given(worlds())
def test_the_registered_metric(world: World) -> None:
    k = world.items.shape[1]
    metric = METRICS["alpha_ndcg"].variant("here", {"alpha": world.alpha})
    found = metric(Lists(world.items, Context(categories=world.member.astype(np.float32))))
    ideal = dcg(gains(greedy(list(range(len(world.member))), k, world.member, world.alpha), world.member, world.alpha))
    for user, items in enumerate(world.items.tolist()):
        value = dcg(gains(items, world.member, world.alpha))[-1]
        assert found[user] == pytest.approx(value / ideal[-1] if ideal[-1] > 0 else 0.0)


@settings(max_examples=40)
@given(worlds(), st.integers(1, 6))
def test_the_worth_of_items_in_marginal_credit(world: World, n_outside: int) -> None:
    """Inside the list, the gain at the item's own place; outside, the gain in the last place."""
    k = world.items.shape[1]
    outside = np.arange(n_outside) % len(world.member)
    candidates = np.concatenate([world.items, np.tile(outside, (len(world.items), 1))], axis=1)
    context = Context(categories=world.member.astype(np.float32))
    found = MARGINAL_GAINS["alpha_ndcg"](torch.from_numpy(candidates), k, context)
    for user, items in enumerate(world.items.tolist()):
        own = gains(items, world.member, 0.5)
        entering = [gains([*items[:-1], item], world.member, 0.5)[-1] for item in outside.tolist()]
        discount = 1 / np.log2(np.arange(2, k + 2))
        np.testing.assert_allclose(found[user, :k], own * discount, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(found[user, k:], np.array(entering) * discount[-1], rtol=1e-5, atol=1e-6)


def search_terms(member: NDArray[np.bool_], k: int) -> tuple[Any, ...]:
    """The ``goals`` of the kernels of ``ListSearch`` for alpha-nDCG alone, built as the search builds them."""
    features, no_intents = Features(categories=member.astype(np.float32)), np.zeros(0)
    pool = Pool.of(np.arange(len(member))[None], np.zeros((1, len(member))), features.device, features.n_items)
    terms = optimal_module.terms_of(ListSearch(trade_off=1.0, goals={"alpha_ndcg": 1.0}), pool, k, features)
    shown = np.zeros(len(member), np.int64)
    indptr, indices, _ = terms.categories
    return (
        indptr,
        indices,
        *terms.directions,
        shown,
        terms.prices,
        terms.discount,
        terms.fading,
        no_intents,
        terms.filling,
        np.ones(member.shape[1]),
        np.zeros(0),
    )


@settings(max_examples=40)
@given(worlds())
def test_the_search_for_optimal_lists(world: World) -> None:
    """The worth of a list, of one item at its place, and of the list shifted down by one place."""
    n_items = len(world.member)
    k = min(world.items.shape[1], n_items)
    chosen = np.random.default_rng(n_items).permutation(n_items)[:k]
    goals, left = search_terms(world.member, k), np.ones(world.member.shape[1])
    items, relevance, price = np.arange(n_items), np.zeros(n_items), goals[5][worth.ALPHA_DCG]
    expected = gains(chosen.tolist(), world.member, prices.ALPHA)
    found = ORDERED_WORTH(chosen, items, relevance, goals, left)
    assert found == pytest.approx(price * dcg(expected)[-1])
    left[:] = 1.0
    for place, item in enumerate(chosen.tolist()):
        assert FRESHNESS(item, goals[0], goals[1], left) == pytest.approx(expected[place])
        at_place = exchange._worth_at(place, item, items, relevance, goals, left, np.ones_like(left))
        assert at_place == pytest.approx(price * expected[place] / np.log2(place + 2))
        left *= np.where(world.member[item], 1 - prices.ALPHA, 1.0)
    before, own, later = np.ones((k + 1, len(left))), np.zeros(k + 1), np.zeros(k + 1)
    exchange._stand_in_order(items, relevance, chosen, goals, before, own, later)
    np.testing.assert_allclose(own[1:], price * dcg(expected), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(later[1:k], price * dcg(np.insert(expected, 0, 0.0))[1:k], rtol=1e-9, atol=1e-12)
