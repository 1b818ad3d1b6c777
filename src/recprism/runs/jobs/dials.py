"""The dials of a run: how far a few named weights per user carry its lists, and users' own settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from recprism._display import Displayed
from recprism._log import phase
from recprism.budget.audit import COST
from recprism.budget.diversified import Diversified, dials_at
from recprism.budget.scenario import Scenario
from recprism.budget.steering import Steered, steer
from recprism.data.split import Part
from recprism.dials import Dials, lists_to_dials
from recprism.errors import InputError
from recprism.runs._lock import writing
from recprism.runs.jobs.concepts import find_concepts
from recprism.runs.run import Run
from recprism.runs.scenario import scenario_of

UNIT = "share of the user's score range"


@dataclass(frozen=True, eq=False, repr=False)
class DialsReport(Displayed):
    """How far named weights carry the lists of a run.

    Attributes:
        dials: The weights. If other vectors serve the run, they were compiled from its lists for this report.
        objective: The metric of the goal.
        explained_gain: Share of the goal's gain that the lists of the dials reach; NaN without a gain.
        ndcg_change: Relative change of NDCG@10 from the base lists to those of the dials, with the rest if there is
            one; None without labels.
        wanted_ndcg_change: The same for the lists that the dials were made for.

    Stability: provisional.
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


@phase("reading the dials", __name__)
def dials_of(
    run: Run,
    *,
    part: Part = "test",
    ordered: bool | None = None,
    rest: bool | None = None,
    concepts: Sequence[str] = (),
    min_support: int = 2,
) -> DialsReport:
    """Measure the dials of a run. Dials that differ from those of the run are solved again, for this report.

    Args:
        run: A diversified run.
        part: The part that judges.
        ordered: Whether the order of the lists is kept, too; by default as in the run.
        rest: Whether the vectors of users change whose list weights do not return; by default as in the run.
        concepts: What the dials have weights for, as in :func:`recprism.runs.jobs.concepts.find_concepts`; by default
            as in the run.
        min_support: How many candidate items one of ``concepts`` must tell from the others.

    Raises:
        InputError: If the run has no result, or its items have no concepts.

    Stability: provisional.
    """
    found, scenario = run.diversified(), scenario_of(run, part)
    if concepts:
        scenario = scenario.with_concepts(find_concepts(run, concepts, scenario, min_support))
    dials = found.dials
    same = dials is not None and ordered in (None, dials.ordered) and rest in (None, dials.rest is not None)
    if dials is None or part != "test" or concepts or not same:
        how = (dials is not None and dials.ordered, dials is not None and dials.rest is not None)
        asked = [stored if it is None else it for it, stored in zip((ordered, rest), how, strict=True)]
        dials = _solved(found, scenario, *asked)
    labelled = len(scenario.split.part(part)) > 0
    names = (COST,) if labelled else ()
    lists = (dials.base_lists, dials.lists, dials.served)
    base, wanted_values, given = (scenario.judge(it, names) if labelled else {} for it in lists)

    def change(of: Mapping[str, Any]) -> float | None:
        return float(np.nanmean(of[COST]) / np.nanmean(base[COST]) - 1) if labelled else None

    gain = dials.explained_gain(lambda it: scenario.judge(it, (found.objective,))[found.objective])
    return DialsReport(dials, found.objective, gain, change(given), change(wanted_values))


def _solved(found: Diversified, scenario: Scenario, ordered: bool, rest: bool) -> Dials:
    """Compile the lists of a result into dials, whatever serves it."""
    if found.rule is not None:
        dials = dials_at(scenario, found.goal, found.trade_off, ordered, rest, needed=True)
        assert dials is not None
        return dials
    if not len(scenario.concepts):
        raise InputError(
            "dials need categories of the items and there are none; name other concepts, such as --concepts clusters=20"
        )
    lists = scenario.rank(found.model)[0]
    return lists_to_dials(
        scenario.factors,
        lists,
        scenario.concepts,
        base_lists=scenario.base_lists,
        exclude=scenario.hidden,
        ordered=ordered,
        demote=True,
        rest=rest,
    )


@phase("setting dials", __name__)
def steer_run(run: Run, user: Any, settings: Mapping[str, float], *, keep: bool = False) -> Steered:
    """Set dials for one user of a run, and rank the user's list again.

    Args:
        run: A run that dials serve.
        user: Id of the user.
        settings: Concept -> share of the user's score range, from -1 to 1; 0 takes an own setting back.
        keep: Keep the setting in the run. It is then added to the solver's dials whenever lists are served.

    Stability: provisional.
    """
    found = steer(scenario_of(run), run.diversified(), user, settings)
    if keep:
        _keep(run, found)
    return found


@writing
def _keep(run: Run, found: Steered) -> None:
    known, dials = run.steering(), run.diversified().dials
    names = set() if dials is None else set(dials.names)
    mine = next((own for it, own in known.items() if str(it) == str(found.user)), {})
    now = {**{name: it for name, it in mine.items() if name not in names}, **found.settings}
    others = {it: own for it, own in known.items() if str(it) != str(found.user)}
    run.save_steering({**others, **({found.user: now} if now else {})}, user=found.user, dials=now)
