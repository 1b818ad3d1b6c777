"""The choice model: features and fit against plain implementations, and lists whose explanation is known."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from recprism.data.categories import Categories
from recprism.data.sparse_rows import SparseRows
from recprism.errors import InputError
from recprism.explain import ChoiceModel, fit_choice_model
from recprism.explain.choice._likelihood import RIDGE, Logit
from recprism.explain.choice._places import ALPHA, FEATURES, CategoryRows, Places, Slots
from recprism.rivals import DPP, MMR, Calibrated, XQuAD
from recprism.rule import Features, ListSearch
from recprism.runs.run import Run

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from predicted_lists import predict_lists

K = 10


@dataclass(frozen=True, eq=False)
class World:
    """Candidates with scores, categories that have nothing to do with the vectors, and histories."""

    items: np.ndarray
    scores: np.ndarray
    categories: np.ndarray
    history: np.ndarray
    popularity: np.ndarray
    vectors: np.ndarray

    @property
    def base(self) -> np.ndarray:
        return self.items[:, :K]

    @property
    def features(self) -> Features:
        return Features(categories=self.categories, user_categories=self.history, vectors=self.vectors)

    def lists(self, method: Any) -> np.ndarray:
        return np.asarray(method(self.items, self.scores, K, features=self.features))

    def model(self, lists: np.ndarray, *, history: bool = True, draws: int = 0, **options: Any) -> ChoiceModel:
        known = self.history if history else None
        about = {"history": known, "popularity": self.popularity, "draws": draws, **options}
        return fit_choice_model(self.items, self.scores, self.base, lists, self.categories, **about)

    def predicted(self, model: ChoiceModel, lists: np.ndarray, depth: int | None = None, rounds: int = 0) -> np.ndarray:
        """By a model that was fitted without a history."""
        known = self.items[:, :depth], self.scores[:, :depth], lists
        return predict_lists(model, self.categories, *known, popularity=self.popularity, rounds=rounds)


def made(n_users: int = 300, n_items: int = 200, n_categories: int = 12, depth: int = 80, seed: int = 0) -> World:
    generator = np.random.default_rng(seed)
    categories = generator.random((n_items, n_categories)) < generator.uniform(0.05, 0.35, n_categories)
    popularity = np.floor(1000 / (1 + generator.permutation(n_items)))
    vectors = generator.normal(size=(n_items, 16))
    scores = generator.normal(size=(n_users, 16)) @ vectors.T + 0.5 * np.log(popularity)
    items = np.argsort(-scores, axis=1)[:, :depth]
    history = generator.dirichlet(np.full(n_categories, 0.5), n_users)
    return World(items, np.take_along_axis(scores, items, 1), categories, history, popularity, vectors)


WORLD = made()


# -- oracles ----------------------------------------------------------------------------------------------------------


def naive_features(places: Places, weights: np.ndarray, user: int, place: int, item: int) -> list[float]:
    """The features of one alternative, from their definitions."""
    others = [it for at, it in enumerate(places.lists[user]) if at != place and it >= 0]
    rows, mine, taste = weights[others], weights[item], places.history[user]
    held, has = (rows > 0).sum(0), mine > 0
    lengths = np.linalg.norm(rows, axis=1) * np.linalg.norm(mine)
    cosines = [float(row @ mine / length) if length > 0 else 0.0 for row, length in zip(rows, lengths, strict=True)]

    def log_fit(of: np.ndarray) -> float:
        described = of[of.sum(1) > 0]
        spread = (described / described.sum(1, keepdims=True)).sum(0) / max(len(described), 1)
        mixed = (1 - ALPHA) * spread + ALPHA * taste
        return float((taste[taste > 0] * np.log(mixed[taste > 0])).sum())

    score = float(places.relevance[user, list(places.items[user]).index(item)])
    return [
        score,
        score**2,
        float(places.popularity[item]),
        float((has & (held == 0)).sum()),
        float(held[has].sum() / max(len(others), 1)),
        sum(cosines) / max(len(others), 1),
        max([0.0, *cosines]),
        float(taste[has].sum()),
        float(taste[has & (held == 0)].sum()),
        float((taste[has] * np.log2((held[has] + 2) / (held[has] + 1))).sum()),
        log_fit(np.vstack([rows, mine])),
    ]


@given(seed=st.integers(0, 2**32 - 1), weighted=st.booleans(), empty=st.booleans())
@settings(deadline=None, max_examples=40)
def test_features_are_what_their_names_say(seed: int, weighted: bool, empty: bool) -> None:
    """A calibration is compared between alternatives, because a constant for all of them has no effect."""
    generator = np.random.default_rng(seed)
    weights = (generator.random((30, 5)) < 0.4) * (generator.integers(1, 5, (30, 5)) if weighted else 1)
    items = np.stack([generator.permutation(30)[:12] for _ in range(4)])
    lists = np.stack([generator.permutation(30)[:4] for _ in range(4)])
    if empty:
        lists[:, generator.integers(4)] = -1
    history = generator.random((4, 5)) * (generator.random((4, 5)) < 0.8)
    rows = CategoryRows.of(weights)
    places = Places.of(items, generator.normal(size=items.shape), lists, rows, history, generator.integers(0, 9, 30))
    slots = places.slots(np.argwhere(lists >= -1))
    found = places.features(slots)
    for s, (user, place) in enumerate(slots.which):
        alternatives = places.items[user, slots.alternatives[s, : slots.counts[s]]]
        wanted = np.array([naive_features(places, weights, user, place, item) for item in alternatives]).T
        values = found[s, :, : slots.counts[s]]
        np.testing.assert_allclose(values[:-1], wanted[:-1], atol=1e-12)
        np.testing.assert_allclose(values[-1] - values[-1, 0], wanted[-1] - wanted[-1, 0], atol=1e-10)
        assert set(alternatives) == set(places.items[user]) - set(np.delete(places.lists[user], place))


@given(seed=st.integers(0, 2**32 - 1), p=st.integers(1, 6))
@settings(deadline=None, max_examples=25)
def test_the_fit_is_the_one_that_scipy_finds(seed: int, p: int) -> None:
    generator = np.random.default_rng(seed)
    n, counts = 60, generator.integers(2, 9, 60)
    values = generator.normal(size=(n, p, 8)) * generator.uniform(0.1, 5, p)[:, None]
    which = np.stack([np.arange(n), np.zeros(n, int)], 1)
    slots = Slots(which, np.tile(np.arange(8), (n, 1)), counts, generator.integers(0, counts))
    logit = Logit.of(slots, values)
    inside = np.arange(8) < counts[:, None]
    spread = np.array([[np.var(values[s, f, : counts[s]]) for f in range(p)] for s in range(n)])
    np.testing.assert_allclose(logit.scale, np.sqrt(spread.mean(0)), rtol=1e-8)

    def loss(own: np.ndarray) -> float:
        utility = np.where(inside, np.einsum("f,sfa->sa", own / logit.scale, values), -np.inf)
        log_sum = np.log(np.exp(utility - utility.max(1, keepdims=True)).sum(1)) + utility.max(1)
        return float((log_sum - utility[np.arange(n), slots.chosen]).sum() + RIDGE / 2 * own @ own)

    wanted = minimize(loss, np.zeros(p), method="L-BFGS-B", options={"ftol": 1e-14, "gtol": 1e-9})
    found = logit.fit(np.arange(n), np.arange(p))
    assert loss(found * logit.scale) <= wanted.fun + 1e-6
    np.testing.assert_allclose(found * logit.scale, wanted.x, atol=2e-3)
    likelihood, _ = logit.judge(np.arange(n), found)
    penalty = RIDGE / 2 * ((found * logit.scale) ** 2).sum()
    np.testing.assert_allclose(-likelihood.sum() + penalty, loss(found * logit.scale), rtol=1e-10)


def test_standard_errors_are_those_of_the_curvature_or_larger() -> None:
    """Against second differences of the likelihood."""
    generator = np.random.default_rng(0)
    n, p = 400, 3
    values, own = generator.normal(size=(n, p, 6)), np.array([1.0, -0.5, 0.0])
    utility = np.einsum("f,sfa->sa", own, values) + generator.gumbel(size=(n, 6))
    which = np.stack([np.arange(n), np.zeros(n, int)], 1)
    slots = Slots(which, np.tile(np.arange(6), (n, 1)), np.full(n, 6), utility.argmax(1))
    logit = Logit.of(slots, values)
    found = logit.fit(np.arange(n), np.arange(p))
    errors = logit.errors(found)
    step, curved = 1e-3, np.zeros((p, p))
    for f in range(p):
        for g in range(p):
            corners = [(a, b) for a in (1, -1) for b in (1, -1)]
            shifted = [found + step * (a * np.eye(p)[f] + b * np.eye(p)[g]) / logit.scale for a, b in corners]
            sums = [a * b * logit.judge(np.arange(n), it)[0].sum() for (a, b), it in zip(corners, shifted, strict=True)]
            curved[f, g] = -sum(sums) / (4 * step**2)
    plain = np.sqrt(np.diagonal(np.linalg.inv(curved)))
    assert (errors >= plain * (1 - 1e-3)).all()
    assert (errors <= plain * 1.3).all()  # users are independent here, so both kinds agree
    assert (np.abs(found - own) < 4 * errors / logit.scale).all()


# -- known answers ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("trade_off", [0.1, 0.2])
@pytest.mark.parametrize("history_weight", [0.0, 0.2])
def test_optimal_lists_are_explained_and_the_price_is_the_one_of_the_rule(
    trade_off: float, history_weight: float
) -> None:
    lists = WORLD.lists(ListSearch(trade_off=trade_off, history_weight=history_weight))
    found = WORLD.model(lists)
    assert found.explained > 0.95
    assert found.verdict == "explains"
    assert found.interval[0] <= found.explained <= found.interval[1]
    assert found.right_item > 0.95 > found.right_item_scores
    # The rule trades t / n for a category against (1 - t) * discount / sum of discounts; newcomers are at the end.
    discounts = 1 / np.log2(np.arange(K) + 2)
    rule = trade_off / WORLD.categories.shape[1] / ((1 - trade_off) * discounts[-1] / discounts.sum())
    price = next(it for it in found.coefficients if it.feature == "new_categories")
    assert price.worth == pytest.approx(rule, rel=0.15)
    assert "one more category that the list lacks" in price.words


@pytest.mark.parametrize("method", [MMR(trade_off=0.3), DPP(trade_off=0.3)], ids=["MMR", "DPP"])
def test_lists_diverse_in_vectors_are_not_explained_by_categories(method: Any) -> None:
    found = WORLD.model(WORLD.lists(method))
    assert found.explained < 0.15
    assert found.verdict == "does not explain"
    assert not [line for line in found.sentences() if "as likely" in line]


def test_random_lists_are_not_explained() -> None:
    generator = np.random.default_rng(1)
    lists = np.stack([generator.permutation(row)[:K] for row in WORLD.items])
    assert abs(WORLD.model(lists).explained) < 0.05


@pytest.mark.parametrize("method", [Calibrated(trade_off=0.5), XQuAD(trade_off=0.5)], ids=["calibrated", "xQuAD"])
def test_lists_that_follow_histories_are_explained_once_histories_are_known(method: Any) -> None:
    lists = WORLD.lists(method)
    without, with_history = (WORLD.model(lists, history=known).explained for known in (False, True))
    assert with_history > without + 0.2
    assert with_history > 0.5


@pytest.mark.slow
def test_lists_of_popular_items_need_no_categories() -> None:
    """The shuffles explain as much, and the sentences say so."""
    order = np.argsort(-WORLD.popularity[WORLD.items], axis=1, kind="stable")[:, :K]
    found = WORLD.model(np.take_along_axis(WORLD.items, order, 1), draws=39)
    assert found.explained > 0.5
    assert found.shuffled_within is not None
    assert found.shuffled_within.mean == pytest.approx(found.explained, abs=0.05)
    assert found.shuffled_within.p_value > 0.05
    assert "So the categories add nothing that shuffled ones do not add." in found.sentences()
    assert found.coefficients[0].feature == "popularity"


def test_shuffled_categories_explain_nothing_of_optimal_lists() -> None:
    found = WORLD.model(WORLD.lists(ListSearch(trade_off=0.2)), draws=39)
    for shuffled in (found.shuffled_within, found.shuffled_all):
        assert shuffled is not None
        assert shuffled.largest < 0.15
        assert shuffled.p_value == 1 / 40
        assert len(shuffled.draws) == 39


def test_a_shuffle_within_deciles_keeps_categories_that_are_deciles() -> None:
    """Each category is a decile of popularity: within deciles the shuffle changes nothing, among all items it does."""
    order = np.argsort(WORLD.popularity, kind="stable")
    decile = np.empty(len(order), int)
    for number, group in enumerate(np.array_split(order, 10)):
        decile[group] = number
    categories = np.eye(10)[decile]
    lists = np.asarray(
        ListSearch(trade_off=0.3)(WORLD.items, WORLD.scores, K, features=Features(categories=categories)), np.int64
    )
    found = fit_choice_model(
        WORLD.items, WORLD.scores, WORLD.base, lists, categories, popularity=WORLD.popularity, draws=19, seed=0
    )
    assert found.shuffled_within is not None
    assert found.shuffled_all is not None
    np.testing.assert_allclose(found.shuffled_within.draws, found.explained, atol=1e-3)
    assert found.shuffled_all.largest < found.explained - 0.2


def test_a_guess_among_equal_items_counts_its_share() -> None:
    """Scores and categories are the same for all items: each of n alternatives is as likely."""
    generator = np.random.default_rng(0)
    items = np.stack([generator.permutation(30)[:21] for _ in range(40)])
    base, lists = items[:, 15:20], items[:, 10:15]
    found = fit_choice_model(items, np.zeros(items.shape), base, lists, np.ones((30, 1)), draws=0)
    assert found.right_item == pytest.approx(1 / 17)
    assert found.explained == pytest.approx(0)
    assert found.coefficients == ()


@pytest.mark.slow
def test_on_real_data(trained_run: Callable[..., Run]) -> None:
    problem = trained_run(10, 16).problem("validation")
    items, scores = (array[:, :200] for array in problem.candidates)
    about = {"history": problem.features.intents(len(items)).numpy(), "popularity": problem.split.train.col_counts}

    def explained(method: Any) -> float:
        lists = np.asarray(method(items, scores, K, features=problem.features))
        return fit_choice_model(items, scores, items[:, :K], lists, problem.categories, draws=0, **about).explained

    assert explained(ListSearch(trade_off=0.1)) > 0.95
    assert explained(ListSearch(trade_off=0.2)) > 0.95
    assert explained(MMR(trade_off=0.3, similarity="categories")) > 0.5
    assert explained(DPP(trade_off=0.3, similarity="categories")) > 0.5
    assert explained(MMR(trade_off=0.3)) < 0.15
    assert explained(DPP(trade_off=0.3)) < 0.15
    assert explained(Calibrated(trade_off=0.3)) > 0.5


# -- predictions ------------------------------------------------------------------------------------------------------


@cache
def fitted() -> ChoiceModel:
    return WORLD.model(WORLD.lists(ListSearch(trade_off=0.2)), history=False)


def test_a_free_place_gets_the_item_that_the_rule_puts_there() -> None:
    lists = WORLD.lists(ListSearch(trade_off=0.2))
    found = WORLD.model(lists, history=False, users=150)
    others = np.setdiff1d(np.arange(len(lists)), found.users)
    assert len(others) > 50
    free = lists.copy()
    free[np.arange(len(lists)), np.arange(len(lists)) % K] = -1
    filled = WORLD.predicted(found, free)
    assert (filled[others] == lists[others]).all(1).mean() > 0.95


def test_whole_lists_are_rebuilt() -> None:
    """From the base lists, place by place until nothing changes, and from nothing."""
    lists = WORLD.lists(ListSearch(trade_off=0.2))
    found = WORLD.model(lists, history=False)
    wanted = [set(row) for row in lists.tolist()]
    for start in (WORLD.base, np.full_like(WORLD.base, -1)):
        rebuilt = WORLD.predicted(found, start, rounds=10)
        assert np.mean([set(row) == it for row, it in zip(rebuilt.tolist(), wanted, strict=True)]) > 0.6
        again = WORLD.predicted(found, rebuilt, rounds=1)
        assert (again == rebuilt).all(1).mean() > 0.99


@given(seed=st.integers(0, 2**32 - 1), rounds=st.integers(0, 2))
@settings(deadline=None, max_examples=20)
def test_predicted_lists_hold_candidates_once(seed: int, rounds: int) -> None:
    generator = np.random.default_rng(seed)
    lists = np.where(generator.random(WORLD.base.shape) < 0.5, WORLD.base, -1)
    depth = int(generator.integers(1, 12))
    few, filled = WORLD.items[:, :depth], WORLD.predicted(fitted(), lists, depth, rounds)
    for before, after, candidates in zip(lists.tolist(), filled.tolist(), few.tolist(), strict=True):
        items = [it for it in after if it >= 0]
        assert len(items) == len(set(items))
        assert set(items) <= set(candidates) | set(before)
        if rounds == 0:
            assert [a for a, b in zip(after, before, strict=True) if b >= 0] == [b for b in before if b >= 0]
        if -1 in after:  # no candidate is left
            assert set(candidates) <= set(items)


# -- results and refusals ---------------------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_figures_on_any_number_of_threads() -> None:
    lists, threads = WORLD.lists(ListSearch(trade_off=0.2)), torch.get_num_threads()
    found = []
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            found.append(WORLD.model(lists, draws=5, users=60).to_dict())
    finally:
        torch.set_num_threads(threads)
    assert found[0] == found[1]
    assert WORLD.model(lists, draws=5, users=60, seed=1).to_dict() != found[0]


def test_the_dictionary_is_plain_and_complete() -> None:
    found = WORLD.model(WORLD.lists(ListSearch(trade_off=0.2)), draws=3, users=50, slots=60)
    plain = json.loads(json.dumps(found.to_dict()))
    wanted = {"explained", "interval", "explained_shuffled_within", "explained_shuffled_all", "verdict", "right_item"}
    assert wanted | {"coefficients", "users", "slots"} <= plain.keys()
    assert plain["users"] <= 50
    assert plain["slots"] <= 60
    assert {it["feature"] for it in plain["coefficients"]} == set(FEATURES)
    assert found.shuffled_all is not None
    assert plain["explained_shuffled_all"] == pytest.approx(np.mean(found.shuffled_all.draws))


def test_every_number_of_a_sentence_is_a_figure_of_the_model() -> None:
    found = WORLD.model(WORLD.lists(ListSearch(trade_off=0.2)), draws=3)
    first, second, within, everywhere, *rest = found.sentences()
    assert "from scores, categories, history and popularity, explains" in first
    assert f"explains {100 * found.explained:.0f} %" in first
    assert f"{100 * found.interval[0]:.0f} to {100 * found.interval[1]:.0f} %" in first
    assert f"{100 * found.right_item:.1f} % of {found.n_slots:,} cases" in second
    for line, shuffled in ((within, found.shuffled_within), (everywhere, found.shuffled_all)):
        assert shuffled is not None
        assert f"{100 * shuffled.mean:.1f} % (at most {100 * shuffled.largest:.1f} % in 3 draws" in line
    clear = [it for it in found.coefficients if abs(it.standardised) > 2 * it.error and it.feature != "score_squared"]
    assert [it.words for it in clear] == [line for line in rest if "as likely" in line]


def test_without_histories_and_popularity_their_features_are_left_out() -> None:
    found = WORLD.model(WORLD.lists(ListSearch(trade_off=0.2)), history=False, popularity=None)
    assert "from scores and categories, explains" in found.sentences()[0]
    used = {it.feature for it in found.coefficients}
    assert used == set(FEATURES) - {"popularity", "history", "new_history", "unfilled_history", "calibration"}


def test_categories_may_come_in_any_form() -> None:
    lists = WORLD.lists(ListSearch(trade_off=0.2))
    rows, cols = np.nonzero(WORLD.categories)
    forms = [Categories.from_pairs(rows, [f"c{it:02}" for it in cols], 200), SparseRows.coerce(WORLD.categories)]
    forms += [forms[1].to_scipy(), WORLD.categories.astype(float)]
    args = (WORLD.items, WORLD.scores, WORLD.base, lists)
    figures = {fit_choice_model(*args, form, draws=0).explained for form in [*forms, WORLD.categories]}
    assert len(figures) == 1


def test_newcomers_that_are_no_candidates_are_counted() -> None:
    lists = WORLD.lists(ListSearch(trade_off=0.2))
    outside = [int(np.setdiff1d(np.arange(200), row)[0]) for row in WORLD.items[:30]]
    lists[:30, 0] = outside
    lists[30:40] = -1
    found = WORLD.model(lists)
    assert found.n_outside == 30
    assert found.n_newcomers > 30
    assert f"30 of {found.n_newcomers:,} newcomers are not among the user's candidates" in found.sentences()[-1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"lists": WORLD.base}, "nothing to explain"),
        ({"lists": np.full_like(WORLD.base, -1)}, "nothing to explain"),
        (
            {"lists": np.where(np.arange(300)[:, None] < 5, WORLD.items[:, K : 2 * K], -1)},
            "only 5 users have a newcomer",
        ),
        ({"lists": WORLD.base[:7]}, r"new lists have shape \(7, 10\); pass \(300, k\)"),
        ({"base": WORLD.base[:7]}, r"base lists have shape \(7, 10\)"),
        ({"lists": np.full_like(WORLD.base, 200)}, "item numbers go from 0 to 199"),
        ({"lists": np.zeros_like(WORLD.base)}, "has an item twice"),
        ({"categories": np.zeros((200, 3))}, "no item has a category"),
        ({"categories": WORLD.categories[:100]}, "items go from 0 to 99"),
        ({"history": np.ones((300, 2))}, "history has shape"),
        ({"popularity": np.ones(7)}, "popularity has shape"),
        ({"draws": -1}, "draws"),
        ({"users": 0}, "users"),
    ],
)
def test_what_cannot_be_explained_is_refused(change: dict[str, Any], message: str) -> None:
    whole = {"base": WORLD.base, "lists": WORLD.items[:, 5:15], "categories": WORLD.categories, "draws": 0, **change}
    with pytest.raises(InputError, match=message):
        fit_choice_model(
            WORLD.items, WORLD.scores, whole.pop("base"), whole.pop("lists"), whole.pop("categories"), **whole
        )
