"""What an outcome would be under another policy, from a log with known probabilities.

The estimates are inverse propensity (IPS) and doubly robust (DR). A weight is the probability of the logged action
under the other policy, divided by that with which it was drawn. IPS is the mean of weight times outcome. DR adds a
prediction for the other policy, and weights only what the prediction of the logged action misses. Both have no bias
where every action of the other policy could be drawn, and the predictions come from other rows.

The intervals are for one look. They use Student's t, with the effective number of outcomes as its degrees of freedom.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.special import stdtrit

from recprism.common.shares import CONFIDENCE, Share, share
from recprism.data.readers.tables import TableReader
from recprism.errors import InputError
from recprism.forms.rule_file import fingerprint_of
from recprism.operate.traffic.clusters import read_clusters, weights_fit

FEWEST, FEWEST_OUTCOMES = 100.0, 10.0
"""The least effective numbers of rows and of outcomes. Below them, intervals by their variance are too narrow."""
PRIOR = 200.0  # rows that a prediction's prior counts as
NOT_OUTCOMES = ("request", "time")

Array = NDArray[np.float64]


@dataclass(frozen=True)
class OffPolicy:
    """The estimates of one outcome under one policy.

    Attributes:
        rows: Number of logged rows.
        effective: Effective number of rows, (sum of weights)² / sum of squared weights.
        outcomes: The same of the outcomes, with weights times outcomes.
        ips: The estimate by inverse propensity, with the ends of its interval; None if it is refused.
        dr: The doubly robust one.
        refused: Why nothing is estimated; empty if it is.
    """

    rows: int
    effective: float
    outcomes: float
    ips: tuple[float, float, float] | None
    dr: tuple[float, float, float] | None
    refused: str = ""


def off_policy(outcome: Array, weight: Array, logged: Array, target: Array, confidence: float = 0.95) -> OffPolicy:
    """Estimate the mean outcome of another policy.

    Args:
        outcome: Of each row, (n,).
        weight: Probability of the logged action under the other policy over that under the logging one, (n,).
        logged: Prediction of the outcome of the logged action, from other rows, (n,).
        target: Prediction under the other policy, from other rows, (n,).
        confidence: Of the intervals.
    """
    effective, outcomes = (_effective(it) for it in (weight, weight * outcome))
    counts = len(outcome), effective, outcomes
    if effective < FEWEST or outcomes < FEWEST_OUTCOMES:
        why = f"the log has an effective sample of {effective:.0f} rows and {outcomes:.0f} outcomes"
        return OffPolicy(*counts, None, None, f"{why}; {FEWEST:.0f} and {FEWEST_OUTCOMES:.0f} are needed")
    if not weights_fit(weight):
        why = f"the weights have a mean of {weight.mean():.2g} instead of 1: some rows could not have this action"
        return OffPolicy(*counts, None, None, why)
    reach = float(stdtrit(outcomes - 1, (1 + confidence) / 2))
    ips, dr = (_interval(it, reach) for it in (weight * outcome, target + weight * (outcome - logged)))
    return OffPolicy(*counts, ips, dr)


def predictions(outcome: Array, group: NDArray[np.int64], used: NDArray[np.bool_], groups: int) -> Array:
    """Return the mean outcome of each group, predicted for each row from rows of the other half, (n, groups).

    Means are drawn to that of all rows. Rows take turns between both halves.

    Args:
        outcome: Of each row, (n,).
        group: The group of each row, (n,).
        used: Which rows count, (n,).
        groups: Number of groups.
    """
    found, half = np.zeros((len(outcome), groups)), np.arange(len(outcome)) % 2
    for side in (0, 1):
        rows = (half != side) & used
        mean = outcome[rows].mean() if rows.any() else 0.0
        total = np.bincount(group[rows], outcome[rows], groups) + PRIOR * mean
        found[half == side] = total / (np.bincount(group[rows], minlength=groups) + PRIOR)
    return found


@dataclass(frozen=True)
class WhatIf:
    """What a price would do to one outcome.

    Attributes:
        price: The trade-off, for all users.
        outcome: Its column in the table of outcomes.
        clusters: Clusters of the log.
        effective: Effective number of clusters at this price.
        ips: Mean outcome by inverse propensity; None if it is refused.
        ips_low: Lower end of its interval, for one look.
        ips_high: Upper end.
        dr: The doubly robust estimate; None if it is refused.
        dr_low: Lower end.
        dr_high: Upper end.
        refused: Why nothing is estimated; empty if it is.
    """

    price: float
    outcome: str
    clusters: int
    effective: float
    ips: float | None
    ips_low: float | None
    ips_high: float | None
    dr: float | None
    dr_low: float | None
    dr_high: float | None
    refused: str


@dataclass(frozen=True, eq=False)
class WhatIfs:
    """The estimates of all prices and outcomes.

    Attributes:
        export: What was served.
        rows: One row per price and outcome.
    """

    export: str
    rows: tuple[WhatIf, ...]


def what_if(
    export: str | Path,
    log: str | Path,
    outcomes: str | Path,
    prices: tuple[float, ...],
    *,
    window: float = 1.0,
    confidence: Share = 0.95,
) -> WhatIfs:
    """Estimate each outcome if all users had one price.

    Args:
        export: The folder of what was served; only its requests count if the log names exports.
        log: A folder of Parquet files, or one file, with the columns of ``recprism.operate.served_log``.
        outcomes: A table with ``request``, a column from 0 to 1 for each outcome, and optionally ``time``.
        prices: The trade-offs.
        window: Days from the first request of a cluster until it closes.
        confidence: Of the intervals.

    Raises:
        InputError: If a file is missing or damaged, or a price was never drawn.
    """
    sure = share(confidence, "confidence", *CONFIDENCE)
    columns = TableReader().read(outcomes, required=("request",))
    names = [name for name, kind in columns.schema.items() if name not in NOT_OUTCOMES and kind.is_numeric()]
    names = [name for name in names if not name.startswith("__")]
    if not names:
        raise InputError(f"{outcomes}: no column with an outcome; write a number from 0 to 1 for each request")
    table = read_clusters(log, outcomes, names, window, fingerprint_of(export) or None).table
    drawn = table["price"].drop_nulls().unique().sort().to_list()
    if missing := next((it for it in prices if not any(np.isclose(it, one) for one in drawn)), None):
        said = ", ".join(f"{it:g}" for it in drawn) or "none"
        raise InputError(f"{log}: the price {missing:g} was not drawn in a cluster that has closed; drawn are {said}")
    rows = tuple(_estimated(table, price, name, sure) for price in prices for name in names)
    return WhatIfs(str(export), rows)


def _estimated(table: pl.DataFrame, price: float, name: str, confidence: float) -> WhatIf:
    y, at_price = table[name].to_numpy(), np.isclose(table["price"].to_numpy(), price)
    segment = np.unique(table["segment"].fill_null("").to_numpy(), return_inverse=True)[1]
    weight = at_price / table["probability"].to_numpy()
    predicted = predictions(y, segment, at_price, int(segment.max(initial=0)) + 1)[np.arange(len(y)), segment]
    found = off_policy(y, weight, predicted, predicted, confidence)
    ips, ips_low, ips_high = found.ips or (None, None, None)
    dr, dr_low, dr_high = found.dr or (None, None, None)
    measured = (ips, ips_low, ips_high, dr, dr_low, dr_high)
    return WhatIf(price, name, len(y), found.effective, *measured, found.refused)


def _interval(values: Array, reach: float) -> tuple[float, float, float]:
    mean, width = float(values.mean()), reach * float(values.std(ddof=1)) / float(np.sqrt(len(values)))
    return mean, mean - width, mean + width


def _effective(weights: Array) -> float:
    squares = float(weights @ weights)
    return float(weights.sum()) ** 2 / squares if squares else 0.0
