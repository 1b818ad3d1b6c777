"""A user's own tables: any id, any common form of categories, and every command on them."""

from __future__ import annotations

import contextlib
import csv
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from recprism.cli import app
from recprism.data.split import METHODS
from recprism.runs.run import Run

ODD = ["007", "7", "🎬 film", "שלום", "a,b", 'say "hi"', "line\nbreak", "prof-000005", "12", "=1+1"]
GENRES = ["Comedy", "Drama", "Action", "Horror", "Sci, Fi"]
COLUMNS = ["--column", "user_id=customer", "--column", "item_id=sku", "--column", "rating=stars"]
ABOUT = ["--items", "items.csv", "--category-column", "genres"]
QUICK = ["--set", "epochs=3", "--set", "dim=8"]


Recprism = Callable[..., Any]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory, ok: Recprism) -> Iterator[Path]:
    """Orders and items of a small shop with odd ids; two runs: with categories and without."""
    folder = tmp_path_factory.mktemp("a shop é")
    draw = random.Random(1)
    items, users = (ODD + [f"{side}-{number:03d}" for number in range(30)] for side in ("it", "u"))
    orders = [
        (user, item, draw.choice([4, 5]), 1000 + draw.randrange(10**6))
        for user in users
        for item in draw.sample(items, 14)
    ]
    write(folder / "orders.csv", ("customer", "sku", "stars", "timestamp"), orders)
    about = [(item, f"Title of {item}", json.dumps(draw.sample(GENRES, 2))) for item in items]
    write(folder / "items.csv", ("sku", "title", "genres"), about)
    with contextlib.chdir(folder):
        ok("train", "--data", "orders.csv", *COLUMNS, *ABOUT, *QUICK, "-o", "run")
        ok("search", "run", *SEARCHED)
        ok("train", "--data", "orders.csv", *COLUMNS, *QUICK, "-o", "plain")
        ok("recommend", "run", "-o", "lists.csv")
        yield folder


EDITED = ("--budget", "0.5", "--confidence", "0.5", "--allow-violations")
SEARCHED = ["--goal", "subtopic_coverage", "--set", "iterations=5", "--set", "side=item"]


def write(path: Path, header: tuple[str, ...], rows: list[tuple[object, ...]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])


def test_a_run_keeps_every_id(shop: Path) -> None:
    run = Run(shop / "run")
    assert set(ODD) <= set(run.split().user_ids.tolist())
    assert set(ODD) <= set(run.split().item_ids.tolist())
    assert run.categories().names == tuple(sorted(GENRES)), "a JSON list is read as a list"


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("about", [ABOUT, []], ids=["categories", "none"])
def test_train_with_every_split(shop: Path, tmp_path: Path, method: str, about: list[str], ok: Recprism) -> None:
    found = ok("train", "--data", "orders.csv", *COLUMNS, "--split", method, *about, *QUICK, "-o", tmp_path / "run")
    assert set(Run(tmp_path / "run").split().user_ids.tolist()) >= set(ODD)
    assert ("no categories" in found.err) == (not about)


@pytest.mark.parametrize("word", ["none", "None", "null"])
def test_a_setting_can_be_none(shop: Path, tmp_path: Path, ok: Recprism, word: str) -> None:
    ok("train", "--data", "orders.csv", *COLUMNS, *QUICK, "--set", f"patience={word}", "-o", tmp_path / "run")
    assert Run(tmp_path / "run").config.model.settings["patience"] is None
    assert Run(tmp_path / "run").factors().settings["patience"] is None


def test_a_setting_that_cannot_be_none(shop: Path, recprism: Recprism) -> None:
    found = recprism("train", "--data", "orders.csv", *COLUMNS, "--set", "dim=none", "-o", "null")
    assert found.code == 2
    assert "dim is None; pass a whole number of at least 1" in found.err
    assert not Path("null").exists()


LATE = {
    "dim": (["--set", "dim=1000000000"], "factors need"),
    "negatives": (["--set", "negatives=1000000000000"], "negatives for each of"),
    "early stopping": (["--split", "paper", "--set", "patience=2"], "--set patience=none"),
    "seed": (["--seed", "99999999999999999999"], "--seed"),
    "rate": (["--set", "learning_rate=NaN"], "learning_rate is nan; pass a number above 0"),
    "text": (["--set", "epochs=abc"], "epochs is 'abc'; pass a whole number"),
}


@pytest.mark.parametrize("what", LATE)
def test_what_cannot_be_trained_is_refused_before_anything_is_written(
    shop: Path, recprism: Recprism, what: str
) -> None:
    options, message = LATE[what]
    found = recprism("train", "--data", "orders.csv", *COLUMNS, "-o", "late", *options)
    assert found.code == 2
    assert message in found.err
    assert not Path("late").exists()


SHOP = ["--users", "run/factors.safetensors", "--seen", "run/split.parquet"]
COMMANDS: dict[str, list[list[str]]] = {
    "data": [["data", "stats", "orders.csv", *COLUMNS, *ABOUT]],
    "train": [["train", "--data", "orders.csv", *COLUMNS, *ABOUT, *QUICK, "--model", "lightgcn", "-o", "gcn"]],
    "audit": [["audit", "run"]],
    "recommend": [["recommend", "run", "--users", '"a,b",007,שלום', "--users", "line\nbreak"], ["recommend", "run"]],
    "evaluate": [["evaluate", "run"]],
    "evaluate-lists": [
        ["evaluate-lists", "lists.csv"],
        ["evaluate-lists", "lists.csv", "--run", "run"],
        ["evaluate-lists", "lists.csv", *ABOUT, "--column", "item_id=sku"],
    ],
    "explain": [
        ["explain", "run"],
        ["diversify", "run", *EDITED, "--name", "rule"],
        ["explain", "run", "--name", "rule"],
    ],
    "why": [
        ["diversify", "run", *EDITED, "--name", "why"],
        ["why", "run", "--name", "why", "--user", "a,b"],
        ["why", "run", "--name", "why", "--user", "007", "--what-if", "without=🎬 film"],
    ],
    "explain-lists": [["explain-lists", "lists.csv", "--run", "run", "--draws", "0"]],
    "dials": [["dials", "run"]],
    "steer": [
        ["diversify", "run", *EDITED, "--name", "dials"],
        ["steer", "run", "--name", "dials", "--user", "a,b", "--set", "Sci, Fi=+0.2", "--keep"],
        ["export", "run", "--name", "dials", "--form", "dials", "-o", "dials"],
        ["steer", "run", "--name", "dials", "--user", "a,b", "--set", "Sci, Fi=0", "--keep"],
    ],
    "changes": [["changes", "run", "--user", "a,b"], ["changes", "run", "--item", "🎬 film"]],
    "erase": [["erase", "run", "--features", "2", "--draws", "2", "--controls", "0"]],
    "check": [["check", "run", "--max-ndcg-loss", "0.99"]],
    "experiment": [["experiment", "run", "--budget", "0.4"]],
    "holdout": [["holdout", "run", "--share", "0.2", "--click-rate", "0.3"]],
    "monitor": [
        [
            "monitor",
            "run",
            "--lists",
            "lists.csv",
            "--floor",
            "0",
            "--fewest",
            "2",
            "--held-out",
            "orders.csv",
            *COLUMNS[:4],
        ]
    ],
    "frontier": [["frontier", "run", "--rivals", "mmr"]],
    "features": [["features", "--attributes", "items.csv", "--column", "item_id=sku", "-o", "found"]],
    "export": [
        ["export", "run", "--to", form, "-o", f"out-{form}"] for form in ("safetensors", "npz", "parquet", "csv")
    ],
    "report": [["report", "run"]],
    "batch": [
        ["diversify", "run", *EDITED, "--name", "batched"],
        ["export", "run", "--name", "batched", "-o", "rule"],
        ["batch", "rule", *SHOP, "-o", "batch", "--shard-users", "7"],
        ["batch", "rule", *SHOP, "-o", "batch", "--shard-users", "7"],
    ],
    "diversify": [
        ["diversify", "run", *EDITED, "--ban", '"a,b",007', "--ban", "7", "--pin", "1=🎬 film", "--overwrite"]
    ],
    "search": [["search", "run", *SEARCHED, "--overwrite"]],
}
NO_OWN_DATA = {"reproduce", "demo", "runs"}
COSTLY = {"report", "frontier"}
ELSEWHERE = {"studio", "import", "monitor-log", "refit", "resume", "serve"}
"""Tried in test_studio, test_cli.py, test_cli_import.py, test_served_log.py, test_refit.py and tests/service."""


def test_every_command_is_tried() -> None:
    names = {command.name for command in app.registered_commands} | {group.name for group in app.registered_groups}
    assert names == set(COMMANDS) | NO_OWN_DATA | ELSEWHERE


@pytest.mark.parametrize("name", [pytest.param(it, marks=pytest.mark.slow) if it in COSTLY else it for it in COMMANDS])
def test_every_command_takes_text_ids(shop: Path, name: str, recprism: Recprism) -> None:
    for words in COMMANDS[name]:
        found = recprism(*words)
        assert found.code == 0 or (found.code == 1 and name == "monitor"), found.err  # 1: the gain is not alive


def test_studio(shop: Path) -> None:
    from fastapi.testclient import TestClient

    from recprism.studio.app import create_app

    with TestClient(create_app([shop / "run"]), base_url="http://127.0.0.1") as client:
        for user in ODD:
            answer = client.get("/api/runs/run/lists", params={"user": user})
            assert answer.status_code != 500, answer.text


def test_banned_ids_never_appear_and_pinned_ones_do(shop: Path, ok: Recprism) -> None:
    ok("diversify", "run", *EDITED, "--ban", '"a,b",007', "--pin", "1=🎬 film", "--overwrite")
    asked = Run(shop / "run").config.diversify
    assert asked is not None and asked.within is not None
    assert asked.within.constraints.banned == ["a,b", "007"]
    assert asked.within.constraints.pinned == {"1": "🎬 film"}
    ok("search", "run", *SEARCHED, "--overwrite")


WITHOUT_CATEGORIES = {
    "evaluate": ["evaluate", "plain"],
    "audit": ["audit", "plain"],
    "search": ["search", "plain", "--goal", "ilad", *SEARCHED[2:], "--overwrite"],
    "explain": ["explain", "plain"],
    "recommend": ["recommend", "plain"],
    "check": ["check", "plain", "--max-ndcg-loss", "0.99"],
    "export": ["export", "plain", "-o", "plain-out"],
    "report": ["report", "plain"],
    "frontier": ["frontier", "plain", "--goal", "catalogue_coverage", "--rivals", "mmr"],
}


@pytest.mark.slow
def test_without_categories_every_command_works(shop: Path, recprism: Recprism, ok: Recprism) -> None:
    for words in WITHOUT_CATEGORIES.values():
        ok(*words)
    assert "ilad (distance of vectors) and catalogue_coverage" in recprism("audit", "plain").err


@pytest.mark.parametrize(
    "words",
    [
        ["audit", "plain", "--goal", "subtopic_coverage"],
        ["diversify", "plain", "--budget", "0.1", "--goal", "subtopic_coverage", "--overwrite"],
        ["search", "plain", "--goal", "subtopic_coverage", "--overwrite"],
        ["frontier", "plain", "--goal", "subtopic_coverage"],
        ["evaluate", "plain", "-m", "subtopic_coverage@10"],
    ],
    ids=lambda words: " ".join(words[:1] + words[2:4]),
)
def test_without_categories_a_goal_of_categories_is_one_sentence(
    shop: Path, words: list[str], recprism: Recprism
) -> None:
    before = (shop / "plain" / "config.toml").read_bytes()
    found = recprism(*words)
    assert found.code == 2
    assert found.err.rstrip().splitlines()[-1].startswith("error:")
    assert "categories" in found.err or "what the items are about" in found.err
    assert (shop / "plain" / "config.toml").read_bytes() == before


def test_stats_say_what_a_run_would_hold(shop: Path, tmp_path: Path, ok: Recprism) -> None:
    for split in ("random", "leave-last"):
        words = ["orders.csv", *COLUMNS, *ABOUT, "--threshold", "5", "--min-item", "5", "--split", split]
        counted = json.loads(ok("data", "stats", *words, "--json").out)
        ok("train", "--data", *words, *QUICK, "-o", tmp_path / split)
        run = Run(tmp_path / split)
        made = run.split()
        assert (counted["users"], counted["items"], counted["categories"]) == (
            made.n_users,
            made.n_items,
            len(run.categories()),
        )
        assert counted["split"] == {name: len(made.part(name)) for name in ("train", "validation", "test")}


def test_held_out_rows_of_unknown_users_and_items_are_counted(
    shop: Path, tmp_path: Path, recprism: Recprism, ok: Recprism
) -> None:
    ok("recommend", "run", "-o", tmp_path / "lists.csv")
    rows = [("007", "7"), ("nobody", "7"), ("a,b", "nothing"), ("nobody", "nothing")]
    write(tmp_path / "later.csv", ("user_id", "item_id"), rows)
    lists, later = tmp_path / "lists.csv", tmp_path / "later.csv"
    watched = recprism("monitor", "run", "--lists", lists, "--held-out", later)
    assert "3 of 4 rows are left out; 2 have an unknown user and 2 an unknown item" in watched.out
    judged = ok("evaluate-lists", lists, "--held-out", later)
    assert "2 of 4 rows are left out; 2 have an unknown user" in judged.out, "an item that is in no list is a miss"
    write(later, ("user_id", "item_id"), [("nobody", "nothing")])
    found = recprism("evaluate-lists", lists, "--held-out", later)
    assert found.code == 2
    assert "no row has a known user and a known item" in found.err


def test_a_mapped_column_that_no_file_has_is_refused(shop: Path, recprism: Recprism) -> None:
    found = recprism("data", "stats", "orders.csv", *COLUMNS, "--column", "timestamp=when")
    assert found.code == 2
    assert "--column timestamp=when: no file has a column 'when'; orders.csv (comma between columns) has" in found.err
    assert "unknown name 'colour'" in recprism("evaluate-lists", "orders.csv", "--column", "colour=x").err


def test_what_was_read_of_the_categories_is_shown(shop: Path, recprism: Recprism) -> None:
    right = recprism("data", "stats", "orders.csv", *COLUMNS, *ABOUT).out
    assert "5 categories (genres: lists written as text); 0 of 40 items have none; Drama 21, " in right
    assert "warning" not in right


def test_whole_number_ids_keep_their_numeric_order(tmp_path: Path) -> None:
    frame = pl.DataFrame({"user_id": [10, 9, 100], "item_id": ["10.0", "9.0", "100.0"]})
    frame.write_csv(tmp_path / "a.csv")
    from recprism.data import load_files

    data = load_files(tmp_path / "a.csv").interactions
    assert data.user_ids.tolist() == data.item_ids.tolist() == [9, 10, 100]
