"""One result: saved and loaded it is the same, and every command works on it, in the live and in the judged context."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import recprism as rp
from recprism.budget.sticky import StickyProblem
from recprism.data import Categories
from recprism.errors import InputError
from recprism.runs.jobs.saved import put_result
from recprism.runs.run import Run

Call = Callable[..., int]
LIVE, JUDGED = "live lists: all known history", "judged lists: history before the test part"
USERS = (1, 42, 610)


@pytest.fixture(scope="module")
def trained(trained_run: Callable[..., Run]) -> Run:
    return trained_run(3, 16)


@pytest.fixture(scope="module")
def result(trained: Run) -> rp.Result:
    return rp.diversify(trained.problem(), "subtopic_coverage", 0.2)


@pytest.fixture(scope="module")
def run(result: rp.Result, trained_run: Callable[..., Run]) -> Run:
    """A run with a result that was made in Python, next to none of its own."""
    run = trained_run(3, 16)
    put_result(run, result)
    return run


def require_same(one: rp.Result, other: rp.Result) -> None:
    for live in (True, False):
        assert one.lists(live=live).equals(other.lists(live=live))
        if one.own_rule().boosts is None:
            for user in USERS:
                said = [[it.to_dict() for it in found.why(user, live=live)] for found in (one, other)]  # type: ignore[union-attr]
                assert said[0] == said[1]
    assert one.certificate is not None
    assert other.certificate is not None
    assert one.certificate.sentence() == other.certificate.sentence()
    # The run beside which a result is saved counts its own questions.
    assert replace(one, asked_before=None).to_dict() == replace(other, asked_before=None).to_dict()
    assert one.violations == other.violations
    assert one.to_frame().equals(other.to_frame())
    assert repr(one) == repr(other)


# -- saved and loaded -------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_save_and_load_give_the_same_lists_reasons_and_certificate_back(result: rp.Result, tmp_path: Path) -> None:
    assert result.save(tmp_path / "run") == tmp_path / "run"
    require_same(result, rp.Result.load(tmp_path / "run"))
    with pytest.raises(InputError, match="already holds a run"):
        result.save(tmp_path / "run")


def test_a_named_result_is_loaded_by_its_name(result: rp.Result, trained_run: Callable[..., Run]) -> None:
    run = trained_run(3, 16)
    put_result(run.named("bold"), result)
    for found in (rp.Result.load(run.path, "bold"), run.results["bold"]):
        assert found.to_dict() == result.to_dict()
        assert found.lists(USERS).equals(result.lists(USERS))
    with pytest.raises(InputError, match="holds no result yet"):
        rp.Result.load(run.path)


@pytest.mark.slow
@pytest.mark.parametrize(
    "constraints",
    [
        {"banned": [3, 7], "pinned": {2: 11}},
        {"max_share": {"Drama": 0.4}, "min_share": {"War": 0.1}},
        {"tail_floor": 0.02, "per_user_diversity": "history"},
        {"pinned": {1: 11}, "banned": [3], "max_share": {"Action": 0.0, "Drama": 0.1}, "min_share": {"Comedy": 0.9}},
    ],
    ids=["items", "shares", "together", "violated"],
)
def test_constraints_are_kept_with_the_result(trained: Run, constraints: dict[str, Any], tmp_path: Path) -> None:
    found = rp.diversify(
        trained.problem(), "subtopic_coverage", 0.4, guards={"recall@20": 0.6}, constraints=constraints
    )
    found.save(tmp_path / "run")
    again = rp.Result.load(tmp_path / "run")
    assert found.violations is not None
    assert again.problem.constraints == found.problem.constraints
    assert again.constraint_costs == found.constraint_costs != {}
    require_same(found, again)


@pytest.mark.slow
def test_boosts_are_kept_with_the_result(trained: Run, tmp_path: Path) -> None:
    found = rp.diversify(trained.problem(), "shown_often", 0.3)
    found.save(tmp_path / "run")
    again = rp.Result.load(tmp_path / "run")
    np.testing.assert_array_equal(again.own_rule().boosts, found.own_rule().boosts)
    require_same(found, again)


@pytest.mark.slow
def test_a_result_that_keeps_older_lists_is_read_with_them(trained: Run, tmp_path: Path) -> None:
    """As `recprism refit --max-churn` makes it."""
    case = trained.problem()
    sticky = StickyProblem(case, case.candidates[0][:, 5:15], 0.03)
    found = rp.diversify(sticky, "subtopic_coverage", 0.4)
    plain = replace(found, problem=case)
    assert not found.lists(live=False).equals(plain.lists(live=False)), "older lists have an effect"
    found.save(tmp_path / "run")
    again = rp.Result.load(tmp_path / "run")
    assert isinstance(again.problem, StickyProblem)
    require_same(found, again)


@pytest.mark.slow
@pytest.mark.parametrize("kept", [{}, {"max_items": {"shelf": 3}, "spacing": {"shelf": 2}}], ids=["free", "fields"])
def test_a_saved_result_of_ids_in_words_is_the_same(kept: dict[str, Any], tmp_path: Path) -> None:
    """Without titles, categories of its own, and without a validation part; limited fields are in its item table."""
    generator = np.random.default_rng(0)
    pairs = np.unique(generator.integers(0, (120, 60), (4000, 2)), axis=0)
    users, items = (np.array([f"{name}{at}" for at in column]) for name, column in zip("ui", pairs.T, strict=True))
    data = rp.from_arrays(users, items, categories={f"i{at}": [f"c{at % 7}", f"d{at % 3}"] for at in range(60)})
    split = data.split("paper", seed=0)
    case = rp.Problem(rp.BPRMF(epochs=2, dim=6, patience=None).fit(split, seed=0, device="cpu"), split, data.categories)
    fields = {"shelf": [None if at % 9 == 0 else [f"s{at % 5}"] for at in range(60)]}
    found = rp.diversify(case.replaced(fields=fields, constraints=kept), "ilad_subtopics", "40%")
    found.save(tmp_path / "run")
    again = rp.Result.load(tmp_path / "run")
    assert again.problem.constraints == found.problem.constraints
    assert again.problem.fields == (found.problem.fields if kept else {})
    assert found.violations is None or found.violations.none
    for live in (True, False):
        assert again.lists(live=live).equals(found.lists(live=live))
    assert again.to_dict() == found.to_dict()


def with_pins(result: rp.Result) -> rp.Result:
    pins = np.full((result.problem.split.n_users, 1), -1)
    pins[:5] = result.problem.base.item_ids[4]
    return replace(result, problem=result.problem.under({"pinned": pins}))


def with_own_diversity(result: rp.Result) -> rp.Result:
    own = np.linspace(0, 1, result.problem.split.n_users)
    return replace(result, problem=result.problem.under({"per_user_diversity": own}))


def with_numbers_of_items(result: rp.Result) -> rp.Result:
    return replace(result, problem=result.problem.under({"min_items": {"Drama": 1}}))


def with_shorter_lists(result: rp.Result) -> rp.Result:
    case = result.problem
    return replace(result, problem=rp.Problem(case.base, case.split, case.categories, k=5))


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (lambda it: rp.Result(it.problem), "only a result with a certified rule can be kept in a run"),
        (lambda it: replace(it, rule=None), "only a result with a certified rule can be kept"),
        (with_shorter_lists, "its lists have 5 places, and those of a run have 10"),
        (lambda it: replace(it, problem=it.problem.on("validation")), "its figures are of the validation part"),
        (with_pins, "pins of single users"),
        (with_own_diversity, "per_user_diversity of single users"),
        (with_numbers_of_items, "a run cannot keep min_items"),
    ],
    ids=["nothing certified", "players", "k", "part", "pins", "diversity", "numbers of items"],
)
def test_what_a_run_cannot_give_back_is_refused_before_anything_is_written(
    result: rp.Result, trained: Run, other: Callable[[rp.Result], rp.Result], message: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=message):
        other(result).save(tmp_path / "run")
    assert not (tmp_path / "run").exists()
    with pytest.raises(InputError, match=message):
        put_result(trained.named("other"), other(result))
    assert list(trained.results) == []


def test_a_result_belongs_to_its_model_data_and_categories(result: rp.Result, trained: Run) -> None:
    case = result.problem
    factors, split, categories = case.factors, case.split, case.categories
    biased = replace(factors, item_bias=np.ones(factors.n_items, np.float32))
    fewer = Categories.from_pairs(
        categories.items.row_of_entry[1:], np.array(categories.names)[categories.items.indices[1:]], 1955
    )
    others = (
        rp.Problem(factors.with_vectors(user=factors.user * 2), split, categories),
        rp.Problem(biased, split, categories),
        rp.Problem(factors, split, fewer),
        rp.Problem(factors, replace(split, test=split.validation), categories),
    )
    for other in others:
        with pytest.raises(InputError, match="its model or its data are not those of the result"):
            put_result(trained.named("other"), replace(result, problem=other))
    assert list(trained.results) == []


# -- in a run ---------------------------------------------------------------------------------------------------------


def test_a_result_is_not_replaced_unless_asked(result: rp.Result, trained_run: Callable[..., Run]) -> None:
    run = trained_run(3, 16)
    put_result(run, result)
    less = rp.diversify(run.problem(), "subtopic_coverage", 0.05)
    with pytest.raises(InputError, match="already has a result; use --overwrite"):
        put_result(run, less)
    assert run.load_result().to_dict() == result.to_dict()
    put_result(run, less, overwrite=True)
    assert run.load_result().to_dict() == less.to_dict() != result.to_dict()


@pytest.mark.parametrize("live", [True, False])
def test_recommend_shows_the_lists_of_a_result_made_in_python(
    run: Run, result: rp.Result, live: bool, call: Call, capsys: pytest.CaptureFixture[str]
) -> None:
    more = () if live else ("--judged",)
    assert call("recommend", run.path, "--users", ",".join(map(str, USERS)), *more, "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    wanted = result.lists(list(USERS), live=live)
    assert [(it["user_id"], it["item_id"], it["rank"]) for it in shown] == wanted.drop("score").rows()
    assert call("recommend", run.path, "--users", USERS[0], *more) == 0
    assert capsys.readouterr().out.splitlines()[0] == f"{run.path}: {LIVE if live else JUDGED}"


@pytest.mark.parametrize("live", [True, False])
def test_explain_gives_the_reasons_of_the_list_that_recommend_shows(
    run: Run, result: rp.Result, live: bool, call: Call, capsys: pytest.CaptureFixture[str]
) -> None:
    more = () if live else ("--judged",)
    assert call("why", run.path, "--user", USERS[1], *more, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["live"] is live
    listed = result.lists(USERS[1], live=live)["item_id"].to_list()
    assert [it["item"] for it in found["reasons"]] == listed
    own = result.why(USERS[1], listed[3], live=live)
    assert found["reasons"][3].items() >= json.loads(json.dumps(own.to_dict())).items()  # type: ignore[union-attr]
    assert call("why", run.path, "--user", USERS[1], *more) == 0
    title = f"{run.path}: why these items, for user {USERS[1]} ({LIVE if live else JUDGED})"
    assert capsys.readouterr().out.splitlines()[0] == title


def test_evaluate_judges_a_result_made_in_python(
    run: Run, result: rp.Result, call: Call, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ("ndcg@10", "subtopic_coverage@10")
    assert call("evaluate", run.path, "-m", ",".join(names), "--bootstrap", "0", "--json") == 0
    shown = {f"{row['metric']}@{row['k']}": row["mean"] for row in json.loads(capsys.readouterr().out)["scores"]}
    own = {it.name: it.mean for it in result.evaluate(names, bootstrap=0).scores}
    assert {name: shown[name] for name in names} == pytest.approx(own)
    base = {it.name: it.mean for it in run.model_or_result(base=True).evaluate(names, bootstrap=0).scores}
    assert own["subtopic_coverage@10"] > 1.1 * base["subtopic_coverage@10"]


def test_live_and_judged_lists_differ_where_users_have_held_out_items(run: Run) -> None:
    found = run.load_result()
    live, judged = (found.ranked(live=it)[0] for it in (True, False))
    split = run.split()
    held_out = split.part("test")
    taken = [np.isin(lists[row], held_out.row(row)).any() for lists in (live, judged) for row in range(len(live))]
    assert not any(taken[: len(live)]), "what a user has is in no live list"
    assert any(taken[len(live) :]), "what is held out counts as unknown in judged lists"
    assert 0.2 < (live != judged).any(1).mean() < 1


SHOWN: tuple[tuple[Any, ...], ...] = (
    ("recommend",),
    ("recommend", "--users", 1),
    ("why", "--user", 1),
    ("why", "--user", 1, "--why-not", 1),
    ("why", "--user", 1, "--what-if", "ban=Drama"),
    ("dials",),
    ("dials", "--user", 1),
    ("steer", "--user", 1, "--set", "Drama=0.1"),
    ("monitor", "--lists", "LISTS"),
)


@pytest.mark.slow
@pytest.mark.parametrize("words", SHOWN, ids=lambda it: " ".join(map(str, it[:2])))
def test_every_output_says_in_its_first_line_which_lists_it_shows(
    run: Run, result: rp.Result, words: tuple[Any, ...], call: Call, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for live, more in ((True, ()), (False, ("--judged",))):
        lists = tmp_path / "lists.csv"
        result.lists(live=live).write_csv(lists)
        command, *rest = ({"OUT": tmp_path / "out.csv", "LISTS": lists}.get(word, word) for word in words)
        assert call(command, run.path, *rest, *more) == 0
        shown, hidden = (LIVE, JUDGED) if live else (JUDGED, LIVE)
        first = capsys.readouterr().out.splitlines()[0]
        assert shown in first
        assert hidden not in first


def test_a_part_is_for_judged_lists(run: Run, call: Call, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("recommend", run.path, "--users", 1, "--judged", "--part", "validation") == 0
    assert "judged lists: history before the validation part" in capsys.readouterr().out.splitlines()[0]
    for words in (("recommend", "--users"), ("why", "--user")):
        assert call(words[0], run.path, words[1], 1, "--part", "validation") == 2
        assert "--part has no effect" in capsys.readouterr().err


def test_the_model_as_it_is_shows_itself(trained: Run) -> None:
    found = trained.model_or_result()
    assert (found.towards, found.is_changed, found.trade_off) == ("", False, 0.0)
    assert repr(found).startswith("Result(")
    assert all(row.relative in (0.0, None) for row in found.change.rows)
