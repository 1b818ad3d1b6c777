"""The monitor of a log of served requests."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import polars as pl

from recprism.common.progress import ProgressCallback
from recprism.forms.rule_file import RuleFile, fingerprint_of
from recprism.operate.check import junit
from recprism.operate.retention import ALL_DAYS
from recprism.operate.served._labels import Labels
from recprism.operate.served._log import Requests, read_requests
from recprism.operate.served.alarms import FIRES, Alarm, AlarmLimits, alarm
from recprism.operate.served.confidence import ALPHA, Interval
from recprism.operate.served.figures import (
    Exposure,
    Scope,
    ServedRow,
    accuracy_of,
    exposure_of,
    row_of,
    scopes,
    share_interval,
)
from recprism.operate.served.holdout import HoldoutResult, compare_arms
from recprism.operate.served_log import log_files

SLOW = 0.01  # share of requests that may be slower than the limit
GAIN = "gain kept"


@dataclass(frozen=True, eq=False)
class ServedMonitored:
    """What a log of served requests shows.

    Attributes:
        export: The folder of the exported rule.
        log: The log.
        metric: The metric of coverage.
        level: Chance with which all intervals of one kind hold at all times.
        rows: All days first, then each day.
        alarms: Limits and their states.
        fallbacks: Why the rule made no list -> number of requests.
        exposure: Which items and categories have places.
        accuracy: "hit rate" and "NDCG" of the shown lists at the usual price; empty without labels.
        holdout: The comparison of both prices; None without a holdout, or without users in the log.
        notes: What was left out, and what is not known.
    """

    export: str
    log: str
    metric: str
    level: float
    rows: tuple[ServedRow, ...]
    alarms: tuple[Alarm, ...]
    fallbacks: Mapping[str, int]
    exposure: Exposure
    accuracy: Mapping[str, Interval]
    holdout: HoldoutResult | None
    notes: tuple[str, ...]

    @property
    def days(self) -> tuple[ServedRow, ...]:
        """The rows of single days."""
        return self.rows[1:]

    @property
    def fired(self) -> tuple[Alarm, ...]:
        """The alarms that fire."""
        return tuple(it for it in self.alarms if it.state == FIRES)

    @property
    def passed(self) -> bool:
        """Whether no alarm fires."""
        return not self.fired

    def verdict(self) -> str:
        """Return the verdict in one sentence."""
        if self.fired:
            more = f"; {len(self.fired)} alarms fire" if len(self.fired) > 1 else ""
            return f"FAILS: {self.fired[0].sentence()}{more}."
        first = next(it for it in self.alarms if it.name == GAIN)
        kept = f"{self.rows[0].words()} of the gain in {self.metric} is kept in {self.rows[0].requests:,} requests"
        wanted = f"at least {first.limit:.0%} wanted"
        return f"{'holds' if first.state == 'holds' else 'not decided so far'}: {kept}, {wanted}."

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return {
            **{name: getattr(self, name) for name in ("export", "log", "metric", "level", "passed")},
            "verdict": self.verdict(),
            "rows": [_plain(asdict(row)) for row in self.rows],
            "alarms": [{**asdict(it), "sentence": it.sentence()} for it in self.alarms],
            "fallbacks": dict(self.fallbacks),
            "exposure": _plain(asdict(self.exposure)),
            "accuracy": {name: _plain(asdict(it)) for name, it in self.accuracy.items()},
            "holdout": None if self.holdout is None else self.holdout.to_dict(),
            "notes": list(self.notes),
        }

    def to_junit(self) -> str:
        """Return JUnit XML with one test case per alarm."""
        cases = {f"{it.name}, {it.day}": it.sentence() if it.state == FIRES else None for it in self.alarms}
        return junit("recprism monitor-log", self.export, cases)


def monitor_served(
    export: str | Path,
    log: str | Path,
    *,
    taken: str | Path | None = None,
    limits: AlarmLimits | None = None,
    columns: Mapping[str, str] | None = None,
    alpha: float = ALPHA,
    on_step: ProgressCallback | None = None,
) -> ServedMonitored:
    """Measure a log of served requests: coverage, retention of the gain, exposure, rates and accuracy.

    Args:
        export: The folder that ``recprism export RUN`` wrote.
        log: A folder of Parquet files, or one file, with the columns of ``recprism.operate.served_log``.
        taken: A table with ``item``, and ``request`` or ``user``: what users took.
        limits: What alarms watch.
        columns: Our column name -> the name in the file of ``taken``.
        alpha: Chance that one kind of interval is wrong at some time, on some day.
        on_step: Receives progress.

    Raises:
        InputError: If a file is missing, empty or damaged, or lacks a column.
    """
    limits = limits or AlarmLimits()
    rule = RuleFile.read(export)
    labels = None if taken is None else Labels(taken, columns)
    requests = read_requests(rule, log, labels, on_step)
    of_days = list(scopes(requests, alpha))
    holdout = compare_arms(of_days[0], alpha) if requests.has_users else None
    rows = tuple(map(row_of, of_days))
    judged = [it for scope, row in zip(of_days, rows, strict=True) for it in _alarms(scope, row, limits)]
    return ServedMonitored(
        str(export),
        str(log),
        f"subtopic_coverage@{rule.k}",
        1 - alpha,
        rows,
        (*judged, *_of_holdout(of_days[0] if requests.has_users else None, holdout, limits, alpha)),
        _reasons(requests.table),
        exposure_of(requests, rule),
        accuracy_of(of_days[0]),
        holdout,
        (*_of_exports(requests.exports, fingerprint_of(export)), *_notes(requests, labels, holdout, limits, rule)),
    )


def log_state(log: str | Path) -> list[tuple[str, int, int]]:
    """Return names, sizes and times of the files of a log: equal states have equal figures.

    Raises:
        InputError: If there is no file.
    """
    return [(str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in log_files(log)]


def _alarms(scope: Scope, row: ServedRow, limits: AlarmLimits) -> list[Alarm]:
    """Judge one scope by the limits on its requests."""
    found = [alarm(GAIN, scope.day, "at least", limits.floor, row.kept)]
    for name, limit, values in (
        ("fallbacks", limits.fallbacks, ~scope.units["made"]),
        ("constraints not met", limits.unmet, scope.units["unmet"]),
    ):
        if limit is not None:
            found.append(alarm(name, scope.day, "at most", limit, share_interval(values, scope.alpha)))
    if limits.milliseconds is not None:
        slow = scope.units["milliseconds"] > limits.milliseconds
        name = f"requests over {limits.milliseconds:g} ms"
        found.append(alarm(name, scope.day, "at most", SLOW, share_interval(slow, scope.alpha)))
    return found


def _of_holdout(scope: Scope | None, holdout: HoldoutResult | None, limits: AlarmLimits, alpha: float) -> list[Alarm]:
    """Judge the share of the holdout, and the loss against it; nothing is decided without users (None)."""
    found = []
    if limits.holdout is not None:
        drawn = None if scope is None else share_interval(scope.users["holdout"], alpha)
        found.append(alarm("share of the holdout", ALL_DAYS, "exactly", limits.holdout, drawn))
    if limits.loss is not None:
        loss = None if holdout is None else holdout.loss
        found.append(alarm("loss of the hit rate", ALL_DAYS, "at most", limits.loss, loss))
    return found


def _reasons(table: pl.DataFrame) -> dict[str, int]:
    counts = table.filter(~pl.col("made")).select(pl.col("fallback").fill_null("no list")).to_series().value_counts()
    return dict(sorted(counts.rows(), key=lambda row: (-row[1], row[0])))


def _of_exports(served: Mapping[str | None, int], own: str) -> list[str]:
    """Say how many requests another export answered: a service that loads a new one continues with the same log."""
    others = {name: count for name, count in served.items() if name not in (own, None)}
    if not others:
        return []
    named = ", ".join(f"{name}: {count:,}" for name, count in sorted(others.items()))
    return [
        f"{sum(others.values()):,} of {sum(served.values()):,} requests were answered by another export ({named}) than "
        f"this one ({own}): they count, with the categories of this one"
    ]


def _notes(
    requests: Requests, labels: Labels | None, holdout: HoldoutResult | None, limits: AlarmLimits, rule: RuleFile
) -> list[str]:
    found = []
    if "subtopic_coverage" not in rule.goals:
        goal = " and ".join(rule.goals) or "exposure of items"
        found.append(f"the goal of the rule is {goal}, and the gain here is that in subtopic coverage")
    if requests.unknown_places:
        found.append(
            f"{requests.unknown_places:,} of {requests.places:,} places hold items that the export does not know: they "
            "count as empty"
        )
    if requests.repeats:
        found.append(f"{requests.repeats:,} rows repeat the id of a request: only its first row counts")
    if requests.cut_lists:
        found.append(
            f"{requests.cut_lists:,} lists are longer than {rule.k}, the length of the rule: places beyond are left out"
        )
    if not requests.has_users and requests.table["holdout"].any():
        found.append(
            "the log has a holdout and names no users: both prices are not compared, because requests of one user are "
            "not independent; log users as hashes (--log-users)"
        )
    if not requests.has_users:
        found.append("the log names no users: intervals take every request as one of another user")
    elif holdout is None and requests.table["holdout"].any():
        found.append("the prices of the holdout are not compared: since it began, one of the two has no request so far")
    if labels is None:
        found.append("accuracy is not known without a table of what users took")
    elif requests.unused_labels:
        found.append(f"{requests.unused_labels:,} {labels.key}s with labels are not in the log: left out")
    if holdout is not None and limits.holdout is None:
        found.append("the randomisation of the holdout is not checked: its share was not given")
    return found


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    """Replace NaN, which JSON does not have, by None."""
    return {name: None if isinstance(it, float) and math.isnan(it) else it for name, it in values.items()}
