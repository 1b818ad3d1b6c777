"""Runs in every state, and a server for them."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from recprism.data import load_dataset
from recprism.data.sparse_rows import SparseRows
from recprism.runs.config import BudgetConfig, RunConfig
from recprism.runs.jobs.diversify import diversify_within
from recprism.runs.run import Run
from recprism.studio.app import create_app

RULES = {"rule": "sc", "boosts": "gini"}
"""Run -> the goal of its rule."""


@pytest.fixture(scope="session")
def shelf(
    trained_run: Callable[..., Run], searched_run: Callable[..., Run], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A folder of runs: plain, changed (by players), rule, boosts, unlabelled, empty, broken (cut short)."""
    root = tmp_path_factory.mktemp("shelf")
    data = load_dataset("ml-latest-small")
    split = data.split(seed=0)
    plain = Run(trained_run().path.rename(root / "plain"))
    plain.event("trained", model="bprmf")
    changed = searched_run(iterations=10).path.rename(root / "changed")
    (changed / "report.html").write_text("<script>alert(1)</script></html>", encoding="utf-8")
    for name, goal in RULES.items():
        run = Run(shutil.copytree(root / "plain", root / name))
        diversify_within(run, BudgetConfig(goal=goal, budgets={"ndcg@10": 0.3}))
    unlabelled = Run.create(root / "unlabelled", RunConfig())
    unlabelled.save_data(data, replace(split.refit(), test=SparseRows.empty(split.test.shape)))
    unlabelled.save_factors(plain.factors())
    empty = Run.create(root / "empty", RunConfig())
    empty.event("data", name="ml-latest-small")
    shutil.copytree(root / "plain", root / "broken")
    whole = (root / "broken" / "factors.safetensors").read_bytes()
    (root / "broken" / "factors.safetensors").write_bytes(whole[: len(whole) // 2])
    return root


def wait_until_ready(client: TestClient, run: str, seconds: float = 120) -> dict[str, object]:
    """Wait until the run is ready or broken; returns its summary."""
    for _ in range(int(seconds / 0.1)):
        found: dict[str, object] = client.get(f"/api/runs/{run}").json()
        if found["phase"] == "broken" or (found["phase"] == "ready" and not found["message"]):
            return found
        time.sleep(0.1)
    raise AssertionError(json.dumps(found))


@pytest.fixture
def wait() -> Callable[[TestClient, str], dict[str, object]]:
    return wait_until_ready


@pytest.fixture(scope="session")
def client(shelf: Path) -> Iterator[TestClient]:
    names = ("plain", "changed", *RULES, "unlabelled", "empty", "broken")
    with TestClient(create_app([shelf / name for name in names]), base_url="http://127.0.0.1") as made:
        for name in ("plain", "changed", *RULES, "unlabelled", "broken"):
            wait_until_ready(made, name)
        yield made
