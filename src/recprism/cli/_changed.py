"""What ``diversify``, ``refit`` and ``search`` share: the result that they make, and what it did to the lists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from recprism.cli._output import (
    complain,
    next_step,
    print_json,
    print_sentence,
    print_table,
    print_title,
    progress_of_steps,
    say,
    say_replaced,
)
from recprism.common.command_line import in_commas
from recprism.common.shares import percent

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from recprism.result.effect import Effect
    from recprism.result.result import Result
    from recprism.runs.run import Run

UNCHANGED = (
    "Nothing was certified, so the run stays as it was, with its lists and its constraints; a larger --budget, or more "
    "held-out users, may be certified."
)
JUDGED_ON: Literal["test"] = "test"
"""The part that the table of effects is measured on."""


def result_to_make(run_directory: Path, name: str | None, overwrite: bool) -> Run:
    """Open the result to make; with --overwrite, print what will be replaced if the command succeeds."""
    from recprism.runs.run import Run

    run = Run.open(run_directory).named(name)
    if overwrite:
        say_replaced(run.path, run.replaced())
    return run


def clusters_of_users(file: Path | None, run: Run) -> NDArray[np.int64] | None:
    """Read --clusters and say who is together; None without the option."""
    from recprism.data.readers.clusters import read_clusters

    if file is None:
        return None
    found = read_clusters(file, run.split().user_ids)
    say(found.sentence())
    return found.numbers


def print_effect(run: Run, found: Effect) -> None:
    """Base, perturbed, change in percent with its p-value, and the change that each control reaches."""
    print_title(f"{run.path}: lists before and after, on the {JUDGED_ON} part")
    rows = []
    for row in found.change.rows:
        changes = [row.relative, *(control[row.name].relative for control in found.controls.values())]
        own, *controls = (percent(it, "+.1f", "%") for it in changes)
        rows.append((row.name, row.a, row.b, own, row.p_value, *controls))
    columns = ("metric", "base", "diversified", "change", "p", *found.controls)
    print_table(columns, rows, numeric=columns[1:])


def print_diversified(
    run: Run,
    kept: Result,
    facts: dict[str, Any],
    names: tuple[str, ...] | None,
    as_json: bool,
    also: Sequence[str] = (),
) -> None:
    """Print what a rule within a budget does.

    Args:
        run: The run that holds it.
        kept: What was found.
        facts: What ``--json`` prints about how it was found.
        names: The metrics to measure; None takes the usual ones.
        as_json: Whether to print JSON.
        also: Further sentences of the conclusion.
    """
    from recprism.result.catalogue import Catalogue
    from recprism.result.effect import shuffled_categories
    from recprism.result.view import view_of

    shown = run.load_result() if kept.is_changed else replace(kept, run=run)
    view, found = view_of(shown, Catalogue(run.items(), shown.problem.categories)), None
    if kept.is_changed:
        with progress_of_steps() as on_step:
            found = view.effect(names, controls=shuffled_categories(shown, run.config.seed), on_step=on_step)
    if as_json:
        about = {**facts, "fallback_share": view.fallback_share, "change": found and found.change.to_dict()}
        print_json({"run": str(run.path), "result": run.result, **about})
    else:
        print_title(f"{run.path}: not changed") if found is None else print_effect(run, found)
        for sentence in (*view.sentences(), *also):
            print_sentence(sentence)
    if found is None:
        (complain if as_json else print_sentence)(UNCHANGED)
        raise typer.Exit(1)
    if not as_json:
        first = in_commas(run.split().user_ids[0])
        next_step(run.command("recommend", users=first), run.command("evaluate"))
