"""The card says what a run is made of, and no more than is known."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import polars as pl
import pytest

from recprism.cmb.jobs.search import begin_search, search
from recprism.runs.card import BEFORE, card, write_card
from recprism.runs.config import BudgetConfig, DataConfig, DiversifyConfig, ModelConfig, RunConfig
from recprism.runs.jobs.diversify import diversify_within
from recprism.runs.jobs.train import evaluate_run, recommend, start, train
from recprism.runs.run import Run

QUICK = ModelConfig(settings={"epochs": 2, "dim": 8})


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Trained in a moment on the embedded data."""
    path = tmp_path_factory.mktemp("runs") / "trained"
    train(start(path, RunConfig(seed=3, device="cpu", model=QUICK)))
    return path


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Run:
    """A copy, to be changed."""
    return Run.open(shutil.copytree(trained, tmp_path / "run"))


def written(run: Run) -> str:
    return (run.path / "CARD.md").read_text(encoding="utf-8")


def section(text: str, title: str) -> str:
    return text.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def test_training_writes_what_it_was_made_of(run: Run) -> None:
    text, split = written(run), run.split()
    data, model = section(text, "Data"), section(text, "Model")
    assert text.startswith("# ml-latest-small, bprmf\n")
    assert f"| users | {split.n_users:,} |" in data and f"| interactions, test | {len(split.test):,} |" in data
    assert "| split | random |" in data and "| share of test | 0.1 |" in data and "| threshold | 4 |" in data
    assert "| seed | 3 |" in model and "| dim | 8 |" in model and "| factors | 8 |" in model
    assert "Not measured yet" in section(text, "Metrics")
    assert section(text, "Diversified").strip() == "No: the lists are those of the trained model."
    assert "GroupLens usage licence" in section(text, "Licences")
    assert re.search(r"\| torch \| \d", section(text, "Versions"))
    assert "divided at random" in section(text, "Limits") and "certificate" not in section(text, "Limits")


def test_evaluating_adds_intervals(run: Run) -> None:
    result = evaluate_run(run, ["ndcg@10", "catalogue_coverage@10"], bootstrap=50)
    shown = section(written(run), "Metrics")
    ndcg, covered = result.scores
    assert "The lists of the trained model, judged on the test part." in shown
    assert f"| ndcg@10 | {ndcg.mean:.4f} | {ndcg.low:.4f} to {ndcg.high:.4f} | {ndcg.n_users:,} |" in shown
    assert f"| catalogue_coverage@10 | {covered.mean:.4f} |  |" in shown, "one value of all lists has no interval"
    before = written(run)
    evaluate_run(run, ["recall@5"], bootstrap=0)
    assert written(run) == before, "a glance without intervals leaves the card alone"


@pytest.mark.slow
def test_a_budget_brings_its_certificate(run: Run) -> None:
    run.save_metrics(evaluate_run(run, ["ndcg@10"], bootstrap=50).to_frame())
    kept = diversify_within(run, BudgetConfig(goal="subtopic_coverage", budgets={"ndcg@10": 0.5}))
    text = written(run)
    assert kept.rule is not None
    assert kept.certificate is not None
    assert kept.certificate.sentence() in section(text, "Diversified")
    assert "| goal | subtopic_coverage |" in text and "| may lose | 50 % of ndcg@10 |" in text
    assert BEFORE in section(text, "Metrics"), "these figures are older than the result"
    assert "The certificate holds for users like those" in section(text, "Limits")
    evaluate_run(run, ["ndcg@10"], bootstrap=50)
    assert "The diversified lists, judged on the test part." in section(written(run), "Metrics")
    evaluate_run(run, ["ndcg@10"], bootstrap=50, base=True)
    assert "The lists of the trained model, judged" in section(written(run), "Metrics")


@pytest.mark.slow
def test_metrics_are_deleted_with_the_result_that_they_measure(run: Run) -> None:
    for overwrite in (False, True):
        search(begin_search(run, DiversifyConfig(settings={"iterations": 2}), overwrite=overwrite))
        assert "Not measured yet" in section(written(run), "Metrics"), "these are other lists"
        run.save_metrics(evaluate_run(run, ["subtopic_coverage@5"], bootstrap=0).to_frame())
        for live in (True, False):
            run.save_recommendations(recommend(run, 5, live=live)[0], live=live)
        assert "The diversified lists, as they were measured last." in section(card(run), "Metrics")
    search(run)
    assert "Not measured yet" in section(written(run), "Metrics"), "searched once more"
    run.save_metrics(evaluate_run(run, ["subtopic_coverage@5"], bootstrap=0, base=True).to_frame(), base=True)
    assert "Lists of the trained model, as they were measured last." in section(card(run), "Metrics")
    search(run)
    assert BEFORE in section(written(run), "Metrics"), "the trained model is the same"
    search(begin_search(run, DiversifyConfig(settings={"iterations": 2}), overwrite=True))
    assert not [it.name for it in run.path.glob("recommendations*")]


def test_a_search_without_a_budget_certifies_nothing(run: Run) -> None:
    search(begin_search(run, DiversifyConfig(settings={"iterations": 2, "reward_on": "test"})))
    text = written(run)
    assert "nothing about the price is certified" in section(text, "Diversified")
    assert "| iterations | 2 |" in section(text, "Diversified")
    assert "rewarded on the test part" in section(text, "Limits")


def test_files_of_your_own_are_named_without_their_folders(tmp_path: Path) -> None:
    rows = [(user, item) for user in range(8) for item in range(12) if (user * item) % 5 != 1]
    table = tmp_path / "secret place" / "my|<b>.csv"
    table.parent.mkdir()
    pl.DataFrame(rows, schema=["user_id", "item_id"], orient="row").write_csv(table)
    run = start(tmp_path / "run", RunConfig(device="cpu", data=DataConfig(source=str(table)), model=QUICK))
    write_card(run)
    text = written(run)
    assert "not trained yet" in section(text, "Model")
    assert "secret place" not in text and str(tmp_path) not in text
    assert r"| source | my\|\<b>.csv |" in text, "a name cannot end its cell or become markup"
    assert "your own files" in section(text, "Licences")
    assert "12 items without any" in section(text, "Data") and "covering nothing" in section(text, "Limits")


def test_the_same_run_gives_the_same_card(run: Run) -> None:
    assert card(run) == card(Run.open(run.path)) == written(run)
