"""Studies: a run in one directory, what diversity would cost it, how to buy some, and what was bought.

Names load on first use; ``import recprism.study`` itself needs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recprism.study.config import BudgetConfig
    from recprism.study.cost import cost_of_diversity, sentences
    from recprism.study.diversify import diversify_within
    from recprism.study.imported import run_from_factors
    from recprism.study.pipeline import situation_of
    from recprism.study.run import Run

_HOMES = {
    "BudgetConfig": "config",
    "Run": "run",
    "cost_of_diversity": "cost",
    "diversify_within": "diversify",
    "run_from_factors": "imported",
    "sentences": "cost",
    "situation_of": "pipeline",
}

__all__ = [
    "BudgetConfig",
    "Run",
    "cost_of_diversity",
    "diversify_within",
    "run_from_factors",
    "sentences",
    "situation_of",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
