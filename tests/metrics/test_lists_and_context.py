"""Input is checked, and messages say what to do."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array

from recprism.data.categories import Categories
from recprism.data.interactions import Interactions
from recprism.data.sparse_rows import SparseRows
from recprism.data.split import split_interactions
from recprism.errors import InputError
from recprism.metrics import METRICS, Context, Lists, evaluate
from recprism.metrics.context import categories_of_users
from recprism.metrics.operations import Kernels


@pytest.mark.parametrize(
    ("items", "message"),
    [
        (np.zeros(3, int), r"shape \(n_users, k\) with k at least 1, got \(3,\)"),
        (np.zeros((3, 0), int), "k at least 1"),
        (np.zeros((3, 2)), "item numbers"),
        (np.zeros((3, 2), bool), "item numbers"),
        (np.zeros((2, 2), int), "2 lists and the context has 3 users"),
        ([[0, 1], [0, 6], [0, 1]], "user 1 holds item 6 at place 2; items go from 0 to 5"),
        ([[0, 1], [0, 2], [-3, 1]], "user 2 holds item -3 at place 1"),
        ([[0, 1], [4, 4], [0, 1]], "user 1 holds item 4 more than once"),
    ],
)
def test_unsound_lists_are_refused(world: Context, items: NDArray[np.int64], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Lists(items, world)


def test_lists_from_a_trusted_source_need_no_check(world: Context) -> None:
    assert Lists([[0, 0], [1, 1], [2, 2]], world, check=False).k == 2


def test_arrays_torch_cannot_share_are_copied(items: NDArray[np.int64]) -> None:
    frozen = np.ones((6, 2))
    frozen.setflags(write=False)
    backwards = items[:, ::-1]
    assert Lists(backwards, Context(vectors=frozen)).items.tolist() == backwards.tolist()


def test_lists_take_any_integers(world: Context) -> None:
    for items in (np.zeros((3, 1), np.int32), torch.zeros((3, 1), dtype=torch.int16), [[0], [0], [0]]):
        assert Lists(items, world).items.dtype == torch.int64


def test_cuts_share_what_was_computed(
    world: Context, items: NDArray[np.int64], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []
    lists = Lists(items, world)

    class Counting(Kernels):
        def growth(self, *args):  # type: ignore[no-untyped-def]
            calls.append("growth")
            return super().growth(*args)

    monkeypatch.setattr(lists, "_kernels", Counting())
    for k in (1, 2, 4):
        METRICS["subtopic_coverage"](lists.at(k))
        METRICS["subtopic_coverage_shared"](lists.at(k))
    assert calls == ["growth"]


@pytest.mark.parametrize("k", [0, 5, -1])
def test_a_cut_must_lie_in_the_lists(world: Context, items: NDArray[np.int64], k: int) -> None:
    with pytest.raises(InputError, match=f"a cut at {k} is not possible: the lists have 4 places"):
        Lists(items, world).at(k)


def test_hits_and_lengths(world: Context, items: NDArray[np.int64]) -> None:
    lists = Lists(items, world).at(3)
    assert lists.hits.tolist() == [[True, False, True], [False, True, False], [False, False, False]]
    assert lists.lengths.tolist() == [3, 2, 3]
    assert lists.real.tolist() == [[True] * 3, [True, True, False], [True] * 3]
    assert lists.exposure.tolist() == [2, 1, 2, 1, 1, 1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "an empty context cannot judge anything"),
        (
            {"relevant": np.eye(3), "vectors": np.ones((4, 2))},
            r"disagree on the number of items \(relevant: 3, vectors: 4",
        ),
        ({"vectors": np.ones(3)}, r"vectors must have shape \(n_items, d\)"),
        ({"vectors": [[np.nan]]}, "item vectors hold NaN"),
        ({"popularity": [[1, 2]]}, "popularity must be"),
        ({"popularity": [1, -2]}, "none below 0"),
        ({"categories": [[1, -1]]}, "weights of categories hold -1"),
        ({"categories": np.eye(2), "user_categories": np.ones((3, 5), bool)}, "one column per category, 2"),
        (
            {"categories": np.eye(2), "relevant": np.eye(2), "user_categories": np.ones((3, 2), bool)},
            "3 rows and relevant 2",
        ),
        ({"user_categories": np.ones((3, 2), bool), "n_items": 4}, r"Context\(categories="),
    ],
)
def test_inconsistent_contexts_are_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Context(**arguments)


@pytest.mark.parametrize("name", METRICS)
def test_a_metric_says_what_it_lacks_and_how_to_give_it(name: str) -> None:
    metric = METRICS[name]
    if not metric.needs:
        return
    with pytest.raises(InputError, match=rf"{name}@5 cannot be computed: it needs .*Context\("):
        evaluate(np.arange(20)[None], Context(n_items=30), [f"{name}@5"])
    with pytest.raises(InputError, match=r"needed but not given: .*Context\("):
        metric(Lists(np.arange(20)[None], Context(n_items=30)))


def test_a_context_knows_only_its_own_parts() -> None:
    with pytest.raises(InputError, match="a context never holds 'weather'"):
        Context(n_items=3).has("weather")


def test_sparse_dense_and_named_input_mean_the_same() -> None:
    weights = np.array([[1, 0], [0, 2], [3, 1], [0, 0]], np.float32)
    incidence = SparseRows.coerce(weights)
    named = Categories(("a", "b"), incidence, weights[incidence.row_of_entry, incidence.indices])
    relevant = np.array([[1, 0, 1, 0]])
    found = [
        evaluate(
            [[2, 1, 3]], Context(relevant=r, categories=s), ["subtopic_coverage_shared@3", "recall@3"], bootstrap=0
        ).to_dict()
        for r, s in (
            (relevant, weights),
            (csr_array(relevant), csr_array(weights)),
            (SparseRows.coerce(relevant), named),
        )
    ]
    assert found[0] == found[1] == found[2]
    assert Context(categories=incidence).categories.weights.tolist() == [1, 1, 1, 1]


def test_a_category_without_items_does_not_count() -> None:
    named = Categories(("a", "b", "nobody's"), SparseRows.from_pairs(np.array([0, 1]), np.array([0, 1]), (2, 3)))
    result = evaluate(
        [[0, 1]],
        Context(categories=named),
        ["subtopic_coverage", "subtopic_coverage_shared", "subtopic_entropy"],
        bootstrap=0,
    )
    assert [score.mean for score in result.scores] == pytest.approx([1, 1, 1])


def test_other_vectors_leave_the_rest_alone(world: Context, items: NDArray[np.int64]) -> None:
    turned = world.with_vectors(torch.ones(6, 3, requires_grad=True))
    before, after = (evaluate(items, c, ["ilad@4", "alpha_ndcg@4"], bootstrap=0) for c in (world, turned))
    assert after["ilad@4"].mean == pytest.approx(0, abs=1e-6) != before["ilad@4"].mean
    assert after["alpha_ndcg@4"].mean == before["alpha_ndcg@4"].mean
    assert turned.categories is world.categories
    with pytest.raises(InputError, match="n_items = 6"):
        world.with_vectors(torch.ones(5, 3))


def test_the_history_is_that_of_training_and_needs_categories(items: NDArray[np.int64]) -> None:
    train, categories = [[1, 1, 0], [0, 0, 1], [0, 0, 0]], [[1, 0], [3, 1], [0, 0]]
    context = Context(train=train, categories=categories)
    assert context.history.tolist() == [[0.875, 0.125], [0, 0], [0, 0]]
    assert not Context(train=train).has("history")
    elsewhere = Context(train=train, categories=categories, relevant=np.eye(3)[:2], user_categories=np.ones((2, 2)))
    with pytest.raises(InputError, match="train has 3 users and the context 2"):
        _ = elsewhere.history


def test_categories_of_users_come_from_all_their_items() -> None:
    categories = Categories.from_pairs(np.array([0, 1, 1, 2]), ["a", "b", "c", "c"], 4)
    interactions = SparseRows.coerce([[1, 0, 0, 0], [0, 1, 0, 1], [0, 0, 0, 1], [1, 0, 1, 0]])
    expected = [[True, False, False], [False, True, True], [False, False, False], [True, False, True]]
    assert categories_of_users(interactions, categories).tolist() == expected


@pytest.mark.parametrize("part", ["validation", "test"])
def test_a_context_from_a_split_never_looks_ahead(toy_interactions: Interactions, part: str) -> None:
    split = split_interactions(toy_interactions, "random", seed=0)
    categories = Categories.from_pairs(np.arange(split.n_items), [f"s{i}" for i in range(split.n_items)], split.n_items)
    context = Context.from_split(split, part, categories=categories)
    known = split.train.dense() | split.validation.dense() | (split.test.dense() if part == "test" else False)
    assert context.popularity.tolist() == split.train.col_counts.tolist()
    assert context.relevant.counts.tolist() == split.part(part).row_counts.tolist()
    columns = [categories.names.index(f"s{item}") for item in range(split.n_items)]
    assert np.array_equal(context.user_categories.numpy()[:, columns], known)
