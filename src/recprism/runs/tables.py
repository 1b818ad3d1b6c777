"""Tables written as files that other tools can read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl

from recprism.common.files import atomic_path
from recprism.errors import InputError

WRITERS: dict[str, Callable[[pl.DataFrame, Path], Any]] = {
    ".csv": lambda table, target: table.write_csv(target),
    ".tsv": lambda table, target: table.write_csv(target, separator="\t"),
    ".parquet": lambda table, target: table.write_parquet(target),
}


def require_table_name(path: Path | None) -> None:
    """Refuse a file whose ending is of no table; a command asks before it works. None is no file."""
    if path is not None and path.suffix not in WRITERS:
        raise InputError(f"{path}: tables are written as {', '.join(WRITERS)}; choose one of these endings")


def write_table(table: pl.DataFrame, path: Path) -> Path:
    """Write a table in the format of the file's ending: .csv, .tsv or .parquet."""
    require_table_name(path)
    with atomic_path(path) as temporary:
        WRITERS[path.suffix](table, temporary)
    return path
