"""The runs below a folder and their results; those that cannot be read are listed with the reason."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from recprism.errors import InputError, RecprismError
from recprism.runs.event_log import STEPS
from recprism.runs.parts.stage import SEARCH, stages
from recprism.runs.run import Run

State = Literal["begun", "trained", "searching", "diversified", "broken"]
DEFAULT = "runs"


@dataclass(frozen=True)
class ListedResult:
    """One result of a run, or a run that has none yet.

    Attributes:
        run: The path of the run.
        name: The name of the result; None for the unnamed one.
        state: "begun" has no trained model yet; "searching" has no result yet, and a search that has not ended.
        model: The name of the model.
        data: The named data set, or the file, that it was trained on.
        goal: The metric that was raised; None if nothing was diversified.
        budgets: Metric -> share of it that may be lost; empty without a budget.
        losses: Metric -> the largest loss that is certified, as a share; empty without a certificate.
        confidence: How sure that is, in words: of all questions that the same labels have answered; None without one.
        date: The time of the last event, in UTC and as ISO 8601; None without events.
        reason: Why a broken one cannot be read.
    """

    run: str
    name: str | None
    state: State
    model: str | None = None
    data: str | None = None
    goal: str | None = None
    budgets: Mapping[str, float] = field(default_factory=dict)
    losses: Mapping[str, float] = field(default_factory=dict)
    confidence: str | None = None
    date: str | None = None
    reason: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values only, ready for JSON."""
        return asdict(self)


def list_runs(folder: str | Path | None = None) -> list[ListedResult]:
    """Return the runs and results below a folder, in the order of their paths and names.

    Args:
        folder: Where to look; if None, ``runs`` if there is such a folder, else the current one.

    Raises:
        InputError: If there is no such folder.
    """
    if folder is None:
        folder = DEFAULT if Path(DEFAULT).is_dir() else "."
    if not Path(folder).is_dir():
        raise InputError(f"{folder}: no such folder; name one that holds runs")
    return [row for path in _run_paths(Path(folder)) for row in _rows(path)]


def _run_paths(folder: Path) -> Iterator[Path]:
    for here, inside, _ in os.walk(folder):
        if Run.is_at(here):
            inside.clear()  # folders inside a run are not runs
            yield Path(here)
        inside[:] = sorted(name for name in inside if not name.startswith("."))


def _rows(path: Path) -> Iterator[ListedResult]:
    run = Run(path)
    searched = {it.name.removeprefix(f"{SEARCH}.") for it in stages(path) if it.name.startswith(f"{SEARCH}.")}
    for name in (None, *sorted({*run.results, *searched})):
        yield result_row(Run(path).named(name))


def result_row(run: Run) -> ListedResult:
    """Describe one result of a run, or a run without one; a broken one is described by the reason."""
    try:
        return _row(Run.open(run.path, run.result))
    except Exception as problem:  # a broken run must not hide the others
        said = str(problem) if isinstance(problem, RecprismError) else f"{run.path}: cannot be read ({problem!r})"
        return ListedResult(str(run.path), run.result, "broken", reason=said)


def _row(run: Run) -> ListedResult:
    run.require_whole()
    config, certified = run.config, run.joint_certificate()
    searching = None if run.is_diversified() else run.unfinished(SEARCH)
    asked = (searching or run).config.diversify
    within = None if asked is None else asked.within
    goal = None
    if asked is not None:
        goal = within.goal if within else str(asked.settings.get("diversity", "subtopic_coverage"))
    return ListedResult(
        str(run.path),
        run.result,
        _state(run, searching),
        config.model.name,
        config.data.source,
        goal,
        within.budgets if within else {},
        {} if certified is None else certified.certified,
        None if certified is None or certified.last is None else certified.sure(),
        _date(run),
    )


def _state(run: Run, searching: Run | None) -> State:
    if not run.has_factors():
        return "begun"
    if searching is not None:
        return "searching"
    return "diversified" if run.is_diversified() else "trained"


def _date(run: Run) -> str | None:
    events = run.events(without=STEPS)
    return datetime.fromtimestamp(events[-1]["time"], UTC).isoformat(timespec="seconds") if events else None
