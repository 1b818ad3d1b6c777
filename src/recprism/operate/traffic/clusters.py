"""Clusters of a log: requests that share one draw of a price, with the mean of their outcomes.

A cluster opens with its first request and closes a window later. Its arm is that of its first request, and its outcome
is the mean over its requests in the window. Outcomes that arrive after the window do not count, and a request without
one counts as 0. A cluster waits until the log, and the times of the outcomes, go beyond its window. So a cluster is
counted once, as a whole, and a later look does not change it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from recprism.common.files import readable
from recprism.common.ids import WHOLE_FLOAT
from recprism.common.shares import percent
from recprism.data.readers.tables import TableReader
from recprism.errors import InputError
from recprism.operate.served_log import ADVICE, BASE, SWITCHED_OFF, log_files, scan_log

NEEDED = ("time", "request", "user", "holdout", "shown", "fallback")
READ = (*NEEDED, "segment", "export", "probability", "drawn", "place", "price")
MOST_DAYS = 365
WRITTEN = re.compile(r"served-([0-9]{8}T[0-9]{12})Z-[0-9a-f]{8}\.parquet")
DAY = timedelta(days=1)


@dataclass(frozen=True, eq=False)
class Clusters:
    """Clusters that have closed, in the order in which they opened.

    Attributes:
        table: One row per cluster: ``opened``, ``day``, ``segment``, ``holdout``, ``place``, ``probability``
            and ``price`` of the arm, ``requests``, and a column for each outcome.
        notes: What was left out, what waits, and what counts as 0.
        final: Clusters that closed until then never change; None if an outcome has no time.
    """

    table: pl.DataFrame
    notes: tuple[str, ...]
    final: datetime | None


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
        since: Earlier requests are left out, and those that were drawn on another day than they were logged.

    Raises:
        InputError: If a file is missing or damaged, if it lacks a column, or if nothing was drawn at random.
    """
    if not 0 < window <= MOST_DAYS:
        raise InputError(f"the window must be above 0 and at most {MOST_DAYS} days, not {window:g}")
    rows, notes = _drawn(_read(log, since), log, export)
    ends: list[Any] = [rows["time"].max()]
    labels = read_outcomes(outcomes, names)
    span = pl.duration(microseconds=round(timedelta(days=window) / timedelta(microseconds=1)))
    rows = _clustered(rows, span)
    has_times = "arrived" in labels.columns and not labels["arrived"].null_count()
    if "arrived" in labels.columns:
        ends.append(labels["arrived"].max())
        late = (pl.col("arrived") > pl.col("closes")).fill_null(False)
        labels = labels.join(rows.select("request", "closes"), on="request").filter(~late)
    largest = labels.group_by("request").agg(pl.col(names).max())
    rows = rows.join(largest, on="request", how="left", maintain_order="left")
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
    last = pl.min_horizontal(pl.lit(it) for it in ends)
    closed = whole.filter(pl.col("closes") <= last).with_columns(pl.col("opened").dt.date().alias("day"))
    seen = int(closed["requests"].sum())
    if waiting := len(whole) - len(closed):
        notes.append(f"{waiting:,} clusters wait: the log or the outcomes end in their window (days: {window:g})")
    if unlabelled := seen - int(closed["labelled"].sum()):
        notes.append(f"{percent(unlabelled / seen)} of the requests have no outcome in the window: they count as 0")
    final = min(ends) if has_times and None not in ends else None
    return Clusters(closed.drop("cluster", "closes", "labelled"), tuple(notes), final)


def read_outcomes(path: str | Path, names: Sequence[str]) -> pl.DataFrame:
    """Return ``request``, the outcomes, and ``arrived`` if the table has times.

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
    return found.drop_nulls("request")


def weights_fit(weight: NDArray[np.float64]) -> bool:
    """Return whether the weights of an arm fit its draws: 1 / probability in it, 0 elsewhere, and 1 in the mean.

    They do not if probabilities are wrong, or if rows of one arm are missing. For weights that fit, the chance of a
    false answer is below one in a million.

    Args:
        weight: Of each cluster, (n,).
    """
    noise = math.sqrt(max(0.0, float(weight @ (weight - 1))))
    return abs(float(weight.sum()) - len(weight)) <= 5 * noise + 20 * float(weight.max(initial=0.0))


def _read(log: str | Path, since: datetime | None) -> pl.DataFrame:
    parts, files = [], log_files(log)
    if since is not None:  # a day more, to recognise repeated requests; without a newer file, the last one says so
        files = [it for it in files if (_written(it) or since) >= since - DAY] or files[-1:]
    for file in files:
        with readable(file, "damaged", ADVICE):
            parts.append(scan_log(file, READ, NEEDED).collect())
    rows = pl.concat(parts).sort("time", maintain_order=True)
    rows = rows.filter(pl.col("request").is_null() | pl.col("request").is_first_distinct())
    if since is None:
        return rows
    of_another_day = pl.col("drawn").str.head(10) != pl.col("time").dt.strftime("%Y-%m-%d")
    return rows.filter((pl.col("time") >= since) & ~of_another_day.fill_null(False))


def _written(file: Path) -> datetime | None:
    """Return when the service wrote a file, by its name; its rows are older. None for a file of another name."""
    found = WRITTEN.fullmatch(file.name)
    return None if found is None else datetime.strptime(found[1], "%Y%m%dT%H%M%S%f").replace(tzinfo=UTC)


def _drawn(rows: pl.DataFrame, log: str | Path, export: str | None) -> tuple[pl.DataFrame, list[str]]:
    """Return the requests whose price was drawn, and say which others there are."""
    is_shadow = ((pl.col("shown") == BASE) & pl.col("fallback").is_null()).fill_null(False)
    is_off = (pl.col("fallback") == SWITCHED_OFF).fill_null(False)  # all arms have the same list
    is_other = (pl.col("export") != export).fill_null(False) if export else pl.lit(False)
    drawn = pl.col("probability").is_between(0.0, 1.0, closed="none").fill_null(False)
    left_out = {
        "were served without a draw": ~drawn,
        "were in shadow mode": is_shadow,
        "were answered while the rule was switched off": is_off,
        "were answered by another export": is_other,
    }
    counts = rows.select(it.sum().alias(name) for name, it in left_out.items()).row(0)
    kept = rows.filter(~pl.any_horizontal(left_out.values()))
    if kept.is_empty():
        raise InputError(
            f"{log}: no request says with which probability its price was drawn; serve with --holdout, or write the "
            "columns 'probability' and 'drawn'"
        )
    return kept, [f"{n:,} requests {what}: left out" for n, what in zip(counts, left_out, strict=True) if n]


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
        try:
            found = column.str.to_datetime(time_unit="us", time_zone="UTC", strict=False)
        except pl.exceptions.ComputeError:  # polars may not find any format in it
            found = pl.repeat(None, len(column), dtype=utc, eager=True)
    elif column.dtype.is_numeric():
        found = (column * 1e6).cast(pl.Int64, strict=False).cast(utc, strict=False)
    else:
        zone = getattr(column.dtype, "time_zone", None)
        found = column.cast(pl.Datetime("us", zone), strict=False)
        found = found.dt.replace_time_zone("UTC") if zone is None else found.dt.convert_time_zone("UTC")
    if found.null_count() > column.null_count():
        raise InputError(f"{path}: the column 'time' has values that are no time; write 2026-03-02T10:00:00Z")
    return found
