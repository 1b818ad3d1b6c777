"""Live lists: a result, `recprism recommend` and an export show the same ones, without items that users have."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from recprism import serving
from recprism.budget.sticky import StickyProblem
from recprism.errors import InputError
from recprism.forms.compiled import Agreement, agreement_of
from recprism.forms.form import DialsForm
from recprism.forms.live import live_figures
from recprism.forms.vectors import Export, load_export
from recprism.models import BPRMF, Factors
from recprism.operate.monitor import monitor
from recprism.operate.refitted_run import refit_run
from recprism.result.result import Result
from recprism.runs.config import BudgetConfig, ConstraintsConfig
from recprism.runs.jobs.diversify import diversify_within
from recprism.runs.jobs.export import export_run
from recprism.runs.jobs.train import recommend
from recprism.runs.run import Run

pytestmark = pytest.mark.slow

Call = Callable[..., int]
RULES = ("rule", "boosts", "constrained")
KINDS = (*RULES, "players", "trained")


def within(run: Run, goal: str = "subtopic_coverage", **rules: object) -> Run:
    constraints = ConstraintsConfig(**rules)  # type: ignore[arg-type]
    assert diversify_within(run, BudgetConfig(goal=goal, budgets={"ndcg@10": 0.2}, constraints=constraints)).is_changed
    return run


@pytest.fixture(scope="module")
def runs(trained_run: Callable[..., Run], searched_run: Callable[..., Run]) -> dict[str, Run]:
    """One run of each kind of result, by the name of the kind."""
    trained = trained_run(3, 16)
    shown = trained.model_or_result().lists(k=1)["item_id"].value_counts(sort=True)["item_id"].to_list()
    return {
        "rule": within(trained_run(3, 16)),
        "boosts": within(trained_run(3, 16), "shown_often"),
        "constrained": within(trained_run(3, 16), banned=shown[:2], max_share={"Drama": 0.4}),
        "players": searched_run(3, 16, iterations=5, diversity="subtopic_coverage"),
        "trained": trained,
    }


def known_pairs(run: Run) -> pl.DataFrame:
    """user_id, item_id of all parts, from the file itself."""
    return pl.read_parquet(run.path / "split.parquet").select("user_id", "item_id")


def consumed(run: Run, lists: pl.DataFrame) -> int:
    return len(lists.join(known_pairs(run), on=["user_id", "item_id"], how="semi"))


def exported(run: Run, folder: Path, form: str | None = None, **options: object) -> Export:
    made = export_run(run, folder, form, to="npz", **options)[2]
    assert isinstance(made, Export)
    return made


def items_of(lists: pl.DataFrame) -> dict[object, list[object]]:
    """User id -> item ids in their order."""
    whole = lists.sort("user_id", "rank").group_by("user_id", maintain_order=True).agg("item_id")
    return dict(zip(whole["user_id"].to_list(), whole["item_id"].to_list(), strict=True))


# -- one list ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_result_and_the_command_show_the_same_live_lists(
    runs: dict[str, Run], kind: str, call: Call, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    run = runs[kind]
    result = run.model_or_result()
    wanted = result.lists()
    assert wanted.equals(recommend(run, 10)[0])
    assert call("recommend", run.path, "-o", tmp_path / "lists.parquet") == 0
    assert pl.read_parquet(tmp_path / "lists.parquet").equals(wanted)
    user = result.problem.base.user_ids[3].item()
    capsys.readouterr()
    assert call("recommend", run.path, "--users", user, "--json") == 0
    one = wanted.filter(pl.col("user_id") == user)
    assert [row["item_id"] for row in json.loads(capsys.readouterr().out)] == one["item_id"].to_list()
    assert one.equals(result.lists(user))


@pytest.mark.parametrize("kind", RULES)
def test_an_exported_rule_makes_the_live_lists_at_request_time(
    runs: dict[str, Run], kind: str, call: Call, tmp_path: Path
) -> None:
    run = runs[kind]
    assert call("export", run.path, "-o", tmp_path / "rule") == 0
    rule, factors = serving.load_rule(tmp_path / "rule"), run.factors()
    wanted = items_of(recommend(run, 10)[0])
    known = dict(known_pairs(run).group_by("user_id").agg("item_id").iter_rows())
    for row in range(0, factors.n_users, 12):
        user = factors.user_ids[row].item()
        given = rule.rank(factors.user[row], history=known[user], exclude=known[user], reasons=False)
        assert list(given.ids) == wanted[user]
        assert given.fallback in (None, "limit")


@pytest.mark.parametrize("kind", ["players", "trained"])
def test_exported_vectors_give_the_live_lists(runs: dict[str, Run], kind: str, tmp_path: Path) -> None:
    run = runs[kind]
    made = exported(run, tmp_path / "out")
    assert made.form == "vectors"
    read, seen = load_export(tmp_path / "out"), run.split().live().train
    lists = read.item_ids[read.rank(10, exclude=seen)[0]].tolist()
    assert dict(zip(read.user_ids.tolist(), lists, strict=True)) == items_of(recommend(run, 10)[0])
    require_expected(run, tmp_path / "out", read)


@pytest.mark.parametrize(
    ("kind", "form", "least"),
    [("rule", "dials", 0.95), ("rule", "user-vectors", 0.4), ("boosts", "boosts", 0.99), ("constrained", "dials", 0.9)],
)
def test_a_compiled_form_says_how_many_live_lists_it_gives(
    runs: dict[str, Run], kind: str, form: str, least: float, tmp_path: Path
) -> None:
    run = runs[kind]
    made, result = exported(run, tmp_path / "out", form), run.load_result()
    read = load_export(tmp_path / "out")
    # The files have no banned items: the others keep their order.
    shown, case = np.flatnonzero(np.isin(run.factors().item_ids, read.item_ids)), result.context()
    whole = Factors.from_arrays(
        read.user,
        np.zeros((run.factors().n_items, read.dim), np.float32),
        user_ids=read.user_ids,
        item_ids=run.factors().item_ids,
    )
    whole.item[shown] = read.item
    found = Agreement.of(result.ranked()[0], case.rank(whole)[0])
    assert made.agreement == found
    assert least <= found.same_items / found.users <= 1
    require_expected(run, tmp_path / "out", read)


def require_expected(run: Run, folder: Path, vectors: Factors) -> None:
    """expected.json holds the lists of the vectors in the folder, without items that users have."""
    entries = json.loads((folder / "expected.json").read_text())["without_seen"]
    columns = np.flatnonzero(np.isin(run.factors().item_ids, vectors.item_ids))
    items = vectors.rank(10, exclude=run.split().live().train.of_cols(columns))[0]
    rows = {user: row for row, user in enumerate(vectors.user_ids.tolist())}
    for entry in entries:
        assert vectors.item_ids[items[rows[entry["user"]]]].tolist() == entry["items"]
    shown = pl.DataFrame(
        [(it["user"], item) for it in entries for item in it["items"]], schema=known_pairs(run).schema, orient="row"
    )
    assert len(shown) == 10 * len(entries)
    assert consumed(run, shown) == 0


def test_a_form_is_compiled_for_the_whole_history(runs: dict[str, Run]) -> None:
    """Vectors for judged lists lose places when more items are hidden; those for live lists do not."""
    result = runs["rule"].load_result()
    live, rule = result.context(), result.own_rule()
    judged = DialsForm().compile(result.context(live=False), rule)
    for_judged = agreement_of(result.context(live=False), rule, judged)
    for_live = agreement_of(live, rule, DialsForm().compile(live, rule))
    assert for_judged.same_items > 0.9 * for_judged.users
    assert agreement_of(live, rule, judged).same_items < 0.5 * for_live.same_items
    assert len(live.seen) == sum(len(result.problem.split.part(it)) for it in ("train", "validation", "test"))


# -- consumed items and gain ------------------------------------------------------------------------------------------


def test_judged_lists_show_consumed_items_and_live_ones_none(runs: dict[str, Run]) -> None:
    run = runs["rule"]
    judged, none = recommend(run, 10, live=False)
    assert none is None
    assert judged.equals(run.load_result().lists(live=False))
    assert consumed(run, judged) > 100
    assert consumed(run, recommend(run, 10)[0]) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_live_lists_show_no_consumed_item(runs: dict[str, Run], kind: str) -> None:
    run = runs[kind]
    lists, figures = recommend(run, 15)
    assert figures is not None
    assert consumed(run, lists) == figures.consumed == 0
    assert figures.places == len(lists)
    assert lists["user_id"].n_unique() == run.split().n_users


@pytest.mark.parametrize(("kind", "metric"), [("rule", "subtopic_coverage@10"), ("boosts", "shown_often@10")])
def test_live_lists_gain_about_as_much_as_the_evaluated_ones(runs: dict[str, Run], kind: str, metric: str) -> None:
    figures = recommend(runs[kind], 10)[1]
    assert figures is not None
    assert figures.metric == metric
    assert figures.gain is not None
    assert figures.gain > 0.05
    assert f"{metric} {figures.gain:+.1%}" in figures.sentences()[1]
    assert "validation part; it is assumed to carry over" in figures.sentences()[2]


def test_lists_of_the_trained_model_gain_nothing(runs: dict[str, Run]) -> None:
    for found in (recommend(runs["trained"], 10)[1], recommend(runs["rule"], 10, base=True)[1]):
        assert found is not None
        assert found.gain is None
        assert found.sentences()[1] == "Gain of the live lists: none, they are those of the trained model."
        assert len(found.sentences()) == 2


def test_a_consumed_item_is_counted(runs: dict[str, Run]) -> None:
    run = runs["trained"]
    taken = int(run.split().test.row(0)[0])
    found = live_figures(run.problem().live(), run.factors(), np.array([0]), np.array([[taken, -1]]), None)
    assert (found.consumed, found.places) == (1, 1)


def test_only_the_lists_of_the_rule_are_certified(runs: dict[str, Run], tmp_path: Path) -> None:
    figures = recommend(runs["rule"], 10)[1]
    assert figures is not None and figures.certified_on == "validation"
    for share in (1.0, 0.5):
        live = exported(runs["rule"], tmp_path / str(share), "dials", alpha=share).live
        assert live is not None and live.certified_on is None
        assert live.gain is not None and live.gain > 0.05
    facts = json.loads((tmp_path / "1.0" / "export.json").read_text())
    assert facts["live"]["consumed"] == 0


# -- constraints and retraining ---------------------------------------------------------------------------------------


def test_constraints_hold_in_live_lists(trained_run: Callable[..., Run]) -> None:
    run = trained_run(3, 16)
    usual = recommend(run, 10)[0]["item_id"].value_counts(sort=True)
    banned, pinned = usual["item_id"][0], usual["item_id"][1]
    within(run, banned=[banned], pinned={"1": pinned}, allow_violations=True)
    lists, figures = recommend(run, 10)
    assert banned not in lists["item_id"].to_list()
    assert figures is not None and figures.constraints is not None
    assert figures.constraints.startswith("In the first 10 places: ")
    live, column = run.split().live().train, int(np.flatnonzero(run.split().item_ids == pinned)[0])
    for it in (lists, recommend(run, 10, base=True)[0]):
        on_top = len(it.filter((pl.col("rank") == 1) & (pl.col("item_id") == pinned)))
        assert on_top == live.n_rows - live.col_counts[column], "every user who does not have the item"


def test_banned_items_are_in_no_live_list_however_long(runs: dict[str, Run]) -> None:
    run = runs["constrained"]
    lists, _ = recommend(run, 30, allow_violations=True)
    assert len(run.constraints.banned) == 2
    assert not set(lists["item_id"].to_list()) & set(run.constraints.banned)


def test_live_lists_of_a_retrained_run_keep_old_items(trained_run: Callable[..., Run], tmp_path: Path) -> None:
    old, free, held = within(trained_run(3, 16)), trained_run(3, 16), trained_run(3, 16)
    for run in (free, held):
        run.save_factors(BPRMF(epochs=3, dim=16).fit(run.split(), seed=1, device="cpu"))
    most = refit_run(free, old, certify_on="test").churn.served / 2
    assert refit_run(held, old, max_churn=most, certify_on="test").stickiness > 0
    judged = recommend(old, 10, live=False)[0].select("user_id", "item_id")
    kept = [len(recommend(it, 10)[0].join(judged, on=["user_id", "item_id"], how="semi")) for it in (free, held)]
    assert kept[1] > kept[0]
    again = Result.load(held.path)
    assert isinstance(again.problem, StickyProblem) and isinstance(again.context(), StickyProblem)
    assert again.lists().equals(recommend(held, 10)[0]), "old items belong to the result, whoever asks"
    assert consumed(held, again.lists()) == 0
    made = exported(held, tmp_path / "out", "user-vectors")
    ranked = again.context().rank(load_export(tmp_path / "out"))[0]
    assert made.agreement == Agreement.of(again.ranked()[0], ranked)
    with pytest.raises(InputError, match="keeps items of older lists, which a rule at request time does not know"):
        export_run(held, tmp_path / "rule", "rule")


def test_a_lost_certificate_is_reported(runs: dict[str, Run], tmp_path: Path) -> None:
    shutil.copytree(runs["rule"].path, tmp_path / "run")
    (tmp_path / "run" / "certificate.json").unlink()
    with pytest.raises(InputError, match=r"certificate\.json: is missing"):
        recommend(Run.open(tmp_path / "run"), 10)


def test_the_certificate_says_where_it_was_earned(runs: dict[str, Run]) -> None:
    run = runs["rule"]
    wanted = (
        "The certificate was earned on held-out interactions of the validation part; "
        "it is assumed to carry over to live lists."
    )
    assert json.loads((run.path / "certificate.json").read_text())["certificate"]["scope"] == wanted
    assert wanted in (run.path / "CARD.md").read_text()


# -- the command line -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_recommend_prints_the_figures_of_live_lists(
    runs: dict[str, Run], kind: str, call: Call, capsys: pytest.CaptureFixture[str]
) -> None:
    run = runs[kind]
    assert call("recommend", run.path) == 0
    printed = capsys.readouterr().out
    assert "Consumed items shown: 0 of 6,010 places." in printed
    assert ("those of the trained model" if kind == "trained" else "Gain of the live lists: ") in printed
    assert ("assumed to carry over" in printed) == (kind in RULES)
    assert consumed(run, pl.read_parquet(run.path / "recommendations.parquet")) == 0
    assert call("recommend", run.path, "--judged") == 0
    assert "Consumed items" not in capsys.readouterr().out
    assert consumed(run, pl.read_parquet(run.path / "recommendations.judged.parquet")) > 100


def test_recommend_in_json_and_for_some_users(
    runs: dict[str, Run], call: Call, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = runs["rule"].path
    assert call("recommend", path, "-o", tmp_path / "lists.csv", "--json") == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["live"]["consumed"] == 0
    assert facts["live"]["gain"] > 0
    assert call("recommend", path, "--users", "1", "--json") == 0
    shown = capsys.readouterr()
    assert len(json.loads(shown.out)) == 10
    assert "Consumed items shown: 0 of 10 places." in shown.err
    assert call("recommend", path, "--part", "test") == 2
    assert "--part has no effect without --judged" in capsys.readouterr().err


@pytest.mark.parametrize(("kind", "form"), [("rule", "user-vectors"), ("players", "vectors"), ("trained", "vectors")])
def test_export_prints_what_its_lists_are(
    runs: dict[str, Run], kind: str, form: str, call: Call, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert call("export", runs[kind].path, "--form", form, "-o", tmp_path / "out", "--to", "npz") == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "Consumed items shown: 0 of 6,010 places." in printed
    assert ("have the items of the rule's list" in printed) == (kind == "rule")
    assert "carry over" not in printed, "the certificate is about the rule"


def test_monitor_uses_live_lists(
    runs: dict[str, Run], call: Call, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    run, lists = runs["rule"], tmp_path / "lists.parquet"
    recommend(run, 10)[0].write_parquet(lists)
    found = [monitor(run, lists, live=live) for live in (True, False)]
    assert found[0].like_promised == 1.0
    assert found[1].like_promised < 0.95
    assert call("monitor", run.path, "--lists", lists, "--json") == 0
    assert json.loads(capsys.readouterr().out)["like_promised"] == 1.0
