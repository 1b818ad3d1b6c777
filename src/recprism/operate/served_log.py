"""The log of served requests, one row per request, in Parquet files.

The service writes it and ``recprism monitor-log`` reads it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from recprism.errors import InputError

ADVICE = "the log is the folder or a .parquet file that `recprism serve --log` writes"

RULE, BASE = "rule", "base"
"""Which of both lists was shown."""
SWITCHED_OFF = "disabled"
"""The fallback of a rule that is switched off."""
ONCE = "once"
"""The name of a draw that a user keeps."""

SERVED_LOG_COLUMNS: dict[str, pl.DataType] = {
    "time": pl.Datetime("us", "UTC"),
    "request": pl.String(),  # id of the request
    "user": pl.String(),  # keyed hash of the user id; null unless the service logs users
    "segment": pl.String(),  # name of the user's segment; null if the request gives none
    "price": pl.Float64(),  # the trade-off that the rule used
    "holdout": pl.Boolean(),  # whether the price was drawn for the holdout, instead of the usual one
    "shown": pl.String(),  # "rule" or "base": the list that the user saw
    "rule": pl.List(pl.String()),  # ids of the list that the rule made
    "base": pl.List(pl.String()),  # ids of the list by relevance alone
    "fallback": pl.String(),  # why the rule made no list; null if it did
    "unmet": pl.Int32(),  # number of constraints that were not met
    "milliseconds": pl.Float32(),  # time of the request in the service
    "export": pl.String(),  # fingerprint of the export that the service had loaded; null if it is not known
    "probability": pl.Float64(),  # with which this price was drawn; null if nothing was drawn
    "drawn": pl.String(),  # name of the draw: with the same one, a user has the same price; null: drawn by request
    "place": pl.Int32(),  # place of the drawn price among those of a governor; null without one
}


def log_files(log: str | Path) -> list[Path]:
    """Return the Parquet files of a log, in the order of their names.

    Raises:
        InputError: If there is none.
    """
    path = Path(log)
    if path.is_file():
        return [path]
    found = sorted(path.rglob("*.parquet")) if path.is_dir() else []
    if not found:
        raise InputError(f"{log}: there is no .parquet file; {ADVICE}")
    return found


def scan_log(file: Path, columns: Sequence[str], needed: Sequence[str]) -> pl.LazyFrame:
    """Scan columns of a file in their types; a missing one is an error if it is needed, and else null."""
    scan = pl.scan_parquet(file)
    there = scan.collect_schema()
    missing = [name for name in needed if name not in there]
    if missing:
        raise InputError(f"{file}: no column {missing[0]!r}; {ADVICE}")
    found = {name: pl.col(name) if name in there else pl.lit(None) for name in columns}
    return scan.select(it.cast(SERVED_LOG_COLUMNS[name]).alias(name) for name, it in found.items())
