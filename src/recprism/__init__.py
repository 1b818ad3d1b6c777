"""recprism: what diversity would cost your recommender, who would pay, and which factors drive it.

The way the data goes, and the folders along it::

    interactions + subtopics -> split -> factors (trained or imported) -> lists -> metrics
           data/                data/        models/                     ranking/  metrics/

``study`` ties them together in a run directory; ``cli`` is the command line.

    >>> import recprism
    >>> data = recprism.load_dataset("ml-latest-small")
    >>> split = data.split(seed=0)
    >>> split.n_users, split.n_items
    (601, 1955)

Names load on first use: ``import recprism`` itself needs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recprism.data import Dataset, Split, Subtopics, load_dataset, load_files
    from recprism.metrics import Context, compare, evaluate
    from recprism.models import BPRMF, Factors, LightGCN
    from recprism.ranking import topk

_HOMES = {
    "BPRMF": "models",
    "Context": "metrics",
    "Dataset": "data",
    "Factors": "models",
    "LightGCN": "models",
    "Split": "data",
    "Subtopics": "data",
    "compare": "metrics",
    "evaluate": "metrics",
    "load_dataset": "data",
    "load_files": "data",
    "topk": "ranking",
}

__all__ = [
    "BPRMF",
    "Context",
    "Dataset",
    "Factors",
    "LightGCN",
    "Split",
    "Subtopics",
    "compare",
    "evaluate",
    "load_dataset",
    "load_files",
    "topk",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'recprism' has no attribute {name!r}")
    return getattr(import_module(f"recprism.{_HOMES[name]}"), name)
