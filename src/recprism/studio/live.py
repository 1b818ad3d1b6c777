"""A stream of the events of a run."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import asdict
from typing import Any

from recprism.runs.run import Run
from recprism.runs.status import run_status

PAUSE = 0.5  # seconds between two reads of the events
REMEMBERED = 200  # past events that a new listener receives


async def follow(run: Run, gone: Callable[[], Awaitable[bool]]) -> AsyncIterator[str]:
    """Yield server-sent events: past events, then new ones, and the status of the run whenever it changes.

    Args:
        run: The run.
        gone: Returns whether the client has disconnected.
    """
    sent, last = 0, ""
    while not await gone():
        events = run.under_way().events()
        if len(events) < sent:  # the run was started again
            sent = 0
        for event in events[max(sent, len(events) - REMEMBERED) :]:
            yield _message("happened", event)
        sent = len(events)
        now = json.dumps(asdict(run_status(run)))
        if now != last:
            last = now
            yield f"event: standing\ndata: {now}\n\n"
        await asyncio.sleep(PAUSE)


def _message(kind: str, value: Any) -> str:
    return f"event: {kind}\ndata: {json.dumps(value, ensure_ascii=False)}\n\n"
