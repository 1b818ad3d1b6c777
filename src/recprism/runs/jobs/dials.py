"""The dials of a run: how far a few named weights per user carry its lists, and users' own settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from recprism.budget.audit import COST
from recprism.budget.problem import Problem
from recprism.common.display import Displayed
from recprism.common.log import phase
from recprism.forms.compiled import compile_dials
from recprism.forms.dials import Dials, lists_to_dials
from recprism.forms.steering import Steered, own_settings, steer
from recprism.result.result import Result
from recprism.runs.lock import writing
from recprism.runs.run import Run

UNIT = "share of the user's score range"


@dataclass(frozen=True, eq=False, repr=False)
class DialsReport(Displayed):
    """How far named weights carry the lists of a run.

    Attributes:
        dials: The weights, compiled from the lists of the run.
        objective: The metric of the goal.
        explained_gain: Share of the goal's gain that the lists of the dials reach; NaN without a gain.
        ndcg_change: Relative change of NDCG@10 from the base lists to those of the dials; None without labels.
        wanted_ndcg_change: The same for the lists that the dials were made for.
    """

    dials: Dials
    objective: str
    explained_gain: float
    ndcg_change: float | None
    wanted_ndcg_change: float | None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        gain = None if np.isnan(self.explained_gain) else self.explained_gain
        return {
            **self.dials.to_dict(),
            "objective": self.objective,
            "explained_gain": gain,
            "ndcg_change": self.ndcg_change,
            "wanted_ndcg_change": self.wanted_ndcg_change,
            "unit": UNIT,
        }


@phase("compiling dials", __name__)
def dials_of(run: Run, *, live: bool = True) -> DialsReport:
    """Compile the lists of a run into dials, for this report.

    Args:
        run: A diversified run.
        live: Whether the lists are live ones; else those that the test part judges.

    Raises:
        InputError: If the run has no result, or its items have no categories.
    """
    found = run.load_result()
    problem = found.context(live=live)
    dials = _compiled(found, problem)
    labelled = len(problem.split.part(problem.part)) > 0
    names = (COST,) if labelled else ()
    lists = (dials.base_lists, dials.lists, dials.given)
    base, wanted_values, given = (problem.judge(it, names) if labelled else {} for it in lists)

    def change(of: Mapping[str, Any]) -> float | None:
        return float(np.nanmean(of[COST]) / np.nanmean(base[COST]) - 1) if labelled else None

    gain = dials.explained_gain(lambda it: problem.judge(it, (found.objective,))[found.objective])
    return DialsReport(dials, found.objective, gain, change(given), change(wanted_values))


def _compiled(found: Result, problem: Problem) -> Dials:
    """Compile the lists of a rule, or of vectors that players found."""
    if found.rule is not None:
        return compile_dials(problem, found.rule)
    return lists_to_dials(
        problem.factors,
        problem.rank(found.model)[0],
        problem.categories,
        base_lists=problem.base_lists,
        exclude=problem.hidden,
        demote=True,
    )


@phase("setting dials", __name__)
def steer_run(run: Run, user: Any, settings: Mapping[str, float], *, live: bool = True, keep: bool = False) -> Steered:
    """Compile the dials of one user of a run, set some of them, and rank the user's list again.

    Args:
        run: A run with a rule.
        user: Id of the user.
        settings: Category -> share of the user's score range, from -1 to 1; 0 takes an own setting back.
        live: Whether the list is the live one; else the judged one.
        keep: Keep the setting in the run. `recprism export --form dials` then adds it to the user's dials.
    """
    result = run.load_result()
    found = steer(result.context(live=live), result.own_rule(), user, settings, result.steering)
    if keep:
        _keep(run, found)
    return found


@writing
def _keep(run: Run, found: Steered) -> None:
    known, names = run.steering(), set(run.categories().names)
    mine = own_settings(known, found.user)
    now = {**{name: it for name, it in mine.items() if name not in names}, **found.settings}
    others = {it: own for it, own in known.items() if str(it) != str(found.user)}
    run.save_steering({**others, **({found.user: now} if now else {})}, user=found.user, dials=now)
