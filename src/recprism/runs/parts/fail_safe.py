"""Receivers of events that cannot stop the work."""

from __future__ import annotations

import logging
from typing import Any, Literal

log = logging.getLogger(__name__)


class FailSafeSink:
    """A :class:`recprism.runs.sinks.Sink` whose first failure is logged as a warning and disables it."""

    def __init__(self, sink: Any) -> None:
        self.sink = sink

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
