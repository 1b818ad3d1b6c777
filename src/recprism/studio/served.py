"""The page of a served log: what `recprism monitor-log` says about it, and what a governor did with the price."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from fastapi import HTTPException

from recprism.operate.retention import ALL_DAYS
from recprism.operate.served.monitored import ServedMonitored, log_state, monitor_served
from recprism.operate.traffic.certificate import EVENTS
from recprism.operate.traffic.steps import BROKEN, CERTIFIED
from recprism.runs.event_log import read_events
from recprism.studio import schemas

MOST_CHANGES = 50
WHAT = {"begin": "began at", "raise": "raised to", "lower": "lowered to", "off": "switched off:", "on": "switched on:"}
"""Events of a governor that change the price, in words."""


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

    def governor(self) -> schemas.GovernorAnswer | None:
        """Return what a governor did; None without one."""
        events = [] if self._log is None else read_events(self._log / EVENTS)
        return _governed(events) if events else None


def _governed(events: list[dict[str, Any]]) -> schemas.GovernorAnswer:
    last, price = events[-1], events[-1]["price"]
    changes = [
        schemas.PriceChange(when=_moment(it), what=f"{WHAT[it['event']]} {it['price']:g}", why=_why(before, it))
        for before, it in pairwise([{}, *events])
        if it["event"] in WHAT
    ][::-1]
    rows = [schemas.GovernedPrice.model_validate(it) for it in last["evidence"]]
    higher = [it for it in rows if it.price > price]
    following = [f"{it.question} {it.answer}{_left(it.days)}" for it in higher if it.price == higher[0].price]
    said = f"The price is {price:g}, {changes[0].what.split()[0]} at {changes[0].when}."
    if not last["state"]["enabled"]:
        said = f"The governor is off since {changes[0].when}: all users have the price {price:g}."
    elif following:
        said += f" It rises to {higher[0].price:g} once every outcome is certified there: {', '.join(following)}."
    elif not rows:
        said += " No traffic has been tested since."
    notes = [f"last step: {_moment(last)}", *last["notes"]]
    return schemas.GovernorAnswer(verdict=said, price=price, prices=rows, changes=changes[:MOST_CHANGES], notes=notes)


def _left(days: int | None) -> str:
    return "" if days is None else f" (about {days:,} more days)"


def _moment(event: Mapping[str, Any]) -> str:
    return f"{datetime.fromtimestamp(event['time'], UTC):%Y-%m-%d %H:%M} UTC"


def _why(before: Mapping[str, Any], event: Mapping[str, Any]) -> str:
    """Return the evidence about the price that was certified, or that was broken."""
    price = event["price"] if event["event"] == "raise" else before.get("price")
    wanted = {"raise": CERTIFIED, "lower": BROKEN}.get(event["event"])
    found = [it["sentence"] for it in event["evidence"] if it["price"] == price and it["answer"] == wanted]
    return ". ".join(found)


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
