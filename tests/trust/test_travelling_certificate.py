"""The certificate travels: exports, library, service and batches hold it, and say whether they are as tested."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from fastapi.testclient import TestClient

from recprism import Result, serving
from recprism.budget import Promise
from recprism.errors import InputError
from recprism.forms import DialsForm
from recprism.forms.rule_file import RuleFile
from recprism.operate.batch import make_batch
from recprism.runs.config import BudgetConfig
from recprism.runs.jobs.diversify import diversify_within
from recprism.runs.run import Run
from recprism.service import Settings
from recprism.service.app import create_app

ASSUMED = "it is assumed to carry over to live lists"


@pytest.fixture(scope="module")
def found(trained_run: Callable[..., Run]) -> Result:
    return diversify_within(trained_run(3, 16), BudgetConfig(goal="subtopic_coverage", budgets={"ndcg@10": 0.1}))


@pytest.fixture(scope="module")
def folder(found: Result, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("travels") / "rule"
    found.export(path, histories=True)
    return path


@pytest.fixture(scope="module")
def request_of(found: Result) -> dict[str, Any]:
    """The first user's candidates, scores and history, as a caller has them."""
    case = found.context()
    items, scores = (it[0][:200] for it in case.candidates)
    ids = case.split.item_ids
    return {"candidates": ids[items].tolist(), "scores": scores.tolist(), "history": ids[case.seen.row(0)].tolist()}


def test_the_exported_rule_holds_what_was_certified(found: Result, folder: Path) -> None:
    kept, promised = found.certificate, serving.load_rule(folder).certificate
    assert kept is not None
    assert kept.last is not None
    assert promised is not None
    (check,) = kept.points[kept.last].checks
    assert dict(promised.budgets) == {"ndcg@10": 0.1}
    assert promised.losses["ndcg@10"] == check.loss
    assert (promised.users, promised.part, promised.trade_off) == (check.users, "validation", found.trade_off)
    assert dict(promised.limits) == dict(found.own_rule().limits) == kept.limits
    assert promised.scorer == found.scorer
    assert ASSUMED in promised.sentence()


def test_answers_say_whether_they_are_as_tested(found: Result, folder: Path, request_of: dict[str, Any]) -> None:
    rule = serving.load_rule(folder, scorer=found.scorer)
    assert rule.rerank(**request_of).as_tested is True
    assert rule.rerank(**request_of).to_dict()["as_tested"] is True
    few = {name: it[:50] for name, it in request_of.items() if name != "history"}
    cases: dict[str, Any] = {
        "price 0, tested with": {"price": 0},
        "lists of 5, tested with 10": {"k": 5},
        "constraints of the request": {"constraints": {"max_share": {found.problem.categories.names[0]: 0.5}}},
        "dials set by the user": {"dials": {found.problem.categories.names[0]: 0.1}},
        "scorer 'other', tested with": {"scorer": "other"},
        "no history, tested users had one": {"history": []},
        "over its time limit": {"time_limit": 0},
        "50 candidates, tested with 100": few,
    }
    for words, change in cases.items():
        (said,) = rule.rerank(**{**request_of, **change}).as_tested  # type: ignore[misc]
        assert said.startswith(words)
    assert serving.load_rule(folder, candidates=50, scorer=found.scorer).rerank(**request_of).as_tested == (
        "50 candidates, tested with 100",
    )
    rule.enabled = False
    assert rule.rerank(**request_of).as_tested == ("switched off",)
    (said,) = serving.load_rule(folder).rerank(**request_of).as_tested  # type: ignore[misc]
    assert said == f"a scorer without a name, tested with {found.scorer!r}"


def test_vectors_of_the_export_are_its_own_scorer_and_old_histories_are_named(found: Result, folder: Path) -> None:
    rule, vectors = serving.load_rule(folder), found.problem.factors.search_vectors[0]
    user = found.problem.base.user_ids[0].item()
    assert rule.rank(vectors[0], user=user).as_tested is True
    stored = rule.file.histories_of
    assert stored is not None
    old = serving.ServedRule(replace(rule.file, histories_of=stored - 40 * 24 * 3600))
    assert old.rank(vectors[0], user=user).as_tested == ("a stored history of 40 days ago",)


def test_a_rule_without_a_certificate_says_so(folder: Path, request_of: dict[str, Any]) -> None:
    rule = serving.ServedRule(replace(RuleFile.read(folder), certificate=None))
    assert rule.certificate is None
    assert rule.rerank(**request_of).as_tested == ("nothing was certified",)


@pytest.mark.parametrize(
    "change", [{"trade_off": 0.5}, {"limits": {"ndcg@10": 1.0}}, {"k": 9}, {"constraints": {"banned": [1]}}]
)
def test_a_rule_that_was_changed_after_its_test_is_refused(folder: Path, tmp_path: Path, change: Any) -> None:
    facts = json.loads((folder / "rule.json").read_text(encoding="utf-8"))
    (tmp_path / "rule.npz").write_bytes((folder / "rule.npz").read_bytes())
    (tmp_path / "rule.json").write_text(json.dumps({**facts, **change}), encoding="utf-8")
    with pytest.raises(InputError, match="changed after it was certified"):
        serving.load_rule(tmp_path)


def test_the_service_shows_it_and_every_answer_has_it(found: Result, folder: Path, request_of: dict[str, Any]) -> None:
    with TestClient(create_app(folder, Settings(scorer=found.scorer)), base_url="http://127.0.0.1") as client:
        shown = client.get("/rule").json()["certificate"]
        assert Promise.from_dict(shown) == serving.load_rule(folder).certificate
        assert ASSUMED in shown["sentence"]
        assert client.post("/rerank", json=request_of).json()["as_tested"] is True
        other = client.post("/rerank", json={**request_of, "scorer": "other"}).json()["as_tested"]
        assert other == [f"scorer 'other', tested with {found.scorer!r}"]


def test_a_batch_holds_it(found: Result, folder: Path, tmp_path: Path) -> None:
    case = found.context()
    pairs = {"user_id": case.split.user_ids[case.seen.row_of_entry], "item_id": case.split.item_ids[case.seen.indices]}
    pl.DataFrame({name: it.tolist() for name, it in pairs.items()}).write_parquet(tmp_path / "seen.parquet")
    vectors = {"user_id": case.split.user_ids.tolist(), "vector": case.factors.search_vectors[0].tolist()}
    pl.DataFrame(vectors).write_parquet(tmp_path / "users.parquet")
    made = make_batch(folder, tmp_path / "users.parquet", tmp_path / "a", seen=tmp_path / "seen.parquet")
    said = json.loads((tmp_path / "a" / "batch.json").read_text(encoding="utf-8"))
    assert made.as_tested is said["as_tested"] is True
    assert Promise.from_dict(said["certificate"]) == serving.load_rule(folder).certificate
    other = make_batch(folder, tmp_path / "users.parquet", tmp_path / "b", repeat_seen=True, k=5)
    assert other.as_tested == ("lists of 5, tested with 10", "no history, tested users had one")
    assert "not made as those that were tested" in other.sentences()[-1]


@pytest.mark.slow
def test_forms_are_certified_by_their_own_lists(found: Result, tmp_path: Path) -> None:
    found.export(tmp_path / "measured", "dials")
    found.export(tmp_path / "certified", "dials", budgets={"ndcg@10": 0.1})
    measured, certified = (
        json.loads((tmp_path / name / "export.json").read_text(encoding="utf-8")) for name in ("measured", "certified")
    )
    judge = found.problem.on("validation")
    vectors = DialsForm().compile(judge, found.own_rule())
    lists = (judge.base_lists, judge.rank(vectors)[0])
    before, after = (np.nanmean(judge.judge(it, ("ndcg@10",))["ndcg@10"]) for it in lists)
    assert measured["certificate"] is None
    assert measured["measured"]["part"] == "validation"
    assert measured["measured"]["loss"] == pytest.approx(1 - after / before)
    promised = Promise.from_dict(certified["certificate"])
    assert promised.procedure == "dials, compiled for each context"
    assert promised.losses["ndcg@10"] < 0.1
    assert promised.limits == {}
    with pytest.raises(InputError, match="are not certified"):
        found.export(tmp_path / "refused", "dials", budgets={"ndcg@10": 0.0005})
    assert not (tmp_path / "refused").exists()


def test_budgets_that_have_no_effect_are_refused(found: Result, tmp_path: Path) -> None:
    for form, options in (("rule", {}), ("vectors", {"alpha": 0}), ("dials", {"alpha": 0.5})):
        with pytest.raises(InputError, match="budget"):
            found.export(tmp_path / "x", form, budgets={"ndcg@10": 0.1}, **options)
    assert np.array_equal([*tmp_path.iterdir()], [])
