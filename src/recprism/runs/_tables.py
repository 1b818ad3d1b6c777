"""Tables written as files that other tools can read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl

from recprism.data._files import atomic_path
from recprism.errors import InputError


def write_table(table: pl.DataFrame, path: Path) -> Path:
    """Write a table in the format of the file's ending: .csv, .tsv or .parquet."""
    writers: dict[str, Callable[[Path], Any]] = {
        ".csv": table.write_csv,
        ".tsv": lambda target: table.write_csv(target, separator="\t"),
        ".parquet": table.write_parquet,
    }
    if path.suffix not in writers:
        raise InputError(f"{path}: tables are written as {', '.join(writers)}; choose one of these endings")
    with atomic_path(path) as temporary:
        writers[path.suffix](temporary)
    return path
