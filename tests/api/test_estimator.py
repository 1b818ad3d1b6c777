"""The estimator keeps scikit-learn's contract, and does nothing that within_budget does not do."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.utils import estimator_checks
from sklearn.utils.validation import check_is_fitted

from recprism import BPRMF, Diversifier, Problem
from recprism.budget.question import BudgetQuestion
from recprism.budget.within import within_budget
from recprism.data import Dataset, Interactions
from recprism.errors import InputError

QUICK = {"epochs": 3, "dim": 8}


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def data() -> Dataset:
    """80 users of three groups, 60 items, each with one to two of six categories."""
    generator = np.random.default_rng(2)
    rows = [
        (user, 100 + item) for user in range(80) for item in generator.choice(60, 15, replace=False, p=_liked(user % 3))
    ]
    table = pl.DataFrame(rows, schema=["user_id", "item_id"], orient="row")
    categories = [(100 + item, f"category {number}") for item in range(60) for number in {item % 6, (item // 7) % 6}]
    long = pl.DataFrame(categories, schema=["item_id", "category"], orient="row")
    from recprism.data import interactions_from_frame

    return Dataset.from_interactions("made", interactions_from_frame(table), long)


def _liked(group: int) -> np.ndarray:
    weight = np.where(np.arange(60) // 20 == group, 6.0, 1.0)
    return weight / weight.sum()


@pytest.fixture(scope="module")
def categories(data: Dataset) -> dict[int, list[str]]:
    names, items = data.categories.names, data.categories.items
    ids = data.interactions.item_ids.tolist()
    return {ids[row]: [names[it] for it in items.row(row)] for row in range(len(ids))}


@pytest.fixture(scope="module")
def rows(data: Dataset) -> np.ndarray:
    made: Interactions = data.interactions
    return np.column_stack([made.user_ids[made.user], made.item_ids[made.item]])


@pytest.fixture(scope="module")
def fitted(data: Dataset) -> Diversifier:
    return Diversifier(budget=0.3, model_settings=QUICK, device="cpu").fit(data)


def test_it_is_within_budget_behind_fit(fitted: Diversifier, data: Dataset) -> None:
    split = data.split(seed=0)
    factors = BPRMF(**QUICK).fit(split, seed=0, device="cpu")
    problem = Problem(factors, split, data.categories, "test")
    kept = within_budget(problem, BudgetQuestion.of("subtopic_coverage", {"ndcg@10": 0.3}))
    assert kept.rule is not None, "else the test says little"
    assert fitted.certificate_ == kept.certificate
    assert fitted.result_.rule == kept.rule
    np.testing.assert_array_equal(fitted.base_.user, factors.user)
    wanted = factors.ids_of(problem.live().rank(kept.rule)[0])
    np.testing.assert_array_equal(fitted.predict(split.user_ids), wanted)


@pytest.mark.slow
def test_every_form_of_interactions_gives_the_same(
    fitted: Diversifier, data: Dataset, rows: np.ndarray, categories: dict[int, list[str]]
) -> None:
    frame = pl.DataFrame({"user_id": rows[:, 0], "item_id": rows[:, 1]})
    pandas = pd.DataFrame({"user_id": rows[:, 0], "item_id": rows[:, 1]})
    for given in (rows, rows.tolist(), frame, pandas, data.interactions):
        again = clone(fitted).set_params(categories=categories).fit(given)
        assert_same(again, fitted)
    matrix = data.interactions.matrix().to_scipy()
    numbered = (
        clone(fitted).set_params(categories={item - 100: names for item, names in categories.items()}).fit(matrix)
    )
    assert_same(numbered, fitted)


def assert_same(one: Diversifier, other: Diversifier) -> None:
    """The same model, rule and lists; ids may be others."""
    np.testing.assert_array_equal(one.base_.user, other.base_.user)
    assert one.result_.rule == other.result_.rule
    np.testing.assert_array_equal(one.result_.ranked()[0], other.result_.ranked()[0])


def test_vectors_and_what_judges_them(fitted: Diversifier, data: Dataset, categories: dict[int, list[str]]) -> None:
    split, base = fitted.split_, fitted.base_
    shuffled = np.random.default_rng(0).permutation(base.n_items)
    given = Diversifier(budget=0.3, categories=data.categories).fit(base.of_items(shuffled), split)
    assert_same(given, fitted)
    seen, later = split.seen_before("test").to_scipy(), split.test.to_scipy()
    numbered = {number: categories[item] for number, item in enumerate(split.item_ids.tolist())}
    plain = Diversifier(budget=0.3, categories=numbered).fit((base.user, base.item), (seen, later))
    assert plain.certificate_.last == fitted.certificate_.last
    for bad, message in ((None, "vectors need labels"), ((seen, later[:, :-1]), "taken later has shape")):
        with pytest.raises(InputError, match=message):
            Diversifier(categories=numbered).fit((base.user, base.item), bad)


def test_lists_are_those_of_the_rule_and_hold_nothing_met(fitted: Diversifier, rows: np.ndarray) -> None:
    ids = fitted.predict(fitted.split_.user_ids[:5])
    assert ids.shape == (5, 10)
    lists = fitted.result_.lists(fitted.split_.user_ids[:5])
    np.testing.assert_array_equal(lists["item_id"].to_numpy().reshape(5, 10), ids)
    np.testing.assert_array_equal(fitted.predict([[user, 0] for user in fitted.split_.user_ids[:5]]), ids)
    met = {(user, item) for user, item in rows.tolist()}
    for user, items in zip(fitted.split_.user_ids[:5].tolist(), ids.tolist(), strict=True):
        assert not met & {(user, item) for item in items}
    shorter = fitted.result_.lists(0, 3)
    assert shorter["item_id"].to_list() == fitted.predict([0])[0, :3].tolist()


def test_score_is_the_metric_on_interactions_it_did_not_see(data: Dataset, rows: np.ndarray) -> None:
    generator = np.random.default_rng(1)
    held_out = generator.random(len(rows)) < 0.2
    model = Diversifier(budget=0.3, model_settings=QUICK, device="cpu", categories=data_table(data)).fit(
        rows[~held_out]
    )
    found = model.score(rows[held_out], metric="recall@10")
    later = {(user, item) for user, item in rows[held_out].tolist()}
    recalls = []
    for user in np.unique(rows[held_out][:, 0]).tolist():
        taken = {item for who, item in later if who == user and item in set(model.split_.item_ids.tolist())}
        if taken:
            recalls.append(len(taken & set(model.predict([user])[0].tolist())) / len(taken))
    assert found == pytest.approx(np.mean(recalls))
    assert model.score(rows[held_out]) == pytest.approx(model.score(rows[held_out], metric="subtopic_coverage@10"))


def data_table(data: Dataset) -> pl.DataFrame:
    items = data.categories.items
    names = np.array(data.categories.names)[items.indices]
    return pl.DataFrame({"item_id": data.interactions.item_ids[items.row_of_entry], "category": names})


def test_explain(fitted: Diversifier) -> None:
    found = fitted.explain(draws=0)
    assert found.rule == fitted.result_.rule
    assert found.rule_summary is not None and found.choice_model is not None
    assert found.choice_model.shuffled_all is None, "no draws"


def test_grid_search_of_scikit_learn(rows: np.ndarray, categories: dict[int, list[str]]) -> None:
    search = GridSearchCV(
        Diversifier(model_settings=QUICK, device="cpu", categories=categories),
        {"budget": [0.01, 0.4]},
        cv=KFold(2, shuffle=True, random_state=0),
        error_score="raise",
    ).fit(rows)
    assert search.best_params_ in ({"budget": 0.01}, {"budget": 0.4})
    found = search.cv_results_["mean_test_score"]
    assert found[1] >= found[0] > 0, "a larger budget never buys less"
    assert search.predict([0, 1]).shape == (2, 10)


def test_parameters_as_scikit_learn_has_them() -> None:
    model = Diversifier("catalogue_coverage", 0.02, guards={"recall@20": 0.1}, seed=4)
    again = clone(model)
    assert again is not model and again.get_params() == model.get_params()
    assert repr(model) == "Diversifier(goal='catalogue_coverage', budget=0.02, guards={'recall@20': 0.1}, seed=4)"
    assert model.set_params(k=5) is model and model.k == 5
    with pytest.raises(ValueError, match="Invalid parameter 'lists' for estimator Diversifier"):
        model.set_params(lists=1)
    with pytest.raises(ValueError, match="not fitted yet"):
        model.predict([1])


CHECKS = (
    "check_estimator_cloneable",
    "check_estimator_repr",
    "check_parameters_default_constructible",
    "check_no_attributes_set_in_init",
    "check_get_params_invariance",
    "check_set_params",
    "check_do_not_raise_errors_in_init_or_set_params",
    "check_mixin_order",
    "check_valid_tag_types",
    "check_estimator_tags_renamed",
)
"""Those that ask nothing about X: the others fit to arrays of features, and ours are users and items."""


@pytest.mark.parametrize("name", CHECKS)
def test_checks_of_scikit_learn(name: str) -> None:
    check: Any = getattr(estimator_checks, name)
    check("Diversifier", Diversifier())


def test_fit_returns_self_keeps_parameters_and_is_seen_as_fitted(fitted: Diversifier, data: Dataset) -> None:
    check_is_fitted(fitted)
    model = clone(fitted)
    with pytest.raises(Exception, match="not fitted yet"):
        check_is_fitted(model)
    before = model.get_params()
    assert model.fit(data) is model
    assert model.get_params() == before
    own = set(vars(model)) - set(before)
    assert all(name.endswith("_") and not name.startswith("_") for name in own), own


def test_what_cannot_be_fitted_gets_one_sentence(data: Dataset) -> None:
    for given, message in (
        (np.ones((3, 7)), "interactions have shape"),
        (np.ones(3), "interactions have shape"),
        ([[0.5, 1.0]], "is not a whole number"),
    ):
        with pytest.raises(InputError, match=message):
            Diversifier().fit(given)
    with pytest.raises(InputError, match="there is no path towards 'more'"):
        Diversifier("more", model_settings=QUICK, device="cpu").fit(data)


@pytest.mark.slow
def test_it_works_without_scikit_learn() -> None:
    code = """
import sys
sys.modules["sklearn"] = None
from recprism import Diversifier

rows = [(user, item) for user in range(30) for item in range(20) if (user + item * item) % 3]
categories = {item: [f"t{item % 4}"] for item in range(20)}
model = Diversifier(budget=0.4, categories=categories, device="cpu", model_settings={"epochs": 1, "dim": 4}).fit(rows)
assert model.predict([3]).shape == (1, 10), model
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
