"""Results that were made in Python, kept in a run: every command then works on them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

from recprism.data._bound import contents_of
from recprism.data._ids import id_series
from recprism.data.dataset import Dataset, Preparation
from recprism.data.interactions import Interactions
from recprism.errors import InputError
from recprism.forms.rule_export import constraints_by_id
from recprism.models import Factors
from recprism.models.adapters.scores import ScoredCandidates
from recprism.runs._lock import writing
from recprism.runs.config import BudgetConfig, ConstraintsConfig
from recprism.runs.jobs.diversify import keep_result
from recprism.runs.jobs.imported import write_run
from recprism.runs.jobs.train import part_named
from recprism.runs.result import Result
from recprism.runs.run import Run


def save_result(result: Result, path: Path) -> Path:
    """Write a result with its model, split and categories into a new run directory.

    Raises:
        InputError: If the folder holds other files, or the result has no certificate.
    """
    case = result.scenario
    _require_certified(result)
    split = case.split
    known = split.live().train
    items = pl.DataFrame({"item_id": id_series(split.item_ids)})
    pairs = Interactions(
        known.row_of_entry, known.indices.astype(np.int64), user_ids=split.user_ids, item_ids=split.item_ids
    )
    data = Dataset("python", pairs, case.subtopics, items, Preparation())
    put_result(write_run(path, case.base, data, split, {}), result)
    return path


@writing
def put_result(run: Run, result: Result, *, overwrite: bool = False) -> None:
    """Keep a result in a run. ``run.named("bold")`` keeps it under a name.

    Args:
        run: A run with the same model, split and categories.
        result: A result within a budget.
        overwrite: Replace the result that is there.

    Raises:
        InputError: If the run has a result that may not be replaced, or another model or split.

    Stability: provisional.
    """
    _require_certified(result)
    run.require_undiversified(overwrite=overwrite)
    case, here = result.scenario, run.scenario()
    same = (
        _arrays(case.base) == _arrays(here.base)
        and np.array_equal(case.split.user_ids, here.split.user_ids)
        and np.array_equal(case.split.item_ids, here.split.item_ids)
        and np.array_equal(case.seen.keys, here.seen.keys)
    )
    if not same:
        raise InputError(f"{run.path}: its model or its data are not those of the result; keep it in a run of its own")
    kept = replace(result, run=run)
    keep_result(run, _asked(result), kept, kept.to_dict())


def _arrays(base: Factors | ScoredCandidates) -> str:
    """Return a hash of the numbers of a model."""
    if isinstance(base, Factors):
        return contents_of({"user": base.user, "item": base.item})
    return contents_of({"items": base.items, "scores": base.scores})


def _require_certified(result: Result) -> None:
    if result.rule is None or result.certificate is None:
        raise InputError("only a result with a certified rule can be kept in a run; nothing was certified here")


def _asked(result: Result) -> BudgetConfig:
    """Return the request that the certificate answers."""
    certificate = result.certificate
    assert certificate is not None
    constraints = constraints_by_id(result.scenario)
    others = {
        name: result.scenario.constraints[name] for name in ("tail_floor",) if name in result.scenario.constraints
    }
    if "per_user_diversity" in result.scenario.constraints:
        others["per_user_diversity"] = True
    return BudgetConfig(
        goal=result.goal,
        budgets={check.metric: check.budget for check in certificate.points[0].checks},
        confidence=certificate.confidence,
        method="t" if certificate.method == "t" else "betting",
        certify_on=None if certificate.part is None else part_named(certificate.part),
        constraints=ConstraintsConfig.model_validate({**constraints, **others, "allow_violations": True}),
    )
