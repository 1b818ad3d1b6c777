"""A run that is logged to MLflow, the real one on a store in a file; and a run whose MLflow fails half-way."""

from __future__ import annotations

import logging
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from recprism.errors import InputError, MissingDependencyError
from recprism.models.training import Epoch
from recprism.runs.config import ModelConfig, RunConfig
from recprism.runs.jobs.train import start, train
from recprism.runs.mlflow_sink import MlflowSink
from recprism.runs.run import Run
from recprism.runs.sinks import followed

mlflow = pytest.importorskip("mlflow", reason="mlflow is not installed (extra [mlflow]): its sink is not tested")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # MLflow uses what SQLAlchemy has deprecated
QUICK = ModelConfig(settings={"epochs": 3, "dim": 8})


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """MLflow puts artifacts into the working directory, so each test has its own."""
    monkeypatch.chdir(tmp_path)
    return f"sqlite:///{tmp_path / 'mlflow.db'}"


def logged(store: str) -> list[Any]:
    """The MLflow runs, oldest first."""
    client = mlflow.MlflowClient(tracking_uri=store)
    experiment = client.get_experiment_by_name("recprism")
    return list(client.search_runs([experiment.experiment_id], order_by=["attributes.start_time ASC"]))


def test_train_and_diversify_are_logged(store: str, call: Callable[..., int]) -> None:
    quick = ("--set", "epochs=3", "--set", "dim=8", "--device", "cpu")
    assert call("train", "-o", "runs/a", *quick, "--mlflow", store) == 0
    assert call("diversify", "runs/a", "--budget", "0.5", "--mlflow", store) == 0
    training, diversifying = logged(store)
    client = mlflow.MlflowClient(tracking_uri=store)
    assert training.info.status == diversifying.info.status == "FINISHED"
    assert training.info.run_name == diversifying.info.run_name == "a"
    assert diversifying.data.tags["mlflow.parentRunId"] == training.info.run_id

    parameters = training.data.params
    assert parameters["model.name"] == "bprmf" and parameters["model.settings.dim"] == "8"
    assert parameters["data.users"] == "601" and parameters["seed"] == "0"
    run = Run.open("runs/a")
    epochs = [event for event in run.events() if event["event"] == "epoch"]
    for name in ("loss", "validation"):
        history = client.get_metric_history(training.info.run_id, f"epoch.{name}")
        assert [(it.step, it.value) for it in history] == [(it["done"], it[name]) for it in epochs]
    assert len(epochs) == 3

    certificate = (run.certificate() or {})["certificate"]
    check = certificate["points"][certificate["last"]]["checks"][0]
    found = diversifying.data.metrics
    for name in ("budget", "loss"):
        assert found[f"diversified within a budget.certificate.ndcg_10.{name}"] == check[name]
    assert diversifying.data.params["diversified within a budget.certificate.certified"] == "True"
    assert diversifying.data.params["diversify.within.goal"] == "subtopic_coverage"

    artifacts = {it.path for it in client.list_artifacts(diversifying.info.run_id)}
    assert artifacts == {"CARD.md", "config.toml", "certificate.json", "events.jsonl"}
    kept = Path(client.download_artifacts(diversifying.info.run_id, "CARD.md")).read_text(encoding="utf-8")
    assert kept == (run.path / "CARD.md").read_text(encoding="utf-8")


def test_a_search_by_players_is_logged_step_by_step(store: str, call: Callable[..., int]) -> None:
    train(start("runs/b", RunConfig(device="cpu", model=QUICK)))
    assert call("search", "runs/b", "--set", "iterations=4", "-m", "subtopic_coverage@10", "--mlflow", store) == 0
    (found,) = logged(store)
    history = mlflow.MlflowClient(tracking_uri=store).get_metric_history(found.info.run_id, "step.psi")
    assert [it.step for it in history] == [1, 2, 3, 4]
    assert found.data.params["data.users"] == "601", "what happened before it was followed"


def test_when_mlflow_fails_half_way_the_run_continues(
    store: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    plain = train(start(tmp_path / "plain", RunConfig(device="cpu", model=QUICK)))
    run = start(tmp_path / "run", RunConfig(device="cpu", model=QUICK))

    def break_it(epoch: Epoch) -> None:
        if epoch.epoch == 1:
            with sqlite3.connect(tmp_path / "mlflow.db") as database:
                database.execute("DROP TABLE metrics")

    with caplog.at_level(logging.WARNING, "recprism"), followed(run, MlflowSink(store)):
        factors = train(run, break_it)
    (warning,) = {record.getMessage() for record in caplog.records if record.name == "recprism.runs.parts.fail_safe"}
    assert warning.startswith("MLflow failed (")
    assert warning.endswith("; the run continues without it")
    assert (factors.user == plain.user).all()
    assert [event["done"] for event in run.events() if event["event"] == "epoch"] == [1, 2, 3]
    assert (run.path / "CARD.md").exists() and not run.sinks


def test_a_run_that_fails_is_logged_as_failed(store: str, tmp_path: Path) -> None:
    run = start(tmp_path / "run", RunConfig(device="cpu", model=QUICK))

    def stop(epoch: Epoch) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), followed(run, MlflowSink(store)):
        train(run, stop)
    with pytest.raises(ZeroDivisionError), followed(run, MlflowSink(store)):
        raise ZeroDivisionError
    assert [it.info.status for it in logged(store)] == ["KILLED", "FAILED"]


def test_a_wrong_address_is_refused_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert call("train", "-o", "runs/c", "--mlflow", "nowhere://x") == 2
    assert "error: --mlflow: cannot log there (" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()
    with pytest.raises(InputError, match="name a store such as sqlite"):
        MlflowSink(str(tmp_path / "mlruns"))  # MLflow itself no longer takes folders


def test_without_mlflow_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(MissingDependencyError, match=r"recprism\[mlflow\]"):
        MlflowSink("sqlite:///x.db")
