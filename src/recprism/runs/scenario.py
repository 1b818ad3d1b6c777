"""The scenario of a run: its model, its data, and the constraints of its result."""

from __future__ import annotations

from recprism.budget.scenario import Scenario
from recprism.data.split import Part
from recprism.runs._run_parts.constraints import numbered
from recprism.runs._run_parts.paths import RunPaths
from recprism.runs.config import ConstraintsConfig
from recprism.runs.run import Run


def scenario_of(
    run: Run, part: Part = "test", *, constraints: ConstraintsConfig | None = None, live: bool = False
) -> Scenario:
    """Return the scenario of a run's trained model, from which audits, searches and lists start.

    Args:
        run: A trained run.
        part: The part that judges.
        constraints: What the lists must keep, for a new result; by default the constraints and the concepts are those
            of the run's result.
        live: All known interactions count as seen, those of ``part`` too; lists of paths are then not stored.

    Stability: provisional.
    """
    factors, split = run.factors(), run.split()
    return Scenario(
        factors,
        split.live() if live else split,
        run.subtopics(),
        part,
        store=None if live else RunPaths(run),
        constraints=numbered(run.constraints if constraints is None else constraints, factors),
        concepts=run.concepts() if constraints is None else None,
    )
