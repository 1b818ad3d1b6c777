"""The recprism command that makes what a page shows."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from typing import Any

from recprism.budget.audit import COST
from recprism.data.shares import percent
from recprism.runs.config import BudgetConfig, ConstraintsConfig
from recprism.runs.run import Run

POSSIBLE = (0.0001, 0.5)  # the least and the largest --budget


def explain(run: Run, user: Any, **question: Any) -> str:
    """Return the command for a question about one user's list; ``question``: the option without dashes -> value."""
    asked = [word for name, value in question.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    return _line("explain", run, "--user", str(user), *asked)


def steer(run: Run, user: Any, settings: Mapping[str, float]) -> str:
    """Return the command that sets dials of one user."""
    asked = [word for name, share in settings.items() for word in ("--set", f"{name}={share:+g}")]
    return _line("steer", run, "--user", str(user), *asked)


def made_by(run: Run, asked: BudgetConfig | None) -> str:
    """Return the command that made the result of a run; "" if it was not made within a budget."""
    if asked is None:
        return ""
    guards = {name: share for name, share in asked.budgets.items() if name != COST}
    words = [
        *_named("--goal", [asked.goal]),
        *_named("--budget", map(_percent, [asked.budgets[COST]] if COST in asked.budgets else [])),
        *_named("--guard", _shares(guards)),
        *_named("--into", [asked.into] if asked.into else []),
        *(["--ordered"] if asked.ordered else []),
        *(["--rest", "user-vectors"] if asked.rest else []),
        *_concepts(asked),
        *(["--confidence", _percent(asked.confidence)] if asked.confidence != _default("confidence") else []),
        *(["--approximate"] if asked.method == "t" else []),
        *_named("--certify-on", [asked.certify_on] if asked.certify_on else []),
        *_constraints(asked.constraints),
    ]
    return _line("diversify", run, *words)


def diversify(run: Run, asked: BudgetConfig | None, goal: str, budget: float) -> str:
    """Return the command that makes the stop of a path, within a budget, as a new result.

    A path keeps the constraints and the concepts of the run's result, and has the usual form; so does the command.

    Args:
        run: The run.
        asked: What its result was made from; None without one.
        goal: The goal of the path.
        budget: What certifies the stop.
    """
    words = [] if asked is None else [*_concepts(asked), *_constraints(asked.constraints)]
    within = ("--goal", goal, "--budget", _percent(budget))
    return _line("diversify", run.named(None), *within, *words, "--name", _free_name(run, goal, budget))


def _free_name(run: Run, goal: str, budget: float) -> str:
    """Return a name that no result of the run has."""
    name = wanted = f"{goal}-{_percent(budget)}".replace("+", "-").replace(".", "_").rstrip("%")
    number, taken = 2, run.results()
    while name in taken:
        name, number = f"{wanted}-{number}", number + 1
    return name


def _concepts(asked: BudgetConfig) -> list[str]:
    support = [] if asked.min_support == _default("min_support") else [str(asked.min_support)]
    return [*_named("--concepts", map(_in_commas, asked.concepts)), *_named("--min-support", support)]


def _constraints(kept: ConstraintsConfig) -> list[str]:
    return [
        *_named("--ban", (_in_commas(str(item)) for item in kept.banned)),
        *_named("--pin", (f"{place}={item}" for place, item in kept.pinned.items())),
        *_named("--min-share", _shares(kept.min_share)),
        *_named("--max-share", _shares(kept.max_share)),
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


def _in_commas(word: str) -> str:
    """Quote a word of an option that divides its words at commas."""
    return f'"{word.replace(chr(34), 2 * chr(34))}"' if "," in word or '"' in word else word


def _line(command: str, run: Run, *words: str) -> str:
    return " ".join(("recprism", command, run.argument, *map(shlex.quote, words)))
