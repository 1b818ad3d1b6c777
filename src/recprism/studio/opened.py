"""Runs that are being looked at: opened in the background, and opened again when their files change."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import asdict, dataclass
from threading import Lock
from typing import Literal

from recprism.errors import RecprismError
from recprism.runs.jobs.diversify import effect
from recprism.runs.run import Run
from recprism.runs.status import run_status
from recprism.runs.stored_path import METRICS, stored_path
from recprism.studio import schemas
from recprism.studio.board import Board
from recprism.studio.downloads import has_report
from recprism.studio.view import View

log = logging.getLogger(__name__)
Phase = Literal["waiting", "preparing", "ready", "broken"]
WATCHED = ("config.toml", "factors.safetensors", "split.parquet", "delta.safetensors", "explanation.json")


class NotReadyError(RecprismError):
    """The run cannot answer yet, or at all."""


@dataclass(frozen=True)
class Where:
    """How far a run is opened."""

    phase: Phase
    message: str
    done: int = 0
    total: int = 0


class OpenedRun:
    """One run. Whatever takes time happens on the executor, one thing at a time; questions never wait for it."""

    def __init__(self, name: str, run: Run, executor: Executor) -> None:
        self.name, self.run, self._executor = name, run, executor
        self.where = Where("waiting", "not opened yet")
        self._view: View | None = None
        self._board: Board | None = None
        self._served: schemas.Served | None = None
        self._stamp: tuple[float, ...] | None = None
        self._lock = Lock()
        self._closing = False

    def look(self) -> None:
        """Open the run, or open it again if its files have changed since; returns at once."""
        stamp = self._file_times()
        with self._lock:
            if stamp == self._stamp:
                return
            self._stamp, self._view, self._board, self._served = stamp, None, None, None
            if not self.run.has_factors():
                self.where = Where("waiting", "This run has no trained model yet; what it does is shown below.")
                return
            self.where = Where("preparing", "reading the run")
        self._executor.submit(self._guarded, self._open, stamp)

    def close(self) -> None:
        self._closing = True

    def view(self) -> View:
        if self._view is None:
            raise NotReadyError(self.where.message)
        return self._view

    def board(self) -> Board:
        """Slow the first time: to be called on the executor."""
        if not self.run.is_diversified():
            advice = f"run `recprism diversify {self.run.argument} --budget 0.01`"
            raise NotReadyError(f"This run has not been diversified, so there is no change to explain; {advice}.")
        if self._board is None:
            self._board = Board(self.view())
        return self._board

    def want_path(self, goal: str) -> None:
        """Make the path towards a goal in the background, unless it is there."""
        view = self.view()
        if goal in view.paths:
            return
        self.where = Where("ready", f"walking towards {goal}")
        self._executor.submit(self._guarded, lambda _: self._walk(view, goal), self._stamp)

    def state(self) -> schemas.RunState:
        return schemas.RunState(name=self.name, title=self._title(), standing=self._status(), **asdict(self.where))

    def summary(self) -> schemas.RunSummary:
        state = self.state().model_dump()
        view = self._view
        if view is None:
            return schemas.RunSummary(**state)
        return schemas.RunSummary(
            **state,
            n_users=view.factors.n_users,
            n_items=view.factors.n_items,
            n_subtopics=len(view.subtopics),
            goals=list(view.paths),
            possible_goals=view.possible_goals,
            example_user=view.factors.user_ids[:1].tolist()[0],
            served=self._served,
            has_report=has_report(self.run),
        )

    # -- in the background --------------------------------------------------------------------------------------------

    def _guarded(self, work: Callable[[tuple[float, ...] | None], None], stamp: tuple[float, ...] | None) -> None:
        """Whatever goes wrong is told on the page; the server lives on."""
        if stamp != self._stamp:
            return  # the files changed meanwhile, and another opening is under way
        try:
            work(stamp)
        except RecprismError as error:
            self._fail(str(error))
        except Exception as error:
            log.exception("opening %s", self.run.path)
            self._fail(f"This run cannot be read ({type(error).__name__}: {error}).")

    def _fail(self, sentence: str) -> None:
        """A run that could be looked at before still can."""
        self.where = Where("broken" if self._view is None else "ready", sentence)

    def _open(self, stamp: tuple[float, ...] | None) -> None:
        view = View(self.run)
        if self.run.is_diversified():
            self._served = self._what_is_served()
        self._add_path(view, view.first_goal)
        if stamp == self._stamp:
            self._view = view
            self.where = Where("ready", "")
            gc.unfreeze()  # what an earlier opening left behind can go now
            gc.collect()
            gc.freeze()  # what was just read stays: looking through it again and again would hold up answers

    def _add_path(self, view: View, goal: str) -> None:
        phase: Phase = "preparing" if self._view is None else "ready"

        def tell(_what: str, done: int, total: int) -> None:
            if self._closing:
                raise NotReadyError("the studio is closing")
            self.where = Where(phase, f"walking towards {goal}", done, total)

        view.paths[goal] = stored_path(self.run, goal, tell)

    def _walk(self, view: View, goal: str) -> None:
        self._add_path(view, goal)
        self.where = Where("ready", "")

    def _what_is_served(self) -> schemas.Served:
        change = effect(self.run, controls=False).change
        kept = self.run.certificate()
        rows = [row for row in change.rows if row.name in METRICS]
        return schemas.Served(
            goal=str(self.run.cmb().diversity),
            before={row.name: row.a for row in rows},
            after={row.name: row.b for row in rows},
            certificate=None if kept is None else str(kept["certificate"]["sentence"]),
        )

    # -- small ones ---------------------------------------------------------------------------------------------------

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
