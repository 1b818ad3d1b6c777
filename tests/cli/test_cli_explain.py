"""`recprism explain`, `why` and `explain-lists` as a user meets them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from recprism.runs.config import BudgetConfig, RunConfig
from recprism.runs.jobs.diversify import diversify_within
from recprism.runs.jobs.train import recommend
from recprism.runs.run import Run

Recprism = Callable[..., Any]


@pytest.fixture(scope="module")
def run(trained_run: Callable[..., Run]) -> Run:
    """Diversified for subtopic coverage."""
    run = trained_run(3, 16)
    diversify_within(run, BudgetConfig(budgets={"ndcg@10": 0.2}))
    return run


@pytest.fixture(scope="module")
def players(searched_run: Callable[..., Run]) -> Run:
    return searched_run(3, 16, iterations=15)


@pytest.mark.slow
def test_all_users(run: Run, recprism: Recprism) -> None:
    found = recprism("explain", run.path, "--draws", 19)
    assert found.code == 0, found.err
    assert "The lists follow a rule: relevance, plus a price" in found.out
    assert "With categories shuffled among items of the same popularity it explains" in found.out
    kept = json.loads((run.path / "explanation.json").read_text(encoding="utf-8"))
    model = kept["choice_model"]
    assert model["verdict"] == "explains"
    assert model["interval"][0] < model["explained"] < model["interval"][1]
    assert max(model["explained_shuffled_within"], model["explained_shuffled_all"]) < 0.15
    assert sum(row["gain"]["subtopic_coverage"][-1] for row in kept["rule_summary"]["categories"]) == pytest.approx(
        kept["rule_summary"]["prices"][-1]["gains"]["subtopic_coverage"]
    )


def test_one_list_item_by_item(run: Run, recprism: Recprism) -> None:
    for judged in ((), ("--judged",)):
        reasons = recprism("why", run.path, "--user", 1, *judged, "--json").json["reasons"]
        shown = recommend(run, 10, users=[1], live=not judged)[0]["item_id"].to_list()
        assert [reason["item"] for reason in reasons] == shown
    reasons = recprism("why", run.path, "--user", 1, "--json").json["reasons"]
    new = next(reason for reason in reasons if reason["newcomer"])
    one = recprism("why", run.path, "--user", 1, "--item", new["item"]).out
    assert new["sentence"] in one
    assert "together" in one
    shown = recprism("why", run.path, "--user", 1).out
    assert new["for_users"] in shown


def test_why_not_and_what_if(run: Run, recprism: Recprism) -> None:
    reasons = recprism("why", run.path, "--user", 1, "--json").json["reasons"]
    gone = [reason["replaced"]["item"] for reason in reasons if reason["replaced"]]
    refused = recprism("why", run.path, "--user", 1, "--why-not", gone[0], "--json").json
    assert refused["in_base_list"]
    assert refused["replaces"]["margin"] >= 0
    other = recprism("why", run.path, "--user", 1, "--what-if", "price=0", "--json").json
    back = set(gone) & set(other["after"])  # not all: the user's history counts at any price
    assert back
    banned = recprism("why", run.path, "--user", 1, "--what-if", "ban=Drama", "--json").json
    genres = dict(run.items().select("item_id", "genres").iter_rows())
    assert not any("Drama" in genres[item] for item in banned["after"])


def test_lists_from_files(run: Run, tmp_path: Path, recprism: Recprism) -> None:
    recommend(run, 10, live=False)[0].write_csv(tmp_path / "new.csv")
    recommend(run, 10, live=False, base=True)[0].write_csv(tmp_path / "old.csv")
    words = ("explain-lists", tmp_path / "new.csv", "--base", tmp_path / "old.csv")
    by_run = recprism(*words, "--run", run.path, "--draws", 0, "--json").json["choice_model"]
    assert by_run["verdict"] == "explains"


def test_players_have_no_rule_but_their_lists_can_be_tested(players: Run, recprism: Recprism) -> None:
    found = recprism("explain", players.path, "--draws", 0)
    assert found.code == 0, found.err
    assert "there is no rule that made these lists" in found.out
    assert "recprism erase" in found.err
    assert "recprism erase" in recprism("why", players.path, "--user", 1).err


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--user", "unknown"), "user id 'unknown' is unknown"),
        (("--user", "987654321"), "987654321"),
        (("--item", "1"), "--user is missing; see `recprism why --help`"),
        (("--user", "1", "--item", "1", "--why-not", "2"), "separate questions"),
        (("--user", "1", "--item", "987654321"), "987654321"),
        (("--user", "1", "--what-if", "colour=red"), "--what-if colour=red: write without=ITEM"),
        (("--user", "1", "--what-if", "price=much"), "--what-if price=much: write without=ITEM"),
        (("--user", "1", "--what-if", "ban=Cooking"), "Cooking"),
        (("--user", "1", "--draws", "49"), "there is no option --draws"),
    ],
)
def test_bad_questions_get_one_sentence(run: Run, recprism: Recprism, words: tuple[str, ...], complaint: str) -> None:
    found = recprism("why", run.path, *words)
    assert found.code == 2
    assert complaint in found.err
    assert not found.out
    assert "Traceback" not in found.err


def test_lists_need_a_run(tmp_path: Path, recprism: Recprism) -> None:
    (tmp_path / "new.csv").write_text("user_id,item_id,rank\n1,2,1\n", encoding="utf-8")
    found = recprism("explain-lists", tmp_path / "new.csv")
    assert (found.code, "--run is missing" in found.err) == (2, True)
    assert recprism("explain").code == 2


def test_a_run_without_a_result_names_the_command_that_makes_one(tmp_path: Path, recprism: Recprism) -> None:
    Run.create(tmp_path / "plain", RunConfig())
    found = recprism("explain", tmp_path / "plain")
    assert (found.code, "recprism diversify" in found.err) == (2, True)
