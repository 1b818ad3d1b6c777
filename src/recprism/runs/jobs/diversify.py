"""Diversifies a run: finds the rule within a budget, and writes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from numpy.typing import ArrayLike

from recprism.budget.path import lists_at
from recprism.budget.problem import Problem
from recprism.budget.within import ask
from recprism.common.log import phase
from recprism.common.progress import ProgressCallback
from recprism.errors import InputError
from recprism.result.result import Result
from recprism.runs.card import BEFORE, write_card
from recprism.runs.config import BudgetConfig, DiversifyConfig
from recprism.runs.lock import writing
from recprism.runs.parts.questions import clusters_hash
from recprism.runs.parts.stage import SEARCH
from recprism.runs.run import Run


@writing
def diversify_within(
    run: Run,
    asked: BudgetConfig,
    *,
    clusters: ArrayLike | None = None,
    overwrite: bool = False,
    on_step: ProgressCallback | None = None,
) -> Result:
    """Find the rule with the most diverse lists within the budgets, certify it, and write it into the run.

    What an audit of the run answered to the same question is taken over, and the labels are not asked again.
    The run does not change before it is found. If nothing is certified, or if a constraint is violated without
    ``asked.allow_violations``, it does not change at all.

    Args:
        run: A trained run.
        asked: Goal, budgets and constraints.
        clusters: ``(n_users,)`` a number or name for each user; users of one cluster are not independent. By default,
            users are independent.
        overwrite: Replace the result that is there.
        on_step: Receives the progress.

    Raises:
        InputError: If the run has a result that may not be replaced, or no labels that certify.
        ConstraintError: If the lists cannot keep a constraint.
    """
    run.require_undiversified(overwrite=overwrite)
    problem = run.problem(constraints=asked.constraints).with_window(asked.history_window)
    problem = problem.with_clusters(clusters)
    if asked.clusters not in (None, clusters_hash(problem.clusters)):
        raise InputError("the request was made with clusters of users; pass the same ones as clusters=")
    require_feasible(problem, asked)
    found, before = ask(problem, asked.question, on_step)
    kept = replace(Result.of_rule(problem, found), asked_before=before, run=run)
    require_kept(asked, kept)
    if kept.is_changed:  # the path first: a run that is read between the two writes has no result without its path
        problem.keep_path(found.question.goal)
    keep_result(run, asked, kept, kept.to_dict())
    return kept


@phase("writing the result", __name__)
def keep_result(run: Run, asked: BudgetConfig, kept: Result, certificate: Mapping[str, Any]) -> None:
    """Replace the run's result by another one and its certificate; without a change, the run stays as it is.

    Args:
        run: The run.
        asked: Goal, budgets and constraints.
        kept: What was found.
        certificate: What certificate.json holds.

    Raises:
        ConstraintError: If the lists violate a constraint, and ``asked`` does not allow it.
    """
    if not kept.is_changed:
        return
    require_kept(asked, kept)
    staged = run.staged()
    with staged.discarded_on_failure():
        clusters = clusters_hash(kept.problem.clusters)
        staged.set_diversify(DiversifyConfig(within=asked.model_copy(update={"clusters": clusters})))
        staged.save_result(kept)
        staged.save_certificate(certificate)
        staged.event(
            "diversified within a budget",
            goal=kept.towards,
            trade_off=kept.trade_off,
            certificate=None if kept.certificate is None else kept.certificate.figures(),
            **{name: certificate[name] for name in ("like", "retrained") if name in certificate},
        )
        write_card(staged, about=BEFORE)
        staged.commit()
    unfinished = run.unfinished(SEARCH)
    if unfinished is not None:  # it would replace this result
        unfinished.discard()


def require_feasible(problem: Problem, asked: BudgetConfig) -> None:
    """Refuse constraints that the first lists of a path violate, unless that is allowed: no label is asked for them."""
    if problem.constraints and not asked.constraints.allow_violations:
        found = problem.violations(lists_at(problem, asked.question.goal, asked.question.steps[0]))
        if found is not None:
            found.require_none()


def require_kept(asked: BudgetConfig, found: Result) -> None:
    """Refuse lists that violate a constraint, unless that is allowed."""
    if found.violations is not None and not asked.constraints.allow_violations:
        found.violations.require_none()
