"""Opened runs: they are opened in the background, and again when their files change."""

from __future__ import annotations

import gc
import logging
import time
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import asdict, dataclass
from threading import Lock
from typing import Literal

from recprism.budget.certificate import Certificate
from recprism.errors import RecprismError
from recprism.result.effect import effect
from recprism.result.front import METRICS
from recprism.rule.goal import Goal
from recprism.runs.run import Run
from recprism.runs.status import run_status
from recprism.runs.stored_path import stored_path
from recprism.studio import schemas
from recprism.studio.downloads import has_report
from recprism.studio.view import Change, View

log = logging.getLogger(__name__)
Phase = Literal["waiting", "preparing", "ready", "broken"]
WATCHED = (
    "config.toml",
    "factors.safetensors",
    "split.parquet",
    "delta.safetensors",
    "factors_explanation.json",
    "steering.json",
)
Stamp = tuple[float, ...] | None
MOST_WANTED = 4  # paths of one run that are computed or wait


class NotReadyError(RecprismError):
    """The run is not ready or cannot be read."""


class CancelledError(RecprismError):
    """A path is no longer wanted."""


class BusyError(Exception):
    """Too many requests are waiting."""


@dataclass(frozen=True)
class OpeningState:
    """The progress of opening a run.

    Attributes:
        phase: How far it is.
        message: What is being done, or why the run is not ready; "" if there is nothing to wait for.
        done: Steps that are done.
        total: All of them; 0 if unknown.
        seconds_left: An estimate from the steps that are done; None if there is none.
        problem: Why the last work on a ready run failed.
    """

    phase: Phase
    message: str
    done: int = 0
    total: int = 0
    seconds_left: float | None = None
    problem: str = ""


class OpenedRun:
    """One run. Slow work runs on the executor, one job at a time; requests never wait for it.

    Args:
        name: Name of the run in the studio.
        run: The run.
        executor: Runs slow work.
    """

    def __init__(self, name: str, run: Run, executor: Executor) -> None:
        self.name, self.run, self._executor = name, run, executor
        self.opening = OpeningState("waiting", "not opened yet")
        self._view: View | None = None
        self._served: schemas.Served | None = None
        self._stamp: Stamp = None
        self._lock = Lock()
        self._closing = False
        self._wanted: dict[Goal, None] = {}  # goals in the order of the requests

    def look(self) -> None:
        """Open the run, or open it again if its files have changed; returns at once."""
        stamp = self._file_times()
        with self._lock:
            if stamp == self._stamp:
                return
            self._stamp, self._view, self._served = stamp, None, None
            self._wanted.clear()  # their jobs find another stamp and end
            if not self.run.has_factors():
                self.opening = OpeningState(
                    "waiting", "This run has no trained model yet; its progress is shown below."
                )
                return
            self.opening = OpeningState("preparing", "reading the run")
        self._executor.submit(self._guarded, lambda: self._open(stamp), stamp)

    def close(self) -> None:
        """Stop background work at its next step."""
        self._closing = True

    def view(self) -> View:
        """Return the opened run; raises ``NotReadyError`` if it is not ready."""
        view = self._view
        if view is None:
            raise NotReadyError(self.opening.message)
        return view

    def want_path(self, goal: Goal) -> None:
        """Compute the path towards a goal in the background, unless it exists.

        Raises:
            BusyError: If too many paths are waiting.
        """
        with self._lock:
            view, stamp = self.view(), self._stamp
            if goal in view.paths or goal in self._wanted:
                return
            if len(self._wanted) >= MOST_WANTED:
                raise BusyError
            self._wanted[goal] = None
            if len(self._wanted) == 1:
                self.opening = self._ready()
        self._executor.submit(self._guarded, lambda: self._add_path(view, goal, stamp), stamp, goal)

    def cancel_path(self, goal: Goal) -> None:
        """Stop computing the path towards a goal, at its next step; nothing happens if it is not wanted."""
        with self._lock:
            if self._wanted.pop(goal, goal) is None and self._view is not None:
                self.opening = self._ready()

    def state(self) -> schemas.RunState:
        """Return the state of the run."""
        return schemas.RunState(name=self.name, title=self._title(), standing=self._status(), **asdict(self.opening))

    def summary(self) -> schemas.RunSummary:
        """Return the state, and sizes and goals if the run is ready."""
        state = self.state().model_dump()
        view = self._view
        if view is None:
            return schemas.RunSummary(**state)
        return schemas.RunSummary(
            **state,
            n_users=view.factors.n_users,
            n_items=view.factors.n_items,
            n_categories=len(view.categories),
            goals=list(map(str, view.paths)),
            possible_goals=view.possible_goals,
            waiting=list(map(str, self._wanted)),
            example_user=view.factors.user_ids[:1].tolist()[0],
            served=self._served,
            has_report=has_report(self.run),
            segments=list(view.segments),
        )

    # -- in the background --------------------------------------------------------------------------------------------

    def _guarded(self, work: Callable[[], None], stamp: Stamp, goal: Goal | None = None) -> None:
        """Work unless the files have changed since; errors are shown on the page, and the server continues."""
        problem = ""
        try:
            if stamp == self._stamp and (goal is None or goal in self._wanted):
                work()
        except CancelledError:
            log.info("%s: the path towards %s is no longer wanted", self.run.path, goal)
        except RecprismError as error:
            problem = str(error)
        except Exception as error:
            log.exception("opening %s", self.run.path)
            problem = f"This run cannot be read ({type(error).__name__}: {error})."
        with self._lock:
            if stamp == self._stamp:
                if goal is not None:
                    self._wanted.pop(goal, None)
                self.opening = OpeningState("broken", problem) if self._view is None else self._ready(problem)

    def _ready(self, problem: str = "") -> OpeningState:
        """Return the state of a ready run: which path is next, if any is wanted."""
        waiting = next(iter(self._wanted), None)
        return OpeningState("ready", "" if waiting is None else _computing(waiting), problem=problem)

    def _open(self, stamp: Stamp) -> None:
        view = View(self.run)
        served = None if view.own_change is None else self._what_is_served(view.own_change)
        self._add_path(view, view.first_goal, stamp, wanted=False)
        _ = view.own_change, view.cards, view.segments, view.problem.base_lists  # before the first question
        with self._lock:
            if stamp != self._stamp:
                return  # the files changed, and the run is being opened again
            self._view, self._served = view, served
        gc.unfreeze()  # objects of an earlier opening can be collected
        gc.collect()
        gc.freeze()  # scanning the objects of the run again would delay answers

    def _add_path(self, view: View, goal: Goal, stamp: Stamp, *, wanted: bool = True) -> None:
        started = time.monotonic()

        def report(_what: str, done: int, total: int) -> None:
            if self._closing:
                raise NotReadyError("the studio is closing")
            left = (time.monotonic() - started) / done * (total - done) if done else None
            with self._lock:
                if stamp != self._stamp:
                    return
                if wanted and goal not in self._wanted:
                    raise CancelledError
                phase: Phase = "preparing" if self._view is None else "ready"
                self.opening = OpeningState(phase, _computing(goal), done, total, left, self.opening.problem)

        view.paths[goal] = stored_path(self.run, goal, report)

    def _what_is_served(self, found: Change) -> schemas.Served:
        change = effect(found.result).change
        rows = [row for row in change.rows if row.name in METRICS]
        return schemas.Served(
            goal=found.towards,
            before={row.name: row.a for row in rows},
            after={row.name: row.b for row in rows},
            changes={row.name: row.relative for row in rows},
            certified=_certified(found.certificate),
        )

    # -- helpers ------------------------------------------------------------------------------------------------------

    def _file_times(self) -> tuple[float, ...]:
        paths = [self.run.file(name) for name in WATCHED]
        return tuple(path.stat().st_mtime if path.exists() else 0.0 for path in paths)

    def _title(self) -> str:
        try:
            config = self.run.config
            return f"{config.data.source} · {config.model.name}"
        except RecprismError:
            return self.name

    def _status(self) -> schemas.Status:
        return schemas.Status(**asdict(run_status(self.run)))


def _computing(goal: Goal) -> str:
    return f"computing the path towards {goal}"


def _certified(kept: Certificate | None) -> schemas.Certified | None:
    """Return what the certificate says about its first metric; None if nothing was certified."""
    if kept is None or not kept.checks:
        return None
    check = kept.checks[0]
    sure = kept.sure() if check.clusters is None else f"{kept.sure()}, {check.clusters:,} clusters"
    return schemas.Certified(
        metric=check.metric, loss=check.budget, confidence=sure, users=check.users, part=kept.part or "test"
    )
