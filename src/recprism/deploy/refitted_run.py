"""After a retraining: ask of the new run what was asked of the old one."""

from __future__ import annotations

from recprism.data.progress import ProgressCallback
from recprism.data.shares import Share
from recprism.data.split import Part
from recprism.deploy.refit import Before, Refit, refit
from recprism.errors import InputError
from recprism.runs._lock import writing
from recprism.runs.jobs.diversify import constraints_of, keep_result
from recprism.runs.jobs.train import scenario_of
from recprism.runs.run import Run


@writing
def refit_run(
    run: Run,
    old: Run,
    *,
    max_churn: Share | None = None,
    certify_on: Part | None = None,
    overwrite: bool = False,
    on_step: ProgressCallback | None = None,
) -> Refit:
    """What was asked of ``old`` asked again of a retrained ``run``, whose vectors are turned onto the old axes.

    certify_on: as ``old`` was asked unless named. See :func:`recprism.deploy.refit.refit`. Nothing is turned or
    changed where nothing is certified.
    """
    run.require_undiversified(overwrite=overwrite)
    wanted, certified = old.config.diversify, old.certificate()
    if wanted is None or wanted.within is None or certified is None or not old.is_diversified():
        raise InputError(
            f"{old.path}: holds no vectors within a budget to follow; run "
            f"`recprism diversify {old.argument} --budget 0.01`"
        )
    run.require_only_result()
    asked = wanted.within.model_copy(update={"certify_on": certify_on or wanted.within.certify_on})
    before = Before(old.factors(), old.served_factors(), old.split().seen_before("test"))
    found = refit(
        scenario_of(run),
        before,
        asked.goal,
        asked.budgets,
        trade_off=certified["trade_off"],
        side=asked.side,
        constraints=constraints_of(asked.constraints, run.factors()),
        confidence=asked.confidence,
        max_churn=max_churn,
        certify_on=asked.certify_on,
        on_step=on_step,
    )
    keep_result(run, asked, found.kept, {**found.to_dict(), "like": old.argument}, overwrite)
    return found
