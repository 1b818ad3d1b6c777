"""Figures of the service in the text format of Prometheus."""

from __future__ import annotations

import bisect
import os
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

SECONDS = (0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
SWAPS = (0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 10.0, 20.0)
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
PREFIX = "recprism_"


class Counter:
    """A number that only grows, for each value of its labels.

    Args:
        name: Name without the prefix.
        words: What it counts.
        labels: Names of the labels.
    """

    kind = "counter"

    def __init__(self, name: str, words: str, labels: Sequence[str] = ()) -> None:
        self.name, self.words, self.labels = name, words, tuple(labels)
        self.values: dict[tuple[str, ...], float] = defaultdict(float)
        if not labels:
            self.values[()] = 0.0

    def add(self, amount: float = 1.0, *labels: str) -> None:
        self.values[labels] += amount

    def lines(self) -> Iterator[str]:
        for labels, value in sorted(self.values.items()):
            yield f"{PREFIX}{self.name}{_braces(self.labels, labels)} {_number(value)}"


class Gauge(Counter):
    """A number that goes up and down."""

    kind = "gauge"

    def set(self, value: float, *labels: str) -> None:
        self.values[labels] = value


class Histogram:
    """How often values are at most each bound, for each value of the labels.

    Args:
        name: Name without the prefix.
        words: What is measured.
        bounds: Upper bounds, the smallest first.
        labels: Names of the labels.
    """

    kind = "histogram"

    def __init__(self, name: str, words: str, bounds: Sequence[float], labels: Sequence[str] = ()) -> None:
        self.name, self.words, self.bounds, self.labels = name, words, tuple(bounds), tuple(labels)
        self.counts: dict[tuple[str, ...], list[int]] = {}
        self.sums: dict[tuple[str, ...], float] = defaultdict(float)

    def add(self, value: float, *labels: str) -> None:
        counts = self.counts.setdefault(labels, [0] * (len(self.bounds) + 1))
        counts[bisect.bisect_left(self.bounds, value)] += 1
        self.sums[labels] += value

    def lines(self) -> Iterator[str]:
        names = (*self.labels, "le")
        for labels, counts in sorted(self.counts.items()):
            total = 0
            for bound, count in zip((*map(_number, self.bounds), "+Inf"), counts, strict=True):
                total += count
                yield f"{PREFIX}{self.name}_bucket{_braces(names, (*labels, bound))} {total}"
            yield f"{PREFIX}{self.name}_sum{_braces(self.labels, labels)} {_number(self.sums[labels])}"
            yield f"{PREFIX}{self.name}_count{_braces(self.labels, labels)} {total}"


class Metrics:
    """All figures of a service."""

    def __init__(self) -> None:
        self.requests = Counter("requests_total", "Answers by route and status.", ("route", "status"))
        self.seconds = Histogram(
            "request_seconds", "Seconds from the headers of a request to the end of its answer.", SECONDS, ("route",)
        )
        self.swaps = Histogram("swaps", "Items of a list that the base list lacks.", SWAPS)
        self.coverage = Histogram(
            "coverage",
            "Share of all categories in a list: before (base) and after (rule).",
            [it / 10 for it in range(1, 11)],
            ("list",),
        )
        self.unmet = Counter("unmet_constraints_total", "Constraints that candidates could not meet.")
        self.unmet_lists = Counter("lists_with_unmet_constraints_total", "Lists with such a constraint.")
        self.fallbacks = Counter("fallbacks_total", "Lists by relevance alone, by reason.", ("reason",))
        self.unknown = Counter("unknown_candidates_total", "Candidates that the export does not know.")
        self.holdout = Counter("holdout_total", "Lists at the price of the holdout.")
        self.shadow = Counter("shadow_total", "Lists of the rule that were logged and not shown.")
        self.refused = Counter("refused_total", "Requests that were refused because too many were in flight.")
        self.in_flight = Gauge("in_flight", "Requests for lists that are being answered.")
        self.logged = Counter("log_rows_total", "Rows of the log that are on the disk.")
        self.dropped = Counter("log_rows_dropped_total", "Rows that were lost: a full buffer or a failed write.")
        self.loads = Counter("loads_total", "Exports that were loaded or refused.", ("result",))
        self.loaded = Gauge("rule_loaded_timestamp_seconds", "When the rule was loaded.")
        self.enabled = Gauge("enabled", "0 if the kill switch is on.")
        self.started = Gauge("start_timestamp_seconds", "When the process started to serve.")
        self.memory = Gauge("resident_memory_bytes", "Memory of the process.")
        self.started.set(time.time())

    def text(self) -> str:
        """Return everything in the text format."""
        self.memory.set(_resident())
        found: list[str] = []
        for metric in vars(self).values():
            found += [f"# HELP {PREFIX}{metric.name} {metric.words}", f"# TYPE {PREFIX}{metric.name} {metric.kind}"]
            found += metric.lines()
        return "\n".join(found) + "\n"


def parse(text: str) -> Mapping[str, float]:
    """Read what :meth:`Metrics.text` wrote: the name with its labels -> the value."""
    lines = (line.rpartition(" ") for line in text.splitlines() if line and not line.startswith("#"))
    return {name: float(value) for name, _, value in lines}


def _braces(names: Sequence[str], values: Sequence[str]) -> str:
    if not names:
        return ""
    escaped = (it.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") for it in values)
    return "{" + ",".join(f'{name}="{value}"' for name, value in zip(names, escaped, strict=True)) + "}"


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(float(value))


def _resident() -> float:
    """Bytes in memory; 0 where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * float(os.sysconf("SC_PAGE_SIZE"))
    except (OSError, ValueError):
        return 0.0
