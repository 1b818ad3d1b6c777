"""The budget within which a run was diversified."""

from __future__ import annotations

from recprism.runs.config import BudgetConfig
from recprism.runs.run import Run


def budget_of(run: Run) -> BudgetConfig | None:
    """Return the request for a budget; None if the run was not diversified within one."""
    wanted = run.config.diversify
    return None if wanted is None else wanted.within
