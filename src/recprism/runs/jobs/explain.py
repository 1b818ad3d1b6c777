"""Explaining a run: its perturbation, under its own data, with everything the run directory knows about items."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from recprism.cmb import CMB
from recprism.cmb._settings import BAKED
from recprism.data.progress import ProgressCallback
from recprism.data.split import Part, Split
from recprism.data.subtopics import Subtopics
from recprism.errors import InputError
from recprism.explain import _ranking as ranking
from recprism.explain.build import explain, on_axes, usual_axes
from recprism.explain.change import Change
from recprism.explain.controls import Controls, run_controls
from recprism.explain.evaluator import METRICS, Evaluator, metric_name
from recprism.explain.explanation import Explanation
from recprism.explain.naming import Labels
from recprism.runs._catalogue import titles_of
from recprism.runs._control_cache import Checks, kept_checks, question
from recprism.runs.jobs.erasure import divided_users, learned_promotion, own_objective, refitted
from recprism.runs.run import Run

GROUPS = 4  # of users, on each of which factors are ranked
FEWEST_USERS = 20  # to be divided into groups
HELD_OUT = 0.2  # of the users, to judge controls on
COST = "ndcg@10"
ENOUGH = 40  # draws: two controls share the level of 5 %, and 2 / (39 + 1) does not pass it


@dataclass(frozen=True, eq=False)
class Explained:
    """An explanation and the judge it was made with, which single users are looked at through.

    kept: what explanation.json holds beyond the explanation itself, so that its controls serve once more
    """

    explanation: Explanation
    judge: Evaluator
    kept: Mapping[str, Any]


def explain_run(
    run: Run,
    objective: str | None = None,
    *,
    axes: str | None = None,
    top: int = 5,
    draws: int = 199,
    part: Part = "test",
    seed: int = 0,
    on_step: ProgressCallback | None = None,
) -> Explained:
    """Explain what a run's perturbation did on ``part``; ``draws=0`` runs no controls and finds nothing again.

    Controls that explanation.json holds already, for just this question, are not run again.
    """
    require_enough(draws)
    model, split, subtopics = run.cmb(), run.split(), run.subtopics()
    wanted, axes = metric_name(objective or own_objective(model)), axes or usual_axes(model.base_)
    judge = Evaluator.on(split, part, model.base_, subtopics, tuple(dict.fromkeys((wanted, *METRICS))))
    checks = None
    asked = question(run, model, objective=wanted, axes=axes, part=part, draws=draws, seed=seed)
    if draws:
        checks = kept_checks(run, asked) or _checks(model, split, subtopics, wanted, axes, part, draws, seed, on_step)
    found = explain(
        Change.of(model.base_, model.delta_),
        judge,
        wanted,
        axes=axes,
        labels=labels_of(run.items(), split, subtopics),
        titles=titles_of(run.items()),
        top=top,
        draws=0,
        controls=None if checks is None else checks.controls,
        agreement=None if checks is None else checks.agreement,
        seed=seed,
    )
    if checks is None:
        return Explained(found, judge, {})
    return Explained(replace(found, notes=checks.notes), judge, checks.to_keep(asked))


def _checks(
    model: CMB,
    split: Split,
    subtopics: Subtopics,
    objective: str,
    axes: str,
    part: Part,
    draws: int,
    seed: int,
    on_step: ProgressCallback | None,
) -> Checks:
    controls, notes = checked(
        model, split, subtopics, objective, axes=axes, part=part, draws=draws, seed=seed, on_step=on_step
    )
    return Checks(controls, notes, stability(model, split, subtopics, axes, seed))


def require_enough(draws: int) -> None:
    """No draws, or so many that a gain beyond chance can show."""
    if 0 < draws < ENOUGH:
        raise InputError(
            f"draws={draws}: fewer than {ENOUGH} can never show a gain beyond chance; ask for 0, or at least {ENOUGH}"
        )


def checked(
    model: CMB,
    split: Split,
    subtopics: Subtopics,
    objective: str,
    *,
    axes: str = "raw",
    part: Part = "test",
    draws: int = 199,
    seed: int = 0,
    on_step: ProgressCallback | None = None,
) -> tuple[Controls, tuple[str, ...]]:
    """The controls of a perturbation, and on whom they were run.

    Players that searched for item vectors search again without a fifth of the users, who then judge: on users whom it
    knows, a search that found out who likes what beats every control, whatever subtopics are.
    """
    everybody = np.arange(split.n_users)
    apart = _searched(model) and split.n_users >= FEWEST_USERS
    rows, judged = divided_users(split.n_users, HELD_OUT, seed) if apart else (everybody, None)
    change = Change.of(model.base_, model.delta_) if judged is None else refitted(model, split, subtopics, rows)
    found = run_controls(
        on_axes(change, axes, subtopics),
        Evaluator.on(split, part, model.base_, subtopics, (objective, COST), judged),
        objective,
        COST,
        draws,
        seed,
        on_step=on_step,
        candidates=learned_promotion(model.base_, split, subtopics, rows, objective),
        unseen=judged is not None,
    )
    if judged is None:
        return found, ()
    return found, (f"Controls were judged on {len(judged):,} users, after a search that did not know them.",)


def _searched(model: CMB) -> bool:
    """By players, for item vectors: so it can be done again without some of the users."""
    return model.credit != BAKED and model.side == "item"


def stability(
    model: CMB, split: Split, subtopics: Subtopics, axes: str = "raw", seed: int = 0
) -> ranking.Agreement | None:
    """Does the ranking of factors come out alike on separate groups of users?

    Players search again in each group, with another seed, where they moved item vectors. Users' own vectors move for
    themselves, so there what was found is compared group by group. None for item vectors that no search can find again,
    and where there is too little to compare.
    """
    unknown = model.delta_.item is not None and not _searched(model)
    if unknown or split.n_users < FEWEST_USERS or model.base_.dim < 2:
        return None
    mixed = np.random.default_rng([seed, split.n_users]).permutation(split.n_users)
    groups = [np.sort(rows) for rows in np.array_split(mixed, GROUPS)]
    if _searched(model):
        found = (
            on_axes(refitted(model, split, subtopics, rows, seed=model.seed + number), axes, subtopics)
            for number, rows in enumerate(groups)
        )
        return ranking.rank_agreement([ranking.shared(it.sides["item"]) for it in found])
    delta = on_axes(Change.of(model.base_, model.delta_), axes, subtopics).sides["user"]
    return ranking.rank_agreement([ranking.shared(delta, rows) for rows in groups])


def labels_of(items: pl.DataFrame, split: Split, subtopics: Subtopics) -> Labels:
    """What factors can be named by: subtopics, how popular items are, and their years where these are known."""
    year = None
    if "year" in items.columns and items["year"].dtype.is_numeric():
        year = items["year"].cast(pl.Float64).fill_null(float("nan")).to_numpy()
    return Labels.of(subtopics, popularity=split.train.col_counts, year=year)
