"""Figures of the service, in the text format of Prometheus."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from recprism.operate.traffic.governor import Governor

SECONDS = (0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
SWAPS = (0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 10.0, 20.0)
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
TENTHS = tuple(it / 10 for it in range(1, 11))


class Metrics(Collector):
    """All figures of a service, in a registry of their own.

    Those with labels are functions of the labels; each child is looked up once.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        counter = partial(Counter, namespace="recprism", registry=self.registry)
        gauge = partial(Gauge, namespace="recprism", registry=self.registry)
        histogram = partial(Histogram, namespace="recprism", registry=self.registry)
        self.requests = cache(counter("requests_total", "Answers by route and status.", ("route", "status")).labels)
        seconds = "Seconds from the headers of a request to the end of its answer."
        self.seconds = cache(histogram("request_seconds", seconds, ("route",), buckets=SECONDS).labels)
        self.swaps = histogram("swaps", "Items of a list that the base list lacks.", buckets=SWAPS)
        coverage = "Share of all categories in a list: before (base) and after (rule)."
        self.coverage = cache(histogram("coverage", coverage, ("list",), buckets=TENTHS).labels)
        self.unmet = counter("unmet_constraints_total", "Constraints that candidates could not meet.")
        self.unmet_lists = counter("lists_with_unmet_constraints_total", "Lists with such a constraint.")
        self.fallbacks = cache(counter("fallbacks_total", "Lists by relevance alone, by reason.", ("reason",)).labels)
        self.unknown = counter("unknown_candidates_total", "Candidates that the export does not know.")
        self.holdout = counter("holdout_total", "Lists at the price of the holdout.")
        self.shadow = counter("shadow_total", "Lists of the rule that were logged and not shown.")
        self.refused = counter("refused_total", "Requests that were refused because too many were in flight.")
        self.in_flight = gauge("in_flight", "Requests for lists that are being answered.")
        self.logged = counter("log_rows_total", "Rows of the log that are on the disk.")
        self.dropped = counter("log_rows_dropped_total", "Rows that were lost: a full buffer or a failed write.")
        self.loads = cache(counter("loads_total", "Exports that were loaded or refused.", ("result",)).labels)
        self.loaded = gauge("rule_loaded_timestamp_seconds", "When the rule was loaded.")
        self.enabled = gauge("enabled", "0 if the kill switch is on.")
        self.steps = cache(counter("governor_steps_total", "Steps of the governor.", ("step",)).labels)
        gauge("start_timestamp_seconds", "When the process started to serve.").set_to_current_time()
        gauge("resident_memory_bytes", "Memory of the process.").set_function(_resident)

    def governed(self, governor: Governor) -> None:
        """Show the state of a governor."""
        gauge = partial(Gauge, namespace="recprism", registry=self.registry)
        gauge("governor_price", "The present price of the governor.").set_function(lambda: governor.price)
        gauge("governor_enabled", "0 if the governor is off.").set_function(lambda: float(governor.state.enabled))

    def collect(self) -> Iterator[Metric]:
        """Yield all figures, without the times at which they were made."""
        for metric in self.registry.collect():
            metric.samples = [it for it in metric.samples if not it.name.endswith("_created")]
            yield metric

    def text(self) -> bytes:
        """Return everything in the text format."""
        return generate_latest(self)


def _resident() -> float:
    """Bytes in memory; 0 where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * float(os.sysconf("SC_PAGE_SIZE"))
    except (OSError, ValueError):
        return 0.0
