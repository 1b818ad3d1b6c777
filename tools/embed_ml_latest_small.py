"""Turn the publisher's ml-latest-small.zip into the compact Parquet files that ship inside the package.

    python tools/embed_ml_latest_small.py path/to/ml-latest-small.zip

Nothing is added or left out but links.csv (ids of other sites); ids and times are stored in narrow integers.
"""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

import polars as pl

TARGET = Path(__file__).parents[1] / "src" / "recprism" / "data" / "embedded"


def main(archive: str) -> None:
    with zipfile.ZipFile(archive) as packed:
        read = {name: pl.read_csv(packed.read(f"ml-latest-small/{name}.csv")) for name in ("ratings", "movies", "tags")}
        (TARGET / "README.txt").write_bytes(packed.read("ml-latest-small/README.txt"))
    narrow = {"userId": pl.UInt16, "movieId": pl.UInt32, "timestamp": pl.UInt32, "rating": pl.Float32}
    for name, frame in read.items():
        types = [pl.col(column).cast(kind) for column, kind in narrow.items() if column in frame.columns]
        renamed = frame.with_columns(types).rename({"userId": "user_id", "movieId": "item_id"}, strict=False)
        # Sorted by user and time, neighbouring values are alike and pack better; loaders do not depend on the order.
        by = [column for column in ("user_id", "timestamp") if column in renamed.columns]
        renamed = renamed.sort(by, maintain_order=True) if by else renamed
        renamed.write_parquet(TARGET / f"{name}.parquet", compression="zstd", compression_level=22, statistics=False)


if __name__ == "__main__":
    main(sys.argv[1])
