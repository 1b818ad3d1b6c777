"""The runs that are served, and the one thread that does what takes time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from fastapi import HTTPException

from recprism.server.opened import OpenedRun
from recprism.study.run import Run

T = TypeVar("T")


class Studio:
    """Opens its runs in the background, one after the other: kernels run on all cores anyway."""

    def __init__(self, directories: Sequence[Path]) -> None:
        self._heavy = ThreadPoolExecutor(1, thread_name_prefix="recprism")
        self.runs: dict[str, OpenedRun] = {}
        for directory in directories:
            name = self._free_name(directory.resolve().name)
            self.runs[name] = OpenedRun(name, Run.open(directory), self._heavy)
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
        self._heavy.shutdown(wait=True, cancel_futures=True)

    async def on_heavy(self, work: Callable[[], T]) -> T:
        """Wait for work that ranks or reads much, while others are answered."""
        return await asyncio.get_running_loop().run_in_executor(self._heavy, work)

    def _free_name(self, folder: str) -> str:
        """The folder's, with a number behind it where two are alike."""
        name, number = folder, 2
        while name in self.runs:
            name, number = f"{folder}-{number}", number + 1
        return name
