"""Phases are logged: one line when each starts, one with the seconds when it ends."""

from __future__ import annotations

import logging
import re
import subprocess
import sys
from pathlib import Path

import pytest

from recprism.budget.audit import cost_of_diversity
from recprism.budget.question import BudgetQuestion
from recprism.common.log import phase
from recprism.runs.config import BudgetConfig, DataConfig, ModelConfig, RunConfig
from recprism.runs.jobs.diversify import diversify_within
from recprism.runs.jobs.train import evaluate_run, recommend, start, train

DONE = re.compile(r"(.*): done in \d+\.\d\d s")


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "recprism")
    return caplog


def ended(log: pytest.LogCaptureFixture) -> list[str]:
    """The phases that ended, in this order; each must have started."""
    found = [match[1] for line in log.messages if (match := DONE.fullmatch(line))]
    assert sorted(f"{name}: started" for name in found) == sorted(it for it in log.messages if it.endswith("started"))
    log.clear()
    return found


def test_a_phase_logs_its_start_and_its_end(log: pytest.LogCaptureFixture) -> None:
    with phase("training", "recprism.runs"):
        assert log.messages == ["training: started"]
    assert DONE.fullmatch(log.messages[1])
    assert {record.name for record in log.records} == {"recprism.runs"}


def test_a_phase_that_fails_says_so(log: pytest.LogCaptureFixture) -> None:
    @phase("training", "recprism.runs")
    def broken() -> None:
        raise KeyError

    with pytest.raises(KeyError):
        broken()
    assert re.fullmatch(r"training: stopped after \d+\.\d\d s \(KeyError\)", log.messages[1])


@pytest.mark.slow
def test_the_jobs_of_a_run_log_their_phases(log: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    config = RunConfig(data=DataConfig(source="ml-latest-small"), model=ModelConfig(settings={"epochs": 1}))
    run = start(tmp_path / "run", config)
    assert ended(log) == ["loading the data", "splitting the data", "writing the data"]
    train(run)
    assert ended(log) == ["training"]
    recommend(run, 10)
    assert ended(log) == ["ranking"]
    evaluate_run(run, ["ndcg@10"], bootstrap=0)
    assert ended(log) == ["ranking and measuring"]
    cost_of_diversity(run.problem(), BudgetQuestion.each(["catalogue_coverage"], ["5%"]))
    assert ended(log) == ["walking the path", "certifying", "walking the path"]
    diversify_within(run, BudgetConfig(budgets={"ndcg@10": 0.05}))
    assert ended(log) == ["walking the path and certifying", "writing the result"]


@pytest.mark.slow
@pytest.mark.parametrize("verbose", [True, False])
def test_the_command_line_shows_phases_when_asked(verbose: bool, tmp_path: Path) -> None:
    words = [*(["-v"] if verbose else []), "train", "-o", "run", "--set", "epochs=1"]
    done = subprocess.run(
        [sys.executable, "-m", "recprism", *words], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert ("training: done in" in done.stderr) == verbose
    assert "training: done in" not in done.stdout
