"""Lists into named weights: known answers, HiGHS on the same rows, the least-L2 point, and what is held."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import linprog, minimize

from recprism.data import Categories, Dataset, SparseRows, load_dataset
from recprism.errors import InputError
from recprism.forms.dials import Dials, lists_to_dials
from recprism.forms.dials.named import covered
from recprism.forms.dials.wanted import score_spread
from recprism.models import BPRMF, Factors
from recprism.rule import Features
from recprism.rule.list_search import ListSearch

SCALES = (0.9, 1.0, 1.1)
Rows = tuple[NDArray[np.float64], NDArray[np.float64]]


def world(
    seed: int, *, n_users: int = 12, n_items: int = 40, m: int = 6, k: int = 5, numeric: bool = False
) -> tuple[Factors, NDArray[np.int64], Categories, SparseRows]:
    """Random factors, properties and seen items, and lists of the best items after a random push towards categories."""
    generator = np.random.default_rng(seed)
    user, item = (np.round(generator.normal(size=(n, 4)) * 64) / 64 for n in (n_users, n_items))  # exact in float32
    values = generator.random((n_items, m)) if numeric else generator.random((n_items, m)) < 0.3
    push = generator.random((n_users, m)) * (generator.random((n_users, m)) < 0.4) * 2
    exclude = SparseRows.coerce(generator.random((n_users, n_items)) < 0.2)
    scores = user @ item.T + push @ values.T + generator.normal(scale=0.3, size=(n_users, n_items)) * (seed % 2)
    lists = np.argsort(np.where(exclude.dense(), np.inf, -scores), axis=1)[:, :k]
    return Factors.from_arrays(user, item), lists.astype(np.int64), categories_of(values), exclude


def categories_of(values: Any, names: list[str] | None = None) -> Categories:
    """Categories with these weights, items x categories."""
    table = np.asarray(values, float)
    item, column = np.nonzero(table)
    named = np.array(names or [f"category {j:02}" for j in range(table.shape[1])])
    return Categories.from_pairs(item, named[column], len(table), table[item, column])


spread_of = cache(score_spread)


@cache
def groups_of(categories: Categories) -> NDArray[np.int64]:
    return np.unique(categories.dense(), axis=0, return_inverse=True)[1].ravel()


def rows_of(base: Factors, dials: Dials, exclude: SparseRows, row: int, *, best_only: bool = False) -> Rows:
    """Write down the rows a . w >= b of a user, at each scale, in units of scores.

    Of other items with equal categories, the best one implies the rows of the rest: ``best_only`` leaves these out.
    """
    user = dials.users[row]
    scores = base.search_vectors[0][user].astype(np.float64) @ base.search_vectors[1].astype(np.float64).T
    values = dials.categories.dense().astype(np.float64)
    wanted = [int(i) for i in dials.lists[row] if i >= 0]
    others = np.setdiff1d(np.arange(base.n_items), np.concatenate([wanted, exclude.row(row)]))
    if best_only:
        others = others[np.argsort(-scores[others], kind="stable")]
        others = others[np.unique(groups_of(dials.categories)[others], return_index=True)[1]]
    above, below = np.repeat(wanted, len(others)), np.tile(others, len(wanted))
    if dials.ordered:
        above, below = np.concatenate([above, wanted[:-1]]), np.concatenate([below, wanted[1:]])
    difference = values[above] - values[below]
    distance = np.abs(difference).sum(1)
    needed = scores[below] - scores[above]
    needed += spread_of(base)[user] * (dials.margin + dials.rounding * distance)
    scales = [scale for scale in SCALES if dials.scales[0] <= scale <= dials.scales[1]]
    return np.vstack([scale * difference for scale in scales]), np.tile(needed, len(scales))


def both_ways(rows: Rows) -> Rows:
    return np.hstack([rows[0], -rows[0]]), rows[1]


def cost_of(dials: Dials) -> NDArray[np.float64]:
    new, old = (covered(dials.categories.dense(), it) for it in (dials.lists, dials.base_lists))
    return np.where(new & ~old, 1.0, 2.0)


def highs(rows: Rows, cost: NDArray[np.float64]) -> Any:
    tight = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    return linprog(cost, A_ub=-rows[0], b_ub=-rows[1], method="highs-ds", options=tight)


def require_equal_to_highs(base: Factors, dials: Dials, exclude: SparseRows, *, best_only: bool = False) -> int:
    """Compare feasibility and objective of every changed user; return how many were feasible."""
    cost, feasible = cost_of(dials), 0
    for row in np.flatnonzero(dials.changed):
        user = dials.users[row]
        other = highs(rows_of(base, dials, exclude, row, best_only=best_only), cost[row])
        assert other.status in (0, 2)
        assert dials.feasible[user] == (other.status == 0), row
        if other.status == 0:
            assert float(cost[row] @ dials.weights[user]) == pytest.approx(other.fun, rel=1e-9, abs=1e-12)
            a, b = rows_of(base, dials, exclude, row)
            assert (a @ dials.weights[user] - b).min() > -1e-8
            feasible += 1
    return feasible


class TestKnownAnswers:
    def test_one_weight_boosts_the_only_item_of_its_property(self) -> None:
        """Scores 3, 2, 1; the list wants items 0 and 2; only item 2 has the property. It must pass 2 by the margin."""
        base = Factors.from_arrays([[1.0]], [[3.0], [2.0], [1.0]])
        categories = categories_of([[0.0], [0.0], [1.0]], ["rare"])
        dials = lists_to_dials(base, [[0, 2]], categories, rounding=0.0, margin=1e-3, scales=(1.0, 1.0))
        spread = float(score_spread(base)[0])
        assert dials.weights[0] == pytest.approx([1 + 1e-3 * spread])
        assert dials.lists_held == 1 and dials.explained_swaps == 1 and dials.dials_per_changed_user == 1
        wide = lists_to_dials(base, [[0, 2]], categories, rounding=0.1, margin=1e-3)
        assert wide.weights[0] == pytest.approx([(1 + 0.101 * spread) / 0.9])

    def test_what_is_new_costs_half(self) -> None:
        """Item 2 has two properties and either would do; the one that the base list has already costs twice as much."""
        base = Factors.from_arrays([[1.0]], [[3.0], [2.0], [1.0]])
        categories = categories_of([[1, 0], [0, 0], [1, 1]], ["old", "new"])
        dials = lists_to_dials(base, [[0, 2]], categories)
        assert list(dials.of_user(0)) == ["new"]

    def test_equal_costs_share_the_weight(self) -> None:
        """Two new properties of one item cost the same: the least-L2 point takes half of each."""
        base = Factors.from_arrays([[1.0]], [[3.0], [2.0], [1.0]])
        categories = categories_of([[0, 0], [0, 0], [1, 1]], ["one", "two"])
        weights = lists_to_dials(base, [[0, 2]], categories).weights[0]
        assert weights[0] == pytest.approx(weights[1]) and weights[0] > 0

    def test_nothing_helps_against_equal_properties(self) -> None:
        base = Factors.from_arrays([[1.0]], [[3.0], [2.0], [1.0]])
        categories = categories_of([[0.0], [1.0], [1.0]], ["both"])
        dials = lists_to_dials(base, [[0, 2]], categories)
        assert not dials.feasible[0] and dials.same_property_pairs == 1 and dials.lists_held == 0
        assert "For 1 user no weights" in dials.sentence()

    def test_an_unchanged_list_needs_no_weight(self) -> None:
        base, _, categories, exclude = world(0)
        dials = lists_to_dials(base, base.rank(5, exclude=exclude)[0], categories, exclude=exclude)
        assert not dials.weights.any() and dials.changed_users == 0 and dials.lists_held == 1
        assert dials.feasible.all() and "all weights are 0" in dials.sentence()


class TestAgainstHighs:
    @settings(max_examples=40)
    @given(st.integers(0, 10_000), st.booleans(), st.booleans(), st.booleans())
    def test_random_worlds(self, seed: int, numeric: bool, robust: bool, ordered: bool) -> None:
        base, lists, categories, exclude = world(seed, numeric=numeric)
        options: dict[str, Any] = {} if robust else {"rounding": 0.0, "scales": (1.0, 1.0)}
        dials = lists_to_dials(base, lists, categories, exclude=exclude, ordered=ordered, **options)
        require_equal_to_highs(base, dials, exclude)

    @pytest.mark.slow
    def test_many_properties(self) -> None:
        base, lists, categories, exclude = world(3, n_users=40, n_items=300, m=60, k=10)
        dials = lists_to_dials(base, lists, categories, exclude=exclude)
        assert require_equal_to_highs(base, dials, exclude) > 5

    @pytest.mark.parametrize("name", ["ml-1m", "amazon-cds-2014"])
    def test_a_thousand_users(self, real_data: Any, name: str) -> None:
        data = load_dataset(name, preset="paper", data_root=real_data)
        base, lists, exclude, users = optimal_lists(data, 1_000)
        dials = lists_to_dials(base, lists, data.categories, exclude=exclude, users=users)
        assert require_equal_to_highs(base, dials, exclude, best_only=True) > 500


def optimal_lists(data: Dataset, n: int) -> tuple[Factors, NDArray[np.int64], SparseRows, NDArray[np.int64]]:
    """A model whose scores float32 holds exactly, and optimal lists of its first n users."""
    split = data.split(seed=0)
    trained = BPRMF(dim=16, epochs=10).fit(split, seed=0, device="cpu")
    coarse = {side: np.round(getattr(trained, side) * 256) / 256 for side in ("user", "item")}
    base = trained.with_vectors(**coarse)
    users = np.arange(n)
    exclude = split.seen_before("test").take_rows(users)
    candidates, scores = base.of_users(users).rank(100, exclude=exclude)
    lists = ListSearch(trade_off=0.3)(candidates, scores, 10, features=Features(categories=data.categories))
    return base, np.asarray(lists, np.int64), exclude, users


class TestDemotion:
    @given(st.integers(0, 10_000), st.booleans())
    def test_helps_where_promotion_is_not_enough(self, seed: int, numeric: bool) -> None:
        """Users whose list promotion holds keep their weights; for the others HiGHS has each column twice."""
        base, lists, categories, exclude = world(2 * seed + 1, numeric=numeric)
        first = lists_to_dials(base, lists, categories, exclude=exclude)
        dials = lists_to_dials(base, lists, categories, exclude=exclude, demote=True)
        assert (dials.weights[first.feasible] == first.weights[first.feasible]).all()
        cost = cost_of(dials)
        for row in np.flatnonzero(~first.feasible):
            price = np.concatenate([cost[row], np.full(len(categories), 2.0)])
            other = highs(both_ways(rows_of(base, dials, exclude, row)), price)
            assert dials.feasible[row] == (other.status == 0)
            if other.status == 0:
                weights = dials.weights[row]
                paid = price @ np.concatenate([np.maximum(weights, 0), np.maximum(-weights, 0)])
                assert paid == pytest.approx(other.fun, rel=1e-9)
        assert dials.held[dials.feasible].all()


class TestTheLeastPoint:
    @given(st.integers(0, 10_000))
    def test_equals_a_quadratic_program(self, seed: int) -> None:
        base, lists, categories, exclude = world(seed, n_users=4, n_items=20, m=4, k=3)
        dials = lists_to_dials(base, lists, categories, exclude=exclude)
        cost = cost_of(dials)
        for row in np.flatnonzero(dials.changed & dials.feasible[dials.users]):
            a, b = rows_of(base, dials, exclude, row)
            weights = dials.weights[row]
            best = float(cost[row] @ weights)
            face = [
                {"type": "ineq", "fun": lambda w, a=a, b=b: a @ w - b, "jac": lambda _, a=a: a},
                {"type": "ineq", "fun": lambda w, c=cost[row], z=best: z - c @ w, "jac": lambda _, c=cost[row]: -c},
            ]
            other = minimize(
                lambda w: w @ w,
                highs((a, b), cost[row]).x,
                jac=lambda w: 2 * w,
                bounds=[(0, None)] * len(weights),
                constraints=face,
                method="SLSQP",
                options={"ftol": 1e-14, "maxiter": 500},
            )
            assert float(weights @ weights) <= float(other.fun) * (1 + 1e-5) + 1e-9
            assert (a @ weights - b).min() > -1e-5 and weights.min() >= 0

    @given(st.integers(0, 10_000), st.booleans())
    def test_does_not_depend_on_the_order_of_items_and_properties(self, seed: int, numeric: bool) -> None:
        base, lists, categories, exclude = world(seed, numeric=numeric)
        first = lists_to_dials(base, lists, categories, exclude=exclude)
        generator = np.random.default_rng(seed)
        items, columns = generator.permutation(base.n_items), generator.permutation(len(categories))
        place = np.argsort(items)
        moved = categories_of(categories.dense()[items][:, columns])
        again = lists_to_dials(
            base.of_items(items), place[lists], moved, exclude=SparseRows.coerce(exclude.dense()[:, items])
        )
        same = first.feasible
        assert (again.feasible == same).all()
        assert again.weights[same] == pytest.approx(first.weights[same][:, columns], abs=1e-5)


class TestWhatIsHeld:
    @given(st.integers(0, 10_000), st.booleans())
    def test_feasible_lists_come_back_at_every_scale(self, seed: int, ordered: bool) -> None:
        base, lists, categories, exclude = world(seed)
        dials = lists_to_dials(base, lists, categories, exclude=exclude, ordered=ordered)
        for scale in (0.9, 0.95, 1.0, 1.05, 1.1):
            served = dials.applied_to(base)
            turned = served.with_vectors(user=np.hstack([base.user, np.float32(scale) * served.user[:, base.dim :]]))
            again = turned.rank(lists.shape[1], exclude=exclude)[0]
            sure = dials.feasible & dials.changed
            if ordered:
                assert (again[sure] == lists[sure]).all()
            else:
                assert (np.sort(again[sure], 1) == np.sort(lists[sure], 1)).all()

    @given(st.integers(0, 10_000))
    def test_infeasible_users_get_the_smallest_violation(self, seed: int) -> None:
        """The same elastic program in HiGHS: a price of 1 per unit of violation, and 1e-4 per unit of cost."""
        base, lists, categories, exclude = world(2 * seed + 1, n_users=6, n_items=25, m=3, k=4)
        dials = lists_to_dials(base, lists, categories, exclude=exclude, scales=(1.0, 1.0))
        cost = cost_of(dials)
        for row in np.flatnonzero(~dials.feasible):
            a, b = rows_of(base, dials, exclude, row, best_only=True)
            a, b = a[a.any(1)], b[a.any(1)]  # equal properties: no weights change these violations
            program = np.concatenate([1e-4 * cost[row], np.ones(len(b))])
            other = linprog(program, A_ub=-np.hstack([a, np.eye(len(b))]), b_ub=-b, method="highs")
            weights = dials.weights[row]
            reached = 1e-4 * cost[row] @ weights + np.maximum(b - a @ weights, 0).sum()
            assert reached == pytest.approx(other.fun, rel=1e-4, abs=1e-5)

    def test_an_item_bias_is_kept(self) -> None:
        plain, lists, categories, exclude = world(4)
        bias = np.random.default_rng(0).normal(size=plain.n_items)
        base = Factors.from_arrays(plain.user, plain.item, item_bias=bias)
        dials = lists_to_dials(base, lists, categories, exclude=exclude)
        served = dials.applied_to(base)
        assert served.dim == base.dim + len(categories) and served.item_bias is base.item_bias
        assert (served.rank(5, exclude=exclude)[0] == dials.given).all()
        assert dials.held[dials.feasible].all() and dials.feasible.any()

    def test_figures_and_frame(self) -> None:
        base, lists, categories, exclude = world(6, n_users=30)
        dials = lists_to_dials(base, lists, categories, exclude=exclude)
        frame = dials.to_frame()
        assert frame.columns == ["user", "property", "weight", "share"] and len(frame) == (dials.weights > 0).sum()
        scores = base.user @ base.item.T
        row = frame.row(0, named=True)
        assert row["share"] == pytest.approx(row["weight"] / np.ptp(scores[row["user"]]), rel=1e-5)
        assert dials.explained_gain(lambda it: (it == lists).sum(1)) <= 1
        held = lists_to_dials(base, dials.given, categories, exclude=exclude)
        assert held.explained_gain(lambda it: categories.dense()[it].sum((1, 2))) == pytest.approx(
            held.lists_held, abs=0.3
        )
        assert 0 <= dials.explained_swaps <= 1

    def test_some_users_in_any_order(self) -> None:
        base, lists, categories, exclude = world(8)
        whole = lists_to_dials(base, lists, categories, exclude=exclude)
        users = np.array([7, 2, 9])
        some = lists_to_dials(base, lists[users], categories, exclude=exclude.take_rows(users), users=users)
        assert some.weights[users] == pytest.approx(whole.weights[users])
        assert not np.delete(some.weights, users, 0).any()


class TestBadInput:
    def test_cosine(self) -> None:
        base, lists, categories, _ = world(0)
        with pytest.raises(InputError, match="ranks by cosine; use lists_to_vectors"):
            lists_to_dials(base.on_sphere(), lists, categories)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"rounding": -1.0}, "rounding is -1.0"),
            ({"scales": (1.1, 1.2)}, "scales are"),
            ({"users": [0, 0]}, "two lists"),
            ({"base_lists": [[0]]}, "base_lists have shape"),
        ],
    )
    def test_one_sentence(self, options: dict[str, Any], message: str) -> None:
        base, lists, categories, _ = world(0)
        users = options.pop("users", [0, 1])
        with pytest.raises(InputError, match=message):
            lists_to_dials(base, lists[:2], categories, users=users, **options)

    def test_properties_of_other_items(self) -> None:
        base, lists, categories, _ = world(0)
        with pytest.raises(InputError, match="pass the same items"):
            lists_to_dials(base, lists, categories_of(categories.dense()[:-1]))
        none = Categories.from_pairs(np.empty(0, np.int64), np.empty(0, str), base.n_items)
        with pytest.raises(InputError, match="dials need categories of the items"):
            lists_to_dials(base, lists, none)
