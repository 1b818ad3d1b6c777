"""Loads the data set that a configuration names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from recprism.common.log import phase
from recprism.data.dataset import Dataset, Preparation
from recprism.data.datasets import NAMED, load_dataset, load_files
from recprism.errors import InputError
from recprism.runs.config import DataConfig

OF_NAMED = {"preset": "--preset", "data_root": "--data-root"}
OF_FILES = {"columns": "--column", "items": "--items", "categories": "--categories"} | {
    f"category_{it}": f"--category-{it}" for it in ("column", "separator", "level")
}
"""Settings of named data sets, and of files of one's own -> their options."""


@phase("loading the data", __name__)
def open_data(config: DataConfig) -> Dataset:
    """Load and clean the data set that a configuration names."""
    chosen: dict[str, Any] = {"duplicates": config.duplicates}
    if config.threshold is not None:
        chosen["threshold"] = None if config.threshold == "none" else config.threshold
    for name in ("min_user", "min_item"):
        if getattr(config, name) is not None:
            chosen[name] = getattr(config, name)
    _require_used(config)
    if is_named(config.source):
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


def _require_used(config: DataConfig) -> None:
    """Refuse a setting that has no effect on these data."""
    given = config.model_dump(exclude_defaults=True)
    named, files = "for a named data set", "for your own files"
    here, works, idle = (named, files, OF_FILES) if is_named(config.source) else (files, named, OF_NAMED)
    if given.keys() >= {"preset", "min_user", "min_item"} and here == named:
        here, works = "with both --min-user and --min-item", "without --min-user or --min-item"
        idle = {"preset": "--preset"}
    if found := [option for name, option in idle.items() if name in given]:
        raise InputError(f"{found[0]} has no effect {here}; it works {works}")
