"""Audit and frontier on a Ray cluster: the same results as in this process."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from recprism.budget.audit import BUDGETS, cost_of_diversity
from recprism.budget.problem import Problem
from recprism.budget.question import BudgetQuestion
from recprism.common.executor import LocalExecutor
from recprism.contest.fronts import frontier
from recprism.data import Dataset
from recprism.errors import InputError, RecprismError
from recprism.models.registry import make_model
from recprism.parallel import RayExecutor
from recprism.rule.goal import Goal
from recprism.testing.synthetic import make_world

ray = pytest.importorskip("ray", reason="needs the extra [ray]")
pytestmark = pytest.mark.ray


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    """One local cluster for all tests of the module, because starting one takes seconds."""
    ray.init(address="local", num_cpus=1, include_dashboard=False, log_to_driver=False, logging_level="error")
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def data() -> Dataset:
    return make_world(150, 60, seed=1).dataset()


@pytest.fixture(scope="module")
def problem(data: Dataset) -> Problem:
    split = data.split("random", seed=0)
    return Problem(make_model("bprmf", epochs=3).fit(split, seed=0), split, data.categories, "test")


def test_an_audit_is_the_same(problem: Problem) -> None:
    local, remote = (
        cost_of_diversity(problem, BudgetQuestion.each(["sc", "pc"], BUDGETS), executor=executor).to_dict()
        for executor in (None, RayExecutor())
    )
    assert local == remote


def test_fronts_are_the_same(problem: Problem) -> None:
    validation, methods = problem.on("validation"), []
    settings = {"rivals": ("exposure",), "on_method": methods.append}
    local, remote = (
        frontier(validation, problem, Goal.parse("sc"), executor=executor, **settings)
        for executor in (LocalExecutor(), RayExecutor())
    )
    assert local == remote
    assert methods == ["ours:subtopic_coverage", "exposure"] * 2


def test_a_piece_whose_worker_always_dies_ends_in_an_error(tmp_path: Path) -> None:
    def deadly(deaths: Path, _piece: int) -> None:
        if len(list(deaths.iterdir())) < 6:
            (deaths / str(os.getpid())).touch()
            os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(RecprismError, match=r"3 restarts did not help \(ActorUnavailableError\)"):
        list(RayExecutor().map(deadly, tmp_path, [0]))
    assert len(list(tmp_path.iterdir())) == 4


def test_if_one_piece_fails_the_others_are_cancelled() -> None:
    def first_fails(_shared: None, piece: int) -> None:
        if not piece:
            raise InputError("the first piece is wrong")
        while True:
            time.sleep(1)

    for _ in range(4):  # the moment of a cancellation differs from time to time
        with RayExecutor() as executor, pytest.raises(InputError, match="the first piece is wrong"):
            list(executor.map(first_fails, None, [0, 1, 2]))
    probe = ray.remote(num_cpus=1)(lambda: None).remote()
    assert ray.wait([probe], timeout=60)[0], "the only processor is free again"


def test_processes_serve_the_next_pieces_and_end_with_the_block() -> None:
    def process(_shared: None, piece: int) -> tuple[int, int]:
        return piece, os.getpid()

    with RayExecutor() as executor:
        abandoned = executor.map(process, None, range(5))
        first = next(abandoned)
        abandoned.close()
        second = list(executor.map(process, None, range(3)))
        suspended = executor.map(process, None, range(5))
        third = next(suspended)
    assert [piece for piece, _ in (first, *second, third)] == [0, 0, 1, 2, 0]
    assert len({pid for _, pid in (first, *second, third)}) == 1, "there is one processor, and one process for it"
    probe = ray.remote(num_cpus=1)(lambda: None).remote()
    assert ray.wait([probe], timeout=60)[0], "the only processor is free again"
    suspended.close()
    assert list(executor.map(process, None, [])) == []
    assert [piece for piece, _ in executor.map(process, None, range(2))] == [0, 1]


def test_an_executor_can_be_entered_several_times() -> None:
    """The inner block leaves the connection of the outer one open, and neither ends a session of the caller."""
    with RayExecutor() as executor:
        with executor:
            assert list(executor.map(pow, 2, [1, 2, 3])) == [2, 4, 8]
        assert list(executor.map(pow, 2, [4])) == [16]
    assert ray.is_initialized()
