"""Collect the content of a page from a run as plain values. The run keeps the lists of the path."""

from __future__ import annotations

import platform
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from recprism.budget.audit import COST, Audit, cost_of_diversity
from recprism.budget.scenario import Scenario
from recprism.budget.segments import ExposureChange, SegmentChange, SegmentTable
from recprism.data.progress import ProgressCallback
from recprism.data.split import Part
from recprism.deploy._budget import budget_of
from recprism.explain.factors._highlights import who_pays
from recprism.explain.factors.checks import require_enough
from recprism.metrics import DEFAULT_METRICS, Comparison, Evaluation, parse
from recprism.metrics.registry import with_gini
from recprism.report import words
from recprism.report.content import Change, Chosen, Content, FrontPoint, known
from recprism.report.explained import explained_content
from recprism.report.explained_rule import rule_content
from recprism.rerank.optimal import GOALS, WITHOUT_SUBTOPICS
from recprism.runs._event_log import STEPS
from recprism.runs._installation import examine
from recprism.runs.jobs.diversify import effect
from recprism.runs.neighbours import neighbours_of
from recprism.runs.run import Run
from recprism.runs.scenario import scenario_of

SHOWN_BUDGET = 0.05  # an audit shows who would pay at this budget, if none was requested


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

    Stability: provisional.
    """
    started, tell = time.perf_counter(), on_step or _silent
    scenario = scenario_of(run, part)
    result = run.diversified() if run.is_diversified() else None
    if result is not None and result.rule is None:
        require_enough(draws)
    objective = f"subtopic_coverage@{scenario.k}" if result is None else result.objective
    asked, kept = _asked_budget(run), run.certificate()
    goal = _goal_of(run, objective, has_subtopics=len(scenario.subtopics) > 0)
    metric = f"{goal.partition('+')[0]}@{scenario.k}"
    certify_on: Part | None = None if kept is None else kept["certificate"].get("part") or "test"
    # One budget is the question that the result answers: more of them would share its confidence.
    cost = cost_of_diversity(scenario, (goal,), (asked,), show=asked, certify_on=certify_on, on_step=tell)
    changes: tuple[Change, ...] = _now(cost.now)
    payers, exposure = cost.payers, cost.exposure
    chosen = explained = rule = None
    if result is not None:
        compared = effect(run, _metrics(metric, cost.certified), part=part, controls=False).change
        changes = _compared(compared, cost.now)
        chosen = _chosen(compared, metric, kept)
        payers, exposure = who_pays(scenario, scenario.rank(result.model)[0])
        if result.rule is None:
            explained = explained_content(run, part=part, draws=draws, seed=seed, tell=tell)
        else:
            rule = rule_content(run, scenario, result, draws=draws, seed=seed, tell=tell)
    content = Content(
        title=_title(run),
        run=run.argument,
        part=part,
        goal=metric,
        cost=COST,
        budget=asked,
        verdict=("", "", ""),
        diversified=result is not None,
        front=_front(cost, goal, metric),
        decided_on=cost.decided_on(goal),
        front_sentences=tuple(cost.sentences()),
        chosen=chosen,
        changes=changes,
        payers=() if payers is None else _payers(payers),
        paying=() if payers is None else tuple(row.segment for row in payers.paying),
        payers_sentence="" if payers is None else payers.sentence(),
        exposure=() if exposure is None else _exposure(exposure),
        payers_of=_payers_of(result is not None, cost, asked),
        explained=explained,
        rule=rule,
        notes=tuple(cost.now.notes),
        facts=_facts(run, scenario, part, {"draws of each control": draws, "seed of the report": seed}, started),
    )
    return replace(content, verdict=words.verdict(content, None if kept is None else kept["certificate"]["sentence"]))


def _silent(_what: str, _done: int, _total: int) -> None:
    """Ignore progress."""


# -- budget and goal --------------------------------------------------------------------------------------------------


def _asked_budget(run: Run) -> float:
    asked = budget_of(run)
    return SHOWN_BUDGET if asked is None else asked.budgets.get(COST, SHOWN_BUDGET)


def _goal_of(run: Run, objective: str, *, has_subtopics: bool) -> str:
    """Return the goal of the front: the requested one, or the objective of a search if there is a path towards it."""
    asked = budget_of(run)
    if asked is not None:
        return asked.goal
    name = objective.partition("@")[0]
    return (
        name
        if name in GOALS and (has_subtopics or name in WITHOUT_SUBTOPICS)
        else "subtopic_coverage"
        if has_subtopics
        else "catalogue_coverage"
    )


def _metrics(metric: str, has_labels: bool) -> tuple[str, ...] | None:
    """Return the default metrics with the goal; None for the defaults, which are also taken without labels."""
    return None if metric in DEFAULT_METRICS or not has_labels else with_gini((*DEFAULT_METRICS, metric))


def _title(run: Run) -> str:
    config = run.config
    return f"{config.data.source} · {config.model.name}"


# -- figures ----------------------------------------------------------------------------------------------------------


def _front(cost: Audit, goal: str, metric: str) -> tuple[FrontPoint, ...]:
    """Return the points of the front; empty without labels, because the price is then unknown."""
    path = cost.paths[goal]
    if not cost.certified:
        return ()
    certified = cost.certified_for(goal)
    return tuple(
        FrontPoint(
            point.trade_off,
            -(path.change(point, COST) or 0.0),
            path.change(point, metric) or 0.0,
            certified.get(point.trade_off),
        )
        for point in path.points
    )


def _chosen(compared: Comparison, metric: str, kept: Mapping[str, Any] | None) -> Chosen | None:
    rows = {row.name: row.relative for row in compared.rows}
    loss, gain = known(rows.get(COST)), known(rows.get(metric))
    if loss is None or gain is None:  # for example without labels
        return None
    if kept is None:
        return Chosen(-loss, gain, None, "This price was measured, not certified: no budget was given.")
    last = kept["certificate"]["last"]
    checks = [] if last is None else kept["certificate"]["points"][last]["checks"]
    budget = next((float(check["budget"]) for check in checks if check["metric"] == COST), None)
    return Chosen(-loss, gain, budget, str(kept["certificate"]["sentence"]))


def _now(now: Evaluation) -> tuple[Change, ...]:
    """Return the rows of an audit, which has current values only."""
    return tuple(
        Change(
            *(s.name, _summary(s.name), s.n_users, known(s.mean), known(s.mean), 0.0, None, s.low, s.high, None, None),
            popularity=known(s.popularity),
        )
        for s in now.scores
    )


def _compared(compared: Comparison, now: Evaluation) -> tuple[Change, ...]:
    def share(end: float | None, base: float) -> float | None:
        return None if end is None or not base else known(end / abs(base))

    popular = {score.name: score.popularity for score in now.scores}
    return tuple(
        Change(
            *(row.name, _summary(row.name), row.n_users),
            *(known(row.a), known(row.b), known(row.difference), known(row.relative)),
            *(share(row.low, row.a), share(row.high, row.a), known(row.p_value)),
            None if known(row.difference) is None else row.better,
            popularity=known(popular.get(row.name)),
        )
        for row in compared.rows
    )


def _summary(name: str) -> str:
    return parse(name)[0].summary


def _payers(table: SegmentTable) -> tuple[Change, ...]:
    return tuple(_payer(row) for row in table.rows if isinstance(row, SegmentChange))


def _payer(row: SegmentChange) -> Change:
    relative = known(row.relative)
    return Change(
        *(row.segment, words.SEGMENTS.get(row.segment, ""), row.users),
        *(known(row.before), known(row.after), known(row.after - row.before), relative),
        *(known(row.low), known(row.high), known(row.p_loses_more)),
        None if not relative else relative > 0,
    )


def _exposure(table: SegmentTable) -> tuple[Change, ...]:
    found = []
    for row in table.rows:
        if isinstance(row, ExposureChange):
            about = (row.segment, words.SEGMENTS.get(row.segment, ""), row.items)
            change = row.after - row.before
            found.append(Change(*about, row.before, row.after, change, row.relative, row.low, row.high, None, None))
    return tuple(found)


def _payers_of(diversified: bool, cost: Audit, asked: float) -> str:
    if diversified:
        return "the lists of this run"
    if cost.shown is None:
        return "nothing: no point of the path keeps the budget"
    return f"the furthest point for a budget of {100 * asked:g} % of {COST}, if it were served"


# -- facts ------------------------------------------------------------------------------------------------------------


def _facts(
    run: Run, scenario: Scenario, part: str, asked: Mapping[str, Any], started: float
) -> dict[str, list[tuple[str, str]]]:
    """Collect settings, versions, seeds and times."""
    config = run.config.model_dump(exclude_none=True)
    config["data"].pop("data_root", None)  # a local folder means nothing to a reader
    split = scenario.split
    data = {
        "users": f"{split.n_users:,}",
        "items": f"{split.n_items:,}",
        "subtopics": f"{len(scenario.subtopics):,}",
        **{f"{name} interactions": f"{len(split.part(name)):,}" for name in ("train", "validation", "test")},
        "judged on": part,
        "factors": f"{scenario.factors.dim:,}",
    }
    report = {
        "made": _moment(time.time()),
        "made from": run.fingerprint()[:16],
        "seconds it took": f"{time.perf_counter() - started:.0f}",
    }
    return {
        "Data": list(data.items()),
        "Item-to-item neighbours": _neighbours(run),
        "Settings": [(name, words.plain(value)) for name, value in _flat(config)],
        "This report": [*((name, str(value)) for name, value in asked.items()), *report.items()],
        "What happened": _happened(run),
        "Versions": [*examine()["versions"].items(), ("system", platform.system())],
    }


def _happened(run: Run) -> list[tuple[str, str]]:
    """Return the run's events, and say so if they do not account for its files."""
    events = run.events(without=STEPS)
    kinds = {str(event["event"]).partition(" ")[0] for event in events}
    found = [(_moment(event["time"]), str(event["event"])) for event in events]
    incomplete = not kinds & {"trained", "imported"} or (run.is_diversified() and "diversified" not in kinds)
    if not run.has_events():
        return [("unknown", "events.jsonl is missing")]
    return [*found, ("then", "events.jsonl does not say how it ended")] if incomplete else found


def _neighbours(run: Run) -> list[tuple[str, str]]:
    """Describe the effect of the vectors on similar items; empty if no vector changed."""
    if not run.is_diversified():
        return []
    found = neighbours_of(run)
    shares = (("by cosine", found.cosine), ("by inner product", found.inner_product))
    kept = [
        (f"overlap of the nearest {found.k}, {name}", f"{share:.4f}" if found.moved else "exactly 1")
        for name, share in shares
    ]
    return [*kept, ("in words", found.sentence())]


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _flat(value: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """Flatten nested settings to dotted names; empty ones are left out."""
    found = []
    for name, part in value.items():
        if isinstance(part, Mapping):
            found += _flat(part, f"{prefix}{name}.")
        elif part not in ([], ""):
            found.append((f"{prefix}{name}", part))
    return found
