"""Explains the factors of changed vectors, for the paper's players."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from recprism.cmb import CMB
from recprism.cmb.factors.build import explain
from recprism.cmb.factors.change import Change
from recprism.cmb.factors.checks import HELD_OUT, Question, run_checks
from recprism.cmb.factors.evaluator import METRICS, Evaluator
from recprism.cmb.factors.explanation import Explanation
from recprism.cmb.factors.naming import Labels
from recprism.cmb.jobs._control_cache import cache_key, kept_checks, to_keep
from recprism.common.log import phase
from recprism.common.progress import ProgressCallback
from recprism.data.categories import Categories
from recprism.data.split import Part, Split
from recprism.errors import InputError
from recprism.metrics.registry import with_gini
from recprism.result.catalogue import titles_of
from recprism.runs.run import Run


@dataclass(frozen=True, eq=False)
class ExplainedFactors:
    """The explanation of changed vectors.

    Attributes:
        explanation: What the change did.
        evaluator: Looks at single users.
        kept: What factors_explanation.json holds in addition, so that the controls serve once more.
    """

    explanation: Explanation
    evaluator: Evaluator
    kept: Mapping[str, Any]


@phase("explaining", __name__)
def explain_factors(
    run: Run,
    objective: str | None = None,
    *,
    axes: str | None = None,
    top: int = 5,
    draws: int = 199,
    part: Part = "test",
    seed: int = 0,
    held_out: float = HELD_OUT,
    on_step: ProgressCallback | None = None,
) -> ExplainedFactors:
    """Explain what a change of vectors did.

    Args:
        run: A run with a result that changed vectors.
        objective: The metric whose gain is explained; the run's own goal by default.
        axes: The axes that factors are named on.
        top: How many factors are spelled out.
        draws: Of each control. 0 runs no controls. Controls that factors_explanation.json holds for just this question
            are not run again.
        part: The part that judges.
        seed: Of the draws.
        held_out: Share of the users who judge the controls, if the search can be repeated without them.
        on_step: Receives the progress of the controls.

    Raises:
        InputError: If a rule makes the lists, so that no vector changed.
    """
    found, split, categories = changed_vectors(run), run.split(), run.categories()
    asked = Question.about(found, objective, axes=axes, part=part, draws=draws, seed=seed, held_out=held_out)
    key = cache_key(run, found, asked)
    evaluator = Evaluator.on(split, asked.part, found.base_, categories, with_gini((asked.objective, *METRICS)))
    checks = kept_checks(run, key) if asked.draws else None
    if asked.draws and checks is None:
        checks = run_checks(found, split, categories, asked, on_step)
    explanation = explain(
        Change.of(found.base_, found.delta_),
        evaluator,
        asked.objective,
        axes=asked.axes,
        labels=labels_of(run.items(), split, categories),
        titles=titles_of(run.items()),
        top=top,
        draws=0,
        controls=None if checks is None else checks.controls,
        agreement=None if checks is None else checks.agreement,
        seed=asked.seed,
    )
    if checks is not None:
        explanation = replace(explanation, notes=checks.notes)
    return ExplainedFactors(explanation, evaluator, to_keep(checks, key))


def changed_vectors(run: Run) -> CMB:
    """Return the players' search of a run.

    Raises:
        InputError: If the result is a rule, which changes no vector.
    """
    found = run.load_result().vectors
    if found is None:
        raise InputError(
            f"{run.path}: a rule makes its lists and no vector changed, so there are no factors to erase; "
            f"`recprism explain {run.argument}` explains the lists"
        )
    return CMB.of_changed(found)


def labels_of(items: pl.DataFrame, split: Split, categories: Categories) -> Labels:
    """Return what factors can be named by: categories, popularity, and the years of items if they are known."""
    year = None
    if "year" in items.columns and items["year"].dtype.is_numeric():
        year = items["year"].cast(pl.Float64).fill_null(float("nan")).to_numpy()
    return Labels.of(categories, popularity=split.train.col_counts, year=year)
