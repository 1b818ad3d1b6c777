"""Collect the content of a page from a run as plain values. The run keeps the lists of the path."""

from __future__ import annotations

import platform
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from recprism.budget.audit import COST
from recprism.budget.problem import Problem
from recprism.common.progress import ProgressCallback
from recprism.data.split import Part
from recprism.models import Factors
from recprism.report import words
from recprism.report.content import Content
from recprism.report.headline import headline
from recprism.report.measured import Measured, explain_result, measure
from recprism.result.summary import payers_of
from recprism.runs.config import flat
from recprism.runs.event_log import STEPS
from recprism.runs.installation import versions
from recprism.runs.run import Run


def gather(
    run: Run, *, part: Part = "test", draws: int = 199, seed: int = 0, on_step: ProgressCallback | None = None
) -> Content:
    """Collect the content of the page of a run.

    Args:
        run: A trained run.
        part: The part whose labels are used.
        draws: Draws of each control; 0 runs no controls, and nothing is claimed about factors.
        seed: Seed of the controls.
        on_step: Receives progress.
    """
    started, tell = time.perf_counter(), on_step or _silent
    found = measure(run, part=part, draws=draws, tell=tell)
    why = explain_result(found, draws=draws, seed=seed, tell=tell)
    basis = found.basis(why.rule, why.factors)
    payers, exposure = found.payers, found.exposure
    return Content(
        title=_title(run),
        run=run.argument,
        part=part,
        goal=found.metric,
        cost=COST,
        budget=found.asked,
        sizes=basis.sizes,
        headline=headline(basis),
        diversified=basis.diversified,
        front=found.front(tell),
        decided_on=found.decided_on,
        front_sentences=found.front_sentences(),
        chosen=found.chosen,
        changes=found.changes,
        payers=found.payer_rows,
        paying=() if payers is None else tuple(row.segment for row in payers.paying),
        payers_sentence="" if payers is None else payers_of(payers, part).text,
        exposure=() if exposure is None else found.shown_items(),
        payers_of=_payers_of(found),
        explained=why.factors,
        rule=why.rule,
        users=why.users,
        notes=found.notes,
        facts=_facts(run, found.problem, part, {"draws of each control": draws, "seed of the report": seed}, started),
    )


def _silent(_what: str, _done: int, _total: int) -> None:
    """Ignore progress."""


def _title(run: Run) -> str:
    config = run.config
    return f"{config.data.source} · {config.model.name}"


def _payers_of(found: Measured) -> str:
    if found.result is not None:
        return "the lists of this run"
    if found.audit is None or found.audit.shown is None:
        return "nothing: no point of the path keeps the budget"
    return f"the furthest point for a budget of {100 * found.asked:g} % of {COST}, if it were served"


# -- facts ------------------------------------------------------------------------------------------------------------


def _facts(
    run: Run, problem: Problem, part: str, asked: Mapping[str, Any], started: float
) -> dict[str, list[tuple[str, str]]]:
    """Collect settings, versions, seeds and times."""
    config = run.config.model_dump(exclude_none=True)
    config["data"].pop("data_root", None)  # a local folder means nothing to a reader
    split = problem.split
    data = {
        "users": f"{split.n_users:,}",
        "items": f"{split.n_items:,}",
        "categories": f"{len(problem.categories):,}",
        **{f"{name} interactions": f"{len(split.part(name)):,}" for name in ("train", "validation", "test")},
        "judged on": part,
        **({"factors": f"{problem.base.dim:,}"} if isinstance(problem.base, Factors) else {}),
    }
    report = {
        "made": _moment(time.time()),
        "made from": run.fingerprint()[:16],
        "seconds it took": f"{time.perf_counter() - started:.0f}",
    }
    return {
        "Data": list(data.items()),
        "Settings": [(name, words.plain(value)) for name, value in flat(config).items()],
        "This report": [*((name, str(value)) for name, value in asked.items()), *report.items()],
        "What happened": happened(run),
        "Versions": [*versions().items(), ("system", platform.system())],
    }


def happened(run: Run) -> list[tuple[str, str]]:
    """Return the run's events, and say so if they do not account for its files."""
    events = run.events(without=STEPS)
    kinds = {str(event["event"]).partition(" ")[0] for event in events}
    found = [(_moment(event["time"]), str(event["event"])) for event in events]
    incomplete = not kinds & {"trained", "imported"} or (run.is_diversified() and "diversified" not in kinds)
    if not run.has_events():
        return [("unknown", "events.jsonl is missing")]
    return [*found, ("then", "events.jsonl does not say how it ended")] if incomplete else found


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
