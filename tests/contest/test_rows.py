"""Every row of the paper's tables runs on a little world, and is what its name says."""

from __future__ import annotations

import hashlib
import re
import zlib
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest

from recprism.cmb import CMB
from recprism.cmb.reproduce import PaperCase, run_row
from recprism.cmb.tables import TABLES, Row, paper_table, rows_of
from recprism.data import Dataset, Interactions
from recprism.metrics import Context, evaluate
from recprism.models import Factors
from recprism.rivals import DPP, MMR
from recprism.rule import Features

N_USERS, N_ITEMS, ITERATIONS = 30, 40, 3
METRIC = {
    "alpha-nDCG": "alpha_ndcg_paper",
    "SC": "subtopic_coverage",
    "PC": "catalogue_coverage",
    "ILAD": "ilad_paper",
    "Recall": "recall",
    "NDCG": "ndcg",
}
COLUMNS = {"recall", "ndcg", "alpha_ndcg", "subtopic_coverage", "catalogue_coverage", "ilad", "gini"}
"""The six columns of the paper, and Gini, which we add."""
NAMES = sorted(set(paper_table().select("table", "base_model", "method").iter_rows()))
OTHERS = [name for name in NAMES if name[2] in ("BPRMF", "LightGCN", "MMR", "DPP")]
SEARCHED = [name for name in NAMES if name not in OTHERS]
PLANNED = {(row.table, row.method): row for table in TABLES for row in rows_of(table)}
Name = tuple[str, str, str]


def asked(table: str, method: str) -> dict[str, Any]:
    """The settings that differ from the paper's usual ones, read from the name of a row."""
    if table.startswith("sweep"):
        found = {name: float(value) for name, value in re.findall(r"(\w+) = ([\d.]+)", method)}
        ours = {"A": "max_step", "n_A": "n_arms", "lambda2": "lambda2"}
        return {"diversity": "ilad_paper", "accuracy": "recall", **{ours[name]: it for name, it in found.items()}}
    if method in ("CMB-Random", "CMB-Gradient-ILAD"):
        more = {"diversity": "ilad_paper"} if "ILAD" in method else {}
        return {"policy": method.split("-")[1].lower(), "lambda1": 0.0, **more}
    metrics = [METRIC[word] for word in re.findall(r"alpha-nDCG|SC|PC|ILAD|Recall|NDCG", method)]
    if table == "single_objective":
        return {"diversity": metrics[0], "lambda1": 0.0}
    return dict(zip(("diversity", "accuracy"), metrics, strict=True))


def row_named(table: str, base_model: str, method: str) -> Row:
    """The plan of a row. The pairs that the paper has for CDs alone have none, and are written out here."""
    return PLANNED.get((table, method)) or Row(table, base_model, method, "cmb", (10, 20), asked(table, method))


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> PaperCase:
    """Thirty users with a taste for some of forty items, each of one or two of six categories."""
    generator = np.random.default_rng(0)
    taste = generator.normal(size=(N_USERS, 3)) @ generator.normal(size=(3, N_ITEMS))
    liked = np.argsort(-taste - generator.gumbel(size=taste.shape), axis=1)[:, :10]
    user, item = np.repeat(np.arange(N_USERS), 10), liked.ravel()
    raw = Interactions(user, item, np.arange(N_USERS), np.arange(N_ITEMS))
    pairs = {(number, int(category)) for number in range(N_ITEMS) for category in generator.integers(0, 6, 2)}
    named = [(number, f"s{category}") for number, category in sorted(pairs)]
    categories = pl.DataFrame(named, schema=["item_id", "category"], orient="row")
    dataset = Dataset.from_interactions("little", raw, categories)
    return PaperCase(dataset, 0, tmp_path_factory.mktemp("models"), "cpu")


def values(case: PaperCase, factors: Factors, metrics: list[str]) -> dict[str, float]:
    """Metrics of the lists of factors, on the part that the paper rewards and reports."""
    context = Context.from_split(case.split, "test", categories=case.dataset.categories, vectors=factors.item)
    lists, _ = factors.rank(20, exclude=case.split.train)
    return {score.name: score.mean for score in evaluate(lists, context, metrics, bootstrap=0).scores}


def test_only_pairs_of_the_cds_columns_have_no_plan() -> None:
    missing = {(table, method) for table, _, method in NAMES} - PLANNED.keys()
    table = paper_table()
    for name, method in missing:
        assert set(table.filter(table["table"] == name, table["method"] == method)["dataset"]) == {"CDs"}
    assert len(missing) == 8, "four for each base model"


@pytest.mark.parametrize("name", SEARCHED, ids=" ".join)
def test_a_row_is_the_search_that_its_name_says(name: Name, case: PaperCase) -> None:
    table, base_model, method = name
    row = row_named(*name)
    usual = {"lambda1": 5.0, "lambda2": 0.9, "max_step": 0.3, "n_arms": 61, "epsilon": 0.1, "iterations": 200, "k": 20}
    wanted = {**usual, "policy": "epsilon-greedy", "accuracy": None, **asked(table, method)}
    planned = CMB.preset("paper", **row.settings)
    assert {setting: getattr(planned, setting) for setting in wanted} == wanted

    factors = case.factors(base_model)
    quick = replace(row, settings={**row.settings, "iterations": ITERATIONS})
    seed = zlib.crc32(row.slug.encode()) % 2**31  # of the case with seed 0
    model = CMB.preset("paper", seed=seed, device="cpu", **quick.settings)
    model.fit(factors, case.split, case.dataset.categories)
    found = run_row(quick, case)
    assert set(found) == {method, f"{method}, permuted", f"{method}, noise"}
    change = np.ascontiguousarray(model.factors_.item - factors.item)
    assert found[method]["delta_sha"] == hashlib.sha256(change.tobytes()).hexdigest()
    require_same_columns(found[method]["metrics"], values_of_row(case, model.factors_, row), row)
    require_arms(model, factors)
    if model.policy == "gradient":
        assert model.history_[-1].psi > model.history_[0].psi, "gradients lead upwards"
    else:
        require_reward(model, factors, case)


def values_of_row(case: PaperCase, factors: Factors, row: Row) -> dict[str, float]:
    own = {"alpha_ndcg": "alpha_ndcg_paper", "ilad": "ilad_paper"}
    asked_for = {f"{own.get(column, column)}@{k}": f"{column}@{k}" for column in COLUMNS for k in row.ks}
    return {asked_for[name]: value for name, value in values(case, factors, list(asked_for)).items()}


def require_same_columns(found: dict[str, float], wanted: dict[str, float], row: Row) -> None:
    assert set(found) == {f"{column}@{k}" for column in COLUMNS for k in row.ks}
    assert found == pytest.approx(wanted)


def require_reward(model: CMB, factors: Factors, case: PaperCase) -> None:
    """psi**2 - lambda1 * |delta|, with psi of the lists of the last iteration."""
    last, goals = model.history_[-1], {str(model.diversity): 1.0}
    if model.accuracy is not None:
        goals = {str(model.diversity): 1 - model.lambda2, str(model.accuracy): model.lambda2}
    measured = values(case, model.factors_, [f"{goal}@20" for goal in goals])
    psi = sum(weight * measured[f"{goal}@20"] for goal, weight in goals.items())
    assert model.delta_.item is not None
    size = np.abs(model.delta_.item.numpy() / np.abs(factors.item).max()).sum()
    assert last.psi == pytest.approx(psi)
    assert last.reward == pytest.approx(psi**2 - model.lambda1 * size, rel=1e-4)


def require_arms(model: CMB, factors: Factors) -> None:
    """Every entry is one of n_A values from -A to A, in units of the largest factor; gradients stay within A."""
    assert model.delta_.item is not None
    delta = model.delta_.item.numpy() / np.abs(factors.item).max()
    assert np.abs(delta).max() <= model.max_step * 1.0001
    if model.policy != "gradient":
        steps = delta / (2 * model.max_step / (model.n_arms - 1))
        np.testing.assert_allclose(steps, steps.round(), atol=1e-2)


@pytest.mark.parametrize("name", OTHERS, ids=" ".join)
def test_rows_of_other_methods_have_the_metrics_of_their_lists(name: Name, case: PaperCase) -> None:
    row, method = row_named(*name), name[2]
    found = run_row(row, case)
    factors = case.factors(row.base_model)
    lists, _ = factors.rank(20, exclude=case.split.train)
    if method in ("MMR", "DPP"):
        # The paper's 0.9 is the weight of relevance, ours is that of diversity.
        make = {"MMR": MMR, "DPP": DPP}[method](trade_off=0.1)
        items, scores = factors.rank(100, exclude=case.split.train)
        lists = make(items, scores, 20, features=Features(vectors=factors.item))
    wanted = case.judge(lists, factors.item, row.ks)
    assert found == {method: {"metrics": wanted, "delta_sha": None}}
    require_same_columns(wanted, wanted, row)
