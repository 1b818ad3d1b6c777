"""Constraints belong to a result: every list of the run keeps them, whoever asks and however long it is."""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from recprism import api
from recprism.errors import ConstraintError, InputError
from recprism.forms import DialsForm, UserVectors
from recprism.forms.vectors import load_export
from recprism.models import Factors
from recprism.result.lists import lists_to_frame
from recprism.rule.goal import Goal
from recprism.runs.config import BudgetConfig, ConstraintsConfig
from recprism.runs.jobs.diversify import diversify_within
from recprism.runs.jobs.train import evaluate_run
from recprism.runs.run import Run
from recprism.runs.stored_path import stored_path
from recprism.serving import load_rule
from recprism.studio.downloads import lists_file, vectors_file
from recprism.studio.view import View

pytestmark = pytest.mark.slow
Call = Callable[..., int]


def most_shown(run: Run, n: int = 3) -> list[int]:
    """The ids of the items that most base lists show."""
    lists = run.problem().base_lists
    counts = np.bincount(lists.ravel(), minlength=run.factors().n_items)
    return [int(it) for it in run.factors().item_ids[np.argsort(-counts)[:n]]]


@pytest.fixture(scope="module")
def banning(trained_run: Callable[..., Run]) -> Run:
    """A run whose result bans the items that are shown most."""
    run = trained_run(3, 16)
    constraints = ConstraintsConfig(banned=most_shown(run))
    assert diversify_within(run, BudgetConfig(budgets={"ndcg@10": 0.3}, constraints=constraints)).is_changed
    return run


def banned_in(run: Run, frame: pl.DataFrame) -> int:
    return int(frame["item_id"].is_in(run.constraints.banned).sum())


RECOMMENDED = (
    *("-k 10", "-k 30", "-k 20 --base", "-k 20 --judged", "-k 20 --judged --part validation"),
    "-k 20 --judged --base",
)


@pytest.mark.parametrize("options", RECOMMENDED)
def test_a_banned_item_is_in_no_list(banning: Run, call: Call, tmp_path: Path, options: str) -> None:
    assert call("recommend", banning.path, *options.split(), "-o", tmp_path / "lists.parquet") == 0
    lists = pl.read_parquet(tmp_path / "lists.parquet")
    assert lists["rank"].max() == int(options.split()[1])
    assert banned_in(banning, lists) == 0


EXPORTED = (
    *("--form user-vectors --to npz", "--form user-vectors --to csv --alpha 0.5", "--form user-vectors --alpha 0"),
    "--form dials --to parquet",
)


@pytest.mark.parametrize("options", EXPORTED)
def test_a_banned_item_is_in_no_export_of_vectors(
    banning: Run, call: Call, tmp_path: Path, options: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert call("export", banning.path, *options.split(), "-o", out) == 0
    said = capsys.readouterr().out
    assert "without 3 banned items" in said or "build the index again" in said
    vectors = load_export(out)
    banned = banning.constraints.banned
    assert not set(vectors.item_ids.tolist()) & set(banned)
    assert vectors.n_items == banning.factors().n_items - len(banned)
    expected = json.loads((out / "expected.json").read_text(encoding="utf-8"))
    assert not {item for lists in expected.values() for one in lists for item in one["items"]} & set(banned)
    assert json.loads((out / "export.json").read_text(encoding="utf-8"))["constraints"] == {"banned": sorted(banned)}


def test_a_banned_item_is_in_no_list_of_an_exported_rule(banning: Run, call: Call, tmp_path: Path) -> None:
    assert call("export", banning.path, "-o", tmp_path / "rule") == 0
    rule, factors, banned = load_rule(tmp_path / "rule"), banning.factors(), banning.constraints.banned
    everything = factors.item_ids.tolist()
    assert set(banned) < set(everything)
    for user in (0, 7):
        scores = factors.item @ factors.user[user]
        shown = rule.rerank(everything, scores, 20, history=everything[:5]).ids
        assert len(shown) == 20 and not set(shown) & set(banned)


def test_a_banned_item_is_in_no_list_of_the_studio(banning: Run, tmp_path: Path) -> None:
    view = View(banning)
    goal = Goal.parse("sc")
    view.paths[goal] = stored_path(banning, goal)
    banned = [view.item_row(str(item)) for item in banning.constraints.banned]
    path = view.path(goal)
    assert not np.isin(path.lists, banned).any(), "the slider shows the lists of every point"
    assert view.own_change is not None
    assert not np.isin(view.own_change.lists, banned).any()
    for point in (0, 3):
        change = view.change(goal, 0.0, True, point)
        lists = pl.read_csv(lists_file(view, change).path)
        assert banned_in(banning, lists) == 0
        with zipfile.ZipFile(vectors_file(view, change).path) as archive:
            archive.extractall(tmp_path / str(point))
        vectors = Factors.load(tmp_path / str(point) / "factors.safetensors")
        assert not set(vectors.item_ids.tolist()) & set(banning.constraints.banned)


def test_a_banned_item_is_in_no_explained_list(banning: Run) -> None:
    found, banned = banning.load_result(), set(banning.constraints.banned)
    swapped = 0
    for user in found.problem.base.user_ids[:20]:
        for live in (True, False):
            reasons = found.why(user, live=live)
            assert isinstance(reasons, tuple)
            others = [it for reason in reasons for it in (reason.replaced, reason.runner_up) if it is not None]
            assert not {it.item for it in (*reasons, *others)} & banned
            swapped += sum(reason.replaced is not None for reason in reasons)
        assert found.why_not(user, next(iter(banned)), live=False).codes in (("banned",), ("seen",))
    assert swapped > 0


def test_the_loss_counts_from_lists_under_the_same_constraints(
    trained_run: Callable[..., Run], call: Call, capsys: pytest.CaptureFixture[str]
) -> None:
    """Banning the best items costs accuracy, which is reported apart and spends nothing of the budget."""
    run = trained_run(3, 16)
    words = ",".join(str(item) for item in most_shown(run, 20))
    assert call("diversify", run.path, "--budget", "5%", "--ban", words, "-m", "ndcg@10", "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert said["constraint_costs"]["ndcg@10"] > 0.05
    assert said["certificate"]["last"] is not None
    problem = run.problem("validation")
    free = problem.under(None)
    means = [np.nanmean(it.judge(it.base_lists, ("ndcg@10",))["ndcg@10"]) for it in (free, problem)]
    assert said["constraint_costs"]["ndcg@10"] == pytest.approx(1 - means[1] / means[0])
    assert said["change"]["rows"][0]["a"] == pytest.approx(
        np.nanmean(run.problem().judge(run.problem().base_lists, ("ndcg@10",))["ndcg@10"])
    )


def test_what_is_served_is_what_was_certified(banning: Run) -> None:
    """The lists of the stored rule on the certifying part are those that were tested."""
    found = banning.load_result()
    banned, certificate = found.problem.resolved.banned, found.certificate
    assert len(banned) == 3
    assert certificate is not None and certificate.last is not None
    problem = found.problem.on("validation")
    lists = problem.rank(found.own_rule(), 10)[0]
    check = certificate.points[certificate.last].checks[0]
    assert check.metric == "ndcg@10"
    assert check.new == pytest.approx(np.nanmean(problem.judge(lists, ("ndcg@10",))["ndcg@10"]))
    np.testing.assert_array_equal(lists, problem.rank(found.own_rule(), 20)[0][:, :10])
    assert not np.isin(lists, banned).any()


# -- pins, shares and floors ------------------------------------------------------------------------------------------


@pytest.fixture
def run(trained_run: Callable[..., Run], tmp_path: Path) -> Run:
    shutil.copytree(trained_run(3, 16).path, tmp_path / "run")
    return Run.open(tmp_path / "run")


def rarest(run: Run) -> int:
    """An item that fewest users have."""
    split = run.split()
    return int(split.item_ids[np.argmin(split.live().train.col_counts)])


def test_pins_and_shares_hold_at_every_length_or_the_command_fails(
    run: Run, call: Call, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    item = rarest(run)
    words = ("--budget", "0.5", "--pin", f"2={item}", "--max-share", "Drama=40%", "-m", "ndcg@10")
    assert call("diversify", run.path, *words) == 1
    said = capsys.readouterr().err
    assert f"item {item} at place 2 cannot be kept in " in said
    assert "such as that of user " in said and "--allow-violations" in said
    assert run.config.diversify is None
    assert call("diversify", run.path, *words, "--allow-violations") == 0
    genres = {row["item_id"]: row["genres"] for row in run.items().to_dicts()}
    taken = run.split().live().train
    having = {run.split().user_ids[row] for row in taken.row_of_entry[run.split().item_ids[taken.indices] == item]}
    found, out = run.load_result(), tmp_path / "lists.parquet"
    rows = found.rows_of(None)
    compiled = [form.compile(found.context(), found.own_rule()) for form in (DialsForm(), UserVectors())]

    def made(k: int) -> list[pl.DataFrame]:
        """The lists of the command, and those of the vectors that the rule is compiled into."""
        assert call("recommend", run.path, "-k", k, "-o", out) == 0
        of_vectors = [lists_to_frame(it, rows, *found.context().rank(it, k)) for it in compiled]
        return [pl.read_parquet(out), *of_vectors]

    for k, lists in [(length, it) for length in (2, 5, 10, 15, 20) for it in made(length)]:
        second = lists.filter(pl.col("rank") == 2)
        assert (second.filter(~pl.col("user_id").is_in(list(having)))["item_id"] == item).all()
        drama = lists.with_columns(drama=pl.col("item_id").replace_strict(genres).str.contains("Drama"))
        assert (drama.group_by("user_id").agg(pl.col("drama").sum())["drama"] <= int(0.4 * k)).all()


def test_a_list_that_cannot_keep_a_constraint_fails_unless_it_is_allowed(run: Run, call: Call) -> None:
    constraints = ConstraintsConfig(min_share={"Comedy": 0.5})
    assert diversify_within(run, BudgetConfig(budgets={"ndcg@10": 0.5}, constraints=constraints)).is_changed
    assert call("recommend", run.path, "-k", "10", "--users", "1") == 0
    assert call("recommend", run.path, "-k", "1900", "--users", "1") == 1
    assert call("recommend", run.path, "-k", "1900", "--users", "1", "--allow-violations") == 0


@pytest.mark.parametrize("users", [None, [0], [3, 7]])
def test_diversity_per_user_and_pins_go_together(run: Run, users: list[int] | None) -> None:
    rules = ConstraintsConfig(per_user_diversity=True, max_share={"Drama": 0.4})
    assert diversify_within(run, BudgetConfig(budgets={"ndcg@10": 0.5}, constraints=rules)).is_changed
    found, rows = run.load_result(), None if users is None else np.array(users)
    whole = found.ranked()[0]
    np.testing.assert_array_equal(found.ranked(rows)[0], whole if rows is None else whole[rows])


def test_a_metric_does_not_depend_on_the_other_metrics(run: Run) -> None:
    """Under shares, a list of 10 places is not the beginning of a list of 20."""
    rules = ConstraintsConfig(max_share={"Drama": 0.3})
    assert diversify_within(run, BudgetConfig(budgets={"ndcg@10": 0.5}, constraints=rules)).is_changed
    alone = evaluate_run(run, ["subtopic_coverage@10"], bootstrap=0)["subtopic_coverage@10"].mean
    names = ["subtopic_coverage@10", "subtopic_coverage@20", "ndcg@10"]
    both = evaluate_run(run, names, bootstrap=0)
    assert both["subtopic_coverage@10"].mean == alone
    assert [score.name for score in both.scores] == names


def test_constraints_that_were_edited_are_refused(run: Run) -> None:
    rules = ConstraintsConfig(banned=[318])
    assert diversify_within(run, BudgetConfig(budgets={"ndcg@10": 0.5}, constraints=rules)).is_changed
    config = run.path / "config.toml"
    config.write_text(config.read_text(encoding="utf-8").replace("318", "319"), encoding="utf-8")
    with pytest.raises(InputError, match=r"has .*constraints.banned = \[319\], and the certificate is for \[318\]"):
        run.load_result()


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ('goal = "subtopic_coverage"', 'goal = "ilad"'),
        ('"ndcg@10" = 0.5', '"ndcg@10" = 0.01'),
        ("confidence = 0.95", "confidence = 0.99"),
        ("seed = 0", "seed = 1"),
        ('method = "random"', 'method = "temporal"'),
        ('source = "ml-latest-small"', 'source = "ml-1m"'),
        ('method = "betting"', 'method = "t"'),
        ("[diversify.within.budgets]", "history_window = 5\n[diversify.within.budgets]"),
    ],
)
@pytest.mark.parametrize("name", [None, "bold"])
def test_what_a_certificate_depends_on_cannot_be_edited(
    run: Run, was: str, now: str, name: str | None, call: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    of = run if name is None else run.named(name)
    assert diversify_within(of, BudgetConfig(budgets={"ndcg@10": 0.5})).is_changed
    asked = [run.path / "config.toml", *([] if name is None else [run.path / "results" / name / "result.toml"])]
    edited = [path for path in asked if was in path.read_text(encoding="utf-8")]
    assert edited
    for path in edited:
        path.write_text(path.read_text(encoding="utf-8").replace(was, now), encoding="utf-8")
    chosen = [] if name is None else ["--name", name]
    for words in (["evaluate"], ["recommend"], ["report"], ["check", "--max-ndcg-loss", "0.5"], ["export", "-o", "x"]):
        assert call(words[0], run.path, *words[1:], *chosen) == 2
        assert "and the certificate is for" in capsys.readouterr().err


def test_an_explanation_is_about_the_lists_that_are_served(run: Run) -> None:
    rules = ConstraintsConfig(max_share={"Drama": 0.3})
    assert diversify_within(run, BudgetConfig(budgets={"ndcg@10": 0.5}, constraints=rules)).is_changed
    found = run.load_result()
    free = replace(found, problem=found.problem.under(None))
    for live in (True, False):
        for user in run.split().user_ids[:5]:
            reasons = found.why(user, live=live)
            assert isinstance(reasons, tuple)
            assert [it.item for it in reasons] == found.lists(user, live=live)["item_id"].to_list()
        assert not np.array_equal(found.ranked(live=live)[0], free.ranked(live=live)[0])


def test_what_is_pinned_and_banned_is_named_by_its_id(run: Run, call: Call, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("diversify", run.path, "--budget", "10%", "--pin", "1=318", "--ban", "318") == 2
    assert "item 318 is pinned and banned; choose one of the two" in capsys.readouterr().err


def test_the_floor_of_the_tail_holds_over_all_lists_at_every_length(run: Run) -> None:
    constraints = ConstraintsConfig(tail_floor=0.2)
    assert diversify_within(run, BudgetConfig(budgets={"ndcg@10": 0.9}, constraints=constraints)).is_changed
    found, some = run.load_result(), np.array([3, 7])
    for live in (True, False):
        for k in (5, 10, 20):
            violations = found.context(live=live).violations(found.ranked(k=k, live=live)[0])
            assert violations is not None and violations.none
        np.testing.assert_array_equal(found.ranked(some, live=live)[0], found.ranked(live=live)[0][some])


def test_constraints_hold_in_python_too(run: Run) -> None:
    case = run.problem()
    item = most_shown(run, 1)[0]
    found = api.diversify(case, "subtopic_coverage", "30%", constraints={"banned": [item]})
    users = case.factors.user_ids[:50]
    lists = found.lists(users, 20)
    assert len(lists) == 20 * len(users)
    assert not (lists["item_id"] == item).any()
    page = lists.filter(pl.col("rank") <= 10)["score"].to_numpy().reshape(len(users), 10)
    assert (np.diff(page, axis=1) <= 0).all()
    with pytest.raises(InputError, match="is pinned and banned"):
        api.diversify(case, constraints={"banned": [item], "pinned": {1: item}})
    impossible = case.under({"min_share": {"IMAX": 0.9}})
    found_broken = impossible.violations(impossible.base_lists)
    assert found_broken is not None and found_broken.rows[0].lists > 0
    with pytest.raises(ConstraintError, match=r"at least 90% IMAX cannot be kept in \d+ of 601 lists"):
        found_broken.require_none()
