"""recprism runs: the runs below a folder and their state."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from recprism.cli import _options as options
from recprism.cli._output import next_step, print_json, print_sentence, print_table, say
from recprism.common.command_line import command_line
from recprism.common.shares import percent


def runs(
    folder: Annotated[
        Path | None, typer.Argument(metavar="FOLDER", help="Where to look.", show_default="runs, or the current folder")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """List the runs below a folder and their results.

    Each line shows model, data, goal, budget, certified loss, its confidence and date. The confidence is that of all
    questions that the same held-out labels have answered. A run that cannot be read is listed as broken,
    with the reason.

    Examples:

    - `recprism runs`
    - `recprism runs experiments --json`
    """
    from recprism.runs.listing import list_runs

    found = list_runs(folder)
    if as_json:
        print_json([row.to_dict() for row in found])
        return
    if not found:
        say(f"no runs below {folder or 'this folder'}")
        next_step(command_line("train", output=folder and folder / "ml-latest-small-bprmf"))
        return
    rows = [
        (
            *(it.run, it.name, it.state, it.model, it.data, it.goal),
            *(_shares(it.budgets), _shares(it.losses), it.confidence, _day(it.date)),
        )
        for it in found
    ]
    print_table(("run", "name", "state", "model", "data", "goal", "budget", "loses at most", "sure", "date"), rows)
    for row in found:
        if row.reason is not None:
            print_sentence(f"broken: {row.reason}")


def _shares(amounts: Mapping[str, float]) -> str:
    return ", ".join(f"{percent(share)} of {metric}" for metric, share in amounts.items())


def _day(date: str | None) -> str:
    return "" if date is None else date.partition("T")[0]
