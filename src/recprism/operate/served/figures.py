"""Figures of a log by day and in total: coverage, retention of the gain, rates, and exposure.

Requests of one user are not independent. So intervals look at the first request of each user on each day. They hold for
the average of what was to be expected at each request, given all requests before it. They do not say what other users
would see. The comparison of prices does, so it looks at the first request of each user since the holdout began. Without
users in the log, every request counts, as if each were of another user.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray

from recprism.forms.rule_file import RuleFile
from recprism.metrics.catalogue import gini
from recprism.operate.retention import ALL_DAYS
from recprism.operate.served._log import Requests
from recprism.operate.served.confidence import Interval, confidence_interval, ratio_interval

MOST_CATEGORIES = 10  # that are shown


@dataclass(frozen=True, eq=False)
class Scope:
    """The requests of one day or of the whole log.

    Attributes:
        day: The day, or ``ALL_DAYS``.
        table: The requests.
        units: Those that are the first of their user on their day, for intervals.
        users: Those that are the first of their user since the holdout began, for comparisons of prices.
        alpha: Chance that an interval of this scope is wrong at some time.
    """

    day: str
    table: pl.DataFrame
    units: pl.DataFrame
    users: pl.DataFrame
    alpha: float


def scopes(requests: Requests, alpha: float) -> Iterator[Scope]:
    """Yield the whole log and its days.

    The chances of all scopes add up to ``alpha`` however long the log becomes: half for the total, and half / (d (d +
    1)) for day number d.
    """
    table = requests.table
    yield Scope(ALL_DAYS, table, table.filter("first_of_day"), table.filter("first"), alpha / 2)
    for at, day in enumerate(table["day"].unique().sort().to_list(), 1):
        of_day = table.filter(pl.col("day") == day)
        units, users = of_day.filter("first_of_day"), of_day.filter("first")
        yield Scope(day.isoformat(), of_day, units, users, alpha / 2 / (at * (at + 1)))


@dataclass(frozen=True)
class ServedRow:
    """Figures of one day or of the whole log. Coverage and retention are those of requests at the usual price.

    Attributes:
        day: The day, or ``ALL_DAYS``.
        requests: Number of requests, with the holdout.
        units: Requests that the interval looks at: the first of each user on each day, without the holdout.
        base: Mean subtopic coverage of the base lists.
        rule: Mean of the rule's lists, where it made one.
        shown: Mean of the lists that users saw.
        retained: (shown - base) / (rule - base) over the units; None if that gain is not clear of 0.
        low: Lower end of its confidence sequence.
        high: Upper end.
        fallbacks: Share of requests in which the rule made no list.
        unmet: Share of requests with a constraint that was not met.
        swaps: Mean number of shown items that are not in the base list.
        median_ms: Median of the milliseconds.
        p99_ms: The time within which 99 % of the requests were answered.
        holdout: Share of requests at the holdout's price.
    """

    day: str
    requests: int
    units: int
    base: float
    rule: float
    shown: float
    retained: float | None
    low: float | None
    high: float | None
    fallbacks: float
    unmet: float
    swaps: float
    median_ms: float
    p99_ms: float
    holdout: float

    @property
    def kept(self) -> Interval | None:
        """The retention and its interval."""
        if self.retained is None or self.low is None or self.high is None:
            return None
        return Interval(self.retained, self.low, self.high, self.units)

    def words(self) -> str:
        """Return the retention and its interval as text."""
        kept = self.kept
        return "an unknown share" if kept is None else f"{kept.mean:.0%} ({kept.low:.0%} to {kept.high:.0%})"


def row_of(scope: Scope) -> ServedRow:
    """Compute the figures of a scope."""
    usual, every, kept = scope.table.filter(~pl.col("holdout")), scope.table, retention(scope)
    return ServedRow(
        day=scope.day,
        requests=len(every),
        units=len(scope.units.filter(~pl.col("holdout"))),
        base=_mean(usual["base"]),
        rule=_mean(usual.filter("made")["rule"]),
        shown=_mean(usual["shown"]),
        retained=None if kept is None else kept.mean,
        low=None if kept is None else kept.low,
        high=None if kept is None else kept.high,
        fallbacks=_mean(~every["made"]),
        unmet=_mean(every["unmet"]),
        swaps=_mean(usual["swaps"]),
        median_ms=_quantile(every["milliseconds"], 0.5),
        p99_ms=_quantile(every["milliseconds"], 0.99),
        holdout=_mean(every["holdout"]),
    )


def retention(scope: Scope) -> Interval | None:
    """Return the share of the rule's gain that users saw, with its interval; None if that gain is not clear of 0.

    It is the share of requests in which the rule made a list, times the share of the gain that was shown in them. A
    request without a list of the rule would have had the gain of the others.
    """
    usual = scope.units.filter(~pl.col("holdout"))
    made = usual.filter("made")
    base, rule, shown = (made[name].to_numpy() for name in ("base", "rule", "shown"))
    of_made = ratio_interval(shown - base, rule - base, alpha=scope.alpha / 2)
    if of_made is None:
        return None
    return of_made.times(share_interval(usual["made"], scope.alpha / 2))


def accuracy_of(scope: Scope) -> dict[str, Interval]:
    """Return hit rate and NDCG of the lists that users saw at the usual price; nothing without labels."""
    usual = scope.units.filter(~pl.col("holdout"))
    columns = {"hit rate": "hit", "NDCG": "ndcg"}
    return {name: share_interval(usual[it], scope.alpha / 2) for name, it in columns.items() if it in usual.columns}


def share_interval(values: pl.Series, alpha: float) -> Interval:
    """Return the confidence sequence of a share."""
    return confidence_interval(values.cast(pl.Float64).to_numpy(), alpha=alpha)


@dataclass(frozen=True)
class CategoryShare:
    """A category and its share of all places.

    Attributes:
        category: Its name.
        base: Share of the places of the base lists; an item shares its place among its categories.
        shown: Share of the places of the lists that users saw.
    """

    category: str
    base: float
    shown: float


@dataclass(frozen=True)
class Exposure:
    """Which items have places, in base lists and in shown lists.

    Attributes:
        items: Number of items of the export.
        base_items: How many of them are in a base list.
        shown_items: How many of them were shown.
        base_gini: Gini index of the places of items in base lists.
        shown_gini: The same for the lists that users saw.
        categories: Categories with the largest changes of their share, the largest first.
    """

    items: int
    base_items: int
    shown_items: int
    base_gini: float
    shown_gini: float
    categories: tuple[CategoryShare, ...]


def exposure_of(requests: Requests, rule: RuleFile) -> Exposure:
    """Compute the exposure of items and categories over all requests."""
    base, shown = requests.exposure
    shares = [_category_shares(it, rule) for it in (base, shown)]
    rows = [CategoryShare(*it) for it in zip(rule.names, *(it.tolist() for it in shares), strict=True)]
    rows.sort(key=lambda row: -abs(row.shown - row.base))
    before, after = (float(gini(torch.from_numpy(it))) for it in (base, shown))
    counts = len(base), int((base > 0).sum()), int((shown > 0).sum())
    return Exposure(*counts, before, after, tuple(rows[:MOST_CATEGORIES]))


def _category_shares(places: NDArray[np.int64], rule: RuleFile) -> NDArray[np.float64]:
    owner = np.repeat(np.arange(len(places)), np.diff(rule.indptr))
    amount = np.bincount(rule.indices, places[owner] * rule.shares, len(rule.names))
    found: NDArray[np.float64] = amount / max(amount.sum(), 1.0)
    return found


def _mean(column: pl.Series) -> float:
    found: Any = column.cast(pl.Float64).mean()
    return float("nan") if found is None else float(found)


def _quantile(column: pl.Series, at: float) -> float:
    found = column.quantile(at, "linear")
    return float("nan") if found is None else float(found)
