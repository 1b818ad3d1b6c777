"""Refit of a run: repeat the request of an old run on a retrained one."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recprism.budget.path import deciding_part
from recprism.budget.problem import Problem
from recprism.common.ids import find_ids
from recprism.common.progress import ProgressCallback
from recprism.common.shares import Share
from recprism.data.readers.clusters import with_own
from recprism.data.split import Part
from recprism.errors import InputError
from recprism.operate.refit import PreviousDeployment, Refit, refit
from recprism.result.result import Result
from recprism.runs.config import ConstraintsConfig
from recprism.runs.jobs.diversify import keep_result, require_feasible
from recprism.runs.lock import writing
from recprism.runs.parts.questions import note_question
from recprism.runs.run import Run

log = logging.getLogger(__name__)
_CHOSE = "Some of these labels also chose the trade-off of {}, so every step up to it was tested."


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
    """Diversify a retrained run with the request of an old run; see :func:`recprism.operate.refit.refit`.

    Without a certificate, nothing is changed.

    Args:
        run: The retrained run.
        old: The diversified run to follow.
        max_churn: Largest share of places that may change; None for no limit.
        certify_on: The part whose labels decide; by default that of ``old``.
        overwrite: Replace an existing result.
        on_step: Receives progress.

    Raises:
        InputError: If ``old`` was not diversified within a budget, or if ``max_churn`` cannot be kept.
    """
    run.require_undiversified(overwrite=overwrite)
    wanted, certified = old.within, old.certificate()
    if wanted is None or certified is None or not old.is_diversified():
        raise InputError(
            f"{old.path}: holds no vectors within a budget to follow; run "
            f"`recprism diversify {old.argument} --budget 0.01`"
        )
    constraints = _still_known(wanted.constraints, run)
    asked = wanted.model_copy(update={"certify_on": certify_on or wanted.certify_on, "constraints": constraints})
    was = old.load_result()
    now = run.problem(constraints=asked.constraints).with_window(asked.history_window)
    now = now.with_clusters(_still_together(was.problem, now.split.user_ids))
    require_feasible(now, asked)
    before = was.problem
    previous = PreviousDeployment(
        before.factors, was.model, before.seen, lambda it, k, users: before.rank(it, k, users=users)[0]
    )
    by = {asked.certify_on or deciding_part(now.split, now.part), *([] if max_churn is None else [now.part])}
    again = any(_in_common(run, part, old, certified["certificate"]["part"]) for part in by)
    found = refit(
        now,
        previous,
        asked.question,
        trade_off=certified["trade_off"],
        max_churn=max_churn,
        whole_path=again,
        on_step=on_step,
    )
    asked_now = found.kept.question
    others = note_question(run, now, asked_now, like=old.fingerprint(), stickiness=found.stickiness)
    said = [_CHOSE.format(old.argument)] * again + ([] if others is None else [others])
    new = int((find_ids(now.split.user_ids, before.split.user_ids) < 0).sum())
    if now.clusters is not None and new:
        said.append(f"New users ({new:,}) are each taken to be a cluster of their own.")
    found = replace(found, asked_before=" ".join(said) or None)
    result = replace(Result.of_rule(found.problem, found.kept), asked_before=found.asked_before)
    keep_result(run, asked, result, {**result.to_dict(), "retrained": found.to_dict(), "like": old.argument})
    if result.rule is not None:
        _carry_settings(old, run, set(now.categories.names))
    return found


def _still_together(before: Problem, users: NDArray[Any]) -> NDArray[np.int64] | None:
    """Return the clusters of users, as the old run had them; new users are clusters of their own."""
    if before.clusters is None:
        return None
    found = find_ids(users, before.split.user_ids)
    return with_own(np.where(found < 0, -1, before.clusters[found]))


def _in_common(run: Run, part: str, old: Run, old_part: str | None) -> int:
    """Count the labels that a part of one run and a part of another have in common."""
    return len(run.labels(part).join(old.labels(old_part or "test"), on=["user_id", "item_id"], how="semi"))


def _carry_settings(old: Run, run: Run, names: set[str]) -> None:
    """Keep the dials that users set for themselves, as far as the new run knows the user and the dial."""
    users = {str(it): it for it in run.factors().user_ids.tolist()}
    settings = {
        users[str(user)]: {name: it for name, it in own.items() if name in names}
        for user, own in old.steering().items()
        if str(user) in users
    }
    settings = {user: own for user, own in settings.items() if own}
    if settings:
        run.save_steering({**settings, **run.steering()}, users=len(settings), like=str(old.path))


def _still_known(asked: ConstraintsConfig, run: Run) -> ConstraintsConfig:
    """Leave out bans of items that have left the catalogue; a pinned item must be there."""
    known = {str(item) for item in run.factors().item_ids.tolist()}
    gone = [item for item in asked.banned if str(item) not in known]
    if gone:
        log.warning("%s: %s banned items are no longer in the catalogue", run.path, len(gone))
    lost = next((item for item in asked.pinned.values() if str(item) not in known), None)
    if lost is not None:
        raise InputError(f"{run.path}: item {lost}, which the old run pins, is not in the catalogue; diversify instead")
    return asked.model_copy(update={"banned": [item for item in asked.banned if item not in gone]})
