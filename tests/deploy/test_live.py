"""Live lists: no item that a user already has, diversified with the whole history."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from recprism.forms.vectors import export_run, load_export
from recprism.forms.live import live_figures, live_model, recommend_live
from recprism.deploy.monitor import monitor
from recprism.deploy.refitted_run import refit_run
from recprism.errors import InputError
from recprism.models import BPRMF, Factors
from recprism.runs.config import BudgetConfig, ConstraintsConfig
from recprism.runs.jobs.diversify import diversify_within
from recprism.runs.jobs.train import recommend
from recprism.runs.run import Run

pytestmark = pytest.mark.slow

Call = Callable[..., int]
KINDS = ("user", "item", "players", "trained")


def within(run: Run, side: str = "user", **rules: object) -> Run:
    diversify_within(
        run, BudgetConfig(budgets={"ndcg@10": 0.2}, into=f"{side}-vectors", constraints=ConstraintsConfig(**rules))
    )
    assert run.is_diversified()
    return run


@pytest.fixture(scope="module")
def runs(trained_run: Callable[..., Run], searched_run: Callable[..., Run]) -> dict[str, Run]:
    """One run of each kind of result, by the name of the kind."""
    return {
        "user": within(trained_run(3, 16)),
        "item": within(trained_run(3, 16), "item"),
        "players": searched_run(3, 16, iterations=5, diversity="subtopic_coverage"),
        "trained": trained_run(3, 16),
    }


def known_pairs(run: Run) -> pl.DataFrame:
    """user_id, item_id of all parts, from the file itself."""
    return pl.read_parquet(run.path / "split.parquet").select("user_id", "item_id")


def consumed(run: Run, lists: pl.DataFrame) -> int:
    return len(lists.join(known_pairs(run), on=["user_id", "item_id"], how="semi"))


def test_lists_for_the_test_part_show_consumed_items_and_live_ones_none(runs: dict[str, Run]) -> None:
    run = runs["user"]
    assert consumed(run, recommend(run, 10)) > 100
    assert consumed(run, recommend_live(run, 10)[0]) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_live_lists_show_no_consumed_item(runs: dict[str, Run], kind: str) -> None:
    run = runs[kind]
    lists, figures = recommend_live(run, 15)
    assert consumed(run, lists) == figures.consumed == 0
    assert figures.places == len(lists)
    assert lists["user_id"].n_unique() == run.split().n_users


@pytest.mark.parametrize("kind", ["user", "item"])
def test_live_lists_gain_about_as_much_as_the_evaluated_ones(runs: dict[str, Run], kind: str) -> None:
    figures = recommend_live(runs[kind], 10)[1]
    assert figures.metric == "subtopic_coverage@10"
    assert figures.gain is not None
    assert figures.gain > 0.05
    assert f"subtopic_coverage@10 {figures.gain:+.1%}" in figures.sentences()[1]
    assert "validation part; it is assumed to carry over" in figures.sentences()[2]


def test_lists_of_the_trained_model_gain_nothing(runs: dict[str, Run]) -> None:
    for found in (recommend_live(runs["trained"], 10)[1], recommend_live(runs["user"], 10, base=True)[1]):
        assert found.gain is None
        assert found.sentences()[1] == "Gain of the live lists: none, they are those of the trained model."
        assert len(found.sentences()) == 2


def test_a_consumed_item_is_counted(runs: dict[str, Run]) -> None:
    run = runs["trained"]
    taken = int(run.split().test.row(0)[0])
    found = live_figures(run, run.scenario().live(), run.factors(), np.array([0]), np.array([[taken, -1]]))
    assert (found.consumed, found.places) == (1, 1)


def test_user_vectors_hold_the_rule_solved_for_the_whole_history(runs: dict[str, Run]) -> None:
    """The held-out vectors lose places when more items are hidden; the live ones do not."""
    run = runs["user"]
    seen = run.split().live().train
    gains = [
        live_figures(run, run.scenario().live(), it, np.array([0]), np.array([[-1]])).gain
        for it in (live_model(run), run.load_result().factors)
    ]
    assert gains[0] is not None
    assert gains[1] is not None
    assert gains[0] > gains[1]
    np.testing.assert_array_equal(live_model(run).item, run.factors().item)
    assert len(seen) == sum(len(run.split().part(it)) for it in ("train", "validation", "test"))


def test_live_vectors_are_kept_and_made_again_when_damaged_or_of_another_result(
    trained_run: Callable[..., Run], tmp_path: Path
) -> None:
    run = within(trained_run(3, 16))
    first, kept = live_model(run).user, run.path / "live.safetensors"
    assert run.load_live() is not None
    kept.write_bytes(kept.read_bytes()[:100])
    assert run.load_live() is None
    np.testing.assert_array_equal(live_model(run).user, first)
    shutil.copy(kept, tmp_path / "old")
    diversify_within(run, BudgetConfig(goal="catalogue_coverage", budgets={"ndcg@10": 0.2}), overwrite=True)
    assert not kept.exists()
    shutil.copy(tmp_path / "old", kept)
    assert run.load_live() is None


def test_constraints_hold_in_live_lists(trained_run: Callable[..., Run]) -> None:
    run = trained_run(3, 16)
    usual = recommend_live(run, 10)[0]["item_id"].value_counts(sort=True)
    banned, pinned = usual["item_id"][0], usual["item_id"][1]
    within(run, banned=[banned], pinned={"1": pinned}, allow_violations=True)
    lists, figures = recommend_live(run, 10)
    assert banned not in lists["item_id"].to_list()
    assert figures.constraints is not None
    assert figures.constraints.startswith("In the first 10 places: ")
    live, column = run.split().live().train, int(np.flatnonzero(run.split().item_ids == pinned)[0])
    for it in (lists, recommend_live(run, 10, base=True)[0]):
        on_top = len(it.filter((pl.col("rank") == 1) & (pl.col("item_id") == pinned)))
        assert on_top == live.n_rows - live.col_counts[column], "every user who does not have the item"


def test_live_lists_of_a_retrained_run_keep_old_items(trained_run: Callable[..., Run]) -> None:
    old, free, held = within(trained_run(3, 16)), trained_run(3, 16), trained_run(3, 16)
    for run in (free, held):
        run.save_factors(BPRMF(epochs=3, dim=16).fit(run.split(), seed=1, device="cpu"))
    most = refit_run(free, old, certify_on="test").churn.served / 2
    assert refit_run(held, old, max_churn=most, certify_on="test").stickiness > 0
    judged = recommend(old, 10).select("user_id", "item_id")
    kept = [len(recommend_live(it, 10)[0].join(judged, on=["user_id", "item_id"], how="semi")) for it in (free, held)]
    assert kept[1] > kept[0]


def test_a_lost_certificate_is_reported(runs: dict[str, Run], tmp_path: Path) -> None:
    shutil.copytree(runs["user"].path, tmp_path / "run")
    (tmp_path / "run" / "certificate.json").unlink()
    (tmp_path / "run" / "live.safetensors").unlink(missing_ok=True)
    with pytest.raises(InputError, match=r"certificate\.json: is missing"):
        live_model(Run.open(tmp_path / "run"))


# -- the command line -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_recommend_live_prints_its_figures(
    runs: dict[str, Run], kind: str, call: Call, capsys: pytest.CaptureFixture[str]
) -> None:
    run = runs[kind]
    assert call("recommend", run.path, "--live") == 0
    printed = capsys.readouterr().out
    assert "Consumed items shown: 0 of 6,010 places." in printed
    assert (
        "those of the trained model" if kind == "trained" else "Gain of the live lists: subtopic_coverage@10 "
    ) in printed
    assert ("assumed to carry over" in printed) == (kind in ("user", "item"))
    assert consumed(run, pl.read_parquet(run.path / "recommendations.live.parquet")) == 0


def test_recommend_live_in_json_and_for_some_users(
    runs: dict[str, Run], call: Call, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = runs["user"].path
    assert call("recommend", path, "--live", "-o", tmp_path / "lists.csv", "--json") == 0
    facts = json.loads(capsys.readouterr().out)["live"]
    assert facts["consumed"] == 0
    assert facts["gain"] > 0
    assert call("recommend", path, "--live", "--users", "1", "--json") == 0
    shown = capsys.readouterr()
    assert len(json.loads(shown.out)) == 10
    assert "Consumed items shown: 0 of 10 places." in shown.err
    assert call("recommend", path, "--live", "--part", "test") == 2
    assert "--part has no effect with --" in capsys.readouterr().err


@pytest.mark.parametrize("kind", KINDS)
def test_an_export_is_live_by_default(
    runs: dict[str, Run], kind: str, call: Call, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    run = runs[kind]
    assert call("export", run.path, "-o", tmp_path / "live", "--to", "npz") == 0
    assert "Consumed items shown: 0 of 6,010 places." in capsys.readouterr().out
    assert call("export", run.path, "-o", tmp_path / "judged", "--to", "npz", "--part", "test") == 0
    assert "Consumed items" not in capsys.readouterr().out
    read = {name: load_export(tmp_path / name) for name in ("live", "judged")}
    np.testing.assert_array_equal(read["live"].user, live_model(run).user)
    np.testing.assert_array_equal(read["judged"].user, run.served_factors().user)
    assert np.array_equal(read["live"].user, read["judged"].user) == (kind != "user")
    for name, vectors in read.items():
        require_expected(run, tmp_path / name, vectors, live=name == "live")


def require_expected(run: Run, folder: Path, vectors: Factors, *, live: bool) -> None:
    """expected.json holds the lists of the vectors in the folder, without seen items."""
    known = known_pairs(run)
    entries = json.loads((folder / "expected.json").read_text())["without_seen"]
    hidden = run.split().live().train if live else run.split().seen_before("test")
    items = vectors.rank(10, exclude=hidden)[0]
    rows = {user: row for row, user in enumerate(vectors.user_ids.tolist())}
    for entry in entries:
        assert vectors.item_ids[items[rows[entry["user"]]]].tolist() == entry["items"]
    shown = pl.DataFrame(
        [(it["user"], item) for it in entries for item in it["items"]], schema=known.schema, orient="row"
    )
    assert (consumed(run, shown) == 0) == live


def test_the_manifest_says_what_the_vectors_are_for(runs: dict[str, Run], tmp_path: Path) -> None:
    made = export_run(runs["user"], tmp_path / "out", "npz")
    facts = json.loads((tmp_path / "out" / "export.json").read_text())
    assert facts["part"] == "live"
    assert facts["live"]["consumed"] == 0
    assert made.live is not None
    assert made.live.gain is not None
    assert made.live.gain > 0.05
    with pytest.raises(InputError, match="live or test lists, not for 'validation'"):
        export_run(runs["user"], tmp_path / "other", part="validation")


def test_the_certificate_says_where_it_was_earned(runs: dict[str, Run]) -> None:
    run = runs["user"]
    wanted = (
        "The certificate was earned on held-out interactions of the validation part; "
        "it is assumed to carry over to live lists."
    )
    assert json.loads((run.path / "certificate.json").read_text())["certificate"]["scope"] == wanted
    assert wanted in (run.path / "CARD.md").read_text()


def test_monitor_and_interleave_support_live_lists(
    runs: dict[str, Run], call: Call, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    run, lists = runs["user"], tmp_path / "lists.parquet"
    recommend_live(run, 10)[0].write_parquet(lists)
    found = [monitor(run, lists, live=live) for live in (True, False)]
    assert found[0].like_promised == 1.0
    assert found[1].like_promised < 0.95
    assert call("monitor", run.path, "--lists", lists, "--live", "--json") == 0
    assert json.loads(capsys.readouterr().out)["like_promised"] == 1.0
    for more in ((), ("--live",)):
        assert call("interleave", run.path, "-o", tmp_path / "mixed.parquet", *more) == 0
        assert (consumed(run, pl.read_parquet(tmp_path / "mixed.parquet")) == 0) == bool(more)
    assert call("interleave", run.path, "-o", lists, "--live", "--part", "test") == 2


def test_banned_items_are_in_no_live_list_however_long(runs: dict[str, Run], tmp_path: Path) -> None:
    path = tmp_path / "run"
    shutil.copytree(runs["trained"].path, path)
    run = Run.open(path)
    banned = [int(one) for one in run.factors().item_ids[run.factors().rank(1)[0][:5, 0]]]
    asked = BudgetConfig(
        goal="subtopic_coverage", budgets={"ndcg@10": 0.3}, constraints=ConstraintsConfig(banned=banned)
    )
    assert diversify_within(run, asked).is_changed
    lists, _ = recommend_live(run, 30)
    assert not set(lists["item_id"].to_list()) & set(banned)


def test_a_blend_is_not_certified(runs: dict[str, Run], tmp_path: Path) -> None:
    whole, half = (export_run(runs["user"], tmp_path / str(share), "npz", alpha=share).live for share in (1.0, 0.5))
    assert whole is not None and whole.certified_on is not None
    assert half is not None and half.certified_on is None
