"""Interactions and subtopics, from raw files to splits.

Names load on first use, so that importing one of them does not pull in polars where only arrays are needed.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recprism.data.dataset import Dataset, Preparation
    from recprism.data.datasets import load_dataset, load_files
    from recprism.data.frames import Columns, interactions_from_csr, interactions_from_frame
    from recprism.data.incidence import Incidence
    from recprism.data.interactions import Interactions
    from recprism.data.split import Split, split_interactions
    from recprism.data.stream import Streamed, stream_parquet
    from recprism.data.subtopics import Subtopics

_HOMES = {
    "Columns": "frames",
    "Dataset": "dataset",
    "Incidence": "incidence",
    "Interactions": "interactions",
    "Preparation": "dataset",
    "Split": "split",
    "Streamed": "stream",
    "Subtopics": "subtopics",
    "interactions_from_csr": "frames",
    "interactions_from_frame": "frames",
    "load_dataset": "datasets",
    "load_files": "datasets",
    "split_interactions": "split",
    "stream_parquet": "stream",
}

__all__ = [
    "Columns",
    "Dataset",
    "Incidence",
    "Interactions",
    "Preparation",
    "Split",
    "Streamed",
    "Subtopics",
    "interactions_from_csr",
    "interactions_from_frame",
    "load_dataset",
    "load_files",
    "split_interactions",
    "stream_parquet",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
