"""Each re-ranker against a naive implementation of its definition, and small cases with a known answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from recprism.rivals import DPP, MMR, ExposureAware, SlotFilling, XQuAD
from recprism.rule import Features, category_probabilities

TRADE_OFFS = [0.05, 0.3, 0.5, 0.9, 1.0]
K = 6


def cosines(vectors: Any) -> Any:
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit @ unit.T


def greedy(n: int, k: int, value: Callable[[int, list[int]], float], kept: int = 0) -> list[int]:
    """Choose greedily by ``value(candidate, chosen)``; of equal candidates the first."""
    chosen = list(range(kept))
    while len(chosen) < min(k, n):
        rest = [c for c in range(n) if c not in chosen]
        values = [value(c, chosen) for c in rest]
        chosen.append(next(c for c, worth in zip(rest, values, strict=True) if worth >= max(values) - 1e-9))
    return chosen


def items_at(world: Any, positions: list[list[int]]) -> Any:
    return np.take_along_axis(world.candidates, np.array(positions), 1)


@pytest.mark.parametrize("trade_off", TRADE_OFFS)
def test_mmr_is_its_formula(make_world: Any, trade_off: float) -> None:
    world = make_world(1)
    expected = []
    for items, relevance in zip(world.candidates, world.relevance, strict=True):
        similarity = np.maximum(cosines(world.vectors[items]), 0)

        def value(c: int, chosen: list[int], relevance: Any = relevance, similarity: Any = similarity) -> float:
            nearest = max((similarity[c, other] for other in chosen), default=0.0)
            return float((1 - trade_off) * relevance[c] - trade_off * nearest)

        expected.append([0, *greedy(len(items), K, value, kept=1)[1:]])
    picks = MMR(trade_off=trade_off)(world.candidates, world.scores, K, features=world.features)
    np.testing.assert_array_equal(picks, items_at(world, expected))


@pytest.mark.parametrize("trade_off", TRADE_OFFS)
def test_dpp_maximises_the_log_determinant_greedily(make_world: Any, trade_off: float) -> None:
    world = make_world(2)
    expected = []
    for items, relevance in zip(world.candidates, world.relevance, strict=True):
        similarity = cosines(world.vectors[items])

        def value(c: int, chosen: list[int], relevance: Any = relevance, similarity: Any = similarity) -> float:
            together = [*chosen, c]
            log_det = np.linalg.slogdet(similarity[np.ix_(together, together)])[1]
            return float((1 - trade_off) * relevance[together].sum() + trade_off * log_det)

        expected.append(greedy(len(items), K, value))
    picks = DPP(trade_off=trade_off)(world.candidates, world.scores, K, features=world.features)
    np.testing.assert_array_equal(picks, items_at(world, expected))


def test_dpp_kernel_of_the_paper_gives_the_same_lists(make_world: Any) -> None:
    """The kernel is q_i S_ij q_j with q = exp((1 - t) / (2 t) * relevance), as documented."""
    world, trade_off = make_world(3), 0.35
    expected = []
    for items, relevance in zip(world.candidates, world.relevance, strict=True):
        quality = np.exp((1 - trade_off) / (2 * trade_off) * relevance)
        kernel = quality[:, None] * cosines(world.vectors[items]) * quality

        def value(c: int, chosen: list[int], kernel: Any = kernel) -> float:
            together = [*chosen, c]
            return float(np.linalg.slogdet(kernel[np.ix_(together, together)])[1])

        expected.append(greedy(len(items), K, value))
    picks = DPP(trade_off=trade_off)(world.candidates, world.scores, K, features=world.features)
    np.testing.assert_array_equal(picks, items_at(world, expected))


def xquad_value(relevance: Any, chances: Any, intents: Any, trade_off: float) -> Callable[[int, list[int]], float]:
    def value(c: int, chosen: list[int]) -> float:
        gain = 0.0
        for category, wanted in enumerate(intents):
            missed = np.prod([1 - chances[other, category] for other in chosen])
            gain += wanted * chances[c, category] * missed
        return float((1 - trade_off) * relevance[c] + trade_off * gain)

    return value


@pytest.mark.parametrize("trade_off", TRADE_OFFS)
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("intents", ["user", "uniform"])
def test_xquad_is_its_formula(make_world: Any, trade_off: float, weighted: bool, intents: str) -> None:
    world = make_world(4)
    if weighted:
        world.categories = world.categories * np.random.default_rng(0).uniform(0.1, 1.0, world.categories.shape)
    wanted = world.user_categories / world.user_categories.sum(1, keepdims=True)
    if intents == "uniform":
        wanted = np.full_like(wanted, 1 / wanted.shape[1])
    expected = [
        greedy(len(items), K, xquad_value(relevance, world.categories.astype(np.float32)[items], own, trade_off))
        for items, relevance, own in zip(world.candidates, world.relevance, wanted, strict=True)
    ]
    picks = XQuAD(trade_off=trade_off, intents=intents)(world.candidates, world.scores, K, features=world.features)
    np.testing.assert_array_equal(picks, items_at(world, expected))


def test_gains_that_differ_by_rounding_alone_are_equal() -> None:
    """In floating point 0.1 + 0.2 is above 0.3; the better rank must still win."""
    features = Features(categories=[[0, 0, 1, 0], [1, 1, 0, 0]], user_categories=[[0.1, 0.2, 0.3, 0.4]])
    assert XQuAD(trade_off=1)([[0, 1]], [[1.0, 1.0]], 1, features=features).tolist() == [[0]]


def test_weights_above_one_are_divided_by_the_largest(make_world: Any) -> None:
    world = make_world(5)
    xquad = XQuAD(trade_off=0.8)
    weights = world.categories * np.random.default_rng(0).uniform(0.1, 1.0, world.categories.shape)
    weights[0, 0] = 1.0
    picks = [
        xquad(
            world.candidates,
            world.scores,
            K,
            features=Features(categories=scaled, user_categories=world.user_categories),
        )
        for scaled in (weights, weights * 8)
    ]
    np.testing.assert_array_equal(*picks)


@pytest.mark.parametrize("trade_off", TRADE_OFFS)
@pytest.mark.parametrize("seed", [None, 7])
def test_exposure_counts_each_list_for_later_users(make_world: Any, trade_off: float, seed: int | None) -> None:
    world = make_world(6)
    shown = world.shown.astype(float)
    order = np.arange(12) if seed is None else np.random.default_rng(seed).permutation(12)
    expected = np.empty((12, K), np.int64)
    for user in order:
        items = world.candidates[user]
        value = (1 - trade_off) * world.relevance[user] + trade_off / (1 + shown[items])
        expected[user] = items[np.argsort(-value, kind="stable")[:K]]
        shown[expected[user]] += 1
    rerank = ExposureAware(trade_off=trade_off, seed=seed)
    np.testing.assert_array_equal(rerank(world.candidates, world.scores, K, features=world.features), expected)


def test_exposure_needs_no_features_and_rotates_items() -> None:
    candidates, scores = np.tile(np.arange(4), (4, 1)), np.tile([4.0, 3.0, 2.0, 1.0], (4, 1))
    assert ExposureAware(trade_off=1)(candidates, scores, 1).ravel().tolist() == [0, 1, 2, 3]
    assert ExposureAware(trade_off=0)(candidates, scores, 1).ravel().tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("slots", [0, 1, 3, 6, 9])
def test_slots_by_coverage_keep_the_best_and_fill_the_rest(make_world: Any, slots: int) -> None:
    world = make_world(7)
    kept = max(0, K - slots)

    def new_categories(items: Any) -> Callable[[int, list[int]], float]:
        has = world.categories[items] > 0
        return lambda c, chosen: float((has[c] & ~has[chosen].any(0)).sum())

    expected = [greedy(len(items), K, new_categories(items), kept) for items in world.candidates]
    picks = SlotFilling(slots=slots)(world.candidates, world.scores, K, features=world.features)
    np.testing.assert_array_equal(picks, items_at(world, expected))


def test_slots_by_exposure_count_kept_places_first(make_world: Any) -> None:
    world, kept = make_world(8), K - 2
    shown = world.shown.astype(float)
    np.add.at(shown, world.candidates[:, :kept].ravel(), 1)
    expected = world.candidates[:, :K].copy()
    for user, items in enumerate(world.candidates):
        least = np.argsort(shown[items[kept:]], kind="stable")[:2]
        expected[user, kept:] = items[kept:][least]
        shown[expected[user, kept:]] += 1
    picks = SlotFilling(slots=2, fill="exposure")(world.candidates, world.scores, K, features=world.features)
    np.testing.assert_array_equal(picks, expected)


@pytest.mark.parametrize("trade_off, slots", [(0.0, 0), (0.04, 0), (0.05, 1), (0.1, 1), (0.5, 5), (1.0, 10)])
def test_trade_off_of_slot_filling_is_a_share_of_the_places(make_world: Any, trade_off: float, slots: int) -> None:
    world = make_world(9)
    by_share, by_number = SlotFilling(trade_off=trade_off), SlotFilling(slots=slots)
    np.testing.assert_array_equal(
        by_share(world.candidates, world.scores, 10, features=world.features),
        by_number(world.candidates, world.scores, 10, features=world.features),
    )


# Items 0 and 1 are duplicates, 2 is orthogonal to them, 3 has an all-zero vector.
LITTLE = Features(vectors=[[1, 0, 0], [2, 0, 0], [0, 1, 0], [0, 0, 0]])
SCORES = [[1.0, 0.9, 0.5, 0.0]]


def test_mmr_skips_a_duplicate() -> None:
    assert MMR(trade_off=0.5)([[0, 1, 2, 3]], SCORES, 3, features=LITTLE).tolist() == [[0, 2, 1]]


def test_an_all_zero_vector_adds_no_diversity_in_mmr() -> None:
    """With similarity 0 to all, item 3 would be second; with similarity 1 it comes last."""
    assert MMR(trade_off=1)([[0, 3, 2, 1]], SCORES, 4, features=LITTLE).tolist() == [[0, 2, 3, 1]]


def test_a_chosen_all_zero_vector_does_not_affect_others_in_mmr() -> None:
    assert MMR(trade_off=0.5)([[3, 0, 1, 2]], SCORES, 4, features=LITTLE).tolist() == [[3, 0, 2, 1]]


def test_dpp_beyond_the_rank_of_its_kernel_uses_relevance() -> None:
    """Items 0 and 2 span rank 2; the duplicate and the item without a vector follow in the order of their scores."""
    assert DPP(trade_off=0.5)([[0, 1, 2, 3]], SCORES, 4, features=LITTLE).tolist() == [[0, 2, 1, 3]]
    assert DPP(trade_off=0.5)([[3, 0, 1, 2]], SCORES, 4, features=LITTLE).tolist() == [[0, 2, 3, 1]]


@pytest.mark.parametrize("trade_off", [0.1, 0.5, 1.0])
def test_dpp_with_few_dimensions_fills_up_by_relevance(make_world: Any, trade_off: float) -> None:
    world = make_world(10, dim=3)
    positions = _ranks(world, DPP(trade_off=trade_off)(world.candidates, world.scores, 10, features=world.features))
    for user, ranks in enumerate(positions):
        vectors = world.vectors[world.candidates[user, ranks[:3]]]
        assert abs(np.linalg.det(vectors)) > 1e-6
        assert (np.diff(ranks[3:]) > 0).all(), "after the third direction the rest come in the order of their scores"


def test_dpp_at_a_low_trade_off_accepts_a_far_more_relevant_duplicate() -> None:
    """The floor makes the effect of trade_off continuous: a duplicate costs t * log(FLOOR), which is finite."""
    candidates, scores = [[0, 1, 2, 3]], [[1.0, 0.99, 0.1, 0.0]]
    assert DPP(trade_off=0.02)(candidates, scores, 2, features=LITTLE).tolist() == [[0, 1]]
    assert DPP(trade_off=0.2)(candidates, scores, 2, features=LITTLE).tolist() == [[0, 2]]


def test_similarity_of_categories(make_world: Any) -> None:
    world = make_world(11)
    by_categories = Features(categories=world.categories)
    as_vectors = Features(vectors=world.categories)
    for method in (MMR, DPP):
        np.testing.assert_array_equal(
            method(similarity="categories")(world.candidates, world.scores, K, features=by_categories),
            method(similarity="vectors")(world.candidates, world.scores, K, features=as_vectors),
        )


def test_sorting_back_keeps_the_choice_and_restores_the_order(make_world: Any) -> None:
    world = make_world(12)
    plain = DPP(trade_off=0.7)(world.candidates, world.scores, K, features=world.features)
    back = DPP(trade_off=0.7, sort_back=True)(world.candidates, world.scores, K, features=world.features)
    assert (plain != back).any()
    np.testing.assert_array_equal(np.sort(_ranks(world, plain), 1), _ranks(world, back))


def test_probabilities_of_categories_spread_an_interaction_by_weight() -> None:
    train = [[1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]
    weights = [[3.0, 1.0], [1.0, 0.0], [0.5, 0.5], [0.0, 0.0]]
    expected = [[0.875, 0.125], [0.5, 0.5], [0.0, 0.0]]
    np.testing.assert_allclose(category_probabilities(train, weights), expected)


def test_unknown_users_have_uniform_intents(make_world: Any) -> None:
    world = make_world(13)
    nothing = Features(categories=world.categories, user_categories=np.zeros_like(world.user_categories))
    np.testing.assert_array_equal(
        XQuAD(intents="user")(world.candidates, world.scores, K, features=nothing),
        XQuAD(intents="uniform")(world.candidates, world.scores, K, features=nothing),
    )


def _ranks(world: Any, picks: Any) -> Any:
    """Return the position of each pick among the candidates, (n_users, k)."""
    return (world.candidates[:, None, :] == picks[:, :, None]).argmax(2)
