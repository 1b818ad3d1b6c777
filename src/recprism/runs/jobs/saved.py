"""Results that were made in Python, kept in a run: every command then works on them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from recprism.budget.problem import Problem
from recprism.common.ids import id_series
from recprism.data.dataset import Dataset, Preparation
from recprism.data.interactions import Interactions
from recprism.data.split import Part
from recprism.errors import InputError
from recprism.models import Factors
from recprism.result.result import Result
from recprism.runs.config import BudgetConfig, ConstraintsConfig
from recprism.runs.jobs.diversify import keep_result, require_kept
from recprism.runs.jobs.imported import write_run
from recprism.runs.jobs.train import part_named
from recprism.runs.lock import writing
from recprism.runs.parts.questions import note_question
from recprism.runs.run import Run

JUDGED_ON: Part = "test"  # what runs report figures on
LISTED = 10  # the length of their lists


def save_result(result: Result, path: Path) -> Path:
    """Write a result with its model, split and categories into a new run directory.

    Raises:
        InputError: If the folder holds other files, or a run cannot give the result back as it is.
    """
    _asked(result)  # refuses what a run cannot keep, before anything is written
    problem, split = result.problem, result.problem.split
    known = split.live().train
    fields = {name: pl.Series(list(map(list, own)), dtype=pl.List(pl.String)) for name, own in problem.fields.items()}
    items = pl.DataFrame({"item_id": id_series(split.item_ids), **fields})
    pairs = Interactions(
        known.row_of_entry, known.indices.astype(np.int64), user_ids=split.user_ids, item_ids=split.item_ids
    )
    data = Dataset("python", pairs, problem.categories, items, Preparation())
    put_result(write_run(path, problem.base, data, split, {}), result)
    return path


def load_result(path: str | Path, name: str | None) -> Result:
    """Read a result from a run directory; None is the name of the unnamed one."""
    return Run.open(path, name).load_result()


@writing
def put_result(run: Run, result: Result, *, overwrite: bool = False) -> None:
    """Keep a result in a run. ``run.named("bold")`` keeps it under a name.

    Args:
        run: A run with the same model, split and categories.
        result: A result within a budget.
        overwrite: Replace the result that is there.

    Raises:
        InputError: If the run has a result that may not be replaced, or another model, split or categories; or if a
            run cannot give the result back as it is.
    """
    asked = _asked(result)
    run.require_undiversified(overwrite=overwrite)
    own = run.problem(constraints=asked.constraints).with_window(asked.history_window)
    mine, theirs = _contents(result.problem), _contents(own)
    same = len(mine) == len(theirs) and all(map(np.array_equal, mine, theirs))
    if not same:
        raise InputError(f"{run.path}: its model or its data are not those of the result; keep it in a run of its own")
    before, certificate = result.asked_before, result.certificate
    if certificate is not None and certificate.questions == 1:  # those of an audit are noted already
        before = note_question(run, result.problem, asked.question)
    kept = replace(result, run=run, asked_before=before)
    keep_result(run, asked, kept, kept.to_dict())


def _contents(problem: Problem) -> tuple[Any, ...]:
    """Return what the lists of a rule depend on."""
    split, categories = problem.split, problem.categories
    pairs = [split.seen_before(JUDGED_ON).keys, split.live().train.keys, categories.items.keys]
    pairs += [problem.history.keys, problem.live().history.keys]
    weights = np.ones(len(categories.items), np.float32) if categories.weights is None else categories.weights
    base = problem.base
    model = base.search_vectors if isinstance(base, Factors) else (base.items, base.scores)
    fields = [] if problem.resolved.fields is None else [str(it) for it in problem.resolved.fields.values]
    return (*model, split.user_ids, split.item_ids, *pairs, categories.names, weights, fields)


def _asked(result: Result) -> BudgetConfig:
    """Return the request that the certificate answers.

    Raises:
        InputError: If a run cannot give the result back as it is.
    """
    certificate, problem = result.certificate, result.problem
    if result.rule is None or certificate is None:
        raise InputError("only a result with a certified rule can be kept in a run; nothing was certified here")
    if problem.k != LISTED:
        raise InputError(
            f"its lists have {problem.k} places, and those of a run have {LISTED}; diversify with k={LISTED}"
        )
    if problem.part != JUDGED_ON:
        raise InputError(
            f"its figures are of the {problem.part} part, and those of a run are of the {JUDGED_ON} part; diversify a "
            f"problem on {JUDGED_ON}"
        )
    asked = BudgetConfig(
        goal=result.towards,
        budgets={check.metric: check.budget for check in certificate.points[0].checks},
        confidence=certificate.confidence,
        method="t" if certificate.method == "t" else "betting",
        certify_on=None if certificate.part is None else part_named(certificate.part),
        history_window=result.rule.history_window,
        constraints=ConstraintsConfig.of(problem.constraints),
    )
    require_kept(asked, result)
    return asked
