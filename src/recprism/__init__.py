"""recprism: what diversity would cost your recommender, who would pay, and which factors drive it.

The way the data goes, and the folders along it::

    interactions + subtopics -> split -> factors (trained or imported) -> lists -> metrics
           data/                data/        models/                     ranking/  metrics/

    -> other lists (rerank/) or a small change of the factors (counterfactual/) -> what it cost, who paid (study/)

``cli`` is the command line; ``study`` keeps a run in one directory.

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
    from recprism.counterfactual import CMB
    from recprism.data import load_dataset, load_files
    from recprism.metrics import Context, compare, evaluate
    from recprism.models import BPRMF, Factors, LightGCN
    from recprism.study.estimator import Diversifier
    from recprism.study.methods import Situation
    from recprism.study.own_vectors import import_vectors
    from recprism.study.path import within_budget

_HOMES = {
    "BPRMF": "models",
    "CMB": "counterfactual",
    "Context": "metrics",
    "Diversifier": "study.estimator",
    "Factors": "models",
    "LightGCN": "models",
    "Situation": "study.methods",
    "compare": "metrics",
    "evaluate": "metrics",
    "import_vectors": "study.own_vectors",
    "load_dataset": "data",
    "load_files": "data",
    "within_budget": "study.path",
}

__all__ = [
    "BPRMF",
    "CMB",
    "Context",
    "Diversifier",
    "Factors",
    "LightGCN",
    "Situation",
    "compare",
    "evaluate",
    "import_vectors",
    "load_dataset",
    "load_files",
    "within_budget",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'recprism' has no attribute {name!r}")
    return getattr(import_module(f"recprism.{_HOMES[name]}"), name)
