"""The log of served requests, one row per request, in Parquet files.

The service writes it and ``recprism monitor-log`` reads it.
"""

from __future__ import annotations

import polars as pl

RULE, BASE = "rule", "base"
"""Which of both lists was shown."""

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
}
