"""The recprism command that makes what a page shows."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from recprism.data.shares import percent
from recprism.runs.run import Run


def explain(run: Run, user: Any, **question: Any) -> str:
    """Return the command for a question about one user's list; ``question``: the option without dashes -> value."""
    asked = [word for name, value in question.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    return _line("explain", run, "--user", str(user), *asked)


def steer(run: Run, user: Any, settings: Mapping[str, float]) -> str:
    """Return the command that sets dials of one user."""
    asked = [word for name, share in settings.items() for word in ("--set", f"{name}={share:+g}")]
    return _line("steer", run, "--user", str(user), *asked)


def diversify(run: Run, goal: str, budget: float) -> str:
    """Return the command that makes a result within a budget."""
    return _line("diversify", run, "--goal", goal, "--budget", percent(budget, "g", "%"), "--overwrite")


def _line(command: str, run: Run, *words: str) -> str:
    return " ".join(("recprism", command, run.argument, *map(shlex.quote, words)))
