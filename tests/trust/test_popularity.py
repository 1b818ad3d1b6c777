"""Popularity: the baseline that stands in every table, and that a model without signal falls back to."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from recprism.data import Dataset
from recprism.data.sparse_rows import SparseRows
from recprism.data.split import Split
from recprism.metrics import Context, Score, evaluate
from recprism.models import BPRMF, Factors, LightGCN
from recprism.models.popularity import popularity
from recprism.runs.run import Run

pytestmark = pytest.mark.slow


def ndcg(factors: Factors, split: Split) -> Score:
    lists, _ = factors.rank(10, exclude=split.seen_before("test"))
    return evaluate(lists, Context(relevant=split.test), ["ndcg@10"]).scores[0]


def test_popular_items_come_first_for_all(split: Split) -> None:
    items, scores = popularity(split).rank(5)
    counts = split.train.col_counts
    assert (items == items[0]).all()
    assert scores[0].tolist() == sorted(counts.tolist(), reverse=True)[:5]
    unseen, _ = popularity(split).rank(5, exclude=split.train)
    for user in range(split.n_users):
        seen = split.train.indices[split.train.indptr[user] : split.train.indptr[user + 1]]
        assert not set(unseen[user].tolist()) & set(seen.tolist())


@pytest.mark.parametrize("model", [BPRMF, LightGCN])
def test_shuffled_training_labels_leave_nothing_beyond_popularity(model: type, small: Dataset) -> None:
    """Items permuted among the interactions: how often each is taken stays, who took it is gone.

    What is left may not lie above the 95 % interval of popularity; seen with the default settings: NDCG@10 of 0.029
    (BPRMF) and 0.037 (LightGCN) beside 0.052 of popularity and 0.189 of a model trained on what is.
    """
    split = small.split(seed=0)
    train = split.train
    permuted = np.random.default_rng(0).permutation(train.indices)
    shuffled = replace(split, train=SparseRows.from_pairs(train.row_of_entry, permuted, train.shape))
    quick = model(dim=16, epochs=4)
    without, honest = (ndcg(quick.fit(it, seed=0, device="cpu"), it) for it in (shuffled, split))
    baseline = ndcg(popularity(shuffled), shuffled)
    assert baseline.high is not None
    assert without.mean <= baseline.high
    assert honest.mean > ndcg(popularity(split), split).mean > without.mean, "the test can fail: signal is seen"


@pytest.fixture(scope="module")
def run(world: Dataset, split: Split, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from recprism.runs.config import RunConfig

    made = Run.create(tmp_path_factory.mktemp("popular") / "run", RunConfig())
    made.save_data(world, split)
    made.event("data", name="made")
    made.save_factors(BPRMF(dim=6, epochs=6).fit(split, seed=0, device="cpu"))
    return made.path


Printed = Callable[..., str]


@pytest.fixture
def printed(call: Callable[..., int], capsys: pytest.CaptureFixture[str]) -> Printed:
    def of(*words: object) -> str:
        capsys.readouterr()
        code = call(*words)
        out, err = capsys.readouterr()
        assert code == 0, err
        return out

    return of


def test_it_stands_in_every_table(run: Path, printed: Printed, split: Split, tmp_path: Path) -> None:
    expected = ndcg(popularity(split), split).mean
    tables = {
        "evaluate": printed("evaluate", run),
        "audit": printed("audit", run, "--goal", "subtopic_coverage"),
        "frontier": printed("frontier", run, "--rivals", "xquad_uniform"),
        "diversify": printed("diversify", run, "--budget", "0.5", "-m", "ndcg@10"),
    }
    missing = [name for name, text in tables.items() if "popularity" not in text]
    assert not missing
    found = json.loads(printed("evaluate", run, "--json"))
    scores = {f"{row['metric']}@{row['k']}": row["popularity"] for row in found["scores"]}
    assert scores["ndcg@10"] == pytest.approx(expected, abs=1e-12)
    assert all(value is not None for value in scores.values())
    assert "popularity" in (run / "CARD.md").read_text(encoding="utf-8")
    assert Run.open(run).metrics()["popularity"].is_not_null().all()
    printed("report", run, "--draws", "0", "-o", tmp_path / "page.html")
    assert f">{expected:.4f}<" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_lists_from_outside_have_it_where_training_is_known(run: Path, printed: Printed, tmp_path: Path) -> None:
    lists, train = tmp_path / "lists.csv", tmp_path / "train.csv"
    printed("recommend", run, "-o", lists)
    split = Run.open(run).split()
    pairs = zip(split.user_ids[split.train.row_of_entry], split.item_ids[split.train.indices], strict=True)
    train.write_text("user_id,item_id\n" + "".join(f"{u},{i}\n" for u, i in pairs), encoding="utf-8")
    headers = [
        printed("evaluate-lists", lists, *more).splitlines()[1] for more in ((), ("--train", train), ("--run", run))
    ]
    assert ["popularity" in header for header in headers] == [False, True, True]
