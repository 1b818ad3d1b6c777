"""What ``diversify``, ``refit`` and ``search`` share: the result that they make, and what it did to the lists."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from recprism.budget.promise import fallen_back
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
    from recprism.result.effect import effect, shuffled_categories

    certificate = kept.certificate
    assert certificate is not None  # a budget was given
    changed = kept.is_changed
    with progress_of_steps() as on_step:
        found = None
        if changed:
            stored = run.load_result()
            controls = shuffled_categories(stored, run.config.seed)
            found = effect(stored, names, controls=controls, on_step=on_step)
        fallen = 0.0 if kept.rule is None else kept.problem.fallback_share(kept.rule)
    if as_json:
        change = None if found is None else found.change.to_dict()
        print_json({"run": str(run.path), "result": run.result, **facts, "fallback_share": fallen, "change": change})
        if not changed:
            complain(UNCHANGED)
            raise typer.Exit(1)
        return
    if found is None:
        print_title(f"{run.path}: not changed")
    else:
        print_effect(run, found)
        for sentence in (*_conclusion(run, kept), fallen_back(fallen, "judged")):
            if sentence is not None:
                print_sentence(sentence)
    print_sentence(certificate.sentence())
    if certificate.last is not None:
        print_sentence(certificate.scope())
    if facts.get("asked_before"):
        print_sentence(facts["asked_before"])
    for name, cost in kept.constraint_costs.items():
        print_sentence(f"The constraints alone change {name} by {-100 * cost:+.1f} %, which the budget does not count.")
    for sentence in also:
        print_sentence(sentence)
    if found is None:
        print_sentence(UNCHANGED)
        raise typer.Exit(1)
    first = in_commas(run.split().user_ids[0])
    next_step(run.command("recommend", users=first), run.command("evaluate"))


def _conclusion(run: Run, kept: Result) -> list[str]:
    """Who judged the table, and which constraints the lists break."""
    said = []
    if not len(run.split().part(JUDGED_ON)):
        said.append(f"no user has interactions in the {JUDGED_ON} part: what it costs there is not known")
    elif kept.certificate is not None and kept.certificate.part != JUDGED_ON:
        said.append(f"judged on the {JUDGED_ON} part, which was not used to choose the lists")
    window = None if kept.rule is None else kept.rule.history_window
    if window is not None:
        said.append(f"only the latest {window:,} interactions of a user count as history, here and at request time")
    return said if kept.violations is None else [*said, kept.violations.sentence()]
