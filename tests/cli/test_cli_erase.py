"""`recprism erase` as a user meets it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from recprism.budget import Diversified
from recprism.errors import InputError
from recprism.explain.factors._held_out import divided_users
from recprism.models import Factors
from recprism.models.perturbation import Perturbation
from recprism.runs.jobs.erasure import erase_run
from recprism.runs.run import Run

FEW = ("--draws", "2", "--controls", "3")


@pytest.fixture(scope="module")
def diversified(searched_run: Callable[..., Run]) -> Path:
    """With a quickly found perturbation of PC."""
    return searched_run(2, 16, diversity="catalogue_coverage", iterations=6).path


def test_tables_and_words(diversified: Path, capsys: pytest.CaptureFixture[str], call: Callable[..., int]) -> None:
    assert call("erase", diversified, *FEW) == 0
    out, err = capsys.readouterr()
    assert "gain left" in out
    assert out.count("matched") == 4  # two ways, two numbers of features
    assert "shuffled within items" in out
    assert "Erasing the 5 largest entries of every row takes back" in out
    assert "Of the change of catalogue_coverage@10" in out
    assert "so few draws of the controls cannot show a gain beyond chance" in out
    assert err.rstrip().splitlines()[-2].startswith("next: recprism")


def test_json_on_users_that_were_held_out(
    diversified: Path, capsys: pytest.CaptureFixture[str], call: Callable[..., int]
) -> None:
    words = ("--goal", "sc", "--features", "3", "--held-out-users", "0.2", "--json")
    assert call("erase", diversified, *FEW, *words) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["objective"] == "subtopic_coverage@10"
    assert found["held_out_users"] == 120
    assert {row["features"] for row in found["erasure"]["rows"]} >= {0, 3, 5, 10, 16}
    assert found["verdict"]["holds"] is False
    assert "sentence" in found["verdict"]
    assert [row["control"] for row in found["controls"]["rows"]][-1] == "promotion of items"


def test_the_whole_curve_without_controls(
    diversified: Path, capsys: pytest.CaptureFixture[str], call: Callable[..., int]
) -> None:
    assert call("erase", diversified, "--draws", 1, "--controls", 0, "--curve") == 0
    out, err = capsys.readouterr()
    assert out.count("individual") == out.count("shared") > 30
    assert "shuffled within items" not in out
    assert "Erasing the 5 largest entries" in out
    assert "explains nothing" not in out
    assert "next: recprism" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--features", "few"), "write whole numbers"),
        (("--features", "17"), "17 features cannot be erased; there are 16"),
        (("--part", "train"), "not on 'train'"),
        (("--goal", "scc@10"), "unknown metric 'scc'"),
    ],
)
def test_bad_words(
    words: tuple[str, ...],
    message: str,
    diversified: Path,
    capsys: pytest.CaptureFixture[str],
    call: Callable[..., int],
) -> None:
    assert call("erase", diversified, *FEW, *words) == 2
    assert message in " ".join(capsys.readouterr().err.split())


def test_users_are_held_out_of_item_searches_only(diversified: Path, tmp_path: Path) -> None:
    run = Run.open(shutil.copytree(diversified, tmp_path / "run"))
    base, found = run.factors(), run.diversified()
    run.save_result(Diversified(base, "catalogue_coverage", "item-vectors", change=found.change))
    with pytest.raises(InputError, match="made from lists"):
        erase_run(run, held_out=0.2)
    model = found.search
    model.side, model.delta_ = "user", Perturbation(user=model.delta_.item.new_zeros(base.user.shape))
    run.save_result(Diversified.of_search(model))
    with pytest.raises(InputError, match="side=user: users that were never seen"):
        erase_run(run, held_out=0.2)


def test_users_are_divided_once() -> None:
    learn, judge = divided_users(11, 0.2)
    assert len(judge) == 2
    assert np.array_equal(np.sort(np.concatenate([learn, judge])), np.arange(11))
    with pytest.raises(InputError, match="name a share between 0 and 1"):
        divided_users(11, 1.0)


def test_the_objective_is_what_the_run_was_diversified_for() -> None:
    base = Factors.from_arrays(np.ones((2, 2), np.float32), np.ones((3, 2), np.float32))

    def objective(goal: str) -> str:
        return Diversified(base, goal, "item-vectors").objective

    assert objective("catalogue_coverage") == "catalogue_coverage@10"
    assert objective("alpha_ndcg+catalogue_coverage") == "alpha_ndcg@10"
    assert objective("a_function_of_mine") == "subtopic_coverage@10"
