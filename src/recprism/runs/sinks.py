"""Who else hears what happens in a run. A sink that fails is told nothing more; the run goes on."""

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
    """Hears one run, from its beginning to its end."""

    name: str

    def begin(self, run: Run) -> None: ...

    def event(self, event: Mapping[str, Any]) -> None:
        """As it stands in events.jsonl: time, event (its kind) and its facts."""

    def end(self, run: Run, outcome: Outcome) -> None: ...


class Guarded:
    """A sink whose failures end in one warning and in nothing else."""

    def __init__(self, sink: Sink) -> None:
        self.sink: Sink | None = sink

    def tell(self, what: Literal["begin", "event", "end"], *about: Any) -> None:
        if self.sink is None:
            return
        try:
            getattr(self.sink, what)(*about)
        except Exception as problem:  # whatever it is: a logbook must not cost the work it tells of
            words = (str(problem) or type(problem).__name__).splitlines()[0]
            log.warning("%s failed (%s); the run goes on without it", self.sink.name, words)
            self.sink = None


@contextmanager
def followed(run: Run, sink: Sink | None) -> Iterator[None]:
    """Within the block ``sink`` hears the events of ``run``; None hears nothing."""
    if sink is None:
        yield
        return
    guarded = Guarded(sink)
    guarded.tell("begin", run)
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
        guarded.tell("end", run, outcome)
