"""Answers of the server: equal to those of the library; errors are one sentence."""

from __future__ import annotations

import io
import json
import shlex
import shutil
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from fastapi.testclient import TestClient

from recprism.budget.path import rule_at
from recprism.budget.segments import by_segment, user_segments
from recprism.explain.reasons.questions import reason_codes, why_list
from recprism.forms import UserVectors
from recprism.models import Factors
from recprism.report.collect import gather
from recprism.rule import Rule
from recprism.rule.goal import Goal
from recprism.runs.config import BudgetConfig, ConstraintsConfig
from recprism.runs.jobs.dials import steer_run
from recprism.runs.jobs.diversify import diversify_within
from recprism.runs.jobs.reasons import reasons_of
from recprism.runs.run import Run
from recprism.runs.stored_path import stored_path
from recprism.studio import commands, downloads, schemas

RULES = ("rule", "boosts")
Wait = Callable[[TestClient, str], dict[str, object]]


def get(client: TestClient, path: str, **parameters: Any) -> Any:
    answer = client.get(f"/api/runs{path}", params=parameters)
    assert answer.status_code == 200, answer.text
    return answer.json()


def ids(entries: list[dict[str, Any]]) -> list[Any]:
    return [entry["id"] for entry in entries]


@pytest.mark.slow
def test_all_runs_are_listed_with_their_state(client: TestClient) -> None:
    phases = {run["name"]: run["phase"] for run in get(client, "")}
    assert phases == {
        "plain": "ready",
        "changed": "ready",
        **dict.fromkeys(RULES, "ready"),
        "unlabelled": "ready",
        "empty": "waiting",
        "broken": "broken",
    }


def test_a_broken_run_says_what_is_wrong_and_the_others_answer(client: TestClient) -> None:
    assert "not factors written by recprism" in get(client, "/broken")["message"]
    refused = client.get("/api/runs/broken/user", params={"user": 1})
    assert refused.status_code == 409
    assert "not factors written by recprism" in refused.json()["detail"]
    assert client.get("/api/runs/empty/user", params={"user": 1}).status_code == 409


@pytest.mark.parametrize("budget", [0.0, 0.01, 0.05, 0.3])
@pytest.mark.parametrize("certified", [True, False])
def test_lists_are_those_of_the_path(client: TestClient, shelf: Path, budget: float, certified: bool) -> None:
    run = Run.open(shelf / "plain")
    path, factors = stored_path(run, "subtopic_coverage"), run.factors()
    point, problem = path.reach(budget, certified=certified), run.problem()
    live, rows = problem.live(), np.array([0, 100, 500])
    rule = rule_at(problem, path.goal, path.trade_offs[point]) if point else problem.base
    wanted = {
        "true": (path.lists[0, rows], path.lists[point, rows]),
        "false": [live.rank(it, users=rows)[0] for it in (problem.base, rule)],
    }
    for judged, (before, after) in wanted.items():
        for at, row in enumerate(rows):
            asked = {"budget": budget, "certified": certified, "judged": judged}
            answer = get(client, "/plain/user", user=factors.user_ids[row], **asked)
            schemas.UserAnswer.model_validate(answer)
            assert answer["what"].startswith(f"stop {point} of")
            assert answer["live"] == (judged == "false")
            assert ids(answer["before"]) == factors.item_ids[before[at]].tolist()
            assert ids(answer["after"]) == factors.item_ids[after[at]].tolist()


def test_every_place_has_its_state(client: TestClient) -> None:
    answer = get(client, "/plain/user", user=1, point=8)
    before, after = ids(answer["before"]), ids(answer["after"])
    for entry in answer["after"]:
        expected = (
            "new"
            if entry["id"] not in before
            else "stayed"
            if before.index(entry["id"]) + 1 == entry["rank"]
            else "moved"
        )
        assert entry["state"] == expected
    assert {entry["id"] for entry in answer["before"] if entry["state"] == "gone"} == set(before) - set(after)
    assert answer["history"]["total"] == len(answer["history"]["items"]) > 0


def test_the_path_has_what_the_slider_needs(client: TestClient, shelf: Path) -> None:
    answer = get(client, "/plain/paths/subtopic_coverage")
    schemas.PathAnswer.model_validate(answer)
    path = stored_path(Run.open(shelf / "plain"), "subtopic_coverage")
    assert [point["certified_within"] for point in answer["points"]] == list(path.certified_within or ())
    assert answer["points"][0]["loss"] == 0
    assert answer["points"][-1]["changes"]["subtopic_coverage@10"] > 0.1


def test_payers_are_those_of_the_audit(client: TestClient, shelf: Path) -> None:
    problem = Run.open(shelf / "plain").problem()
    lists = stored_path(Run.open(shelf / "plain"), "subtopic_coverage").lists
    values = [problem.judge(it, ("ndcg@10",))["ndcg@10"] for it in (lists[0], lists[3])]
    expected = by_segment(*values, user_segments(problem.split.train, problem.categories))
    found = get(client, "/plain/payers", goal="subtopic_coverage", point=3)
    assert found["sentence"] == expected.sentence()
    assert [row["segment"] for row in found["rows"]] == [row.segment for row in expected.rows]
    for row, wanted in zip(found["rows"], expected.to_dict()["rows"], strict=True):
        assert {name: wanted[name] for name in row} == row
    assert get(client, "/unlabelled/payers", point=0) == {"sentence": "", "rows": []}


def test_without_labels_no_price_is_claimed(client: TestClient) -> None:
    answer = get(client, "/unlabelled/paths/subtopic_coverage")
    assert {point["loss"] for point in answer["points"]} == {None}
    assert "ndcg@10" not in answer["points"][0]["values"]
    assert get(client, "/unlabelled/stop", budget=0.5)["point"] == 0
    assert get(client, "/unlabelled/stop", point=3)["point"] == 3


def test_the_command_makes_what_is_shown_and_replaces_nothing(client: TestClient, shelf: Path) -> None:
    own, goal = f"recprism diversify {shelf / 'rule'} --goal", "subtopic_coverage"
    assert get(client, "/rule/stop")["command"] == f"{own} sc --budget 30%"
    certified = get(client, "/rule/stop", goal=goal, budget=0.3)
    assert certified["command"] == f"{own} {goal} --budget 30% --name {goal}-30"
    assert get(client, "/rule/stop", goal=goal, budget=0.3, certified=False)["command"] == ""
    for budget in (0.0, 0.00001, 0.6):
        assert get(client, "/rule/stop", goal=goal, budget=budget)["command"] == ""
    assert get(client, "/rule/stop", goal=goal, point=3)["command"] == ""
    assert get(client, "/unlabelled/stop", point=3)["command"] == ""
    assert get(client, "/changed/stop")["command"] == "", "made by players, without a budget"


@pytest.mark.slow
def test_the_command_of_a_result_has_all_its_options(shelf: Path, tmp_path: Path, call: Callable[..., int]) -> None:
    """The printed command, run on another copy, asks for the same as what the result was made from."""
    runs = [Run(shutil.copytree(shelf / "plain", tmp_path / name)) for name in ("first", "second")]
    kept = ConstraintsConfig(banned=["318", "2"], max_share={"Drama": 0.9}, tail_floor=0.001, allow_violations=True)
    budgets = {"ndcg@10": 0.3, "recall@20": 0.45}
    about: dict[str, Any] = {"confidence": 0.9, "method": "t", "history_window": 40, "constraints": kept}
    asked = BudgetConfig(goal="subtopic_coverage", budgets=budgets, **about)
    diversify_within(runs[0], asked)
    _, *words = shlex.split(commands.made_by(runs[0], asked).replace(str(runs[0].path), str(runs[1].path)))
    assert call(*words) == 0
    assert runs[1].config.diversify == runs[0].config.diversify
    stop = commands.diversify(runs[0], asked, Goal.parse("ilad"), 0.025)
    assert "--history-window 40 --ban 318 --ban 2 --max-share Drama=90%" in stop
    assert "--history-window" not in commands.diversify(runs[0], asked, Goal.parse("shown_often"), 0.025), (
        "it would be refused"
    )
    assert stop.endswith("--name ilad-2_5")


@pytest.mark.slow
def test_the_path_of_another_goal_is_computed_on_request(client: TestClient, wait: Wait) -> None:
    assert client.get("/api/runs/plain/paths/catalogue_coverage").status_code == 404
    assert client.post("/api/runs/plain/paths/nonsense").status_code == 404
    assert client.post("/api/runs/plain/paths/catalogue_coverage").status_code == 202

    wait(client, "plain")
    assert get(client, "/plain/paths/catalogue_coverage")["metric"] == "catalogue_coverage@10"


def test_a_mix_has_one_name_and_an_impossible_one_is_refused(client: TestClient) -> None:
    view = client.app.state.studio.opened("plain").view()  # type: ignore[attr-defined]
    assert view.goal_named("sc+sc") == Goal.parse("sc")
    assert view.goal_named("pc+sc") == view.goal_named("sc+pc") == Goal.parse("sc+pc")
    refused = client.post("/api/runs/plain/paths/ilad_subtopics+ilad")
    assert refused.status_code == 404
    assert "two ways to measure one goal" in refused.json()["detail"]
    assert get(client, "/plain")["problem"] == ""
    assert client.post("/api/runs/plain/paths/" + "+".join(["sc"] * 100)).status_code == 422
    assert client.post("/api/runs/plain/paths/gini").status_code == 404
    assert client.post("/api/runs/boosts/paths/gini").status_code == 202, "the goal of that run"


def test_search_finds_users_and_items(client: TestClient) -> None:
    found = get(client, "/plain/search", q="12")
    assert found["users"][0] == 12
    assert all(str(user).startswith("12") for user in found["users"])
    parts = get(client, "/plain/search", q="99")["users"]
    assert parts[0] == 99
    assert any(not str(user).startswith("99") for user in parts), "a part of the id is enough"
    assert any("Toy Story" in item["title"] for item in get(client, "/plain/search", q="TOY st")["items"])
    assert get(client, "/plain/search", q="  ") == {"users": [], "items": []}


@pytest.mark.slow
def test_a_mix_of_goals_is_computed_and_kept(client: TestClient, shelf: Path, wait: Wait) -> None:
    mix = "subtopic_coverage+ilad_subtopics"
    assert client.post(f"/api/runs/plain/paths/{mix}").status_code == 202
    assert wait(client, "plain")["phase"] == "ready"
    assert get(client, f"/plain/paths/{mix}")["goal"] == mix
    assert mix in get(client, "/plain")["goals"]
    assert len(Run.open(shelf / "plain").problem().known_lists(Goal.parse(mix))) > 10, "kept in the run"


def test_an_item_is_counted_over_all_lists(client: TestClient, shelf: Path) -> None:
    run = Run.open(shelf / "plain")
    path, item_ids = stored_path(run, "subtopic_coverage"), run.factors().item_ids
    number = int(path.lists[0, 0, 0])
    answer = get(client, "/plain/item", item=item_ids[number], point=4)
    assert answer["lists_before"] == int((path.lists[0] == number).any(axis=1).sum())
    assert answer["lists_after"] == int((path.lists[4] == number).any(axis=1).sum())
    assert answer["lists_after"] - answer["lists_before"] == answer["n_gained"] - answer["n_lost"]
    assert answer["n_kept"] == answer["lists_before"] - answer["n_lost"]
    assert len(answer["kept"]) == min(50, answer["n_kept"])


def test_reasons_of_an_item_are_those_of_its_lists(client: TestClient, shelf: Path) -> None:
    run = Run.open(shelf / "rule")
    problem, found = run.problem(), run.load_result()
    lists = problem.rank(found.rule)[0]
    new = ~(lists[:, :, None] == problem.base_lists[:, None, :]).any(2)
    number = int(np.bincount(lists[new]).argmax())
    item = problem.split.item_ids[number : number + 1].tolist()[0]
    answer = get(client, "/rule/item/reasons", item=item)
    users = get(client, "/rule/item", item=item)["gained"][: answer["asked"]]
    assert sum(it["lists"] for it in answer["reasons"]) == len(users) > 0
    assert all(reason_codes(problem, found.rule, user)[item] for user in users)


@pytest.mark.parametrize("live", [True, False])
@pytest.mark.parametrize("name", RULES)
def test_the_result_of_a_run_has_reasons(client: TestClient, shelf: Path, name: str, live: bool) -> None:
    found = Run.open(shelf / name).load_result()
    split, lists = found.problem.split, found.ranked(live=live)[0]
    for row in (0, 100, 500):
        asked = {"user": split.user_ids[row], "judged": not live}
        shown, said = get(client, f"/{name}/user", **asked), get(client, f"/{name}/reasons", **asked)
        assert shown["live"] is live
        assert ids(shown["after"]) == split.item_ids[lists[row]].tolist()
        assert {it["id"] for it in said["reasons"]} == {it["id"] for it in shown["after"] if it["state"] == "new"}
        known = found.context(live=live).seen.row(row)
        assert {it["id"] for it in shown["history"]["items"]} <= set(split.item_ids[known].tolist())
        assert shown["history"]["total"] == len(known)
        assert ("--judged" in shown["command"]) == (not live)
        dials = found.dials([asked["user"]], live=live)
        own = {it["name"]: it["share"] for it in shown["dials"]}
        assert own == pytest.approx(dials.shares_of(row), abs=1e-5)
        assert shown["dials_note"] == ""


@pytest.mark.parametrize("live", [True, False])
def test_reasons_of_a_point_are_those_of_its_rule(client: TestClient, shelf: Path, live: bool) -> None:
    run, point = Run.open(shelf / "plain"), 8
    problem, titles = run.problem(), dict(run.items().select("item_id", "title").iter_rows())
    answer = get(client, "/plain/reasons", user=1, point=point, judged=not live)
    trade_off = get(client, "/plain/paths/subtopic_coverage")["points"][point]["trade_off"]
    rule, case = rule_at(problem, "subtopic_coverage", trade_off), problem.live() if live else problem
    reasons = {it.item: it.in_brief(titles.__getitem__) for it in why_list(case, rule, 1)}
    assert answer["reasons"]
    assert all(it["reason"] == reasons[it["id"]] for it in answer["reasons"])


@pytest.mark.slow
@pytest.mark.parametrize("name", RULES)
def test_the_studio_shows_the_figures_of_the_report(client: TestClient, shelf: Path, name: str) -> None:
    """tests/report/test_headline.py compares the report with the command line."""
    found, served = gather(Run.open(shelf / name), draws=0).headline, get(client, f"/{name}")["served"]
    for statement in (*found.of("gain"), *found.of("cost"), *found.of("side effect")):
        assert statement.metric is not None
        if statement.metric in served["changes"]:
            assert statement.figure == served["changes"][statement.metric]
    assert found.of("gain")[0].metric in served["changes"]
    assert served["certified"] is not None
    assert f"Promised: at most {100 * served['certified']['loss']:g} % lower" in found.of("cost")[0].text


@pytest.mark.parametrize("live", [True, False])
def test_questions_are_answered_as_on_the_command_line(client: TestClient, shelf: Path, live: bool) -> None:
    run = Run.open(shelf / "rule")
    found, about = run.load_result(), reasons_of(run, 1, live=live)
    context: dict[str, Any] = {"user": 1, "judged": not live}
    option = "" if live else " --judged"
    lists = get(client, "/rule/user", **context)
    outside = next(it["id"] for it in lists["before"] if it["state"] == "gone")
    refused = get(client, "/rule/why", item=outside, **context)
    assert refused["sentences"][1] == about.why_not(outside).sentence(about.name)
    assert refused["command"].endswith(f"--user 1 --why-not {outside}{option}")
    assert not refused["inside"]
    first = ids(lists["after"])[0]
    inside = get(client, "/rule/why", item=first, **context)
    assert inside["inside"]
    assert inside["command"].endswith(f"--user 1 --item {first}{option}")
    removed = get(client, "/rule/what-if", item=first, **context)
    assert ids(removed["after"]) == list(found.what_if(1, live=live, without=first).after)
    taken = lists["history"]["items"][0]["id"]
    forgotten = get(client, "/rule/what-if", item=taken, change="forget", **context)
    assert ids(forgotten["after"]) == list(found.what_if(1, live=live, forget=taken).after)
    assert forgotten["command"].endswith(f"--what-if forget={taken}{option}")
    refusal = client.get("/api/runs/rule/what-if", params={**context, "item": first, "change": "forget"})
    assert refusal.status_code == 404


@pytest.mark.parametrize("live", [True, False])
def test_sliders_rank_as_steer_does(client: TestClient, shelf: Path, live: bool) -> None:
    context: dict[str, Any] = {"user": 12, "judged": not live}
    answer = get(client, "/rule/steer", set=["Animation=0.3", "Drama=-0.1"], **context)
    found = steer_run(Run.open(shelf / "rule"), 12, {"Animation": 0.3, "Drama": -0.1}, live=live)
    assert ids(answer["after"]) == found.to_dict()["after"]
    option = "" if live else " --judged"
    assert answer["command"].endswith(f"--user 12{option} --set Animation=+0.3 --set Drama=-0.1")
    assert ids(get(client, "/rule/steer", set="Animation=0", **context)["after"]) == found.to_dict()["before"]


@pytest.mark.parametrize("judged", [False, True])
def test_the_commands_of_a_screen_make_its_lists(
    client: TestClient, capsys: pytest.CaptureFixture[str], call: Callable[..., int], judged: bool
) -> None:
    """Every command is run as it is printed."""

    def made_by(command: str) -> dict[str, Any]:
        assert call(*shlex.split(command)[1:], "--json") == 0
        found: dict[str, Any] = json.loads(capsys.readouterr().out)
        return found

    context: dict[str, Any] = {"user": 12, "judged": judged}
    shown = get(client, "/rule/user", **context)
    assert [it["item"] for it in made_by(shown["command"])["reasons"]] == ids(shown["after"])
    steered = get(client, "/rule/steer", set=["Animation=0.3"], **context)
    assert made_by(steered["command"])["after"] == ids(steered["after"])
    first = ids(shown["after"])[0]
    removed = get(client, "/rule/what-if", item=first, **context)
    assert made_by(removed["command"])["after"] == ids(removed["after"])
    why = get(client, "/rule/why", item=first, **context)
    assert made_by(why["command"])["item"] == first


def test_wrong_settings_of_sliders_are_refused(client: TestClient) -> None:
    words = (("Animation=much", 422), ("Nothing=0.1", 404), ("Animation=7", 404), ("Animation=nan", 404))
    for wrong, code in (*words, ("live=0.1", 404), ("user=0.1", 404)):
        assert client.get("/api/runs/rule/steer", params={"user": 12, "set": wrong}).status_code == code
    for name, more in (("changed", {}), ("plain", {"point": 3}), ("rule", {"point": 3, "goal": "sc"})):
        asked = {"user": 12, "set": "Animation=0.1", **more}
        assert client.get(f"/api/runs/{name}/steer", params=asked).status_code == 404


def test_a_change_by_players_has_lists_and_no_reasons(client: TestClient) -> None:
    answer = get(client, "/changed/user", user=1)
    assert "Players found this change" in answer["note"]
    assert ids(answer["after"]) != ids(answer["before"])
    assert answer["dials"] == []
    assert "There are no sliders here" in answer["dials_note"]
    assert get(client, "/changed/reasons", user=1)["reasons"] == []
    assert client.get("/api/runs/changed/why", params={"user": 1, "item": answer["after"][0]["id"]}).status_code == 404


def test_a_segment_lists_its_users(client: TestClient, shelf: Path) -> None:
    problem = Run.open(shelf / "plain").problem()
    light = user_segments(problem.split.train, problem.categories)["light"]
    answer = get(client, "/plain/segment", segment="light", point=8)
    assert answer["total"] == int(light.sum())
    assert {it["user"] for it in answer["users"]} <= set(problem.split.user_ids[light].tolist())
    assert [it["new"] for it in answer["users"]] == sorted((it["new"] for it in answer["users"]), reverse=True)
    assert client.get("/api/runs/plain/segment", params={"segment": "nobody"}).status_code == 404


def test_all_results_are_in_one_table(client: TestClient) -> None:
    rows = {row["name"]: row for row in client.get("/api/results").json()}
    assert set(rows) >= {"plain", "changed", *RULES, "unlabelled", "empty", "broken"}
    assert rows["boosts"]["test"] == rows["rule"]["test"] == "1"
    assert rows["unlabelled"]["test"] == "", "nothing is held out"
    assert rows["rule"]["changes"]["subtopic_coverage@10"] > 0
    assert (rows["empty"]["state"], rows["broken"]["test"]) == ("begun", "")


def test_a_comparison_says_what_is_comparable(client: TestClient) -> None:
    same = client.get("/api/compare", params={"first": "rule", "second": "boosts"}).json()
    assert same["same_test"]
    assert "Figures can be compared" in same["sentences"][0]
    other = client.get("/api/compare", params={"first": "rule", "second": "unlabelled"}).json()
    assert not other["same_test"]
    assert "cannot be compared" in other["sentences"][0]
    assert "no held-out interactions" in other["sentences"][0]
    twice = client.get("/api/compare", params={"first": "unlabelled", "second": "unlabelled"}).json()
    assert not twice["same_test"]
    assert client.get("/api/compare", params={"first": "rule", "second": "empty"}).status_code == 409
    assert client.get("/api/compare", params={"first": "rule", "second": "nowhere"}).status_code == 404


@pytest.mark.parametrize(("name", "more"), [("plain", {"point": 5}), ("rule", {}), ("changed", {})])
def test_downloads_hold_what_is_shown(
    client: TestClient, shelf: Path, tmp_path: Path, name: str, more: dict[str, Any]
) -> None:
    for judged in (True, False):
        asked = {**more, "judged": judged}
        shown = get(client, f"/{name}/user", user=12, **asked)
        sent = client.get(f"/api/runs/{name}/download/lists", params=asked)
        lists = pl.read_csv(io.BytesIO(sent.content))
        assert lists.filter(user_id=12).sort("rank")["item_id"].to_list() == ids(shown["after"])
        assert ("-judged.csv" in sent.headers["content-disposition"]) == judged
    packed = client.get(f"/api/runs/{name}/download/vectors", params=more).content
    zipfile.ZipFile(io.BytesIO(packed)).extractall(tmp_path)
    factors, found = Factors.load(tmp_path / "factors.safetensors"), Run.open(shelf / name).model_or_result()
    trade_off = stored_path(Run.open(shelf / "plain"), "subtopic_coverage").trade_offs[5]
    model = rule_at(found.problem, "subtopic_coverage", trade_off) if name == "plain" else found.model
    if isinstance(model, Rule):  # 8 numbers of a user do not hold every list; these are the closest ones
        model = UserVectors().compile(found.context(), model)
    assert isinstance(model, Factors)
    np.testing.assert_array_equal(factors.user, model.user)
    np.testing.assert_array_equal(factors.item, model.item)


def test_a_report_is_downloaded_and_never_shown(client: TestClient) -> None:
    report = client.get("/api/runs/changed/download/report")
    assert report.headers["content-disposition"].startswith("attachment")
    assert client.get("/api/runs/plain/download/report").status_code == 404


def test_a_download_that_fails_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(OSError, match="full"):
        downloads._sent("lists.csv", "text/csv", _fail)
    assert list(tmp_path.iterdir()) == []


def _fail(path: Path) -> None:
    path.write_text("begun", encoding="utf-8")
    raise OSError("the disk is full")


@pytest.mark.parametrize(
    ("path", "parameters", "code"),
    [
        ("/nowhere", {}, 404),
        ("/plain/user", {"user": "nobody"}, 404),
        ("/plain/user", {"user": 10**9}, 404),
        ("/plain/user", {"user": 1, "goal": "novelty"}, 404),
        ("/plain/user", {"user": 1, "point": 99}, 404),
        ("/plain/user", {"user": 1, "budget": "much"}, 422),
        ("/plain/user", {"user": 1, "budget": -1}, 422),
        ("/plain/user", {"user": 1, "budget": "nan"}, 422),
        ("/plain/user", {}, 422),
        ("/plain/item", {"item": "nothing"}, 404),
        ("/plain/item", {"item": 10**20}, 404),
        ("/plain/item", {"item": "\u00b2"}, 404),
        ("/plain/user", {"user": 10**20}, 404),
        ("/plain/search", {"q": "x" * 1000}, 422),
        ("/plain/why", {"user": 1, "item": "nothing", "point": 3}, 404),
        ("/plain/what-if", {"user": 1, "item": 1, "change": "else"}, 422),
        ("/..%2F..%2Fetc/user", {"user": 1}, 404),
    ],
)
def test_an_invalid_request_is_refused(client: TestClient, path: str, parameters: dict[str, Any], code: int) -> None:
    answer = client.get(f"/api/runs{path}", params=parameters)
    assert answer.status_code == code, answer.text
    assert "Traceback" not in answer.text


@pytest.mark.slow
def test_a_run_whose_files_change_is_opened_again(shelf: Path, tmp_path: Path, wait: Wait) -> None:
    from recprism.studio.app import create_app

    shutil.copytree(shelf / "plain", tmp_path / "moving")
    whole = (tmp_path / "moving" / "factors.safetensors").rename(tmp_path / "kept")
    with TestClient(create_app([tmp_path / "moving"]), base_url="http://127.0.0.1") as client:
        assert get(client, "/moving")["phase"] == "waiting"
        whole.rename(tmp_path / "moving" / "factors.safetensors")
        assert wait(client, "moving")["phase"] == "ready"
        assert len(get(client, "/moving/user", user=1)["before"]) == 10


def test_ids_may_be_text(tmp_path: Path, wait: Wait) -> None:

    from recprism.data import load_files
    from recprism.models import BPRMF
    from recprism.runs.config import RunConfig
    from recprism.studio.app import create_app

    generator = np.random.default_rng(0)
    rows = {
        (f"u/{u}", f"i&{i}")
        for u, i in zip(generator.integers(0, 30, 600), generator.integers(0, 40, 600), strict=True)
    }
    table = pl.DataFrame(sorted(rows), schema=["user_id", "item_id"], orient="row")
    table.write_csv(tmp_path / "taken.csv")
    items = pl.DataFrame({"item_id": [f"i&{i}" for i in range(40)], "kind": [f"k{i % 4}" for i in range(40)]})
    items.write_csv(tmp_path / "items.csv")
    data = load_files(tmp_path / "taken.csv", items=tmp_path / "items.csv", category_column="kind")
    split = data.split(seed=0)
    run = Run.create(tmp_path / "text", RunConfig())
    run.save_data(data, split)
    run.save_factors(BPRMF(epochs=1, dim=4).fit(split, seed=0, device="cpu"))
    with TestClient(create_app([run.path]), base_url="http://127.0.0.1") as client:
        wait(client, "text")
        user = get(client, "/text/search", q="u/1")["users"][0]
        assert get(client, "/text/user", user=user, point=1)["user"] == user


@pytest.mark.parametrize("odd", ["9" * 20, "9" * 200, "-1", "²", "1e300", "nan", "", " ", "\x01"])
def test_odd_ids_are_unknown_and_no_server_error(client: TestClient, odd: str) -> None:
    for path, name in (("item", "item"), ("user", "user"), ("reasons", "user")):
        assert client.get(f"/api/runs/plain/{path}", params={name: odd}).status_code == 404
    assert client.get("/api/runs/plain/search", params={"q": odd}).status_code == 200
