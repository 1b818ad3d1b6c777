"""The paper's tables: every row has a plan, every plan runs, and an interrupted reproduction is resumed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from recprism.cmb.reproduce import against_random, cells, reproduce
from recprism.cmb.tables import TABLES, Row, paper_table, rows_of
from recprism.data import Dataset
from recprism.errors import InputError

pytestmark = pytest.mark.slow


def test_every_row_of_the_paper_has_a_plan() -> None:
    paper = paper_table().filter(paper_table()["dataset"] == "ML1M")
    theirs = set(paper.select("table", "base_model", "method", "k").iter_rows())
    planned = {(row.table, row.base_model, row.method, k) for table in TABLES for row in rows_of(table) for k in row.ks}
    assert theirs <= planned
    with pytest.raises(InputError, match="unknown table 'all'"):
        rows_of("all")


def test_a_row_of_each_kind_runs_and_is_read_back(small: Dataset, tmp_path: Path) -> None:
    quick = {"diversity": "subtopic_coverage", "accuracy": "recall", "iterations": 3}
    rows = [
        Row("tradeoff_bprmf", "BPRMF", "BPRMF", "base", (10, 20)),
        Row("tradeoff_bprmf", "BPRMF", "MMR", "rerank", (10, 20), {"name": "mmr", "trade_off": 0.1}),
        Row("tradeoff_bprmf", "BPRMF", "DPP, tuned", "tuned", (10, 20), {"name": "dpp", "budget": 0.05}),
        Row("tradeoff_bprmf", "BPRMF", "CMB-SC-Recall", "cmb", (10, 20), quick),
    ]
    made = reproduce(small, rows, tmp_path, runs=2, device="cpu")
    methods = {cell.method for cell in made}
    assert methods == {"BPRMF", "MMR", "DPP, tuned", "CMB-SC-Recall", "CMB-SC-Recall, permuted", "CMB-SC-Recall, noise"}
    assert len(made) == 6 * 7 * 2, "the six columns of the paper, and Gini next to catalogue coverage"
    base = next(cell for cell in made if (cell.method, cell.metric, cell.k) == ("BPRMF", "recall", 10))
    assert base.ours_change == 0
    assert base.paper is None, "the paper has no such data set"
    learned = [cell for cell in made if cell.method == "CMB-SC-Recall"]
    assert all(cell.delta_sha and cell.ours_std is not None for cell in learned)
    tuned = json.loads((tmp_path / "ml-latest-small" / "seed-0" / "tradeoff-bprmf-dpp--tuned.json").read_text())
    assert 0 < tuned["DPP, tuned"]["trade_off"] < 1
    # Everything is on disk: the second call runs nothing.
    file = tmp_path / "ml-latest-small" / "seed-0" / "tradeoff-bprmf-cmb-sc-recall.json"
    stored = json.loads(file.read_text())
    stored["CMB-SC-Recall"]["metrics"]["recall@10"] = 0.5
    file.write_text(json.dumps(stored))
    again = reproduce(small, rows, tmp_path, runs=1, device="cpu")
    assert next(c for c in again if (c.method, c.metric, c.k) == ("CMB-SC-Recall", "recall", 10)).ours == 0.5
    assert cells(small.name, rows, tmp_path, 1) == again


def test_single_objectives_are_paired_with_random_arms_by_seed(small: Dataset, tmp_path: Path) -> None:
    rows = [replace(row, settings={**row.settings, "iterations": 2}) for row in rows_of("single_objective")]
    reproduce(small, [replace(rows[0], settings={}), *rows[1:]], tmp_path, runs=2, device="cpu")
    found = against_random(small.name, tmp_path, 2)
    assert {row.method for row in found} == {"CMB-alpha-nDCG", "CMB-SC", "CMB-PC", "CMB-ILAD"}
    assert {row.metric for row in found if row.method == "CMB-PC"} == {"catalogue_coverage", "gini"}
    for row in found:
        assert row.difference == pytest.approx(row.learned - row.random)
        assert row.low is not None
        assert row.high is not None
        assert row.low <= row.difference <= row.high
    assert all(row.low is None for row in against_random(small.name, tmp_path, 1))
