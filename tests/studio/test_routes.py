"""Answers of the server: equal to those of the library; errors are one sentence."""

from __future__ import annotations

import io
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
from recprism.explain import why_list
from recprism.models import Factors
from recprism.runs.jobs.factors import explain_factors
from recprism.runs.run import Run
from recprism.runs.scenario import scenario_of
from recprism.runs.stored_path import stored_path
from recprism.studio import schemas

FORMS = ("rule", "dials", "lifts", "user-vectors")
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
        **dict.fromkeys(FORMS, "ready"),
        "unlabelled": "ready",
        "empty": "waiting",
        "broken": "broken",
    }


def test_a_broken_run_says_what_is_wrong_and_the_others_answer(client: TestClient) -> None:
    assert "not factors written by recprism" in get(client, "/broken")["message"]
    refused = client.get("/api/runs/broken/lists", params={"user": 1})
    assert refused.status_code == 409
    assert "not factors written by recprism" in refused.json()["detail"]
    assert client.get("/api/runs/empty/lists", params={"user": 1}).status_code == 409


@pytest.mark.parametrize("budget", [0.0, 0.01, 0.05, 0.3])
@pytest.mark.parametrize("certified", [True, False])
def test_lists_are_those_of_the_path(client: TestClient, shelf: Path, budget: float, certified: bool) -> None:
    run = Run.open(shelf / "plain")
    path, factors = stored_path(run, "subtopic_coverage"), run.factors()
    for row in (0, 100, 500):
        answer = get(client, "/plain/lists", user=factors.user_ids[row], budget=budget, certified=certified)
        schemas.ListsAnswer.model_validate(answer)
        point = path.reach(budget, certified=certified)
        assert answer["point"] == point
        assert ids(answer["before"]) == factors.item_ids[path.lists[0, row]].tolist()
        assert ids(answer["after"]) == factors.item_ids[path.lists[point, row]].tolist()


def test_every_place_has_its_state(client: TestClient) -> None:
    answer = get(client, "/plain/lists", user=1, point=8)
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
    assert answer["history"]["items"] > 0


def test_the_path_has_what_the_slider_needs(client: TestClient, shelf: Path) -> None:
    answer = get(client, "/plain/paths/subtopic_coverage")
    schemas.PathAnswer.model_validate(answer)
    path = stored_path(Run.open(shelf / "plain"), "subtopic_coverage")
    assert [point["certified_within"] for point in answer["points"]] == list(path.certified_within or ())
    assert answer["points"][0]["loss"] == 0
    assert answer["points"][-1]["changes"]["subtopic_coverage@10"] > 0.1


def test_payers_are_those_of_the_audit(client: TestClient, shelf: Path) -> None:
    scenario = scenario_of(Run.open(shelf / "plain"))
    lists = stored_path(Run.open(shelf / "plain"), "subtopic_coverage").lists
    values = [scenario.judge(it, ("ndcg@10",))["ndcg@10"] for it in (lists[0], lists[3])]
    expected = by_segment(*values, user_segments(scenario.split.train, scenario.subtopics))
    found = get(client, "/plain/payers", goal="subtopic_coverage", point=3)
    assert found["sentence"] == expected.sentence()
    assert [row["segment"] for row in found["rows"]] == [row.segment for row in expected.rows]
    for row, wanted in zip(found["rows"], expected.to_dict()["rows"], strict=True):
        assert {name: wanted[name] for name in row} == row
    assert get(client, "/unlabelled/payers", point=0) == {"point": 0, "sentence": "", "rows": []}


def test_without_labels_no_price_is_claimed(client: TestClient) -> None:
    answer = get(client, "/unlabelled/paths/subtopic_coverage")
    assert {point["loss"] for point in answer["points"]} == {None}
    assert "ndcg@10" not in answer["points"][0]["values"]
    assert get(client, "/unlabelled/lists", user=1, budget=0.5)["point"] == 0
    assert get(client, "/unlabelled/lists", user=1, point=3)["point"] == 3


def test_the_path_of_another_goal_is_computed_on_request(client: TestClient, wait: Wait) -> None:
    assert client.get("/api/runs/plain/paths/catalogue_coverage").status_code == 404
    assert client.post("/api/runs/plain/paths/nonsense").status_code == 404
    assert client.post("/api/runs/plain/paths/catalogue_coverage").status_code == 202

    wait(client, "plain")
    assert get(client, "/plain/paths/catalogue_coverage")["metric"] == "catalogue_coverage@10"


def test_search_finds_users_and_items(client: TestClient) -> None:
    found = get(client, "/plain/search", q="12")
    assert found["users"][0] == 12
    assert all(str(user).startswith("12") for user in found["users"])
    assert any("Toy Story" in item["title"] for item in get(client, "/plain/search", q="TOY st")["items"])
    assert get(client, "/plain/search", q="  ") == {"users": [], "items": []}


def test_an_item_is_counted_over_all_lists(client: TestClient, shelf: Path) -> None:
    run = Run.open(shelf / "plain")
    path, item_ids = stored_path(run, "subtopic_coverage"), run.factors().item_ids
    number = int(path.lists[0, 0, 0])
    answer = get(client, "/plain/items", item=item_ids[number], point=4)
    assert answer["lists_before"] == int((path.lists[0] == number).any(axis=1).sum())
    assert answer["lists_after"] == int((path.lists[4] == number).any(axis=1).sum())


def test_features_are_those_of_the_explanation(client: TestClient, shelf: Path) -> None:
    answer = get(client, "/changed/features")
    found = explain_factors(Run.open(shelf / "changed"), draws=0).explanation
    rows = (*found.directions, *found.factors)
    assert [one["label"] for one in answer["features"]] == [row.label for row in rows]
    assert not answer["holds"]
    assert "No controls" in answer["verdict"]
    assert "a random direction" in answer["verdict"]
    assert answer["dials"] == []
    erased = get(client, "/changed/turn", number=0, scale=0, user=1)
    assert erased["values"]["subtopic_coverage@10"] == pytest.approx(rows[0].erased["subtopic_coverage@10"])
    as_found = get(client, "/changed/turn", number=0, scale=1, user=1)
    assert as_found["values"] == pytest.approx(as_found["as_found"])
    assert ids(as_found["lists"]["after"]) == ids(get(client, "/changed/served", user=1)["after"])


@pytest.mark.parametrize("form", FORMS)
def test_a_rule_has_reasons_and_no_factors(client: TestClient, shelf: Path, form: str) -> None:
    run = Run.open(shelf / form)
    found, scenario = run.diversified(), scenario_of(run)
    answer = get(client, f"/{form}/features")
    schemas.FeaturesAnswer.model_validate(answer)
    assert answer["features"] == []
    assert "A rule made the lists" in answer["verdict"]
    weights = None if found.dials is None else found.dials.weights
    counts = {} if weights is None else dict(zip(found.dials.names, (weights != 0).sum(0).tolist(), strict=True))
    assert {it["name"]: it["users"] for it in answer["dials"]} == {name: n for name, n in counts.items() if n}
    assert bool(answer["dials"]) == (form in ("rule", "dials"))
    refused = client.get(f"/api/runs/{form}/turn", params={"number": 0, "scale": 1, "user": 1})
    assert (refused.status_code, "a rule made the lists" in refused.json()["detail"]) == (404, True)
    served = scenario.rank(found.model)[0]
    for row in (0, 100, 500):
        lists = get(client, f"/{form}/served", user=scenario.split.user_ids[row])
        assert ids(lists["after"]) == scenario.split.item_ids[served[row]].tolist()
        assert all(bool(it["reason"]) == (it["state"] == "new") for it in lists["after"])
        assert not any(it["reason"] for it in lists["before"])


def test_reasons_of_a_point_are_those_of_its_rule(client: TestClient, shelf: Path) -> None:
    run, point = Run.open(shelf / "plain"), 8
    scenario, titles = scenario_of(run), dict(run.items().select("item_id", "title").iter_rows())
    answer = get(client, "/plain/lists", user=1, point=point)
    trade_off = get(client, "/plain/paths/subtopic_coverage")["points"][point]["trade_off"]
    rule = rule_at(scenario, "subtopic_coverage", trade_off)
    reasons = {it.item: it.in_brief(titles.__getitem__) for it in why_list(scenario, rule, 1)}
    new = [it for it in answer["after"] if it["state"] == "new"]
    other = "Served by the user-vectors in place of an item that the rule chooses."
    assert [it["reason"] for it in new] == [reasons.get(it["id"], other) for it in new]
    assert any(it["id"] in reasons for it in new)


def test_a_run_that_was_not_changed_has_no_features(client: TestClient) -> None:
    refused = client.get("/api/runs/plain/features")
    assert refused.status_code == 409
    assert "has not been diversified" in refused.json()["detail"]
    served = get(client, "/plain/served", user=1)
    assert ids(served["before"]) == ids(served["after"])


def test_downloads_hold_what_is_shown(client: TestClient, tmp_path: Path) -> None:
    shown = get(client, "/plain/lists", user=12, point=5)
    lists = pl.read_csv(io.BytesIO(client.get("/api/runs/plain/download/lists", params={"point": 5}).content))
    assert lists.filter(user_id=12).sort("rank")["item_id"].to_list() == ids(shown["after"])
    packed = client.get("/api/runs/plain/download/vectors", params={"point": 5}).content
    zipfile.ZipFile(io.BytesIO(packed)).extractall(tmp_path)
    factors = Factors.load(tmp_path / "factors.safetensors")
    seen = factors.recommend(12, 3000)[0].tolist()
    assert [item for item in seen if item in ids(shown["after"])] == ids(shown["after"])
    report = client.get("/api/runs/changed/download/report")
    assert report.headers["content-disposition"].startswith("attachment")
    assert client.get("/api/runs/plain/download/report").status_code == 404


@pytest.mark.parametrize(
    ("path", "parameters", "code"),
    [
        ("/nowhere", {}, 404),
        ("/plain/lists", {"user": "nobody"}, 404),
        ("/plain/lists", {"user": 10**9}, 404),
        ("/plain/lists", {"user": 1, "goal": "novelty"}, 404),
        ("/plain/lists", {"user": 1, "point": 99}, 404),
        ("/plain/lists", {"user": 1, "budget": "much"}, 422),
        ("/plain/lists", {"user": 1, "budget": -1}, 422),
        ("/plain/lists", {"user": 1, "budget": "nan"}, 422),
        ("/plain/lists", {}, 422),
        ("/plain/items", {"item": "nothing"}, 404),
        ("/plain/items", {"item": 10**20}, 404),
        ("/plain/items", {"item": "\u00b2"}, 404),
        ("/plain/lists", {"user": 10**20}, 404),
        ("/plain/search", {"q": "x" * 1000}, 422),
        ("/changed/turn", {"number": 99, "scale": 1, "user": 1}, 404),
        ("/changed/turn", {"number": 0, "scale": 99, "user": 1}, 422),
        ("/..%2F..%2Fetc/lists", {"user": 1}, 404),
    ],
)
def test_an_invalid_request_is_refused(client: TestClient, path: str, parameters: dict[str, Any], code: int) -> None:
    answer = client.get(f"/api/runs{path}", params=parameters)
    assert answer.status_code == code, answer.text
    assert "Traceback" not in answer.text


def test_a_run_whose_files_change_is_opened_again(shelf: Path, tmp_path: Path, wait: Wait) -> None:
    import shutil

    from recprism.studio import create_app

    shutil.copytree(shelf / "plain", tmp_path / "moving")
    whole = (tmp_path / "moving" / "factors.safetensors").rename(tmp_path / "kept")
    with TestClient(create_app([tmp_path / "moving"]), base_url="http://127.0.0.1") as client:
        assert get(client, "/moving")["phase"] == "waiting"
        whole.rename(tmp_path / "moving" / "factors.safetensors")
        assert wait(client, "moving")["phase"] == "ready"
        assert len(get(client, "/moving/lists", user=1)["before"]) == 10


def test_ids_may_be_text(tmp_path: Path, wait: Wait) -> None:

    from recprism.data import load_files
    from recprism.models import BPRMF
    from recprism.runs.config import RunConfig
    from recprism.studio import create_app

    generator = np.random.default_rng(0)
    rows = {
        (f"u/{u}", f"i&{i}")
        for u, i in zip(generator.integers(0, 30, 600), generator.integers(0, 40, 600), strict=True)
    }
    table = pl.DataFrame(sorted(rows), schema=["user_id", "item_id"], orient="row")
    table.write_csv(tmp_path / "taken.csv")
    items = pl.DataFrame({"item_id": [f"i&{i}" for i in range(40)], "kind": [f"k{i % 4}" for i in range(40)]})
    items.write_csv(tmp_path / "items.csv")
    data = load_files(tmp_path / "taken.csv", items=tmp_path / "items.csv", subtopic_column="kind")
    split = data.split(seed=0)
    run = Run.create(tmp_path / "text", RunConfig())
    run.save_data(data, split)
    run.save_factors(BPRMF(epochs=1, dim=4).fit(split, seed=0, device="cpu"))
    with TestClient(create_app([run.path]), base_url="http://127.0.0.1") as client:
        wait(client, "text")
        user = get(client, "/text/search", q="u/1")["users"][0]
        assert get(client, "/text/lists", user=user, point=1)["user"] == user


@pytest.mark.parametrize("odd", ["9" * 20, "9" * 200, "-1", "²", "1e300", "nan", "", " ", "\x01"])
def test_odd_ids_are_unknown_and_no_server_error(client: TestClient, odd: str) -> None:
    for path, name in (("items", "item"), ("lists", "user"), ("served", "user")):
        assert client.get(f"/api/runs/plain/{path}", params={name: odd}).status_code == 404
    assert client.get("/api/runs/plain/search", params={"q": odd}).status_code == 200
