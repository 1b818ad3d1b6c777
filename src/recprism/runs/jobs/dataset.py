"""Loads the data set that a configuration names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from recprism.common.log import phase
from recprism.data.dataset import Dataset, Preparation
from recprism.data.datasets import NAMED, load_dataset, load_files
from recprism.errors import InputError
from recprism.runs.config import DataConfig


@phase("loading the data", __name__)
def open_data(config: DataConfig) -> Dataset:
    """Load and clean the data set that a configuration names."""
    chosen: dict[str, Any] = {"duplicates": config.duplicates}
    if config.threshold is not None:
        chosen["threshold"] = None if config.threshold == "none" else config.threshold
    for name in ("min_user", "min_item"):
        if getattr(config, name) is not None:
            chosen[name] = getattr(config, name)
    if is_named(config.source):
        _refuse_file_options(config)
        return load_dataset(config.source, preset=config.preset, data_root=config.data_root, **chosen)
    return load_files(
        config.source,
        columns={str(name): theirs for name, theirs in config.columns.items()},
        categories=config.categories,
        items=config.items,
        category_column=config.category_column,
        separator=config.category_separator,
        level=config.category_level,
        preparation=Preparation(**chosen),
    )


def is_named(source: str) -> bool:
    """Whether this is the name of a data set and not a file."""
    return source.partition(":")[0] in NAMED or not (Path(source).suffix or Path(source).is_file())


def _refuse_file_options(config: DataConfig) -> None:
    given = {
        "--column": config.columns,
        "--items": config.items,
        "--categories": config.categories,
        "--category-column": config.category_column,
    }
    unused = [option for option, value in given.items() if value]
    if unused:
        raise InputError(f"{unused[0]} is for your own files, and {config.source} is a named data set; omit it")
