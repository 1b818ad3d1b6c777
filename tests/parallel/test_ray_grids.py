"""Audit, frontier and compare on a Ray cluster: the same results as without, whoever did which piece."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import recprism.paper.contest as grid
from recprism.budget.audit import cost_of_diversity
from recprism.budget.scenario import Scenario
from recprism.cmb._engines import engine_named
from recprism.data import Dataset
from recprism.errors import InputError, RecprismError
from recprism.models import make_model
from recprism.paper.fronts import frontier
from recprism.paper.tuning import RIVALS, planned
from recprism.testing.synthetic import make_world

ray = pytest.importorskip("ray", reason="needs the extra [ray]")
pytestmark = pytest.mark.ray
ENGINES = ("local", "ray")


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    """One local cluster for all tests of the module: to start one takes seconds."""
    ray.init(address="local", num_cpus=1, include_dashboard=False, log_to_driver=False, logging_level="error")
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def data() -> Dataset:
    return make_world(150, 60, seed=1).dataset()


@pytest.fixture(scope="module")
def scenario(data: Dataset) -> Scenario:
    split = data.split("random", seed=0)
    return Scenario(make_model("bprmf", epochs=3).fit(split, seed=0), split, data.subtopics, "test")


def test_an_audit_is_the_same(scenario: Scenario) -> None:
    local, remote = (
        cost_of_diversity(scenario, ("subtopic_coverage", "catalogue_coverage"), engine=engine).to_dict()
        for engine in ENGINES
    )
    assert local == remote


def test_fronts_are_the_same(scenario: Scenario) -> None:
    validation, told = scenario.on("validation"), []
    local, remote = (
        frontier(validation, scenario, "subtopic_coverage", rivals=("exposure",), on_method=told.append, engine=engine)
        for engine in ENGINES
    )
    assert local == remote
    assert told == ["optimal_sc", "exposure"] * 2


def test_a_comparison_writes_the_same_files(data: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few = {"exposure": replace(RIVALS["exposure"], choices=RIVALS["exposure"].choices[:1])}
    monkeypatch.setattr(grid, "RIVALS", few)
    monkeypatch.setattr(grid, "planned", lambda goal: replace(planned(goal), choices=planned(goal).choices[:1]))
    for engine in ENGINES:
        grid.compare((("made", "bprmf"),), lambda _: data, tmp_path / engine, seeds=1, device="cpu", engine=engine)
    local, remote = (files(tmp_path / engine) for engine in ENGINES)
    assert len(local) > 20
    assert local == remote


def files(folder: Path) -> dict[str, bytes]:
    """What was tuned and what was judged."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.glob("*/*/*/*")}


def test_an_engine_that_is_not_there(scenario: Scenario) -> None:
    with pytest.raises(InputError, match="engine is local or ray, not 'dask'"):
        cost_of_diversity(scenario, ("subtopic_coverage",), engine="dask")


def test_a_piece_that_always_dies_is_given_up(tmp_path: Path) -> None:
    def deadly(deaths: Path, _piece: int) -> None:
        if len(list(deaths.iterdir())) < 6:
            (deaths / str(os.getpid())).touch()
            os.kill(os.getpid(), signal.SIGKILL)

    with (
        engine_named("ray").fleet() as crew,
        pytest.raises(RecprismError, match=r"3 times in vain \(WorkerCrashedError\)"),
    ):
        list(crew.each(deadly, tmp_path, [0]))
    assert len(list(tmp_path.iterdir())) == 4


def test_where_one_piece_fails_the_others_are_not_done() -> None:
    def first_fails(_shared: None, piece: int) -> None:
        if not piece:
            raise InputError("the first piece is wrong")
        while True:
            time.sleep(1)

    with engine_named("ray").fleet() as crew, pytest.raises(InputError, match="the first piece is wrong"):
        list(crew.each(first_fails, None, [0, 1, 2]))
    probe = ray.remote(num_cpus=1)(lambda: None).remote()
    assert ray.wait([probe], timeout=60)[0], "the only processor is free again"
