"""The recprism command that makes what a page shows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from recprism.budget.audit import COST
from recprism.common.command_line import command_line, free_name, in_commas
from recprism.common.shares import percent
from recprism.rule.goal import Goal
from recprism.runs.config import BudgetConfig, ConstraintsConfig
from recprism.runs.run import Run

POSSIBLE = (0.0001, 0.5)  # the least and the largest --budget


def why(run: Run, user: Any, **question: Any) -> str:
    """Return the command for a question about one user's list; ``question``: the option without dashes -> value."""
    return run.command("why", user=user, **question)


def steer(run: Run, user: Any, settings: Mapping[str, float], *, judged: bool = False) -> str:
    """Return the command that sets dials of one user."""
    return run.command(
        "steer", user=user, judged=judged, set=[f"{name}={share:+g}" for name, share in settings.items()]
    )


def made_by(run: Run, asked: BudgetConfig | None) -> str:
    """Return the command that made the result of a run; "" if it was not made within a budget."""
    if asked is None:
        return ""
    guards = {name: share for name, share in asked.budgets.items() if name != COST}
    words = [
        *_named("--goal", [asked.goal]),
        *_named("--budget", map(_percent, [asked.budgets[COST]] if COST in asked.budgets else [])),
        *_named("--guard", _shares(guards)),
        *(["--confidence", _percent(asked.confidence)] if asked.confidence != _default("confidence") else []),
        *(["--approximate"] if asked.method == "t" else []),
        *_named("--certify-on", [asked.certify_on] if asked.certify_on else []),
        *_named("--clusters", [] if run.clusters_file is None else [str(run.clusters_file)]),
        *_window(asked),
        *_constraints(asked.constraints),
    ]
    return command_line("diversify", run.path, *words, name=run.result)


def diversify(
    run: Run, asked: BudgetConfig | None, goal: Goal, budget: float, *, named: bool = True, **options: Any
) -> str:
    """Return the command that makes the stop of a path, within a budget, as a new result.

    A path keeps the constraints, the history window and the clusters of the run's result; so does the command.

    Args:
        run: The run.
        asked: What its result was made from; None without one.
        goal: The goal of the path.
        budget: What certifies the stop.
        named: Whether the new result has a name; the unnamed one may be there already.
        **options: Further options of the command.
    """
    words: list[str] = []
    if asked is not None:
        # Lists of exposure alone look at no history.
        words = [*(_window(asked) if goal.searched else []), *_constraints(asked.constraints)]
        options = {"clusters": run.clusters_file, **options}
    within = ("--goal", str(goal), "--budget", _percent(budget))
    name = re.sub("[+=,]", "-", f"{goal}-{_percent(budget)}").replace(".", "_").rstrip("%")
    return command_line(
        "diversify", run.path, *within, *words, **options, name=free_name(name, run.results) if named else None
    )


def _window(asked: BudgetConfig) -> list[str]:
    return [] if asked.history_window is None else ["--history-window", str(asked.history_window)]


def _constraints(kept: ConstraintsConfig) -> list[str]:
    return [
        *_named("--ban", map(in_commas, kept.banned)),
        *_named("--pin", (f"{place}={item}" for place, item in kept.pinned.items())),
        *_named("--min-share", _shares(kept.min_share)),
        *_named("--max-share", _shares(kept.max_share)),
        *_named("--max-items", (f"{field}={most}" for field, most in kept.max_items.items())),
        *_named("--spacing", (f"{field}={places}" for field, places in kept.spacing.items())),
        *_named("--tail-floor", [_percent(kept.tail_floor)] if kept.tail_floor else []),
        *(["--per-user-diversity"] if kept.per_user_diversity else []),
        *(["--allow-violations"] if kept.allow_violations else []),
    ]


def _named(option: str, values: Iterable[str]) -> list[str]:
    return [word for value in values for word in (option, value)]


def _shares(by_name: Mapping[str, float]) -> list[str]:
    return [f"{name}={_percent(share)}" for name, share in by_name.items()]


def _percent(share: float) -> str:
    return percent(share, ".10g", "%")


def _default(name: str) -> Any:
    return BudgetConfig.model_fields[name].default
