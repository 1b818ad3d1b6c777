"""Team-draft interleaving: each item once, balanced teams, no credit for random clicks; and the preference."""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from recprism.errors import InputError
from recprism.operate import interleave
from recprism.operate.interleave import TEAMS, interleaved, preference, team_draft
from recprism.runs.config import BudgetConfig
from recprism.runs.jobs.diversify import diversify_within
from recprism.runs.jobs.train import recommend
from recprism.runs.run import Run


def naive(first: list[int], second: list[int], k: int, coins: list[bool]) -> tuple[list[int], list[int]]:
    """As in the paper, one user, one place after another."""
    mixed: list[int] = []
    teams: list[int] = []
    rankers = (first, second)
    while len(mixed) < k:
        size = [teams.count(0), teams.count(1)]
        turn = int(coins[len(mixed) // 2]) if size[0] == size[1] else int(size[1] < size[0])
        left = [item for item in rankers[turn] if item >= 0 and item not in mixed]
        if not left:
            break
        mixed.append(left[0])
        teams.append(turn)
    return mixed, teams


rankings = st.lists(st.integers(0, 12), unique=True, min_size=0, max_size=8)


@given(first=rankings, second=rankings, k=st.integers(1, 9), seed=st.integers(0, 1000))
def test_every_list_is_a_team_draft(first: list[int], second: list[int], k: int, seed: int) -> None:
    coins = np.random.default_rng(seed).random((1, (k + 1) // 2)) < 0.5
    padded = [np.array([[*ranking, *[-1] * (8 - len(ranking))]]) for ranking in (first, second)]
    items, teams = team_draft(*padded, k, coins)
    mixed, team = items[0][items[0] >= 0].tolist(), teams[0][teams[0] >= 0].tolist()
    assert len(mixed) == len(team) and len(set(mixed)) == len(mixed), "each item once"
    assert set(mixed) <= {*first, *second}
    for length in range(0, len(team) + 1):
        gap = team[:length].count(0) - team[:length].count(1)
        assert abs(gap) <= length % 2, "in balance after every round, within one in between"
    assert (mixed, team) == naive(first, second, k, coins[0].tolist())


@given(seed=st.integers(0, 1000), k=st.integers(1, 7), same=st.booleans())
def test_random_clicks_give_no_credit(seed: int, k: int, same: bool) -> None:
    """Over all coins: exactly none, place by place, for equal and for different rankers."""
    generator = np.random.default_rng(seed)
    first = generator.permutation(10)
    second = first if same else generator.permutation(10)
    coins = np.array(list(itertools.product([False, True], repeat=(k + 1) // 2)))
    lists = [np.tile(ranking, (len(coins), 1)) for ranking in (first, second)]
    items, teams = team_draft(*lists, k, coins)
    clicks = generator.random(k) < 0.5
    credit = np.where(teams == 1, 1, -1) * clicks
    assert (credit.sum(axis=0) == 0).all()
    if same:
        assert (items == first[:k]).all(), "of equal rankers, the list is theirs"


def test_many_users_are_taken_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(3)
    first, second = (np.argsort(generator.random((100, 30)), axis=1)[:, :10] for _ in range(2))
    coins = generator.random((100, 5)) < 0.5
    whole = team_draft(first, second, 10, coins)
    monkeypatch.setattr(interleave, "USERS_AT_ONCE", 7)
    parts = team_draft(first, second, 10, coins)
    assert all(np.array_equal(a, b) for a, b in zip(whole, parts, strict=True))
    assert team_draft(first[:0], second[:0], 10, coins[:0])[0].shape == (0, 10)


def test_shapes_that_do_not_fit() -> None:
    with pytest.raises(InputError, match="one list of each ranker"):
        team_draft([[1, 2]], [[1, 2], [2, 1]], 2, [[True]])
    with pytest.raises(InputError, match="coins have shape"):
        team_draft([[1, 2]], [[1, 2]], 2, [[True, False]])


# -- clicks -----------------------------------------------------------------------------------------------------------


def lists_of(votes: dict[int, str]) -> pl.DataFrame:
    """Two places a user: item 1 of the base, item 2 swapped."""
    rows = [(user, item, team) for user in votes for item, team in ((1, "base"), (2, "swapped"))]
    return pl.DataFrame(rows, schema=["user_id", "item_id", "team"], orient="row")


def test_votes_and_the_sign_test() -> None:
    clicked = {**dict.fromkeys(range(14), "s"), **dict.fromkeys(range(14, 18), "b"), 18: "sb", 19: ""}
    rows = [(user, 1 if team == "b" else 2) for user, teams in clicked.items() for team in teams]
    rows += [(0, 2), (0, 99), (77, 1)]  # repeated; on no list; of an unknown user
    found = preference(lists_of(clicked), pl.DataFrame(rows, schema=["user_id", "item_id"], orient="row"))
    assert found.votes == {"base": 4, "swapped": 14} and found.ties == 1
    assert found.credit == {"base": 5, "swapped": 15} and found.ignored == 2
    oracle = binomtest(14, 18)
    assert found.p_value == pytest.approx(oracle.pvalue) and found.share == 14 / 18
    assert found.low == pytest.approx(oracle.proportion_ci(0.95).low)
    assert "the preference is clear" in found.sentence()


def test_clicks_without_a_preference() -> None:
    nobody = pl.DataFrame(schema={"user_id": pl.Int64, "item_id": pl.Int64})
    found = preference(lists_of({1: ""}), nobody)
    assert found.share is None and found.p_value == 1.0 and "say nothing" in found.sentence()


@pytest.mark.slow
def test_random_clicks_are_rarely_called_clear() -> None:
    generator = np.random.default_rng(5)
    alarms = 0
    for _ in range(400):
        first, second = (np.argsort(generator.random((60, 20)), axis=1)[:, :6] for _ in range(2))
        items, teams = team_draft(first, second, 6, generator.random((60, 3)) < 0.5)
        user, place = np.nonzero(items >= 0)
        mixed = pl.DataFrame(
            {"user_id": user, "item_id": items[user, place], "team": [TEAMS[team] for team in teams[user, place]]}
        )
        alarms += preference(mixed, mixed.filter(pl.Series(generator.random(len(mixed)) < 0.3))).p_value < 0.05
    assert alarms / 400 < 0.05 + 0.03


# -- of a run ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def run(trained_run: Callable[..., Run]) -> Run:
    made = trained_run(3, 16)
    assert diversify_within(made, BudgetConfig(goal="subtopic_coverage", budgets={"ndcg@10": 0.5})).is_changed
    return made


@pytest.mark.parametrize("live", [True, False])
def test_a_run_is_interleaved(run: Run, live: bool) -> None:
    mixed = interleaved(run, 10, live=live)
    assert mixed.columns == ["user_id", "item_id", "rank", "team"]
    assert not mixed.select("user_id", "item_id").is_duplicated().any()
    counts = mixed.group_by("user_id").agg((pl.col("team") == "base").sum().alias("base"), pl.len().alias("all"))
    assert (counts["base"] * 2 == counts["all"]).all(), "ten places, five of each team"
    for team, base in (("base", True), ("swapped", False)):
        own = mixed.filter(pl.col("team") == team).join(
            recommend(run, 10, live=live, base=base)[0], on=["user_id", "item_id"], how="left", suffix="_own"
        )
        assert own["rank_own"].null_count() == 0, "every place is of its team's own list"
    assert not mixed.equals(interleaved(run, 10, live=live, seed=1))
    assert mixed.equals(interleaved(run, 10)) == live, "live lists are the default"


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_written_and_scored(
    run: Run, ending: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], call: Callable[..., int]
) -> None:
    mixed, clicks = tmp_path / f"mixed.{ending}", tmp_path / "clicks.csv"
    assert call("interleave", run.path, "-o", mixed, "--json") == 0
    assert json.loads(capsys.readouterr().out)["places"]["base"] > 0
    table = pl.read_csv(mixed) if ending == "csv" else pl.read_parquet(mixed)
    table.filter(pl.col("team") == "swapped").select("user_id", "item_id").write_csv(clicks)
    assert call("score-clicks", mixed, "--clicks", clicks, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["share"] == 1.0 and found["votes"]["base"] == 0 and found["ignored"] == 0


def test_wrong_arguments(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str], call: Callable[..., int]
) -> None:
    mixed = tmp_path / "mixed.csv"
    pl.DataFrame({"user_id": [1, 1], "item_id": [2, 2], "team": ["base", "swapped"]}).write_csv(mixed)
    clicks = tmp_path / "clicks.csv"
    clicks.write_text("user_id,item_id\n1,2\n")
    for words, complaint in (
        ((mixed,), "--clicks is missing"),
        ((mixed, "--clicks", clicks), "more than once"),
        ((shutil.copy(clicks, tmp_path / "other.csv"), "--clicks", clicks), "no column 'team'"),
    ):
        assert call("score-clicks", *words) == 2
        assert complaint in " ".join(capsys.readouterr().err.split())
    pl.DataFrame({"user_id": [1], "item_id": [2], "team": ["red"]}).write_csv(mixed)
    assert call("score-clicks", mixed, "--clicks", clicks) == 2
    assert "none of base, swapped" in capsys.readouterr().err
