"""The command line as a user meets it: data on stdout, words on stderr, exit codes, nothing half-written."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from recprism.cli import PANELS
from recprism.data import Dataset
from recprism.forms import load_export
from recprism.runs.config import RunConfig
from recprism.runs.run import Run

QUICK = ["--set", "epochs=2"]


Recprism = Callable[..., Any]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A quickly trained run on the embedded data."""
    path = tmp_path_factory.mktemp("runs") / "quick"
    subprocess.run([sys.executable, "-m", "recprism", "train", "-o", path, *QUICK], check=True, capture_output=True)
    return path


@pytest.mark.slow
def test_demo_end_to_end(recprism: Recprism, tmp_path: Path) -> None:
    outcome = recprism("demo", "-o", tmp_path / "demo")
    assert outcome.code == 0, outcome.err
    assert re.search(r"ndcg@10\s+0\.\d+", outcome.out)
    assert "in words:" in outcome.out
    assert re.search(r"Within a 5 % budget of NDCG@10: \+\d+\.\d % subtopic_coverage@10, measured on", outcome.out)
    assert f"the report: {tmp_path / 'demo' / 'report.html'}" in outcome.out
    files = {path.name for path in (tmp_path / "demo").iterdir()}
    assert files == {
        "config.toml",
        "events.jsonl",
        "split.parquet",
        "items.parquet",
        "categories.parquet",
        "factors.safetensors",
        "factors.json",
        "recommendations.parquet",
        "metrics.parquet",
        "delta.safetensors",
        "result.json",
        "path.subtopic_coverage.safetensors",
        "audit.json",
        "CARD.md",
        "certificate.json",
        "report.html",
    }


def test_train_recommend_evaluate(recprism: Recprism, trained: Path, tmp_path: Path) -> None:
    words = (
        "evaluate",
        trained,
        "--json",
        "-m",
        "ndcg@10,subtopic_coverage@20,catalogue_coverage@10",
        "--bootstrap",
        50,
        "--seed",
        3,
    )
    result = recprism(*words, "-o", tmp_path / "metrics.csv")
    assert pl.read_csv(tmp_path / "metrics.csv")["metric"].to_list() == [
        "ndcg",
        "subtopic_coverage",
        "catalogue_coverage",
        "gini",
    ]
    scores = {row["metric"]: row for row in result.json["scores"]}
    assert set(scores) == {"ndcg", "subtopic_coverage", "catalogue_coverage", "gini"}
    assert 0 < scores["ndcg"]["low"] < scores["ndcg"]["mean"] < scores["ndcg"]["high"] < 1
    assert pl.read_parquet(trained / "metrics.parquet").height == 4

    outcome = recprism("recommend", trained, "-k", 5, "-o", tmp_path / "lists.csv")
    assert outcome.code == 0
    lists = pl.read_csv(tmp_path / "lists.csv")
    assert lists.columns == ["user_id", "item_id", "rank", "score"]
    assert lists.height == 601 * 5

    one = recprism("recommend", trained, "--users", "1", "--json")
    assert [row["rank"] for row in json.loads(one.out)] == list(range(1, 11))


def test_a_file_of_lists_is_judged_as_the_run_itself(recprism: Recprism, trained: Path, tmp_path: Path) -> None:
    recprism("recommend", trained, "-k", 10, "--judged", "-o", tmp_path / "lists.parquet")
    wanted = "ndcg@10,recall@10,subtopic_coverage@10,catalogue_coverage@10,ilad@10,alpha_ndcg@10"
    own = recprism("evaluate", trained, "--json", "-m", wanted, "--bootstrap", 0).json
    foreign = recprism(
        "evaluate-lists", tmp_path / "lists.parquet", "--run", trained, "--json", "-m", wanted, "--bootstrap", 0
    ).json
    assert own["scores"] == foreign["scores"]
    assert foreign["notes"] == []
    recprism("recommend", trained, "-k", 10, "-o", tmp_path / "live.parquet")
    live = recprism(
        "evaluate-lists", tmp_path / "live.parquet", "--run", trained, "--json", "-m", wanted, "--bootstrap", 0
    )
    assert {row["mean"] for row in live.json["scores"] if row["metric"] in ("ndcg", "recall")} == {0.0}
    assert any("live lists never do" in note for note in live.json["notes"]), "a figure of 0 is explained"


def test_nothing_but_a_file_of_lists(recprism: Recprism, tmp_path: Path) -> None:
    (tmp_path / "lists.csv").write_text("user_id,item_id,rank\na,x,1\na,y,2\nb,x,1\nb,z,2\n")
    outcome = recprism("evaluate-lists", tmp_path / "lists.csv", "--json", "-m", "personalisation@2,gini@2")
    scores = {row["metric"]: row["mean"] for row in outcome.json["scores"]}
    assert scores["personalisation"] == pytest.approx(0.5)
    assert any("the catalogue is not known" in note for note in outcome.json["notes"])
    plain = recprism("evaluate-lists", tmp_path / "lists.csv")
    assert plain.code == 0, plain.err
    refused = recprism("evaluate-lists", tmp_path / "lists.csv", "--part", "validation")
    assert (refused.code, "--part has no effect without --run" in refused.err) == (2, True)


def test_lists_with_files_beside_them(recprism: Recprism, tmp_path: Path) -> None:
    (tmp_path / "lists.csv").write_text("user_id,item_id,rank\na,x,1\na,y,2\nb,x,2\nb,z,1\n")
    (tmp_path / "test.csv").write_text("user_id,item_id\na,y\nb,x\nb,w\nc,x\n")
    (tmp_path / "items.csv").write_text("item_id,genres\nx,g|h\ny,g\nz,h\nw,k\n")
    outcome = recprism(
        *(
            "evaluate-lists",
            tmp_path / "lists.csv",
            "--held-out",
            tmp_path / "test.csv",
            "--items",
            tmp_path / "items.csv",
        ),
        *("--category-column", "genres", "--json", "-m", "recall@2,subtopic_coverage@2,catalogue_coverage@2,mrr@2"),
    )
    scores = {row["metric"]: row["mean"] for row in outcome.json["scores"]}
    assert scores == {
        "recall": pytest.approx(0.75),
        "subtopic_coverage": pytest.approx(2 / 3),
        "catalogue_coverage": pytest.approx(0.75),
        "gini": pytest.approx(0.375),
        "mrr": pytest.approx(0.5),
    }


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("user_id,item_id\na,x\n", "no column 'rank'"),
        ("user_id,item_id,rank\na,x,1\na,y,1\n", "row 2: user 'a' has rank 1.0 more than once"),
        ("user_id,item_id,rank\na,x,1\na,x,2\n", "row 2: user 'a' has item_id 'x' more than once"),
        ("user_id,item_id,rank\na,x,first\n", "row 2: rank is not a finite number"),
    ],
)
def test_bad_lists(content: str, message: str, recprism: Recprism, tmp_path: Path) -> None:
    (tmp_path / "lists.csv").write_text(content)
    outcome = recprism("evaluate-lists", tmp_path / "lists.csv")
    assert outcome.code == 2
    assert message in outcome.err
    assert outcome.out == ""


def test_a_run_without_a_model_is_refused_before_metrics_are_kept(
    recprism: Recprism, trained: Path, small: Dataset, tmp_path: Path
) -> None:
    unfinished = Run.create(tmp_path / "unfinished", RunConfig())
    unfinished.save_data(small, small.split(seed=0))
    before = {path: path.read_bytes() for path in trained.rglob("*") if path.is_file()}
    outcome = recprism("evaluate", trained, "--against", unfinished.path, "--bootstrap", "0", "-m", "recall@7")
    assert outcome.code == 2
    assert before == {path: path.read_bytes() for path in trained.rglob("*") if path.is_file()}


def test_two_runs_compare_with_a_paired_test(recprism: Recprism, trained: Path, tmp_path: Path) -> None:
    assert recprism("train", "-o", tmp_path / "other", "--set", "dim=4", *QUICK).code == 0
    outcome = recprism(
        "evaluate", tmp_path / "other", "--against", trained, "--json", "-m", "ndcg@10,catalogue_coverage@10"
    )
    rows = {row["metric"]: row for row in outcome.json["rows"]}
    assert rows["ndcg"]["difference"] == pytest.approx(rows["ndcg"]["b"] - rows["ndcg"]["a"])
    assert 0 <= rows["ndcg"]["p_value"] <= 1
    assert rows["catalogue_coverage"]["p_value"] is None


def test_stats_as_json(recprism: Recprism) -> None:
    stats = recprism("data", "stats", "ml-latest-small", "--json").json
    assert {name: stats[name] for name in ("users", "items", "interactions", "categories")} == {
        "users": 601,
        "items": 1955,
        "interactions": 41_227,
        "categories": 19,
    }


def test_stats_of_ml1m(recprism: Recprism, real_data: Path) -> None:
    stats = recprism("data", "stats", "ml-1m", "--preset", "paper", "--data-root", real_data, "--json")
    assert stats.out.startswith('{"users": 5950, "items": 3125, "interactions": 573726, "categories": 18, ')


def test_show_prints_the_licence_of_the_embedded_set(recprism: Recprism) -> None:
    outcome = recprism("data", "show", "ml-latest-small")
    assert "Usage License" in outcome.out
    assert "Harper and Joseph A. Konstan" in outcome.out
    assert outcome.code == 0


def test_every_command_explains_itself(recprism: Recprism) -> None:
    names = [[name] for panel in PANELS.values() for name in panel]
    for words in ([], *names, ["data", "list"], ["data", "show"], ["data", "stats"], ["data", "fetch"]):
        outcome = recprism(*words, "--help")
        assert outcome.code == 0
        assert "Usage" in outcome.out
        assert "<bool>" not in outcome.out, "a flag has no type"
        if words and words != ["data"]:
            assert re.search(rf"Examples:\s+• recprism {' '.join(words)}", outcome.out), words


def test_help_groups_commands_by_purpose(recprism: Recprism, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = recprism("--help").out
    assert re.findall(r"─ (\w+) ─", shown) == ["Options", *PANELS]
    assert re.findall(r"(?m)^│ ([a-z][a-z-]*) ", shown) == [name for panel in PANELS.values() for name in panel]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["train", "--data", "ml-2m"], "unknown data set 'ml-2m'"),
        (["train", "--model", "svd"], "model 'svd' is not known"),
        (["train", "--set", "dims=5"], "dims"),
        (["train", "--set", "dim"], "--set dim: write NAME=VALUE"),
        (["train", "--set", "dim=-1"], "dim"),
        (["train", "--split", "half"], "--split is 'half'; choose one of random"),
        (["train", "--data", "a.csv", "--column", "who=x"], "unknown name 'who'"),
        (["train", "--threshold", "high"], "write a number, or none"),
        (["evaluate", "nowhere"], "nowhere: not a run directory"),
        (["recommend", "nowhere"], "not a run directory"),
        (["resume", "nowhere"], "not a run directory"),
        (["data", "fetch", "amazon-cds-2014"], "no public address"),
        (["train", "--device", "tpu"], "tpu"),
        (["diversify", "run", "--budget", "5"], "--budget: 5 is not a share from 0.0001 to 0.5; did you mean 5%?"),
        (["diversify", "run", "--budget", "nan"], "--budget: nan is not a share"),
        (["diversify", "run", "--tail-floor", "inf"], "--tail-floor: inf is not a share"),
        (["refit", "run", "--like", "old", "--max-churn", "20"], "did you mean 20%?"),
        (
            ["audit", "run", "--confidence", "95"],
            "95 is not a share from 0.5 to 0.9999; did you mean 95%?",
        ),
        (["audit", "run", "--show", "1.5"], "did you mean 1.5%?"),
        (["check", "run", "--max-ndcg-loss", "1.5"], "did you mean 1.5%?"),
        (
            ["check", "run", "--min-gain", "catalogue_coverage@10=5"],
            "--min-gain catalogue_coverage@10: 5 is not a share above 0; did you mean 5%?",
        ),
        (["monitor", "run", "--lists", "x.csv", "--floor", "80"], "did you mean 80%?"),
        (["experiment", "run", "--alpha", "5"], "--alpha: 5 is not a share from 0.0001 to 0.5; did you mean 5%?"),
        (["experiment", "run", "--power", "80"], "did you mean 80%?"),
        (["export", "run", "--alpha", "50"], "--alpha: 50 is not a share from 0 to 1; did you mean 50%?"),
        (["erase", "run", "--held-out-users", "20"], "did you mean 20%?"),
        (["recommend", "run", "-k", "0"], "-k: write a number of at least 1"),
        (["studio", "run", "--port", "99999"], "--port: write a number of at most 65535"),
        (["train", "--seed", "abc"], "--seed: write a whole number"),
        (["train", "--modl", "als"], "there is no option --modl; did you mean --model?"),
        (["train", "--nope"], "there is no option --nope; see `recprism train --help`"),
        (["train", "--subtopic-column", "a"], "there is no option --subtopic-column; it is --category-column now"),
        (["check", "run", "--concepts", "a"], "there is no option --concepts any more"),
        (["launch", "run"], "no such command 'launch'"),
        (["serve", "run"], "run is no export of a rule; write one with `recprism export RUN`"),
        (["diversify", "run"], "--budget is missing: name the share of NDCG@10 that may be lost"),
        (["diversify", "run"], "`recprism search run` searches without a budget"),
        (["diversify", "run", "--accuracy", "recall"], "there is no option --accuracy"),
        (["search", "run", "--budget", "5%"], "there is no option --budget"),
        (["explain", "run", "--user", "1"], "there is no option --user; use `recprism why` instead"),
        (["refit", "run"], "--like is missing"),
        (["search"], "RUN is missing"),
        (["search", "--resume", "run"], "there is no option --resume; use `recprism resume` instead"),
        (["train", "--resume", "run"], "there is no option --resume; use `recprism resume` instead"),
        (["check", "run", "--min-gain", "sc=5%", "--min-gain", "sc=6%"], "--min-gain sc is given twice"),
        (["trian"], "no such command 'trian'; did you mean 'train'?"),
        (["recommend"], "RUN is missing; see `recprism recommend --help`"),
        (["monitor", "run"], "--lists is missing; see `recprism monitor --help`"),
    ],
)
def test_bad_words_get_one_sentence_and_exit_2(
    words: list[str], message: str, recprism: Recprism, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = recprism(*words)
    assert outcome.code == 2, outcome.err
    assert message in outcome.err
    assert outcome.out == ""
    assert len(outcome.err.strip().splitlines()) == 1, outcome.err
    assert list(tmp_path.iterdir()) == [], "nothing half-written"


def test_a_run_is_not_overwritten_unasked(recprism: Recprism, trained: Path, tmp_path: Path) -> None:
    outcome = recprism("train", "-o", trained, *QUICK)
    assert outcome.code == 2
    assert "already holds a run" in outcome.err
    (tmp_path / "notes.txt").write_text("mine")
    outcome = recprism("train", "-o", tmp_path, *QUICK)
    assert outcome.code == 2
    assert "not empty and holds no run" in outcome.err
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_damaged_run_says_what_is_damaged(recprism: Recprism, trained: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(trained, broken)
    for name in ("factors.safetensors", "split.parquet", "factors.json", "config.toml"):
        whole = (broken / name).read_bytes()
        (broken / name).write_bytes(whole[: len(whole) // 2])
        outcome = recprism("evaluate", broken, "-m", "ndcg@10")
        assert outcome.code == 2, (name, outcome.err)
        assert name.partition(".")[0] in outcome.err
        (broken / name).write_bytes(whole)


@pytest.mark.slow
def test_interrupted_training_resumes_to_the_same_bits(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "recprism", "train", "--set", "epochs=30", "--set", "patience=30"]
    subprocess.run([*command, "-o", tmp_path / "whole"], check=True, capture_output=True)
    process = subprocess.Popen(
        [*command, "-o", tmp_path / "cut"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 300
    while not (tmp_path / "cut" / "training.checkpoint.safetensors").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, words = process.communicate(timeout=300)
    assert process.returncode == 130
    assert f"recprism resume {tmp_path / 'cut'}" in words
    assert not (tmp_path / "cut" / "factors.safetensors").exists()
    subprocess.run([sys.executable, "-m", "recprism", "resume", tmp_path / "cut"], check=True, capture_output=True)
    for name in ("factors.safetensors",):
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


@pytest.mark.slow
def test_search_shows_change_and_controls(recprism: Recprism, trained: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(trained, run)
    words = (
        "search",
        run,
        "--goal",
        "pc",
        "--set",
        "iterations=5",
        "-m",
        "ndcg@10,catalogue_coverage@10",
    )
    outcome = recprism(*words, "--json")
    assert outcome.code == 0, outcome.err
    assert {row["metric"] for row in outcome.json["change"]["rows"]} == {"ndcg", "catalogue_coverage", "gini"}
    assert set(outcome.json["controls"]) == {"permuted", "noise", "popularity"}
    assert (run / "delta.safetensors").exists()
    again = recprism(*words)
    assert again.code == 2
    assert "already has a result" in again.err
    assert recprism(*words, "--overwrite").code == 0
    base, perturbed = (recprism("recommend", run, "--users", "1", "--json", *more).json for more in (["--base"], []))
    assert base != perturbed


@pytest.mark.slow
def test_audit_shows_what_diversity_costs(recprism: Recprism, trained: Path) -> None:

    def files() -> dict[Path, int]:
        """The files of the run, without what it remembers: lists of paths, questions and answers."""
        known = ("path.", "events.jsonl", "audit.json")
        return {path: path.stat().st_mtime_ns for path in trained.iterdir() if not path.name.startswith(known)}

    before = files()
    outcome = recprism("audit", trained, "--goal", "subtopic_coverage", "--guard", "recall@20=0.1", "--json")
    assert outcome.code == 0, outcome.err
    front = outcome.json["fronts"]["subtopic_coverage"]
    assert 8 <= len(front["points"]) <= 32
    assert [row["budget"] for row in front["budgets"]] == [0.01, 0.05]
    assert outcome.json["payers"] is not None
    assert files() == before, "an audit changes no list"
    assert outcome.json["asked_before"] is None
    again = recprism("audit", trained, "--goal", "subtopic_coverage", "--guard", "recall@20=0.1", "--json")
    assert again.json["asked_before"] is None, "the same questions are not counted twice"
    other = recprism("audit", trained, "--goal", "subtopic_coverage", "--budgets", "2%")
    told = "answered 2 other questions before; all answers together hold with at least 90 % confidence."
    assert told in other.out
    shown = recprism("audit", trained, "--goal", "subtopic_coverage", "--show", "0.1")
    assert "who pays" in shown.out
    assert shown.err.rstrip().splitlines()[-1].startswith("  or: recprism frontier")


@pytest.mark.parametrize("command", ["audit", "evaluate"])
def test_a_file_of_lists_is_no_run(recprism: Recprism, tmp_path: Path, command: str) -> None:
    (tmp_path / "lists.csv").write_text("user_id,item_id,rank\na,x,1\n")
    refused = recprism(command, tmp_path / "lists.csv")
    assert (refused.code, "`recprism evaluate-lists` takes lists in files" in refused.err) == (2, True)


def test_diversify_within_a_budget(recprism: Recprism, trained: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(trained, run)
    outcome = recprism(
        "diversify",
        run,
        "--budget",
        "0.1",
        "--goal",
        "subtopic_coverage",
        "-m",
        "ndcg@10,subtopic_coverage@10",
        "--json",
    )
    assert outcome.code == 0, outcome.err
    changes = {row["metric"]: row["relative"] for row in outcome.json["change"]["rows"]}
    assert changes["subtopic_coverage"] > 0.05
    assert changes["ndcg"] > -0.1
    stored = json.loads((run / "certificate.json").read_text())
    assert stored["certificate"]["points"][stored["certificate"]["last"]]["certified"]
    served = recprism("evaluate", run, "-m", "subtopic_coverage@10", "--json")
    base = recprism("evaluate", run, "-m", "subtopic_coverage@10", "--json", "--base")
    assert served.json["scores"][0]["mean"] > base.json["scores"][0]["mean"]
    refused = recprism("diversify", run, "--budget", "0.1")
    assert refused.code == 2
    assert "already has a result" in refused.err
    for words, message in (
        (["--goal", "fun"], "no path towards 'fun'"),
        (["--into", "dials"], "there is no option --into"),
        (["--guard", "recall@20"], "write NAME=VALUE"),
        (["--guard", "recall@20=2"], "--guard recall@20: 2 is not a share above 0 and below 1; did you mean 2%?"),
        (["--min-share", "Dramma=0.2"], "no category 'Dramma'"),
        (["--max-share", "Drama=much"], "--max-share Drama: much is not a share from 0 to 1"),
        (["--max-items", "category=few"], "--max-items category=few: write FIELD=NUMBER with a number from 1 up"),
        (["--spacing", "author=2"], "the item table has no column 'author' for max_items or spacing; it has"),
        (["--ban", "123456789"], "123456789"),
    ):
        wrong = recprism("diversify", run, "--budget", "0.1", "--overwrite", *words)
        assert wrong.code == 2
        assert message in wrong.err
    assert (run / "certificate.json").exists(), "nothing was touched by words that are wrong"


@pytest.mark.slow
def test_an_editor_has_rules(recprism: Recprism, trained: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(trained, run)
    rules = ["--ban", "296,593", "--pin", "1=318", "--max-share", "Drama=0.5", "--allow-violations"]
    outcome = recprism(
        "diversify",
        run,
        "--budget",
        "0.4",
        "--goal",
        "subtopic_coverage",
        "-m",
        "subtopic_coverage@10",
        *rules,
        "--json",
    )
    assert outcome.code == 0, outcome.err
    rows = {row["constraint"]: row for row in outcome.json["violations"]["constraints"]}
    assert rows["banned items"]["lists"] == 0
    split = pl.read_parquet(run / "split.parquet").filter(pl.col("item_id") == 318)
    for words, known in (((), split), (("--judged",), split.filter(pl.col("part") != "test"))):
        assert recprism("recommend", run, *words, "-o", tmp_path / "lists.csv").code == 0
        lists = pl.read_csv(tmp_path / "lists.csv")
        assert not lists["item_id"].is_in([296, 593]).any()
        have_seen = known["user_id"].unique().to_list()
        first = lists.filter(pl.col("rank") == 1, ~pl.col("user_id").is_in(have_seen))
        assert (first["item_id"] == 318).all(), "pinned for all users who may still see it"
        assert len(first) < 601


@pytest.mark.slow
def test_dials_on_the_command_line(recprism: Recprism, trained: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(trained, run)
    assert recprism("diversify", run, "--budget", "20%").code == 0
    figures = recprism("dials", run, "--json").json
    assert {"lists_held", "explained_swaps", "explained_gain", "dials_per_changed_user", "unit"} <= figures.keys()
    assert figures["lists_held"] > 0.95
    before = recprism("recommend", run, "--users", "1", "--json").json
    set_once = recprism("steer", run, "--user", "1", "--set", "Animation=+0.3", "--json").json
    assert set_once["after"] != set_once["before"]
    assert set(set_once["before"]) == {row["item_id"] for row in before}
    exported = ("export", run, "--form", "dials", "-o")
    assert recprism("steer", run, "--user", "1", "--set", "Animation=+0.3", "--keep").code == 0
    assert recprism("recommend", run, "--users", "1", "--json").json == before, "lists of the rule use no settings"
    assert recprism(*exported, tmp_path / "set").code == 0
    assert recprism("steer", run, "--user", "1", "--set", "Animation=0", "--keep").code == 0
    assert recprism(*exported, tmp_path / "plain").code == 0
    live = Run.open(run).problem().live()
    row = np.flatnonzero(live.factors.user_ids == 1)
    for name, wanted in (("set", set_once["after"]), ("plain", set_once["before"])):
        items = live.rank(load_export(tmp_path / name), users=row)[0][0]
        assert live.factors.item_ids[items].tolist() == wanted
    for wrong in ("Cooking=0.1", "Animation=2", "Animation=much", "Animation"):
        assert recprism("steer", run, "--user", "1", "--set", wrong).code == 2


@pytest.mark.slow
def test_frontier_of_a_run(recprism: Recprism, trained: Path) -> None:
    outcome = recprism("frontier", trained, "--goal", "catalogue_coverage", "--rivals", "exposure", "--json")
    assert outcome.code == 0, outcome.err
    ours, theirs, popular = outcome.json["fronts"]
    assert (ours["method"], theirs["method"], popular["method"]) == (
        "ours:catalogue_coverage",
        "exposure",
        "popularity",
    )
    assert popular["points"][0]["loss"] > 0.1
    assert ours["hypervolume"] > theirs["hypervolume"] > 0
    assert set(outcome.json["winners"].values()) <= {ours["method"], theirs["method"], None}
    assert recprism("frontier", trained, "--rivals", "nobody").code == 2


@pytest.mark.slow
def test_an_interrupted_search_resumes_to_the_same_bits(trained: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "recprism", "search"]
    options = ["--goal", "subtopic_coverage", "--set", "iterations=150", "-m", "subtopic_coverage@10"]
    for name in ("whole", "cut"):
        shutil.copytree(trained, tmp_path / name)
    subprocess.run([*command, tmp_path / "whole", *options], check=True, capture_output=True)
    process = subprocess.Popen([*command, tmp_path / "cut", *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 300
    while not (tmp_path / "cut" / ".search" / "search.checkpoint.safetensors").exists() and time.monotonic() < deadline:
        time.sleep(0.005)
    process.kill()
    process.communicate(timeout=300)
    assert not (tmp_path / "cut" / "delta.safetensors").exists()
    subprocess.run([sys.executable, "-m", "recprism", "resume", tmp_path / "cut"], check=True, capture_output=True)
    whole, cut = ((tmp_path / name / "delta.safetensors").read_bytes() for name in ("whole", "cut"))
    assert whole == cut


@pytest.mark.slow
def test_no_colour_and_no_bars_when_not_at_a_terminal(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "recprism", "train", "-o", tmp_path / "run", *QUICK],
        check=True,
        capture_output=True,
        text=True,
    )
    assert "\x1b[" not in done.stdout + done.stderr
