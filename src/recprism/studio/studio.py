"""The runs of a studio, and the threads for slow work."""

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
    """Too many requests are waiting."""


class Studio:
    """Opens its runs in the background, one after the other, because kernels use all cores.

    Requests that rank again have their own thread, so that they do not wait for a run that is being opened.

    Args:
        directories: Run directories.
        result: Name of the result to show; None for the unnamed one.
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
        """Return a run by name."""
        if name not in self.runs:
            raise HTTPException(404, f"there is no run {name!r} here; there are {', '.join(self.runs)}")
        return self.runs[name]

    def close(self) -> None:
        """Stop running work at its next step, and cancel waiting work."""
        for run in self.runs.values():
            run.close()
        for threads in (self._opening, self._ranking):
            threads.shutdown(wait=True, cancel_futures=True)

    async def ranked(self, work: Callable[[], T]) -> T:
        """Run work that ranks again, without blocking other requests.

        Raises:
            BusyError: If too many requests are waiting.
        """
        if self._waiting >= MOST_WAITING:
            raise BusyError
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._ranking, work)
        finally:
            self._waiting -= 1

    def _free_name(self, folder: str) -> str:
        """Return the name of the folder, with a number if it is taken."""
        name, number = folder, 2
        while name in self.runs:
            name, number = f"{folder}-{number}", number + 1
        return name
