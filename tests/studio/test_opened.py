"""Background work of an opened run: jobs end, and nothing of old files is shown."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from recprism.errors import InputError
from recprism.rule.goal import TERMS, Goal, GoalData, SubtopicCoverage
from recprism.runs.run import Run
from recprism.studio.opened import MOST_WANTED, BusyError, OpenedRun

pytestmark = pytest.mark.slow


class Later(Executor):
    """Keeps work until the test asks for it."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], Any]] = []

    def submit(self, work: Callable[..., Any], /, *given: Any, **named: Any) -> Future[Any]:
        self.waiting.append(lambda: work(*given, **named))
        return Future()

    def work(self) -> None:
        self.waiting.pop(0)()


@pytest.fixture
def later() -> Later:
    return Later()


@pytest.fixture
def opened(shelf: Path, tmp_path: Path, later: Later) -> OpenedRun:
    one = OpenedRun("plain", Run(shutil.copytree(shelf / "plain", tmp_path / "plain")), later)
    one.look()
    later.work()
    assert (one.opening.phase, one.opening.message) == ("ready", "")
    return one


def touch(run: Run) -> None:
    os.utime(run.file("config.toml"), (1, 1))


def test_a_message_is_shown_while_a_path_is_wanted(opened: OpenedRun, later: Later) -> None:
    for goal in ("catalogue_coverage", "ilad_subtopics"):
        opened.want_path(Goal.parse(goal))
        opened.want_path(Goal.parse(goal))
    assert len(later.waiting) == 2
    assert opened.opening.message == "computing the path towards catalogue_coverage"
    later.work()
    assert opened.opening.message == "computing the path towards ilad_subtopics"
    later.work()
    assert opened.opening.message == ""
    assert set(map(str, opened.view().paths)) == {"subtopic_coverage", "catalogue_coverage", "ilad_subtopics"}


def test_work_on_files_that_have_changed_ends_and_shows_nothing(opened: OpenedRun, later: Later) -> None:
    opened.want_path(Goal.parse("catalogue_coverage"))
    touch(opened.run)
    opened.look()
    later.work()
    assert opened.opening.phase == "preparing"
    later.work()
    assert (opened.opening.phase, opened.opening.message) == ("ready", "")
    opened.want_path(Goal.parse("catalogue_coverage"))
    assert len(later.waiting) == 1, "the goal can be wanted again"


class Unmeasured(SubtopicCoverage):
    name = "unmeasured"

    def unit(self, data: GoalData) -> float:
        raise InputError(f"nobody knows its unit for lists of {data.k}")


def test_an_error_is_not_progress(opened: OpenedRun, later: Later, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TERMS, "unmeasured", Unmeasured())
    opened.want_path(Goal.parse("unmeasured"))
    later.work()
    assert (opened.opening.phase, opened.opening.message) == ("ready", "")
    assert "nobody knows its unit" in opened.state().problem
    opened.want_path(Goal.parse("catalogue_coverage"))
    assert opened.opening.problem == ""


def test_a_path_that_is_cancelled_is_not_made(opened: OpenedRun, later: Later) -> None:
    """One that waits never starts; one that is computed ends at its next step."""
    computed, waits = Goal.parse("ilad_subtopics"), Goal.parse("catalogue_coverage")
    opened.want_path(computed)
    opened.want_path(waits)
    assert opened.summary().waiting == ["ilad_subtopics", "catalogue_coverage"]
    opened.cancel_path(waits)
    work = Thread(target=later.work)
    work.start()
    while work.is_alive() and not opened.state().done:
        time.sleep(0.001)
    assert opened.state().seconds_left is not None
    opened.cancel_path(computed)
    work.join()
    later.work()
    assert (opened.opening.phase, opened.opening.message, opened.opening.problem) == ("ready", "", "")
    assert list(map(str, opened.view().paths)) == ["subtopic_coverage"]
    opened.want_path(computed)
    later.work()
    assert computed in opened.view().paths, "it can be wanted again"


def test_few_paths_may_wait(opened: OpenedRun) -> None:
    for number in range(MOST_WANTED):
        opened.want_path(Goal.parse(f"shown_{number + 2}_times"))
    with pytest.raises(BusyError):
        opened.want_path(Goal.parse("catalogue_coverage"))
