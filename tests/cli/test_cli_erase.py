"""`recprism erase` as a user meets it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from recprism.cmb import CMB
from recprism.cmb.factors.checks import Question
from recprism.cmb.factors.held_out import divided_users
from recprism.cmb.jobs.erasure import erase_run
from recprism.cmb.jobs.factors import changed_vectors
from recprism.data import Dataset
from recprism.errors import InputError
from recprism.models import Factors
from recprism.models.perturbation import Perturbation
from recprism.result.result import Result
from recprism.rule.goal import Goal
from recprism.runs.config import BudgetConfig, DiversifyConfig, RunConfig
from recprism.runs.jobs.diversify import diversify_within
from recprism.runs.run import Run
from recprism.testing.planted import make_planted

FEW = ("--draws", "2", "--controls", "40")


@pytest.fixture(scope="module")
def diversified(searched_run: Callable[..., Run]) -> Path:
    """With a quickly found perturbation of PC."""
    return searched_run(2, 16, diversity="catalogue_coverage", iterations=6).path


@pytest.mark.slow
def test_tables_and_words(diversified: Path, capsys: pytest.CaptureFixture[str], call: Callable[..., int]) -> None:
    """Under a verdict that refuses, there are nulls and controls, and no factor."""
    assert call("changes", diversified, "--user", 1) == 0
    out, _ = capsys.readouterr()
    assert "Not checked against controls yet, so no factor is named" in out
    assert "came (rank)" in out
    assert call("erase", diversified, *FEW) == 0
    out, err = capsys.readouterr()
    assert "gain left" in out
    assert out.count("matched") == 4  # two ways, two numbers of features
    for null in ("a random direction (mean of 2)", "the 5 smallest factors", "the change scaled by 0.99"):
        assert out.count(null) == 1
    assert "promotion alone" in out
    assert "shuffled within items" in out
    assert "Erasing the 5 largest entries of every row takes back" in out
    assert "Of the change of catalogue_coverage@10" in out
    kept = json.loads((diversified / "factors_explanation.json").read_text(encoding="utf-8"))
    assert kept["verdict"]["sentence"] in out
    assert not kept["verdict"]["holds"]
    assert kept["named"] == {}
    assert "Factor " not in out
    assert "takes back of" not in out
    assert "next: recprism" in err
    assert call("changes", diversified, "--user", 1) == 0
    out, _ = capsys.readouterr()
    assert kept["verdict"]["sentence"] in out
    assert "largest parts" not in out


@pytest.fixture(scope="module")
def planted(small: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A world with planted factors, where the verdict holds."""
    made = make_planted(seed=0)
    data = replace(small, categories=made.categories, attributes=pl.DataFrame({"item_id": made.split.item_ids}))
    run = Run.create(tmp_path_factory.mktemp("runs") / "planted", RunConfig())
    run.save_data(data, made.split)
    run.save_factors(Factors.from_arrays(made.user, made.item))
    run.set_diversify(DiversifyConfig(settings={}))
    search = CMB(diversity="subtopic_coverage", device="cpu").fit(run.factors(), run.split(), run.categories())
    run.save_result(Result.of_vectors(run.problem(), search.changed()))
    return run


@pytest.mark.slow
def test_a_verdict_that_holds_names_factors_next_to_nulls(
    planted: Run, capsys: pytest.CaptureFixture[str], call: Callable[..., int]
) -> None:
    assert call("erase", planted.path, "--draws", 2, "--controls", 59, "--axes", "raw") == 0
    out, _ = capsys.readouterr()
    assert "factors matter to it" in out
    for once in ("takes back of subtopic_coverage@10", "null: a random direction", "null: the change scaled by 0.99"):
        assert out.count(once) == 1
    user = planted.factors().user_ids[0]
    assert call("changes", planted.path, "--user", user, "--axes", "raw", "--json") == 0
    view = json.loads(capsys.readouterr().out)
    assert view["factors"]
    assert "factors matter to it" in view["checked"]
    assert call("changes", planted.path, "--user", user, "--axes", "raw", "--top", 1, "--json") == 0
    assert len(json.loads(capsys.readouterr().out)["factors"]) == 1 < len(view["factors"])


def test_a_number_of_factors_is_refused_where_none_is_named(
    diversified: Path, capsys: pytest.CaptureFixture[str], call: Callable[..., int]
) -> None:
    for one in (("--user", 1), ("--item", 1)):
        assert call("changes", diversified, *one, "--axes", "raw", "--top", 3) == 2
        assert "--top has no effect: no factor is named before" in capsys.readouterr().err


@pytest.mark.slow
def test_json_of_an_item(diversified: Path, capsys: pytest.CaptureFixture[str], call: Callable[..., int]) -> None:
    assert call("changes", diversified, "--item", 1, "--json") == 0
    view = json.loads(capsys.readouterr().out)
    assert view["title"] == "Toy Story (1995)"
    assert {"promotion", "entered", "left"} <= set(view)
    assert view["factors"] == []
    assert call("erase", diversified, "--draws", 1, "--controls", 0, "--features", "5", "--json") == 0
    assert {row["features"] for row in json.loads(capsys.readouterr().out)["erasure"]["rows"]} == {5}


@pytest.mark.slow
def test_results_of_a_rule_are_explained_by_the_rule(
    trained_run: Callable[..., Run], capsys: pytest.CaptureFixture[str], call: Callable[..., int]
) -> None:
    run = trained_run()
    diversify_within(run, BudgetConfig(budgets={"ndcg@10": 0.3}))
    for command, *words in (("erase",), ("changes", "--user", 1), ("changes", "--item", 1)):
        assert call(command, run.path, *words) == 2
        out, err = capsys.readouterr()
        assert not out
        assert "a rule makes its lists and no vector changed, so there are no factors to erase" in " ".join(err.split())
        assert f"recprism explain {run.path}" in err


@pytest.mark.slow
def test_json_on_users_that_were_held_out(
    diversified: Path, capsys: pytest.CaptureFixture[str], call: Callable[..., int]
) -> None:
    words = ("--goal", "sc", "--features", "3", "--held-out-users", "0.2", "--json")
    assert call("erase", diversified, *FEW, *words) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["objective"] == "subtopic_coverage@10"
    assert found["held_out_users"] == 120
    assert {row["features"] for row in found["erasure"]["rows"]} == {3}
    assert found["verdict"]["sentence"]
    assert "120 users" in found["notes"][0]
    assert [row["control"] for row in found["controls"]["rows"]][-1] == "promotion of items"


@pytest.mark.slow
def test_the_whole_curve_without_controls(
    diversified: Path, capsys: pytest.CaptureFixture[str], call: Callable[..., int]
) -> None:
    assert call("erase", diversified, "--draws", 1, "--controls", 0, "--curve") == 0
    out, err = capsys.readouterr()
    assert out.count("individual") == out.count("shared") > 30
    assert "shuffled within items" not in out
    assert "Erasing the 5 largest entries" in out
    assert "No controls were run, so no factor is named." in out
    assert "takes back of" not in out
    assert "next: recprism" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--features", "few"), "write whole numbers"),
        (("--features", "17"), "17 features cannot be erased; there are 16"),
        (("--part", "train"), "not on 'train'"),
        (("--goal", "scc@10"), "unknown metric 'scc'"),
        (("--controls", "3"), "fewer than 40 can never show a gain beyond chance"),
        (("--axes", "sideways"), "axes are"),
        (("--item", "1"), "there is no option --item; use `recprism changes` instead"),
        (("--controls", "0", "--top", "3"), "--top has no effect with --controls 0"),
    ],
)
def test_bad_words(
    words: tuple[str, ...],
    message: str,
    diversified: Path,
    capsys: pytest.CaptureFixture[str],
    call: Callable[..., int],
) -> None:
    few = () if "--controls" in words else FEW
    assert call("erase", diversified, *few, *words) == 2
    assert message in " ".join(capsys.readouterr().err.split())


def test_users_are_held_out_of_item_searches_only(diversified: Path, tmp_path: Path) -> None:
    run = Run.open(shutil.copytree(diversified, tmp_path / "run"))
    model = changed_vectors(run)
    assert model.delta_.item is not None
    model.side, model.delta_ = "user", Perturbation(user=model.delta_.item.new_zeros(model.base_.user.shape))
    run.save_result(Result.of_vectors(run.problem(), model.changed()))
    with pytest.raises(InputError, match="side=user: users that were never seen"):
        erase_run(run, held_out=0.2)


def test_users_are_divided_once() -> None:
    learn, judge = divided_users(11, 0.2)
    assert len(judge) == 2
    assert np.array_equal(np.sort(np.concatenate([learn, judge])), np.arange(11))
    with pytest.raises(InputError, match="name a share between 0 and 1"):
        divided_users(11, 1.0)


def test_the_objective_is_what_the_run_was_diversified_for(diversified: Path) -> None:
    found = Run.open(diversified).load_result()
    for goal, wanted in (
        ("catalogue_coverage", "catalogue_coverage@10"),
        ("alpha_ndcg+catalogue_coverage", "alpha_ndcg@10"),
    ):
        assert replace(found, goal=Goal.parse(goal)).objective == wanted
    assert found.vectors is not None
    search = CMB.of_changed(found.vectors)
    search.diversity = {"alpha_ndcg": 1.0, "catalogue_coverage": 2.0}
    assert Question.about(search).objective == "alpha_ndcg@10"
