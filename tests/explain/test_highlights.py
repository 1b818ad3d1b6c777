"""Highlights of a run, checked against slow implementations."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from recprism.cmb import CMB
from recprism.cmb.factors.heat import item_heat
from recprism.cmb.jobs.factors import ExplainedFactors, explain_factors
from recprism.data import Dataset
from recprism.errors import InputError
from recprism.models import BPRMF
from recprism.result.highlights import HighlightedUser, example_users, who_pays
from recprism.result.result import Result
from recprism.runs.config import DiversifyConfig, RunConfig
from recprism.runs.run import Run


@pytest.fixture(scope="module")
def run(small: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """User vectors moved, item vectors did not."""
    split = small.split(seed=0)
    made = Run.create(tmp_path_factory.mktemp("runs") / "user", RunConfig())
    made.save_data(small, split)
    factors = BPRMF(epochs=2, dim=6).fit(split, seed=0, device="cpu")
    made.save_factors(factors)
    made.set_diversify(DiversifyConfig(settings={"side": "user", "iterations": 5}))
    search = CMB(side="user", iterations=5, device="cpu").fit(factors, split, small.categories)
    made.save_result(Result.of_vectors(made.problem(), search.changed()))
    return made


@pytest.fixture(scope="module")
def found(run: Run) -> ExplainedFactors:
    return explain_factors(run, draws=0)


def highlighted(found: ExplainedFactors) -> list[HighlightedUser]:
    explanation, evaluator = found.explanation, found.evaluator
    ends = explanation.change.base, explanation.change.after
    lists = evaluator.lists(ends[0]), evaluator.lists(ends[1])
    values = evaluator.values(ends[0]), evaluator.values(ends[1])
    return example_users(lists, values, explanation.objective, explanation.cost)


def test_heat_of_user_vectors_is_the_mean_part_over_the_lists_an_item_entered(found: ExplainedFactors) -> None:
    heat, swaps = item_heat(found.explanation, 4, 3), found.explanation.swaps
    assert heat is not None
    assert (heat.side, heat.values.shape) == ("user", (4, 3))
    lists = [int((swaps.came == item).sum()) for item in heat.items]
    assert lists == sorted(lists, reverse=True)
    assert lists[0] == np.bincount(swaps.came).max()
    mean = swaps.parts["user"][swaps.came == heat.items[1]][:, heat.factors].mean(axis=0)
    np.testing.assert_allclose(heat.values[1], mean)


def test_two_users_are_typical_and_one_pays_most(found: ExplainedFactors) -> None:
    chosen = highlighted(found)
    rows = [one.row for one in chosen]
    assert [one.reason for one in chosen] == ["typical", "typical", "pays most"]
    assert len(set(rows)) == 3
    assert set(rows) <= set(found.explanation.swaps.users.tolist())
    ends = found.explanation.change.base, found.explanation.change.after
    before, after = (found.evaluator.values(it)[found.explanation.cost] for it in ends)
    assert (after - before)[rows[2]] == pytest.approx(np.nanmin(after - before))
    swaps = np.bincount(found.explanation.swaps.users)
    assert abs(swaps[rows[0]] - np.median(swaps[swaps > 0])) <= 0.5


def test_without_a_price_the_third_user_changed_most() -> None:
    lists = np.array([[0, 1], [0, 1], [0, 1]]), np.array([[0, 2], [2, 3], [0, 1]])
    assert example_users(lists, ({}, {}), "ilad@2", "ndcg@10") == [
        HighlightedUser(0, "typical"),
        HighlightedUser(1, "changed most"),
    ]
    assert example_users((lists[0], lists[0]), ({}, {}), "ilad@2", "ndcg@10") == []


def test_who_pays_adds_up(run: Run) -> None:
    result = run.load_result()
    assert result.vectors is not None
    problem = result.problem
    users, items = who_pays(problem, problem.rank(result.model)[0])
    assert users is not None
    means = [
        float(np.nanmean(problem.judge(it.rank(10, exclude=problem.seen)[0], ("ndcg@10",))["ndcg@10"]))
        for it in (problem.factors, result.vectors.factors)
    ]
    assert [users["everyone"].before, users["everyone"].after] == pytest.approx(means)
    assert sum(row.after for row in items.rows) == pytest.approx(1.0)


def test_files_that_are_missing_broken_or_cut_short(tmp_path: Path) -> None:
    fresh = Run.create(tmp_path / "run", RunConfig())
    assert fresh.certificate() is None
    assert fresh.events() == []
    fresh.event("data", name="x")
    fresh.event("epoch", epoch=1)
    with (fresh.path / "events.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"event": "trai')
    assert [event["event"] for event in fresh.events(without=("epoch",))] == ["data"]
    (fresh.path / "certificate.json").write_text("{", encoding="utf-8")
    with pytest.raises(InputError, match="recprism diversify"):
        fresh.certificate()
