"""From a data configuration to the data set it names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from recprism.data.dataset import Dataset, Preparation
from recprism.data.datasets import NAMED, load_dataset, load_files
from recprism.data.frames import Columns
from recprism.study.config import DataConfig


def open_data(config: DataConfig) -> Dataset:
    """The data set that a configuration names, cleaned."""
    chosen: dict[str, Any] = {"duplicates": config.duplicates}
    if config.threshold is not None:
        chosen["threshold"] = None if config.threshold == "none" else config.threshold
    for name in ("min_user", "min_item"):
        if getattr(config, name) is not None:
            chosen[name] = getattr(config, name)
    if config.source.partition(":")[0] in NAMED or not Path(config.source).suffix:
        return load_dataset(config.source, preset=config.preset, data_root=config.data_root, **chosen)
    return load_files(
        config.source,
        columns=Columns(config.user_column, config.item_column, config.rating_column, config.timestamp_column),
        subtopics=config.subtopics,
        items=config.items,
        subtopic_column=config.subtopic_column,
        separator=config.subtopic_separator,
        preparation=Preparation(**chosen),
    )
