"""The runs of a studio, and the threads for slow work."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from fastapi import HTTPException

from recprism.budget.audit import COST
from recprism.runs.listing import result_row
from recprism.runs.run import Run
from recprism.studio import schemas
from recprism.studio.compare import same_test
from recprism.studio.opened import BusyError, NotReadyError, OpenedRun
from recprism.studio.served import ServedPage
from recprism.studio.shared_thread import SharedThread
from recprism.studio.view import View

T = TypeVar("T")
MOST_WAITING = 16


class Studio:
    """Opens its runs in the background, one after the other, because kernels use all cores.

    Requests that rank again have their own thread, so that they do not wait for a run that is being opened.

    Args:
        directories: Run directories.
        result: Name of the result to show of each run; None for all of them.
        served: The folder of an exported rule, and the log of its service; None for no log.
    """

    def __init__(
        self, directories: Sequence[Path], result: str | None = None, served: tuple[Path, Path] | None = None
    ) -> None:
        self.served = ServedPage(*(served or (None, None)))
        self._opening = SharedThread("opening")
        self._ranking = SharedThread("ranking")
        self._waiting = 0
        self.runs: dict[str, OpenedRun] = {}
        for directory in directories:
            run = Run.open(directory, result)
            folder = self._free_name(directory.resolve().name)
            for it in (run, *(run.named(name) for name in run.results if result is None)):
                name = folder if it is run else f"{folder}:{it.result}"
                self.runs[name] = OpenedRun(name, it, self._opening)
        for opened in self.runs.values():
            opened.look()

    def opened(self, name: str) -> OpenedRun:
        """Return a run by name."""
        if name not in self.runs:
            raise HTTPException(404, f"there is no run {name!r} here; there are {', '.join(self.runs)}")
        return self.runs[name]

    def results(self) -> list[schemas.ResultRow]:
        """Return the table of all results; those with the same number share a test set."""
        seen: list[View] = []
        return [_row(one, seen) for one in self.runs.values()]

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


def _row(one: OpenedRun, seen: list[View]) -> schemas.ResultRow:
    """Describe one result; ``seen``: a run of each test set that earlier rows have."""
    listed, summary = result_row(one.run), one.summary()
    served = summary.served
    return schemas.ResultRow(
        name=one.name,
        phase=summary.phase,
        state=listed.state,
        model=listed.model,
        data=listed.data,
        goal=listed.goal,
        budget=listed.budgets.get(COST),
        certified=listed.losses.get(COST),
        date=listed.date,
        test=_test_set(one, seen),
        values={} if served is None else served.after,
        changes={} if served is None else served.changes,
    )


def _test_set(one: OpenedRun, seen: list[View]) -> str:
    """Return the number of the test set; "" if the run is not ready, or nothing is held out."""
    try:
        view = one.view()
    except NotReadyError:
        return ""
    if not view.labelled:
        return ""
    at = next((number for number, other in enumerate(seen) if same_test(view, other)), len(seen))
    if at == len(seen):
        seen.append(view)
    return str(at + 1)
