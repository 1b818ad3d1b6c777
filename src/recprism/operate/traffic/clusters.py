"""Clusters of a log: requests that share one draw of a price, with the mean of their outcomes.

A cluster opens with its first request and closes a window later. Its arm is that of its first request, and its outcome
is the mean over its requests in the window. Outcomes that arrive after the window do not count, and a request without
one counts as 0. A cluster that has not closed at the last request of the log waits. So a cluster is counted once, as a
whole, and a later look does not change it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import polars as pl

from recprism.common.files import readable
from recprism.common.ids import WHOLE_FLOAT
from recprism.data.readers.tables import TableReader
from recprism.errors import InputError
from recprism.operate.served_log import ADVICE, BASE, log_files, scan_log

NEEDED = ("time", "request", "user", "holdout", "shown", "fallback")
READ = (*NEEDED, "segment", "export", "probability", "drawn", "place", "price")
MOST_DAYS = 365


@dataclass(frozen=True, eq=False)
class Clusters:
    """Clusters that have closed, in the order in which they opened.

    Attributes:
        table: One row per cluster: ``opened``, ``day``, ``segment``, ``holdout``, ``place``, ``probability``
            and ``price`` of the arm, ``requests``, and a column for each outcome.
        waiting: Clusters that have not closed.
        unlabelled: Share of the requests in closed clusters without any outcome.
        notes: What was left out.
    """

    table: pl.DataFrame
    waiting: int
    unlabelled: float
    notes: tuple[str, ...]


def read_clusters(
    log: str | Path,
    outcomes: str | Path,
    names: Sequence[str],
    window: float,
    export: str | None = None,
    since: datetime | None = None,
) -> Clusters:
    """Read a log and its outcomes.

    Args:
        log: A folder of Parquet files, or one file.
        outcomes: A table with ``request``, a column from 0 to 1 for each outcome, and optionally ``time``.
        names: The outcomes.
        window: Days from the first request of a cluster until it closes.
        export: Fingerprint of the export whose requests count; None counts all.
        since: Earlier requests are left out.

    Raises:
        InputError: If a file is missing or damaged, if it lacks a column, or if nothing was drawn at random.
    """
    if not 0 < window <= MOST_DAYS:
        raise InputError(f"the window must be above 0 and at most {MOST_DAYS} days, not {window:g}")
    every = _read(log)
    rows, notes = _drawn(every if since is None else every.filter(pl.col("time") >= since), log, export)
    last = rows["time"].max()
    span = pl.duration(microseconds=round(timedelta(days=window) / timedelta(microseconds=1)))
    rows = _clustered(rows, span)
    labels = read_outcomes(outcomes, names)
    rows = rows.join(labels, on="request", how="left", maintain_order="left")
    if "arrived" in labels.columns:
        late = (pl.col("arrived") > pl.col("closes")).fill_null(False)
        rows = rows.with_columns(pl.when(~late).then(name).alias(name) for name in names)
    has_any = pl.any_horizontal(pl.col(name).is_not_null() for name in names)
    whole = rows.group_by("cluster", maintain_order=True).agg(
        pl.col("opened", "closes", "segment", "holdout", "place", "probability").first(),
        pl.col("price").drop_nulls().first(),
        pl.len().alias("requests"),
        has_any.sum().alias("labelled"),
        *(pl.col(name).fill_null(0.0).mean() for name in names),
    )
    arm_price = pl.col("price").drop_nulls().first().over("holdout", "place")  # where all requests fell back
    whole = whole.with_columns(pl.col("price").fill_null(arm_price))
    closed = whole.filter(pl.col("closes") <= last).with_columns(pl.col("opened").dt.date().alias("day"))
    seen = int(closed["requests"].sum())
    unlabelled = 1 - int(closed["labelled"].sum()) / seen if seen else 0.0
    return Clusters(closed.drop("cluster", "closes", "labelled"), len(whole) - len(closed), unlabelled, tuple(notes))


def read_outcomes(path: str | Path, names: Sequence[str]) -> pl.DataFrame:
    """Return ``request``, the largest value of each outcome of a request, and when its last one arrived.

    Raises:
        InputError: If a column is missing, or a value is not from 0 to 1.
    """
    frame = TableReader().read(path, required=("request", *names))
    said = pl.col("request").cast(pl.String).str.replace(WHOLE_FLOAT, "${1}")
    values = (pl.col(name).cast(pl.Float64, strict=False) for name in names)
    arrived = [_moment(frame["time"], path).alias("arrived")] if "time" in frame.columns else []
    found = frame.select(said, *values, *arrived)
    for name in names:
        given = frame.filter(frame[name].is_not_null() & (frame[name].cast(pl.String) != ""))[name]
        read = given.cast(pl.Float64, strict=False)
        wrong = given.filter(~read.is_between(0.0, 1.0).fill_null(False))
        if len(wrong):
            raise InputError(
                f"{path}: the outcome {name!r} has the value {wrong[0]!r}; outcomes are from 0 to 1, such as 1 for a "
                "dwell time above a limit"
            )
    return found.drop_nulls("request").group_by("request", maintain_order=True).agg(pl.all().max())


def _read(log: str | Path) -> pl.DataFrame:
    parts = []
    for file in log_files(log):
        with readable(file, "damaged", ADVICE):
            parts.append(scan_log(file, READ, NEEDED).collect())
    rows = pl.concat(parts).sort("time", maintain_order=True)
    return rows.filter(pl.col("request").is_null() | pl.col("request").is_first_distinct())


def _drawn(rows: pl.DataFrame, log: str | Path, export: str | None) -> tuple[pl.DataFrame, list[str]]:
    """Return the requests whose price was drawn, and say which others there are."""
    is_shadow = ((pl.col("shown") == BASE) & pl.col("fallback").is_null()).fill_null(False)
    is_other = (pl.col("export") != export).fill_null(False) if export else pl.lit(False)
    drawn = pl.col("probability").is_between(0.0, 1.0, closed="none").fill_null(False)
    counts = rows.select((~drawn).sum().alias("not drawn"), is_shadow.sum().alias("shadow"), is_other.sum().alias("o"))
    undrawn, shadow, other = counts.row(0)
    kept = rows.filter(drawn & ~is_shadow & ~is_other)
    if kept.is_empty():
        raise InputError(
            f"{log}: no request says with which probability its price was drawn; serve with --holdout, or write the "
            "columns 'probability' and 'drawn'"
        )
    said = (
        (undrawn, "requests were served without a draw"),
        (shadow, "requests were in shadow mode"),
        (other, "requests were answered by another export"),
    )
    return kept, [f"{count:,} {what}: left out" for count, what in said if count]


def _clustered(rows: pl.DataFrame, span: pl.Expr) -> pl.DataFrame:
    """Add the cluster of each request, and keep the requests within its window that have its arm."""
    alone = pl.when(pl.col("user").is_null() | pl.col("drawn").is_null()).then(pl.int_range(pl.len()))
    named = rows.with_columns(pl.struct("user", "drawn", alone.alias("alone")).alias("cluster"))
    opened, arm = (pl.col(name).first().over("cluster") for name in ("time", "holdout"))
    return (
        named.with_columns(opened.alias("opened"), (opened + span).alias("closes"), arm.alias("arm"))
        .filter((pl.col("time") < pl.col("closes")) & (pl.col("holdout") == pl.col("arm")))
        .drop("arm")
    )


def _moment(column: pl.Series, path: str | Path) -> pl.Series:
    """Read times: text, datetimes, or seconds since 1970; those without a zone are UTC."""
    utc = pl.Datetime("us", "UTC")
    if column.dtype == pl.String:
        found = column.str.to_datetime(time_unit="us", time_zone="UTC", strict=False)
    elif column.dtype.is_numeric():
        found = (column * 1e6).cast(pl.Int64, strict=False).cast(utc, strict=False)
    else:
        zone = getattr(column.dtype, "time_zone", None)
        found = column.cast(pl.Datetime("us", zone), strict=False)
        found = found.dt.replace_time_zone("UTC") if zone is None else found.dt.convert_time_zone("UTC")
    if found.null_count() > column.null_count():
        raise InputError(f"{path}: the column 'time' has values that are no time; write 2026-03-02T10:00:00Z")
    return found
