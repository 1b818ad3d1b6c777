"""The page of a served log: what `recprism monitor-log` says about it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from fastapi import HTTPException

from recprism.operate.retention import ALL_DAYS
from recprism.operate.served.monitored import ServedMonitored, log_state, monitor_served
from recprism.studio import schemas


class ServedPage:
    """The monitor of one log; figures are computed again once the log or the export has changed.

    Args:
        export: The folder of the exported rule; None if the studio has no log.
        log: The log; None if the studio has none.
    """

    def __init__(self, export: Path | None, log: Path | None) -> None:
        self._export, self._log = export, log
        self._state: object = None
        self._found: schemas.MonitorAnswer | None = None

    @property
    def is_there(self) -> bool:
        """Whether the studio was given a log."""
        return self._log is not None

    def answer(self) -> schemas.MonitorAnswer:
        """Measure the log, unless it and the export are as they were."""
        if self._export is None or self._log is None:
            raise HTTPException(404, "this studio has no log; start it with --served and --export")
        state = log_state(self._log), _export_state(self._export)
        if self._found is None or state != self._state:
            self._state, self._found = state, _answer(monitor_served(self._export, self._log))
        return self._found


def _export_state(export: Path) -> list[tuple[str, int, int]]:
    """Return names, sizes and times of the files of an export."""
    files = sorted(it for it in export.glob("*") if it.is_file())
    return [(it.name, it.stat().st_size, it.stat().st_mtime_ns) for it in files]


def _answer(found: ServedMonitored) -> schemas.MonitorAnswer:
    rows = [schemas.ServedDay(**row) for row in found.to_dict()["rows"]]
    return schemas.MonitorAnswer(
        log=found.log,
        metric=found.metric,
        verdict=found.verdict(),
        passed=found.passed,
        floor=found.alarms[0].limit,
        days=rows[1:],
        total=rows[0],
        alarms=[
            schemas.ServedAlarm(**asdict(it), sentence=it.sentence())
            for it in found.alarms
            if it.day == ALL_DAYS or it in found.fired
        ],
        holdout="" if found.holdout is None else found.holdout.sentence(),
        notes=list(found.notes),
    )
