"""The log of served requests: rows are buffered, and a thread writes them as Parquet files.

A request never waits for the disk. If the disk is too slow or full, rows wait in the buffer; if that is full, they are
dropped and counted. A process that is killed loses the rows that are in the buffer.
"""

from __future__ import annotations

import logging
import secrets
import threading
from collections import deque
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl

from recprism.common.files import atomic_path
from recprism.errors import RecprismError
from recprism.operate.served_log import SERVED_LOG_COLUMNS
from recprism.service._metrics import Metrics

ROWS, SECONDS, MOST = 2_000, 5.0, 200_000
"""A file has at most so many rows, rows wait for at most so many seconds, and at most so many rows wait."""
MOST_IDS = 20_000_000
"""So many ids of lists may wait, because rows of long lists are large: about 1.5 GB with short ids."""
LISTS = [at for at, name in enumerate(SERVED_LOG_COLUMNS) if name in ("rule", "base")]
Row = tuple[Any, ...]
"""Values in the order of ``served_log.SERVED_LOG_COLUMNS``."""
log = logging.getLogger(__name__)


class RequestLog:
    """Writes rows into a folder.

    Args:
        folder: Is made if it is missing.
        metrics: Counts the rows.
        rows: Rows of a file.
        seconds: How long rows wait.
        most: Rows that may wait; more are dropped.
        most_ids: Ids that may wait in the lists of these rows; rows with more are dropped.
    """

    def __init__(
        self,
        folder: Path,
        metrics: Metrics,
        *,
        rows: int = ROWS,
        seconds: float = SECONDS,
        most: int = MOST,
        most_ids: int = MOST_IDS,
    ) -> None:
        self.folder, self.metrics = folder, metrics
        self.rows, self.seconds, self.most, self.most_ids = rows, seconds, most, most_ids
        self._waiting: deque[Row] = deque()
        self._ids, self._counting = 0, threading.Lock()  # of rows that are not on the disk
        self._wake, self._ended = threading.Event(), threading.Event()
        self._failed = False
        folder.mkdir(parents=True, exist_ok=True)
        self._thread = threading.Thread(target=self._write_on, name="recprism-log", daemon=True)
        self._thread.start()

    def add(self, row: Row) -> None:
        """Note a request; returns at once."""
        ids = _ids_of(row)
        with self._counting:
            if len(self._waiting) >= self.most or self._ids + ids > self.most_ids:
                self.metrics.dropped.inc()
                return
            self._ids += ids
            self._waiting.append(row)
        if len(self._waiting) >= self.rows:
            self._wake.set()

    def close(self) -> None:
        """Write what waits, and end."""
        self._ended.set()
        self._wake.set()
        self._thread.join()
        if self._waiting:
            self.metrics.dropped.inc(len(self._waiting))
            log.error("%d rows of the log are lost: %s cannot be written", len(self._waiting), self.folder)

    def _write_on(self) -> None:
        while not self._ended.is_set():
            self._wake.wait(self.seconds)
            self._wake.clear()
            self._write_all()
        self._write_all()

    def _write_all(self) -> None:
        left = len(self._waiting)  # rows that come meanwhile wait for the next file
        while left:
            rows = [self._waiting.popleft() for _ in range(min(self.rows, left))]
            left -= len(rows)
            try:
                self._write(rows)
            except (RecprismError, OSError) as problem:
                self._waiting.extendleft(reversed(rows))
                if not self._failed:
                    log.error("the log cannot be written; rows wait: %s", problem)
                self._failed = True
                return
            self._failed = False
            with self._counting:
                self._ids -= sum(map(_ids_of, rows))
            self.metrics.logged.inc(len(rows))

    def _write(self, rows: list[Row]) -> None:
        columns = zip(SERVED_LOG_COLUMNS, zip(*rows, strict=True), strict=True)
        frame = pl.DataFrame({name: list(values) for name, values in columns}, schema=SERVED_LOG_COLUMNS)
        name = f"served-{datetime.now(UTC):%Y%m%dT%H%M%S%f}Z-{secrets.token_hex(4)}.parquet"
        with atomic_path(self.folder / name) as temporary:
            frame.write_parquet(temporary)


def _ids_of(row: Row) -> int:
    return sum(len(row[at]) for at in LISTS)
