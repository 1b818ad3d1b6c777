"""events.jsonl: what happened in a run, one JSON object per line. A crash may cut the last line short."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from recprism.common.files import storable

STEPS = ("epoch", "step")
"""Events that report progress: ``done`` of ``total``."""
END_OF_TIME = 253_402_300_800  # the year 10000: no calendar goes further


def append_event(path: Path, event: Mapping[str, Any]) -> None:
    """Append one line to the file."""
    line = (json.dumps(event, ensure_ascii=False) + "\n").encode()
    with storable(path), path.open("ab+") as file:
        if file.tell():
            file.seek(-1, os.SEEK_END)
            line = line if file.read() == b"\n" else b"\n" + line  # a kill or a full disk cut the last line short
        file.write(line)


def read_events(path: Path, without: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Read the events, oldest first.

    Args:
        path: The file; without it there are no events.
        without: Kinds of events to skip.

    Returns:
        The events. Lines that were cut short, or have no kind or no valid time, are skipped.
    """
    text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
    found = []
    for line in text.split("\n"):  # not splitlines: a value may hold U+2028
        try:
            event = json.loads(line)
        except (json.JSONDecodeError, RecursionError):
            continue
        if _is_event(event) and event["event"] not in without:
            found.append(event)
    return found


def _is_event(line: Any) -> bool:
    """Whether a line has a kind, a time and, for progress, whole numbers: the file may have been edited."""
    if not isinstance(line, dict) or not isinstance(line.get("event"), str):
        return False
    counted = line["event"] not in STEPS or (_is_whole(line.get("done")) and _is_whole(line.get("total") or 0))
    moment = line.get("time")
    return counted and isinstance(moment, int | float) and 0 <= moment < END_OF_TIME


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and 0 <= value < END_OF_TIME


def has_event(path: Path, kind: str) -> bool:
    """Whether an event of this kind was noted. Most logs do not have its name, and are not parsed."""
    return (
        path.exists()
        and kind.encode() in path.read_bytes()
        and any(it.get("event") == kind for it in read_events(path))
    )
