"""Limits and numbers on the command line: two for one thing, nan, infinity, and lists for some of the users."""

from __future__ import annotations

import importlib.util
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import typer

from recprism.cli import app
from recprism.cli._usage import UsageError
from recprism.runs.run import Run

Recprism = Callable[..., Any]
ERRORS = Path(__file__).parents[1] / "trust" / "errors.py"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small files and runs of the page of errors."""
    spec = importlib.util.spec_from_file_location("files_of_errors", ERRORS)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["files_of_errors"] = module
    spec.loader.exec_module(module)
    folder = tmp_path_factory.mktemp("files")
    module.folder_of_files(folder)
    return folder


@pytest.fixture
def world(files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of them, which is the current folder."""
    shutil.copytree(files, tmp_path / "world")
    monkeypatch.chdir(tmp_path / "world")
    return tmp_path / "world"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("diversify run --budget 0.01 --guard ndcg@10=0.5", "--budget and --guard ndcg@10= limit the same metric"),
        ("diversify run --budget 0.01 --guard ndcg=50%", "--budget and --guard ndcg@10= limit the same metric"),
        ("experiment found --budget 1% --guard ndcg=50%", "--budget and --guard ndcg@10= limit the same metric"),
        ("audit run --guard ndcg=50%", "ndcg@10 has the budget already"),
        ("check found --max-ndcg-loss 0.001 --max-loss ndcg@10=0.9", "--max-ndcg-loss and --max-loss ndcg@10="),
        ("check found --max-loss recall=1% --max-loss recall@10=90%", "recall@10, which is given twice"),
        (
            "check found --min-gain sc=1% --min-gain subtopic_coverage@10=9%",
            "subtopic_coverage@10, which is given twice",
        ),
        ("diversify run --budget 1% --pin 1=5 --pin 01=6", "--pin 1 is given twice"),
        ("diversify run --budget 1% --pin ²=5", "--pin ²=5: write PLACE=ITEM"),
        ("diversify run --budget 1% --pin 0=5", "--pin 0=5: write PLACE=ITEM"),
        ("diversify run --budget 1% --ban ²", "item id '²' is unknown"),
        ("steer found --user 1 --set Drama=1 --set Drama=2", "--set Drama is given twice"),
        ("steer found --user 1 --set Drama=nan", "--set Drama=nan: write DIAL=SHARE"),
        ("steer found --user 1 --set Drama=inf", "--set Drama=inf: write DIAL=SHARE"),
        ("train --data a.csv --threshold nan -o new", "--threshold nan: write a number, or none"),
        (
            "import --user-vectors u.npy --item-vectors i.npy --interactions a.csv --threshold inf -o new",
            "--threshold inf: write a number",
        ),
        ("check found --max-ndcg-loss 5", "did you mean 5%?"),
        ("check found --max-loss recall@20=nan", "nan is not a share"),
        ("check found --min-gain sc=inf", "inf is not a share"),
        ("diversify run --budget 1% --min-share k0=nan", "nan is not a share"),
        ("audit run --guard pc=5%", "has one value for all users together"),
        ("diversify run --budget 1% --guard catalogue_coverage@10=5%", "has one value for all users together"),
        ("evaluate run -m ''", "'' names no metric"),
        ("evaluate run -m ,", "',' names no metric"),
        ("frontier plain", "needs categories of the items"),
        ("recommend run --users ,", "--users is empty"),
        ("search run --set patience=3", "--set patience has no effect with marginal credit; it works with shared"),
        ("search run --preset shared --set rate=0.1", "--set rate has no effect with shared credit"),
        ("search run --preset shared --set confidence=2", "it works with policy=ucb"),
        ("search run --preset shared --set lambda2=0.5", "--set lambda2 has no effect without --accuracy"),
        ("diversify run --budget 1% --ban ,", "--ban is empty"),
        ("audit run --goal ''", "--goal is empty"),
        ("frontier run --rivals ''", "--rivals is empty"),
        ("train --data a.csv --items items.csv --category-column '' -o new", "--category-column is empty"),
        ("monitor found --lists lists.csv --day-column day --column day=rank", "name the same column"),
        ("studio run --token ''", "--token (or RECPRISM_TOKEN) is empty"),
        ("data fetch ml-1m --mirror nonsense", "the mirror 'nonsense' is no address"),
        ("evaluate-lists lists.csv -m paper", "lists.csv: the metrics of the paper need lists of 20 places"),
        ("evaluate-lists lists.csv --catalogue-size 1", "the files name 2 items, and the catalogue size is 1"),
        ("evaluate-lists lists.csv --run run --missing drop", "missing is skip or zero, not 'drop'"),
    ],
)
def test_a_limit_that_would_be_lost_is_refused(world: Path, recprism: Recprism, line: str, said: str) -> None:
    refused = recprism(*shlex.split(line))
    assert (refused.code, refused.out) == (2, "")
    assert said in refused.err.splitlines()[-1]
    assert not (world / "new").exists()


def number_options() -> Iterator[Any]:
    """Every option of the parser whose value is a number with a fraction."""
    groups = [("", typer.main.get_command(app))]
    for path, group in groups:
        for name, command in group.commands.items():  # type: ignore[attr-defined]
            if hasattr(command, "commands"):
                groups.append((f"{path} {name}".strip(), command))
                continue
            for param in command.params:
                option = max(param.opts, key=len)
                accepts = [not refuses(command, option, word) for word in ("0.05", "0.6")]
                if param.param_type_name == "option" and any(accepts) and refuses(command, option, "much"):
                    yield pytest.param(command, option, id=f"{path} {name} {option}".strip())


def refuses(command: Any, option: str, value: str) -> bool:
    """Whether the parser refuses a value; missing arguments are no matter."""
    try:
        command.make_context("recprism", [option, value], resilient_parsing=False)
    except UsageError as problem:
        return option in getattr(getattr(problem, "param", None), "opts", ())
    return False


@pytest.mark.parametrize(("command", "option"), list(number_options()))
def test_no_number_is_nan_or_infinite(command: Any, option: str) -> None:
    for value in ("nan", "inf", "-inf", "1e999", "nan%"):
        assert refuses(command, option, value), value


def half_of_the_lists(run: Path, path: Path) -> int:
    """Write the run's own lists for the first half of its users; return how many users that are."""
    from recprism.runs.jobs.train import recommend

    lists = recommend(Run.open(run), 5, live=False)[0].drop("score")
    users = lists["user_id"].unique(maintain_order=True)[: lists["user_id"].n_unique() // 2]
    lists.filter(pl.col("user_id").is_in(users.implode())).write_csv(path)
    return len(users)


def mean(outcome: Any, metric: str) -> float:
    return next(float(row["mean"]) for row in outcome.json["scores"] if row["metric"] == metric)


def test_lists_for_half_of_the_users_are_judged_by_themselves(world: Path, ok: Recprism) -> None:
    n = half_of_the_lists(world / "run", world / "half.csv")
    wanted = ("-m", "hit_rate@5,subtopic_coverage@5", "--bootstrap", 0, "--json")
    judged = ok("evaluate-lists", "half.csv", "--run", "run", *wanted)
    zero = ok("evaluate-lists", "half.csv", "--run", "run", "--missing", "zero", *wanted)
    total = Run.open(world / "run").split().n_users
    assert {row["n_users"] for row in judged.json["scores"] if row["metric"] == "subtopic_coverage"} == {n}
    assert judged.json["notes"][0].startswith(f"{n} of {total} users of the run have a list; only these count")
    assert zero.json["notes"][0] == f"{n} of {total} users of the run have a list; the others count as empty lists"
    assert mean(zero, "subtopic_coverage") == pytest.approx(mean(judged, "subtopic_coverage") * n / total)


def test_held_out_users_without_a_list(world: Path, ok: Recprism) -> None:
    (world / "some.csv").write_text("user_id,item_id,rank\n1,2,1\n1,3,2\n")
    (world / "taken.csv").write_text("user_id,item_id\n1,2\n7,2\n8,3\n")
    wanted = ("evaluate-lists", "some.csv", "--held-out", "taken.csv", "-m", "hit_rate@2", "--bootstrap", 0, "--json")
    judged, zero = ok(*wanted), ok(*wanted, "--missing", "zero")
    assert [mean(it, "hit_rate") for it in (judged, zero)] == pytest.approx([1, 1 / 3])
    assert any(note.startswith("1 of 3 users with held-out items have a list") for note in judged.json["notes"])


def test_a_setting_of_none_is_kept_and_read_back(world: Path, ok: Recprism) -> None:
    words = ("train", "--data", "a.csv", "--split", "paper", "--set", "epochs=1", "--set", "dim=4")
    ok(*words, "--set", "patience=none", "-o", "new")
    assert Run.open("new").config.model.settings["patience"] is None
    assert 'patience = "none"' in (world / "new" / "config.toml").read_text()
    ok(
        "search",
        "run",
        "--preset",
        "shared",
        "--goal",
        "ilad",
        "--set",
        "patience=none",
        "--set",
        "k=5",
        "--set",
        "iterations=2",
    )
    found = Run.open("run").config.diversify
    assert found is not None and found.settings["patience"] is None


@pytest.mark.parametrize(
    "line", ["diversify run --budget 1% --budget 50%", "recommend run --part nonsense --part test", "train -o a -o b"]
)
def test_a_second_value_of_an_option_is_refused(world: Path, recprism: Recprism, line: str) -> None:
    found = recprism(*line.split())
    assert found.code == 2
    assert "is given twice; give it once" in found.err


def test_a_sentence_is_one_line_whatever_it_quotes(world: Path, recprism: Recprism) -> None:
    found = recprism("evaluate", "a\nb\x1b[31m")
    assert found.code == 2
    assert found.err.count("\n") == 1 and "a\\nb\\x1b" in found.err
