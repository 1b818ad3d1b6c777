"""A log of served requests as arrays: a few figures per request, read in parts of bounded size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray

from recprism.common.files import readable
from recprism.common.ids import canonical_text
from recprism.common.progress import ProgressCallback
from recprism.errors import InputError
from recprism.forms.rule_file import RuleFile
from recprism.metrics.accuracy import ndcg
from recprism.metrics.compiled import COMPILED
from recprism.metrics.diversity import subtopic_coverage
from recprism.metrics.tables import CategoryMatrix, Rows
from recprism.operate.served._labels import Labels
from recprism.operate.served_log import ADVICE, BASE, RULE, log_files, scan_log

ROWS_AT_ONCE = 1 << 17
SMALL = 1 << 23  # bytes of a file that is read as a whole
NEEDED = ("time", "request", "user", "price", "holdout", "shown", "rule", "base", "fallback", "unmet", "milliseconds")

Array = NDArray[np.float64]
Items = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Requests:
    """Figures of requests, in the order of time.

    Attributes:
        table: One row per request, with some columns of the log. ``made`` says whether the rule made a list, and
            ``is_rule`` whether it was shown. ``first_of_day`` marks the first request of a user on a day, and ``first``
            that of a user since the holdout began, without shadow mode. ``base``, ``rule`` and ``shown`` are category
            coverage. ``swaps`` counts shown items that are not in the base list. With labels there are ``hit`` and
            ``ndcg``.
        exposure: Base lists and shown lists: how often each item has a place, (2, n_items).
        unknown_places: Places of both lists with an item that the export does not know.
        places: All places of both lists.
        has_users: Whether the log names users.
        repeats: Rows that were left out, because an earlier row has the same request id.
        cut_lists: Lists with more places than those of the rule; the places beyond are left out.
        unused_labels: Labels of requests or users that are not in the log; None without labels.
        exports: Fingerprint of an export, or None if the log does not say it -> number of its requests.
    """

    table: pl.DataFrame
    exposure: NDArray[np.int64]
    unknown_places: int
    places: int
    has_users: bool
    repeats: int
    cut_lists: int
    unused_labels: int | None
    exports: Mapping[str | None, int]


def read_requests(
    rule: RuleFile, log: str | Path, labels: Labels | None = None, on_step: ProgressCallback | None = None
) -> Requests:
    """Read a log and measure its lists.

    Args:
        rule: The exported rule: items, categories and the length of lists.
        log: A folder of Parquet files, or one file.
        labels: What users took.
        on_step: Receives progress.

    Raises:
        InputError: If the log is missing, empty or damaged, or lacks a column.
    """
    ruler = _Ruler(rule, labels)
    files = log_files(log)
    firsts = _first_rows(files)
    parts, start = [], 0
    for frame in _frames(files, on_step):
        parts.append(ruler.measured(frame.filter(firsts.slice(start, len(frame)))))
        start += len(frame)
    table = pl.concat(parts) if parts else pl.DataFrame()
    if table.is_empty():
        raise InputError(f"{log}: the log has no requests yet; {ADVICE}")
    if labels is not None:
        labels.require_match()
    has_users = table["user"].null_count() < len(table)
    return Requests(
        _in_order(table),
        ruler.exposure,
        ruler.unknown,
        ruler.places,
        has_users,
        len(firsts) - len(table),
        ruler.cut,
        None if labels is None else labels.unused(),
        ruler.exports,
    )


def _first_rows(files: list[Path]) -> pl.Series:
    """Return whether each row is the first in time of its request id: a client asks again after a lost answer."""
    wanted = pl.col("time"), pl.when(pl.col("request").is_not_null()).then(pl.col("request").hash()).alias("request")
    parts = []
    for file in files:
        with readable(file, "damaged", ADVICE):
            parts.append(scan_log(file, ("time", "request"), NEEDED).select(wanted).collect())
    is_first = pl.col("request").is_null() | pl.col("request").is_first_distinct()
    rows = pl.concat(parts).with_row_index("row").sort("time", maintain_order=True)
    return rows.select("row", is_first.alias("is_first")).sort("row")["is_first"]


def _frames(files: list[Path], on_step: ProgressCallback | None) -> Iterator[pl.DataFrame]:
    """Yield parts of a log: a service writes many small files, which are put together."""
    waiting: list[pl.DataFrame] = []
    for done, file in enumerate(files):
        if on_step is not None:
            on_step("reading the log", done, len(files))
        for frame in _frames_of(file):
            waiting.append(frame)
            if sum(map(len, waiting)) >= ROWS_AT_ONCE:
                yield pl.concat(waiting)
                waiting = []
    if waiting:
        yield pl.concat(waiting)


def _frames_of(file: Path) -> Iterator[pl.DataFrame]:
    """Yield a file in parts, with the columns that are used."""
    with readable(file, "damaged", ADVICE):
        scan = scan_log(file, (*NEEDED, "export"), NEEDED)
        if file.stat().st_size < SMALL:
            yield scan.collect()
            return
        rows = scan.select(pl.len()).collect().item()
        for start in range(0, rows, ROWS_AT_ONCE):
            yield scan.slice(start, ROWS_AT_ONCE).collect()


def _in_order(table: pl.DataFrame) -> pl.DataFrame:
    """Sort by time, and mark the first request of each user; a request without a user counts as one of a new user.

    Prices are compared from the first request of the holdout on: before it, all users had the usual price. In shadow
    mode users see the base list at any price, so its requests do not count there.
    """
    alone = pl.col("user").is_null()
    is_shadow = ~pl.col("is_rule") & pl.col("fallback").is_null()
    compared = pl.when("compares").then("user")
    begins = pl.col("time").filter(pl.col("holdout") & ~is_shadow).min()
    return (
        table.sort("time", maintain_order=True)
        .with_columns(
            pl.col("time").dt.date().alias("day"),
            ((pl.col("time") >= begins).fill_null(False) & ~is_shadow).alias("compares"),
        )
        .with_columns(
            (pl.col("compares") & (alone | compared.is_first_distinct())).alias("first"),
            (alone | pl.struct("day", "user").is_first_distinct()).alias("first_of_day"),
        )
        .drop("time", "user", "compares")
    )


class _Ruler:
    """Measures lists of a log, part by part, and counts places of items."""

    def __init__(self, rule: RuleFile, labels: Labels | None) -> None:
        if not rule.names:
            raise InputError("the export has no categories, so the coverage of its lists cannot be measured")
        self._k, self._labels = rule.k, labels
        self._ids = pl.Enum([canonical_text(one) for one in rule.item_ids.tolist()])
        self._n_items = len(rule.item_ids)
        rows = Rows(torch.from_numpy(rule.indptr), torch.from_numpy(rule.indices), len(rule.names))
        self._categories = CategoryMatrix(rows, torch.from_numpy(rule.shares))
        self.exposure = np.zeros((2, self._n_items), np.int64)
        self.unknown = self.places = self.cut = 0
        self.exports = Counter[str | None]()

    def measured(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return the figures of requests."""
        base, rule = self._matrix(frame["base"]), self._matrix(frame["rule"])
        is_rule = (frame["shown"] == RULE).fill_null(False)
        if not (is_rule | (frame["shown"] == BASE).fill_null(False)).all():
            other = frame.filter(~is_rule & (pl.col("shown") != BASE).fill_null(True))["shown"][0]
            raise InputError(f"the log says that {other!r} was shown; it must be {RULE!r} or {BASE!r}")
        shown = np.where(is_rule.to_numpy()[:, None], rule, base)
        for row, lists in enumerate((base, shown)):
            self.exposure[row] += np.bincount(lists.ravel() + 1, minlength=self._n_items + 1)[1:]
        self.exports.update(dict(frame["export"].value_counts().iter_rows()))
        made = frame["fallback"].is_null() & (frame["rule"].list.len().fill_null(0) > 0)
        values = [self._coverage(lists) for lists in (base, rule)]
        values.append(np.where(is_rule.to_numpy(), values[1], values[0]))
        found = frame.select(
            pl.col("time"),
            pl.col("user").hash().alias("user") if frame["user"].null_count() < len(frame) else _no_user(),
            pl.col("price", "fallback", "milliseconds"),
            pl.col("holdout").fill_null(False),
            (pl.col("unmet").fill_null(0) > 0).alias("unmet"),
            made.alias("made"),
            is_rule.alias("is_rule"),
            *(pl.Series(name, it) for name, it in zip(("base", "rule", "shown"), values, strict=True)),
            pl.Series("swaps", (shown >= 0).sum(1) - self._hits(shown, base), dtype=pl.Int32),
        ).with_columns(pl.when(frame["user"].is_null()).then(None).otherwise(pl.col("user")).alias("user"))
        return found if self._labels is None else found.with_columns(self._judged(frame, shown, self._labels))

    def _matrix(self, lists: pl.Series) -> Items:
        """Return item numbers, (n, k); -1 in empty places and for unknown items."""
        lengths = lists.list.len().fill_null(0).to_numpy().astype(np.int64)
        # An empty list would become a row with null.
        flat = lists.filter(pl.Series(lengths > 0)).explode().cast(self._ids, strict=False)
        numbers = flat.to_physical().cast(pl.Int64).fill_null(-1).to_numpy()
        self.unknown += int((numbers < 0).sum())
        self.places += len(numbers)
        self.cut += int((lengths > self._k).sum())
        if len(lengths) and (lengths == self._k).all():
            return numbers.reshape(-1, self._k).copy()  # torch refuses arrays that are read-only
        row = np.repeat(np.arange(len(lengths)), lengths)
        place = np.arange(len(numbers)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        found = np.full((len(lengths), self._k), -1, np.int64)
        inside = place < self._k
        found[row[inside], place[inside]] = numbers[inside]
        return found

    def _coverage(self, lists: Items) -> Array:
        covered = COMPILED.growth(torch.from_numpy(lists), self._categories).covered[-1]
        found: Array = subtopic_coverage(covered, self._categories.n_present).numpy()
        return found

    def _hits(self, lists: Items, wanted: Items) -> NDArray[Any]:
        """Return how many items of each list are in the other list of the same row, (n,)."""
        known = wanted >= 0
        indptr = np.append(0, np.cumsum(known.sum(1)))
        rows = Rows(torch.from_numpy(indptr), torch.from_numpy(wanted[known].astype(np.int32)), self._n_items)
        hits: NDArray[Any] = COMPILED.found(torch.from_numpy(lists), rows).hits[-1].numpy()
        return hits.astype(np.int64)

    def _judged(self, frame: pl.DataFrame, shown: Items, labels: Labels) -> list[pl.Series]:
        """Return hit and NDCG of the shown lists; both are 0 if nothing was taken."""
        rows = labels.rows_of(frame, self._ids)
        found = COMPILED.found(torch.from_numpy(shown), rows)
        hit = (found.hits[-1] > 0).to(torch.float64).numpy()
        gained = ndcg(found.dcg[-1], rows.counts, self._k).nan_to_num(0.0).numpy()
        return [pl.Series("hit", hit), pl.Series("ndcg", gained)]


def _no_user() -> pl.Expr:
    return pl.lit(None, pl.UInt64).alias("user")
