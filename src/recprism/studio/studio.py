"""The runs that are served, and the threads that do what takes time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from fastapi import HTTPException

from recprism.runs.run import Run
from recprism.studio.opened import OpenedRun
from recprism.studio.shared_thread import SharedThread

T = TypeVar("T")
MOST_WAITING = 16


class BusyError(Exception):
    """Too much is waiting already."""


class Studio:
    """Opens its runs in the background, one after the other: kernels run on all cores anyway.

    Questions that rank anew have a thread of their own, so that nobody waits for a run that is being opened.
    """

    def __init__(self, directories: Sequence[Path], result: str | None = None) -> None:
        self._opening = SharedThread("opening")
        self._ranking = SharedThread("ranking")
        self._waiting = 0
        self.runs: dict[str, OpenedRun] = {}
        for directory in directories:
            name = self._free_name(directory.resolve().name)
            self.runs[name] = OpenedRun(name, Run.open(directory, result), self._opening)
        for run in self.runs.values():
            run.look()

    def opened(self, name: str) -> OpenedRun:
        if name not in self.runs:
            raise HTTPException(404, f"there is no run {name!r} here; there are {', '.join(self.runs)}")
        return self.runs[name]

    def close(self) -> None:
        """What is under way ends at its next step; what waits is not begun."""
        for run in self.runs.values():
            run.close()
        for threads in (self._opening, self._ranking):
            threads.shutdown(wait=True, cancel_futures=True)

    async def ranked(self, work: Callable[[], T]) -> T:
        """Wait for work that ranks anew, while others are answered; refused where many wait for such already."""
        if self._waiting >= MOST_WAITING:
            raise BusyError
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._ranking, work)
        finally:
            self._waiting -= 1

    def _free_name(self, folder: str) -> str:
        """The folder's, with a number behind it where two are alike."""
        name, number = folder, 2
        while name in self.runs:
            name, number = f"{folder}-{number}", number + 1
        return name
