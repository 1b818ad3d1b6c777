"""Receivers of a run's events, such as MLflow. A failing sink is disabled; the run continues."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, Protocol

from recprism.runs.parts.fail_safe import FailSafeSink

if TYPE_CHECKING:
    from recprism.runs.run import Run

Outcome = Literal["finished", "failed", "interrupted"]


class Sink(Protocol):
    """Receives the events of one command on a run."""

    name: str

    def begin(self, run: Run) -> None:
        """Receive the run before the command starts."""

    def event(self, event: Mapping[str, Any]) -> None:
        """Receive an event as events.jsonl holds it: time, event (its kind) and its facts."""

    def end(self, run: Run, outcome: Outcome) -> None:
        """Receive how the command ended."""


@contextmanager
def followed(run: Run, sink: Sink | None) -> Iterator[None]:
    """Send the events of ``run`` to ``sink`` within the block; None receives nothing."""
    if sink is None:
        yield
        return
    guarded = FailSafeSink(sink)
    guarded.notify("begin", run)
    run.sinks.append(guarded)
    outcome: Outcome = "failed"
    try:
        yield
        outcome = "finished"
    except KeyboardInterrupt:
        outcome = "interrupted"
        raise
    finally:
        run.sinks.remove(guarded)
        guarded.notify("end", run, outcome)
