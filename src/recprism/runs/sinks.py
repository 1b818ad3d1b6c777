"""Receivers of a run's events, such as MLflow. A failing sink is disabled; the run continues."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from recprism.runs.run import Run

log = logging.getLogger(__name__)
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


class FailSafeSink:
    """A sink whose first failure is logged as a warning and disables it."""

    def __init__(self, sink: Sink) -> None:
        self.sink: Sink | None = sink

    def notify(self, what: Literal["begin", "event", "end"], *about: Any) -> None:
        """Call one method of the sink, unless the sink is disabled."""
        if self.sink is None:
            return
        try:
            getattr(self.sink, what)(*about)
        except Exception as problem:  # of any kind: a log must not cost the work that it records
            words = (str(problem) or type(problem).__name__).splitlines()[0]
            log.warning("%s failed (%s); the run continues without it", self.sink.name, words)
            self.sink = None


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
