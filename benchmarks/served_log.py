"""A log of a million served requests, read by the monitor: seconds and memory, in a process of its own.

3,000 items with two or three of 20 categories, lists of 10, ids of text, 200,000 users over ten days, in Parquet files
of 2,000 rows, as the service writes them. The lists are drawn at random: the monitor reads them, and does not ask who
made them. One request in a hundred falls back, one in twenty is in the holdout, and one in ten has a label.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl

from harness import Claim, parser, report
from recprism.forms.rule_file import RuleFile
from recprism.operate.served_log import SERVED_LOG_COLUMNS

N_ITEMS, N_CATEGORIES, K, DAYS, ROWS_PER_FILE = 3_000, 20, 10, 10, 2_000
WATCH = """
import json, resource, sys, time
began = time.perf_counter()
from recprism.operate.served.monitored import monitor_served
imported = time.perf_counter() - began
found = monitor_served(sys.argv[1], sys.argv[2], taken=sys.argv[3] or None)
seconds = time.perf_counter() - began
memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps([imported, seconds, memory, found.verdict()]))
"""


def rule_of(generator: np.random.Generator) -> RuleFile:
    """A rule over random items; the monitor needs ids, categories and k of it."""
    has = generator.random((N_ITEMS, N_CATEGORIES)) < 0.12
    counts = has.sum(1)
    return RuleFile(
        goals={"subtopic_coverage": 1.0},
        units={"subtopic_coverage": 1 / N_CATEGORIES},
        trade_off=0.2,
        history_weight=0.0,
        k=K,
        candidates=200,
        constraints={},
        item_ids=np.array([f"item-{n}" for n in range(N_ITEMS)]),
        names=tuple(f"category {n}" for n in range(N_CATEGORIES)),
        indptr=np.append(0, np.cumsum(counts)).astype(np.int64),
        indices=np.nonzero(has)[1].astype(np.int32),
        shares=np.repeat(1 / np.maximum(counts, 1), counts),
        unit=np.zeros((1, 1)),
        known=np.zeros(1, np.bool_),
    )


def write_log(folder: Path, rule: RuleFile, rows: int, generator: np.random.Generator) -> None:
    """Write the files of a log; base lists come from the first third of the items, which have fewer categories."""
    ids = pl.Series(rule.item_ids.tolist())
    few = np.argsort(np.diff(rule.indptr), kind="stable")[: N_ITEMS // 3]
    for start in range(0, rows, ROWS_PER_FILE):
        n = min(ROWS_PER_FILE, rows - start)
        base, rule_made = few[distinct(generator, n, len(few))], distinct(generator, n, N_ITEMS)
        falls_back = generator.random(n) < 0.01
        lists = {
            name: pl.DataFrame({"row": np.repeat(np.arange(n), K), "id": ids.gather(items.ravel())})
            .group_by("row", maintain_order=True)
            .agg("id")["id"]
            for name, items in (("rule", np.where(falls_back[:, None], base, rule_made)), ("base", base))
        }
        first = datetime(2026, 1, 1, tzinfo=UTC)
        times = (start + np.arange(n)) / rows * DAYS
        frame = pl.DataFrame(
            {
                "time": [first + timedelta(days=float(it)) for it in times],
                "request": [f"request-{start + at}" for at in range(n)],
                "user": [f"{at:016x}" for at in generator.integers(0, max(1, rows // 5), n) * 2_654_435_761],
                "segment": pl.Series([None] * n, dtype=pl.String),
                "export": pl.Series([None] * n, dtype=pl.String),
                "price": np.full(n, 0.2),
                "holdout": generator.random(n) < 0.05,
                "shown": np.where(falls_back, "base", "rule"),
                **lists,
                "fallback": pl.Series(np.where(falls_back, "time limit", "")).replace("", None),
                "unmet": np.zeros(n),
                "milliseconds": generator.gamma(4, 0.5, n),
            }
        ).cast(dict(SERVED_LOG_COLUMNS))
        frame.select(*SERVED_LOG_COLUMNS).write_parquet(folder / f"{start:09}.parquet")


def distinct(generator: np.random.Generator, n: int, among: int) -> np.ndarray:
    """Return (n, K) numbers below ``among``, distinct within each row: one of each of K equal parts."""
    return generator.integers(0, among // K, (n, K)) + np.arange(K) * (among // K)


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--rows", type=int, default=1_000_000)
    options.add_argument("--keep", type=Path, help="folder for the log; one that exists is used again")
    asked = options.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        root = asked.keep or Path(temporary) / "log"
        generator = np.random.default_rng(0)
        if not root.exists():
            (root / "served").mkdir(parents=True)
            rule = rule_of(generator)
            rule.write(root / "rule")
            write_log(root / "served", rule, asked.rows, generator)
            taken = np.arange(0, asked.rows, 10)
            items = generator.integers(0, N_ITEMS, len(taken))
            pl.DataFrame(
                {"request": [f"request-{it}" for it in taken], "item": [f"item-{it}" for it in items]}
            ).write_parquet(root / "taken.parquet")
        claims = []
        for name, labels in (("without labels", ""), ("with labels", str(root / "taken.parquet"))):
            command = [sys.executable, "-c", WATCH, str(root / "rule"), str(root / "served"), labels]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            imported, seconds, memory, verdict = json.loads(done.stdout)
            claims += [
                Claim(f"{asked.rows:,} requests {name}, s, from the start of the import", seconds, 10.0),
                Claim("  of that, s of imports", imported, None),
                Claim("  peak memory, MiB", memory, 2048.0),
                Claim("  verdict", verdict, None),
            ]
    report(claims, as_json=asked.json, packages=("polars",))


if __name__ == "__main__":
    main()
