"""Lists into user vectors: known answers, comparison with another solver, proofs, and measured outcomes."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from recprism.data import SparseRows
from recprism.errors import InputError
from recprism.forms.dials import CompiledVectors, lists_to_vectors
from recprism.forms.dials.wanted import score_spread
from recprism.models import Factors


def world(seed: int, n_users: int = 6, n_items: int = 30, d: int = 6, bias: bool = False) -> tuple[Factors, SparseRows]:
    """Random factors, and a fifth of all pairs seen."""
    generator = np.random.default_rng(seed)
    factors = Factors.from_arrays(
        generator.normal(size=(n_users, d)),
        generator.normal(size=(n_items, d)),
        item_bias=generator.normal(size=n_items) if bias else None,
    )
    return factors, SparseRows.coerce(generator.random((n_users, n_items)) < 0.2)


def random_lists(exclude: SparseRows, k: int, seed: int) -> NDArray[np.int64]:
    """k items of each row that are not excluded."""
    generator = np.random.default_rng(seed)
    noise = np.where(exclude.dense(), -1.0, generator.random(exclude.shape))
    return np.argsort(-noise, axis=1)[:, :k]


def constraints(
    factors: Factors, lists: Any, exclude: SparseRows, row: int, order: bool
) -> tuple[list[tuple[int, int]], Any, Any]:
    """Return all pairs (above, below) of one row, their normals and the differences of their biases."""
    wanted = [int(i) for i in lists[row] if i >= 0]
    outsiders = set(range(factors.n_items)) - set(wanted) - set(exclude.row(row).tolist())
    pairs = [(t, o) for t in wanted for o in sorted(outsiders)]
    pairs += list(itertools.pairwise(wanted)) if order else []
    above, below = np.array(pairs).T
    item = factors.item.astype(np.float64)
    bias = np.zeros(factors.n_items) if factors.item_bias is None else factors.item_bias.astype(np.float64)
    return pairs, item[above] - item[below], bias[above] - bias[below]


def change_of(compiled: CompiledVectors) -> NDArray[np.float32]:
    assert compiled.perturbation.user is not None
    return compiled.perturbation.user.numpy()


def same_bits(a: CompiledVectors, b: CompiledVectors) -> bool:
    return np.array_equal(change_of(a), change_of(b)) and np.array_equal(a.support.weight, b.support.weight)


def test_a_small_case_with_a_known_answer() -> None:
    # Item 0 scores 1 and item 1 scores 0; item 1 is wanted. The nearest vector lies on the line of equal scores, moved
    # by the margin: x = (1, 0) + w * (-1, 1) with x . (-1, 1) = margin.
    factors = Factors.from_arrays([[1.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]])
    compiled = lists_to_vectors(factors, [[1]], margin=0.1)
    assert compiled.margin[0] == pytest.approx(0.05)  # the spread of the scores 1 and 0 is 1/2
    assert change_of(compiled)[0] == pytest.approx([-0.525, 0.525])
    assert (compiled.support.above.tolist(), compiled.support.below.tolist()) == ([1], [0])
    assert compiled.support.weight[0] == pytest.approx(0.525)
    assert compiled.support.items.tolist() == [0, 1]
    assert compiled.given.tolist() == [[1]]
    assert compiled.size == pytest.approx(0.525 * 2**0.5)
    assert compiled.sizes.tolist() == [pytest.approx(compiled.size)]
    assert compiled.mean_change == pytest.approx(0.525)
    assert compiled.sentence() == "All 1 lists come back exactly from the new vectors."


@pytest.mark.parametrize("seed", range(40))
def test_another_solver_finds_the_same_vectors(seed: int) -> None:
    from scipy.optimize import minimize

    generator = np.random.default_rng(seed)
    d, k, order = int(generator.integers(2, 7)), int(generator.integers(1, 5)), seed % 3 == 0
    factors, exclude = world(seed, n_users=3, n_items=14, d=d, bias=seed % 2 == 0)
    lists = random_lists(exclude, k, seed)
    compiled = lists_to_vectors(factors, lists, exclude=exclude, margin=0.05, order=order)
    for user in np.flatnonzero(compiled.feasible):
        _, normals, bias = constraints(factors, lists, exclude, user, order)
        p = factors.user[user].astype(np.float64)
        limits = {
            "type": "ineq",
            "fun": lambda x, a=normals, b=compiled.margin[user] - bias: a @ x - b,
            "jac": lambda _, a=normals: a,
        }
        other = minimize(
            lambda x, p=p: 0.5 * ((x - p) ** 2).sum(),
            p,
            jac=lambda x, p=p: x - p,
            constraints=limits,
            method="SLSQP",
            options={"maxiter": 500, "ftol": 1e-13},
        )
        assert other.success
        assert p + change_of(compiled)[user] == pytest.approx(other.x, abs=2e-5, rel=2e-5)


@given(st.integers(0, 10_000), st.booleans(), st.booleans())
def test_multipliers_explain_the_change_and_proofs_hold(seed: int, order: bool, bias: bool) -> None:
    # With few factors and long lists, some users are feasible and some are not.
    factors, exclude = world(seed, d=4, bias=bias)
    lists = random_lists(exclude, 2, seed)
    compiled = lists_to_vectors(factors, lists, exclude=exclude, margin=0.05, order=order)
    for user in range(factors.n_users):
        pairs, normals, known = constraints(factors, lists, exclude, user, order)
        asked = compiled.margin[user] - known
        number = {pair: place for place, pair in enumerate(pairs)}
        proof = compiled.proof.of_user(user)
        if compiled.feasible[user]:
            assert len(proof) == 0
            own = compiled.support.of_user(user)
            active = [number[pair] for pair in zip(own.above.tolist(), own.below.tolist(), strict=True)]
            moved = own.weight @ normals[active] if active else np.zeros(factors.dim)
            scale = 1 + np.abs(moved).max()
            assert change_of(compiled)[user] == pytest.approx(moved, abs=1e-5 * scale)
            x = factors.user[user] + moved
            assert (normals @ x - asked >= -1e-6 * scale).all()
            assert normals[active] @ x == pytest.approx(asked[active], abs=1e-6 * scale)
            assert (own.weight > 0).all()
        else:
            chosen = [number[pair] for pair in zip(proof.above.tolist(), proof.below.tolist(), strict=True)]
            assert (proof.weight > 0).all()
            assert np.abs(proof.weight @ normals[chosen]).max() < 1e-7 * proof.weight.sum()
            assert proof.weight @ asked[chosen] > 0


def test_an_item_between_others_cannot_be_first_and_there_is_a_proof() -> None:
    # Item 2 is the mean of items 0 and 1: for any vector, one of them scores at least as high.
    factors = Factors.from_arrays([[1.0, 0.5]], [[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
    compiled = lists_to_vectors(factors, [[2]])
    assert compiled.feasible.tolist() == [False]
    assert sorted(zip(compiled.proof.above.tolist(), compiled.proof.below.tolist(), strict=True)) == [(2, 0), (2, 1)]
    assert compiled.proof.weight[0] == pytest.approx(compiled.proof.weight[1])
    assert compiled.kept.tolist() == [0.0]
    assert compiled.sentence().endswith("For 1 users no vector returns the wanted lists.")


def test_the_feasible_part_of_an_infeasible_list_is_kept() -> None:
    # As above, and items 3 and 4 are wanted too, which is possible. Two of the three come back.
    item = [[1.0, 0, 0, 0], [0, 1.0, 0, 0], [0.5, 0.5, 0, 0], [0, 0, 1.0, 0], [0, 0, 0, 1.0], [0, 0, -1, -1]]
    compiled = lists_to_vectors(Factors.from_arrays([[1.0, 0.5, 0.0, 0.0]], item), [[2, 3, 4]])
    assert not compiled.feasible[0]
    assert compiled.kept.tolist() == [pytest.approx(2 / 3)]


@given(st.integers(0, 10_000))
def test_current_lists_change_nothing(seed: int) -> None:
    factors, exclude = world(seed)
    lists, scores = factors.rank(5, exclude=exclude)
    gap = (scores[:, 4] - factors.rank(6, exclude=exclude)[1][:, 5]) / score_spread(factors)
    compiled = lists_to_vectors(factors, lists, exclude=exclude, margin=float(gap.min()) * 0.99)
    assert not change_of(compiled).any()
    assert len(compiled.support) == 0
    assert (compiled.kept == 1).all()
    # Nothing changes with order=True either, because the margin is tiny.
    assert (lists_to_vectors(factors, lists, exclude=exclude, margin=1e-9, order=True).in_order == 1).all()


@given(st.integers(0, 10_000), st.booleans())
def test_kept_is_measured_by_ranking(seed: int, bias: bool) -> None:
    factors, exclude = world(seed, n_users=8, d=5, bias=bias)
    lists = random_lists(exclude, 4, seed)
    lists[0, 2:], lists[1, :] = -1, -1  # a short list and an empty one
    compiled = lists_to_vectors(factors, lists, exclude=exclude)
    given_back, _ = compiled.applied_to(factors).rank(4, exclude=exclude)
    for row in range(8):
        wanted = [i for i in lists[row] if i >= 0]
        first = given_back[row][: len(wanted)].tolist()
        assert compiled.kept[row] == (np.mean([i in first for i in wanted]) if wanted else 1.0)
        neighbours = [
            a in first and b in first and first.index(a) < first.index(b) for a, b in itertools.pairwise(wanted)
        ]
        assert compiled.in_order[row] == (np.mean(neighbours) if neighbours else 1.0)
    assert (compiled.kept[compiled.feasible] == 1).all()


@given(st.integers(0, 10_000))
def test_any_short_list_comes_back_in_its_order(seed: int) -> None:
    factors, exclude = world(seed, d=24)
    lists = random_lists(exclude, 5, seed)
    compiled = lists_to_vectors(factors, lists, exclude=exclude, order=True)
    assert (compiled.given[compiled.feasible] == lists[compiled.feasible]).all()
    assert (compiled.in_order[compiled.feasible] == 1).all()
    loose = lists_to_vectors(factors, lists, exclude=exclude)
    assert (
        np.linalg.norm(change_of(loose), axis=1)[compiled.feasible]
        <= np.linalg.norm(change_of(compiled), axis=1)[compiled.feasible] + 1e-6
    ).all()


def test_equal_scores() -> None:
    # Two items with the same vector tie for any user, and the lower number ranks first. For a zero user vector, all
    # items tie.
    item = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    factors = Factors.from_arrays([[0.5, 1.0, 0.5], [0.0, 0.0, 0.0]], item)
    compiled = lists_to_vectors(factors, [[2], [3]])
    assert compiled.feasible.tolist() == [False, True]
    assert compiled.kept[1] == 1.0
    assert (compiled.proof.above.tolist(), compiled.proof.below.tolist()) == ([2], [1])


def test_one_vector_returns_several_lists_of_a_user() -> None:
    factors, _ = world(3, n_users=4, d=12)
    first = np.array([[4, 9, 11], [2, 5, 8], [4, 9, 11]])
    users = np.array([2, 0, 2])
    gone = SparseRows.from_pairs(np.array([2, 2]), np.array([4, 9]), (3, 30))  # out of stock in row 2
    lists = np.array([first[0], first[1], [11, 20, -1]])
    compiled = lists_to_vectors(factors, lists, users=users, exclude=gone)
    assert compiled.feasible.all()
    assert (compiled.kept == 1).all()
    assert not change_of(compiled)[[1, 3]].any()
    vectors = compiled.applied_to(factors)
    assert set(vectors.rank(2, users=np.array([2]), exclude=np.eye(30)[[4, 9]].sum(0)[None].repeat(4, 0))[0][0]) == {
        11,
        20,
    }
    assert set(compiled.support.user.tolist()) <= {0, 2}


def test_any_number_of_threads_gives_the_same_bits() -> None:
    factors, exclude = world(5, n_users=300, n_items=200, d=8)
    lists = random_lists(exclude, 10, 5)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        one = lists_to_vectors(factors, lists, exclude=exclude)
        torch.set_num_threads(2)
        two = lists_to_vectors(factors, lists, exclude=exclude)
    finally:
        torch.set_num_threads(before)
    assert same_bits(one, two)


def test_lists_without_constraints_change_nothing() -> None:
    factors, _ = world(7, n_users=4, n_items=6)
    all_items = np.tile([0, 1, 2, 3, 4, 5, -1, -1], (4, 1))
    only_two = np.ones((4, 6))
    only_two[:, :2] = 0
    for lists, options in (
        (np.empty((0, 3), np.int64), {"users": np.empty(0, np.int64)}),
        (np.full((4, 2), -1), {}),
        (all_items, {}),  # no items outside the list
        (np.tile([1, 0], (4, 1)), {"exclude": only_two}),  # all other items are excluded
    ):
        compiled = lists_to_vectors(factors, lists, **options)
        assert compiled.size == 0
        assert (compiled.kept == 1).all()
        assert len(compiled.support) == 0
        assert compiled.sentence().startswith(f"All {len(lists)} lists come back")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"lists": [0, 1]}, "lists have shape"),
        ({"lists": [[0.5], [1.0]]}, "item numbers"),
        ({"lists": [[0], [5]]}, "list 1 holds an item number outside 0 .. 4"),
        ({"lists": [[1, 1], [2, 3]]}, "list 0 holds an item twice"),
        ({"lists": [[0]]}, "1 lists for 2 users"),
        ({"users": [0, 2]}, "users run from 0 to 2"),
        ({"users": [[0], [1]]}, "users have shape"),
        ({"exclude": np.zeros((3, 5))}, r"exclude has shape \(3, 5\)"),
        ({"exclude": np.eye(2, 5)}, "list 0 wants item 0, which exclude forbids"),
        ({"margin": 0.0}, "margin is 0.0"),
    ],
)
def test_bad_input_raises_an_error(change: dict[str, Any], message: str) -> None:
    factors = Factors.from_arrays(np.ones((2, 3)), np.arange(15).reshape(5, 3))
    arguments: dict[str, Any] = {"lists": [[0], [1]], **change}
    with pytest.raises(InputError, match=message):
        lists_to_vectors(factors, **arguments)
