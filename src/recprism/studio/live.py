"""Events of a run as they happen: a stream that a page can listen to."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import asdict
from typing import Any

from recprism.runs.run import Run
from recprism.runs.status import run_status

PAUSE = 0.5  # seconds between two looks
REMEMBERED = 200  # events that a new listener is told first


async def follow(run: Run, gone: Callable[[], Awaitable[bool]]) -> AsyncIterator[str]:
    """Server-sent events: those that have happened, then each as it happens, with where the run stands beside it."""
    told, last = 0, ""
    while not await gone():
        events = run.events()
        if len(events) < told:  # the run was started anew
            told = 0
        for event in events[max(told, len(events) - REMEMBERED) :]:
            yield _message("happened", event)
        told = len(events)
        now = json.dumps(asdict(run_status(run)))
        if now != last:
            last = now
            yield f"event: standing\ndata: {now}\n\n"
        await asyncio.sleep(PAUSE)


def _message(kind: str, value: Any) -> str:
    return f"event: {kind}\ndata: {json.dumps(value, ensure_ascii=False)}\n\n"
