"""What must hold in any world."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from recprism.metrics import METRICS, Context, Lists

DEPTH = 20
ORDER_FREE = {  # metrics of the set of items, not of its order
    *("recall", "precision", "hit_rate", "subtopic_coverage", "subtopic_coverage_shared", "subtopic_entropy"),
    *("ilad", "ilad_subtopics", "ilad_attributes", "ilad_paper", "min_ild", "min_ild_subtopics", "min_ild_attributes"),
    *("catalogue_coverage", "gini", "exposure_entropy", "personalisation", "tail_share", "novelty", "calibration"),
}
Values = dict[str, NDArray[np.float64]]


@dataclass(frozen=True)
class World:
    """Arrays first, so that they can be re-ordered; a context second."""

    items: NDArray[np.int64]
    relevant: NDArray[np.bool_]
    train: NDArray[np.bool_]
    subtopics: NDArray[np.float64]
    vectors: NDArray[np.float64]

    @property
    def context(self) -> Context:
        return Context(
            relevant=self.relevant,
            train=self.train,
            subtopics=self.subtopics,
            vectors=self.vectors,
            attributes=self.subtopics,
        )

    def values(self, items: NDArray[np.int64] | None = None, k: int = DEPTH) -> Values:
        lists = Lists(self.items if items is None else items, self.context).at(k)
        return {name: metric(lists).numpy() for name, metric in METRICS.items()}


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """At most one subtopic per item: greedy ideals then have one value, however equal gains are ordered."""
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))
    n_users, n_items = draw(st.integers(2, 8)), draw(st.integers(DEPTH, 40))
    items = np.argsort(generator.random((n_users, n_items)), axis=1)[:, :DEPTH]
    items[generator.random(items.shape) < draw(st.sampled_from([0.0, 0.3]))] = -1
    n_subtopics = draw(st.integers(1, 6))
    subtopics = np.eye(n_subtopics + 1)[generator.integers(0, n_subtopics + 1, n_items)][:, 1:]
    return World(
        items,
        generator.random((n_users, n_items)) < draw(st.sampled_from([0.02, 0.3])),
        generator.random((n_users, n_items)) < draw(st.sampled_from([0.02, 0.3])),
        subtopics,
        generator.standard_normal((n_items, 4)) * (generator.random((n_items, 1)) < 0.9),
    )


def assert_same(found: Values, expected: Values, names: set[str] | None = None) -> None:
    for name in names or METRICS:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-5, atol=2e-6, err_msg=name)


@settings(max_examples=25)
@given(worlds(), st.integers(1, DEPTH))
def test_values_lie_within_the_bounds_a_metric_declares(world: World, k: int) -> None:
    for name, values in world.values(k=k).items():
        low, high = METRICS[name].bounds
        judged = values[~np.isnan(values)]
        assert (judged >= low - 1e-9).all(), name
        assert (judged <= high + 1e-6).all(), name
        assert values.shape == ((len(world.items),) if METRICS[name].per_user else ()), name


@settings(max_examples=25)
@given(worlds(), st.integers(0, 2**32))
def test_numbering_items_otherwise_changes_nothing(world: World, seed: int) -> None:
    order = np.random.default_rng(seed).permutation(world.relevant.shape[1])
    new_number = np.append(np.argsort(order), -1)  # the last is for empty places
    renumbered = World(
        new_number[world.items],
        world.relevant[:, order],
        world.train[:, order],
        world.subtopics[order],
        world.vectors[order],
    )
    # which of equally popular items still belongs to the head goes by number
    by_popularity = {"tail_share", "ndcg_head", "ndcg_mid", "ndcg_tail"}
    assert_same(renumbered.values(), world.values(), set(METRICS) - by_popularity)


@settings(max_examples=25)
@given(worlds(), st.integers(0, 2**32))
def test_ordering_users_otherwise_changes_nothing(world: World, seed: int) -> None:
    order = np.random.default_rng(seed).permutation(len(world.items))
    moved = World(world.items[order], world.relevant[order], world.train[order], world.subtopics, world.vectors)
    expected = {name: values[order] if values.ndim else values for name, values in world.values().items()}
    assert_same(moved.values(), expected)


@settings(max_examples=25)
@given(worlds(), st.integers(0, 2**32))
def test_order_inside_a_list_does_not_matter_to_metrics_of_sets(world: World, seed: int) -> None:
    shuffled = np.random.default_rng(seed).permuted(world.items, axis=1)
    assert_same(world.values(shuffled), world.values(), ORDER_FREE)


@settings(max_examples=25)
@given(worlds(), st.integers(1, DEPTH))
def test_a_cut_is_the_same_as_lists_of_that_length(world: World, k: int) -> None:
    lists = Lists(world.items, world.context)
    short = Lists(world.items[:, :k], lists.context)
    for name, metric in METRICS.items():
        if metric.min_places == 1:
            torch.testing.assert_close(metric(lists.at(k)), metric(short), equal_nan=True, msg=name)


@settings(max_examples=25)
@given(worlds())
def test_empty_places_at_the_end_change_nothing_at_a_cut_before_them(world: World) -> None:
    padded = np.pad(world.items, ((0, 0), (0, 3)), constant_values=-1)
    assert_same(world.values(padded), world.values())


@given(st.integers(2, 6), st.integers(2, DEPTH), st.floats(0.01, 0.99))
def test_a_list_of_one_subtopic_is_below_the_catalogue_ideal_but_ideal_to_itself(
    n_subtopics: int, k: int, alpha: float
) -> None:
    """The list ideal scores order alone: the flaw that made the catalogue ideal the default."""
    subtopics = np.repeat(np.eye(n_subtopics), DEPTH, axis=0)
    lists = Lists(np.arange(DEPTH)[None], Context(subtopics=subtopics)).at(k)
    catalogue, itself = (METRICS[name].variant("here", {"alpha": alpha}) for name in ("alpha_ndcg", "alpha_ndcg_list"))
    assert catalogue(lists).item() < 1
    assert itself(lists).item() == 1.0


@settings(max_examples=25)
@given(worlds())
def test_a_list_of_the_users_own_items_is_calibrated(world: World) -> None:
    """Training items themselves as the list: nothing is further from their proportions than they are."""
    own = np.array([np.pad(np.flatnonzero(row), (0, 40))[: world.train.shape[1]] for row in world.train])
    own[np.arange(own.shape[1]) >= world.train.sum(1)[:, None]] = -1
    exact = METRICS["calibration"](Lists(own, world.context)).numpy()
    np.testing.assert_allclose(exact[~np.isnan(exact)], 0, atol=1e-12)
    assert np.isnan(exact).tolist() == (~(world.train.astype(float) @ world.subtopics).any(1)).tolist()


@pytest.mark.parametrize("name", ["alpha_ndcg_list", "alpha_ndcg_paper"])
def test_twenty_items_of_one_subtopic_score_exactly_one_under_the_list_ideal(name: str) -> None:
    context = Context(relevant=np.ones((1, 40)), train=np.zeros((1, 40)), subtopics=np.repeat(np.eye(2), 20, axis=0))
    for k in (10, 20):
        assert METRICS[name](Lists(np.arange(20)[None], context).at(k)).item() == 1.0


def test_a_greedy_ideal_can_be_beaten_and_is_not_clipped() -> None:
    """All gain 2 at first; greedy takes item 0, after which 1 and 2 add 1 each. Better: 1, 2 and then 0 for nothing."""
    context = Context(subtopics=[[1, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 1]])
    metric = METRICS["alpha_ndcg"].variant("strict", {"alpha": 1.0})
    second, third = 1 / np.log2(3), 1 / 2
    beaten = metric(Lists([[1, 2, 0]], context)).item()
    assert beaten == pytest.approx((2 + 2 * second) / (2 + second + third))
    assert beaten > 1
