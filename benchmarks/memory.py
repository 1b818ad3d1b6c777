"""Ten million ratings read, filtered and split: the peak memory of a process that does nothing else.

    python benchmarks/memory.py [--json]

The ratings are made in the shape of MovieLens-10M: 69,878 users with at least 20 each, 10,677 items of which few are
popular, half stars, and times. They are read from a CSV file, from Parquet, from CSV with ids of text, and from the
publisher's own form (ratings.dat, fields apart by ::), each in a fresh process; the peak is what the system counted
for it (VmHWM), interpreter and libraries included. Ratings from 4 count (once: every one), users and items need 5, the
split is 8:1:1 per user. Needs about 1.2 GB of disk in the folder for temporary files.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from harness import Claim, parser, report
from recprism.data import Preparation, load_dataset, load_files

N_RATINGS, N_USERS, N_ITEMS, FEWEST = 10_000_054, 69_878, 10_677, 20
BAR_GIB = 3.0
WAYS = {
    "CSV": "ratings.csv",
    "CSV, ids of text": "text.csv",
    "Parquet": "ratings.parquet",
    "Parquet, every rating counts": "all.parquet",
    "ratings.dat": "ml-10m",
}


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--rows", type=int, default=N_RATINGS, help="how many ratings are made")
    options.add_argument("--measure", help="read this file and print what it took (what the fresh process does)")
    chosen = options.parse_args()
    if chosen.measure:
        print(json.dumps(measured(Path(chosen.measure))))
        return
    claims, details = [], {}
    with tempfile.TemporaryDirectory() as folder:
        write_files(Path(folder), chosen.rows)
        for way, name in WAYS.items():
            details[way] = facts = in_a_fresh_process(Path(folder) / name)
            claims.append(Claim(f"{way}, {chosen.rows:,} rows: peak GiB", round(facts["gib"], 2), BAR_GIB))
            claims.append(Claim(f"{way}: processor seconds to load, filter and split", round(facts["cpu"], 1), None))
    report(claims, as_json=chosen.json, packages=("polars",), details=details)


def in_a_fresh_process(path: Path) -> dict[str, Any]:
    command = [sys.executable, __file__, "--measure", str(path)]
    return dict(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))


def measured(path: Path) -> dict[str, Any]:
    """Load, filter, split; the peak after each, and what is left."""
    start, busy = time.perf_counter(), time.process_time()
    if path.is_dir():
        data = load_dataset(path.name, data_root=path.parent)
    else:
        threshold = None if path.stem == "all" else 4.0
        data = load_files(path, preparation=Preparation(threshold=threshold, min_user=5, min_item=5))
    loaded = peak_gib()
    split = data.split()
    return {
        "seconds": time.perf_counter() - start,
        "cpu": time.process_time() - busy,
        "gib_loaded": loaded,
        "gib": peak_gib(),
        "kept": [split.n_users, split.n_items, len(data.interactions)],
    }


def peak_gib() -> float:
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) / 2**20


def write_files(folder: Path, rows: int) -> None:
    ratings = made_ratings(rows)
    ratings.write_csv(folder / "ratings.csv")
    ratings.write_parquet(folder / "ratings.parquet")
    (folder / "all.parquet").symlink_to(folder / "ratings.parquet")
    text = [pl.format("user-{}", "user_id").alias("user_id"), pl.format("item-{}", "item_id").alias("item_id")]
    ratings.with_columns(text).write_csv(folder / "text.csv")
    own = folder / "ml-10m"
    own.mkdir()
    fields = pl.format("{}::{}::{}::{}", "user_id", "item_id", "rating", "timestamp")
    ratings.select(fields).write_csv(own / "ratings.dat", include_header=False, quote_style="never")
    titles = "".join(f"{number}::Film {number} (1999)::Drama|Comedy\n" for number in range(N_ITEMS))
    (own / "movies.dat").write_text(titles, encoding="utf-8")


def made_ratings(rows: int) -> pl.DataFrame:
    """Distinct pairs in no order: a user's number of ratings falls off as 1 / n, an item's as a power of its rank."""
    rng = np.random.default_rng(0)
    sizes = rng.pareto(1.2, N_USERS)
    counts = FEWEST + np.floor(sizes / sizes.sum() * max(0, rows - FEWEST * N_USERS)).astype(np.int64)
    counts = np.minimum(counts, N_ITEMS // 2)
    keys = np.empty(0, np.int64)
    while len(keys) < rows:  # pairs that are drawn twice are drawn anew
        user = np.repeat(np.arange(N_USERS), counts) if not len(keys) else rng.integers(N_USERS, size=rows - len(keys))
        item = (N_ITEMS * rng.random(len(user)) ** 3).astype(np.int64)
        keys = np.sort(np.concatenate([keys, user * N_ITEMS + item]))
        keys = keys[np.diff(keys, prepend=-1) != 0]
    keys = rng.permutation(keys)[:rows]
    return pl.DataFrame(
        {
            "user_id": keys // N_ITEMS + 1,
            "item_id": keys % N_ITEMS,
            "rating": rng.choice([0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5], rows, p=HALF_STARS),
            "timestamp": rng.integers(789_652_009, 1_231_131_736, rows),
        }
    )


HALF_STARS = [0.01, 0.04, 0.01, 0.08, 0.04, 0.24, 0.09, 0.28, 0.06, 0.15]

if __name__ == "__main__":
    main()
